"""Going over to another embedding model as operators do it: two hospitals, two processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.hospitals import Hospital, set_up, two_hospitals

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUESTION = "apixaban before surgery"


@pytest.fixture
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hospital, Hospital]]:
    folder = tmp_path_factory.mktemp("m")
    with two_hospitals(folder) as (owner, asker):
        text = folder / "apixaban.txt"
        text.write_text("Stop apixaban two days before surgery.")
        owner.must("docs", "add", text, "--collection", "guidelines")
        owner.must("docs", "share", "guidelines")
        for hospital in (owner, asker):
            config = hospital.home / "config.toml"
            settings = config.read_text()
            for setting in ("exchange_interval_s", "ping_interval_s", "maintenance_interval_s"):
                settings = settings.replace(f"# {setting} = 5.0", f"{setting} = 0.2")
            config.write_text(settings)
            hospital.start()
        yield owner, asker


async def eventually(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - other processes bring it about
            await trio.sleep(0.1)


def begins(hospital: Hospital, model: Path) -> bool:
    return hospital.run("migrate", "--to", model).returncode == 0


def is_at(hospital: Hospital, stage: str) -> bool:
    value: dict[str, Any] | None = json.loads(hospital.must("migrate", "--json"))
    return value is not None and value["stage"] == stage


def is_found(asker: Hospital) -> bool:
    result = asker.run("query", QUESTION, "-k", 1)
    return result.returncode == 0 and "Stop apixaban two days" in result.stdout


async def test_two_hospitals_go_over_to_another_model(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    owner, asker = hospitals
    model = tmp_path / "next-model.toml"
    model.write_text('embedder = "hashing"\ndimension = 128\n')
    await eventually(lambda: is_found(asker))
    assert "does not go over" in owner.must("migrate")
    refused = owner.run("migrate", "--to", model)
    assert refused.returncode == 2
    assert "consortium renew --next-model" in refused.stderr
    owner.must("consortium", "renew", "--next-model", model)
    assert "128 dimensions" in owner.must("consortium", "show")
    for hospital in hospitals:
        await eventually(partial(begins, hospital, model))
        await eventually(partial(is_at, hospital, "answering"))
    assert "does not prefer" in owner.must("status")
    assert is_found(asker)
    owner.must("consortium", "renew", "--prefer-next-model")
    for hospital in hospitals:
        await eventually(partial(is_at, hospital, "in use"))
    assert is_found(asker)
    owner.must("migrate", "--finish")
    assert is_found(asker)
    owner.must("consortium", "renew", "--retire-models")
    await eventually(partial(is_at, asker, "finished"))
    assert is_found(asker)
    # Commands without a node use the same model as the node.
    assert owner.stop() == 0
    text = tmp_path / "insulin.txt"
    text.write_text("Insulin is given by the hour in ketoacidosis.")
    owner.must("docs", "add", text, "--collection", "guidelines")
    owner.start()
    assert json.loads(owner.must("status", "--json"))["library"]["searchable"] == 2
    assert "let config.toml name" in owner.must("migrate")


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (("--to", "x", "--finish"), 2, "do not go together"),
        (("--to", "missing.toml"), 2, "no file of settings"),
        (("--finish",), 3, "no node"),
    ],
)
def test_what_cannot_be_done_is_told(
    tmp_path: Path, arguments: tuple[str, ...], code: int, fault: str
) -> None:
    hospital = set_up(tmp_path / "home", "General Hospital")
    result = hospital.run("migrate", *arguments)
    assert result.returncode == code
    assert fault in result.stderr
