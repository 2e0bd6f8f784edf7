"""Copies and withdrawals as their users see them: two hospitals, two processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.hospitals import Hospital, two_hospitals

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TEXTS = {
    "apixaban.txt": "Stop apixaban two days before surgery.",
    "insulin.txt": "Insulin is given by the hour in ketoacidosis.",
}
QUESTION = "apixaban before surgery"


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hospital, Hospital]]:
    folder = tmp_path_factory.mktemp("h")
    with two_hospitals(folder) as (owner, asker):
        texts = folder / "texts"
        texts.mkdir()
        for name, text in TEXTS.items():
            (texts / name).write_text(text)
        owner.must("docs", "add", texts, "--collection", "guidelines")
        for hospital in (owner, asker):
            config = hospital.home / "config.toml"
            text = config.read_text()
            assert "# exchange_interval_s = 5.0" in text
            for setting in ("exchange_interval_s", "ping_interval_s", "maintenance_interval_s"):
                text = text.replace(f"# {setting} = 5.0", f"{setting} = 0.5")
            config.write_text(text)
            hospital.start()
        yield owner, asker


async def eventually(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - other processes bring it about
            await trio.sleep(0.2)


def listed(hospital: Hospital) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(hospital.must("docs", "list", "--json"))
    return rows


async def test_a_copy_is_kept_seen_and_withdrawn(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    owner, asker = hospitals
    peer = owner.must("id").strip()
    saved = tmp_path / "answer.json"
    open_terms = ("--allow-copy", "--allow-reshare", "--until", "2099-12-31")
    shared = json.loads(owner.must("docs", "share", "guidelines", *open_terms, "--json"))
    assert shared["sharing"]["terms"]["expires-at"] == 4_102_358_400

    shown = asker.must("query", QUESTION, "-k", "1", "--keep", "copies", "--save", saved)
    assert "kept " in shown
    (row,) = listed(asker)
    assert row["copy"]["owner"] == peer
    assert row["copy"]["reshare"]
    assert "copy of " in asker.must("docs", "list")
    content_hash = json.loads(saved.read_text())["documents"][0]["content_hash"]
    assert TEXTS["apixaban.txt"] in asker.must("get", content_hash[:16])
    report = json.loads(asker.must("verify", saved, "--json"))
    (document,) = report["documents"]
    assert document["statement"]["owner"] == peer
    assert document["release"]["view"] == "whole"
    assert document["complete"]

    assert content_hash in owner.must("docs", "withdraw", content_hash[:16])
    await eventually(lambda: listed(asker) == [])
    assert "our own, withdrawn" in owner.must("docs", "list")
    (withdrawal,) = json.loads(asker.must("docs", "withdrawals", "--json"))
    assert withdrawal["documents"] == [content_hash]
    assert withdrawal["organisation"] == "General Hospital"
    assert content_hash[:16] in asker.must("docs", "withdrawals")
    await eventually(lambda: asker.run("verify", saved).returncode == 7)
    result = asker.run("verify", saved, "--json")
    assert json.loads(result.stdout)["fault"] == "withdrawn"
    answer = json.loads(asker.must("query", QUESTION, "--json"))
    assert content_hash not in {item["content_hash"] for item in answer["documents"]}

    # A saved answer is judged alike without a node; the home knows what its node knew.
    asker.stop()
    assert asker.run("verify", saved).returncode == 7
    assert json.loads(asker.must("docs", "withdrawals", "--json"))[0]["documents"]
    asker.start()

    # The owner takes it back without its node, and everybody may have it again.
    owner.stop()
    assert "restored 1 document" in owner.must("docs", "withdraw", content_hash, "--undo")
    owner.start()
    answer = json.loads(asker.must("query", QUESTION, "-k", "1", "--json"))
    assert [item["content_hash"] for item in answer["documents"]] == [content_hash]


async def test_what_the_owner_does_not_allow_is_not_kept(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    owner, asker = hospitals
    peer = owner.must("id").strip()
    owner.must("docs", "share", "guidelines")
    answer = json.loads(asker.must("query", QUESTION, "--keep", "copies", "--json"))
    assert [copy["kept"] for copy in answer["kept"]["copies"]] == [False] * len(answer["documents"])
    content_hash = answer["documents"][0]["content_hash"]
    result = asker.run("get", content_hash, "--peer", peer, "--keep", "copies")
    assert result.returncode == 4
    assert "does not allow" in result.stderr
    assert asker.run("get", content_hash, "--keep", "copies").returncode == 2

    owner.must("docs", "share", "guidelines", "--allow-copy")
    kept = json.loads(asker.must("get", content_hash, "--peer", peer, "--keep", "copies", "--json"))
    (copy,) = kept["kept"]["copies"]
    assert (copy["kept"], copy["passed_on"]) == (True, False)
    assert "not passed on" in asker.must("docs", "list")
    missing = asker.run("docs", "withdraw", content_hash)
    assert missing.returncode == 1
    assert "only its owner withdraws it" in missing.stderr

    owner.must("docs", "unshare", "guidelines")
    await eventually(lambda: listed(asker) == [])


def test_a_name_that_stands_for_nothing_is_told(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, _ = hospitals
    assert owner.run("docs", "withdraw", "nothing.txt").returncode == 1
    undone = owner.run("docs", "withdraw", "guidelines/nothing", "--undo")
    assert undone.returncode == 1
