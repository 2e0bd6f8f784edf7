"""`zerorag ask` and the clients, as people and programs use them, on a running node."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from click.testing import CliRunner, Result

from tests.node.lab import Lab, add
from tests.rag.language_model import LanguageModel, fails, language_model, streams
from tests.rag.test_asking import ANSWER, OTHER, TEXT, settings
from zerorag_p2p.cli.main import cli
from zerorag_p2p.client import AsyncClient, Client
from zerorag_p2p.control.saved_answer import verify_saved_answer
from zerorag_p2p.control.server import serving
from zerorag_p2p.errors import ConfigError, UsageError
from zerorag_p2p.home import Home
from zerorag_p2p.library.loaders import Record
from zerorag_p2p.model import Purpose
from zerorag_p2p.policy.sharing import Sharing

_Value = TypeVar("_Value")

QUESTION = "apixaban before surgery"


@asynccontextmanager
async def served(folder: Path, model: LanguageModel | None = None) -> AsyncIterator[Home]:
    """The home of a node that asks and answers on its socket; another one owns documents."""
    lab = Lab(folder, "memory", ["ann", "bob"])
    config = replace(lab.config("ann"), generation=settings(model, retries=0))
    shutdown = trio.Event()
    async with lab.node("ann", config=config) as ann, lab.node("bob") as bob:
        add(bob, TEXT, OTHER)
        record = Record(name="own", title="our own", text="surgery of patients on apixaban")
        ann.library.add_records([record], "ours")
        # Terms bind others: the owner itself may use its documents for whatever it likes.
        ann.library.share("ours", Sharing(purposes=(Purpose.HRESCH,)))
        async with serving(ann, shutdown):
            yield ann.home
            shutdown.set()


def verify(saved: Path, home: Home) -> dict[str, Any]:
    return verify_saved_answer(saved, home.roster, home.withdrawals)


async def verified(saved: Path, home: Home) -> dict[str, Any]:
    return await in_thread(lambda: verify(saved, home))


async def in_thread(function: Callable[[], _Value]) -> _Value:
    return await trio.to_thread.run_sync(function)


async def run(home: Home, *arguments: object) -> Result:
    command = [str(item) for item in (*arguments, "--home", home.root)]
    return await in_thread(lambda: CliRunner().invoke(cli, command))


async def test_an_answer_is_printed_with_its_sources_and_kept_with_its_proofs(
    tmp_path: Path,
) -> None:
    saved = tmp_path / "answer.json"
    doubtful = "Insulin is never given to anybody [1]. See [8]."
    with language_model(streams(f"{ANSWER} {doubtful}")) as model:
        async with served(tmp_path, model) as home:
            result = await run(home, "ask", QUESTION, "--save", saved)
            assert result.exit_code == 0, result.output
            lines = result.stdout.splitlines()
            assert lines[0] == f"{ANSWER} Insulin is never given to anybody [1]. See."
            assert "Bob" in result.stdout
            assert "Ann" in result.stdout
            assert "verified" in result.stdout
            assert any(line.startswith("doubtful    [1] has") for line in lines)
            assert "removed     citations of passages that do not exist: 8" in lines
            assert "asked 1 peer of at most 50 (1 answered)" in result.stdout
            assert stat.S_IMODE(saved.stat().st_mode) == 0o600
            report = await verified(saved, home)
            assert (report["verified"], report["fault"]) == (3, None)
            owners = {document["owner_organisation"] for document in report["documents"]}
            assert owners == {"Ann", "Bob"}
            again = await run(home, "ask", QUESTION, "--save", saved)
            assert "nobody was asked: answered 0 s ago" in again.stdout
            assert len(model.requests) == 1
            assert (await verified(saved, home))["fault"] is None
            whole = json.loads(saved.read_text())

            def faults() -> list[str]:
                """What is found when something shown is changed, one thing after the other."""
                found = []
                for what in ("documents", "passages"):
                    for changed in ("text", "title"):
                        tampered = json.loads(json.dumps(whole))
                        tampered[what][0][changed] += " not"
                        saved.write_text(json.dumps(tampered))
                        found.append(verify(saved, home)["fault"])
                tampered = json.loads(json.dumps(whole))
                tampered["passages"][0]["sources"][0]["owner"]["organisation"] = "Eve"
                saved.write_text(json.dumps(tampered))
                return [*found, verify(saved, home)["fault"]]

            assert await in_thread(faults) == ["shows-something-else"] * 5
            assert (await run(home, "verify", saved)).exit_code == 7


async def test_another_holder_that_is_made_up_does_not_verify(tmp_path: Path) -> None:
    saved = tmp_path / "answer.json"
    async with served(tmp_path) as home:
        await run(home, "ask", QUESTION, "--network", "--save", saved)
        report = json.loads(saved.read_text())
        first, second = report["documents"]
        first["others"] = [{key: second[key] for key in ("owner", "holder", "collection")}]
        first["others"][0]["attribution"] = second["attribution"]
        saved.write_text(json.dumps(report))
        result = await run(home, "verify", saved, "--json")
        assert result.exit_code == 7
        assert json.loads(result.stdout)["fault"] == "other-document"


async def test_without_a_language_model_the_passages_are_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as home:
        result = await run(home, "ask", QUESTION, "-k", 1)
        assert result.exit_code == 0
        assert f"| {TEXT}" in result.stdout
        assert "no language model is configured" in result.stdout


async def test_a_model_that_fails_leaves_a_partial_answer(tmp_path: Path) -> None:
    with language_model(fails(500)) as model:
        async with served(tmp_path, model) as home:
            result = await run(home, "ask", QUESTION)
            assert result.exit_code == 5
            assert f"| {TEXT}" in result.stdout
            assert "failed (500)" in result.stderr
            as_json = await run(home, "ask", QUESTION, "--json")
            assert as_json.exit_code == 5
            report = json.loads(as_json.stdout)
            assert "failed (500)" in report["fault"]
            assert report["answer"] is None
            assert report["passages"][0]["text"]
            assert report["reused"]["what"] == "sources"


async def test_scopes_and_what_they_exit_with(tmp_path: Path) -> None:
    async with served(tmp_path) as home:
        local = json.loads((await run(home, "ask", QUESTION, "--local", "--json")).stdout)
        assert [item["sources"][0]["owner"]["organisation"] for item in local["passages"]] == [
            "Ann"
        ]
        assert (local["budget"], local["contacts"]) == (0, [])
        assert local["own_best"] == local["passages"][0]["score"]
        told = await run(home, "ask", QUESTION, "--local", "--no-cache")
        assert "nobody was asked: only the own library was asked for" in told.stdout
        network = json.loads((await run(home, "ask", QUESTION, "--network", "--json")).stdout)
        assert {item["owner"]["organisation"] for item in network["documents"]} == {"Bob"}
        both = await run(home, "ask", QUESTION, "--network", "--local")
        assert both.exit_code == 2
        assert (await run(home, "ask", " ")).exit_code == 2
        assert (await run(home, "ask", QUESTION, "--purpose", "fun")).exit_code == 2
        none = await run(home, "ask", QUESTION, "--network", "--purpose", "research")
        assert none.exit_code == 0, none.output

        def remove() -> None:
            with Client(home) as client:
                client.remove_document("own")

        await in_thread(remove)
        assert (await run(home, "ask", QUESTION, "--local")).exit_code == 6


async def test_events_come_in_order_to_every_client(tmp_path: Path) -> None:
    with language_model(streams("Apixaban ", "is stopped [1].")) as model:
        async with served(tmp_path, model) as home:
            told: list[dict[str, Any]] = []

            def use() -> dict[str, Any]:
                with Client(home) as client:
                    return client.ask(QUESTION, k=2, on_progress=told.append)

            report = await in_thread(use)
            kinds = [event["event"] for event in told]
            assert kinds.index("found") < kinds.index("sources") < kinds.index("text")
            shown = "".join(event["text"] for event in told if event["event"] == "text")
            assert shown == report["answer"]["text"] == "Apixaban is stopped [1]."
            (sources,) = [event for event in told if event["event"] == "sources"]
            assert sources["passages"] == report["passages"]
            assert len(report["passages"]) == 2
            async with AsyncClient(home) as other:
                again = await other.ask(QUESTION, k=2, scope="network", reuse=False)
                assert again["reused"] is None
                with pytest.raises(UsageError, match="scope"):
                    await other.ask(QUESTION, scope="everywhere")


async def test_a_query_yields_documents_as_they_are_found_and_can_stop_at_the_first(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as home:

        def use() -> list[dict[str, Any]]:
            with Client(home) as client:
                return list(client.query_events(QUESTION, k=2))

        events = await in_thread(use)
        kinds = [event["event"] for event in events]
        assert kinds.index("found") < kinds.index("document")
        assert kinds[-1] == "answer"
        hit = next(event for event in events if event["event"] == "found")["document"]
        assert hit["owner"]["organisation"] == "Bob"
        delivered = [event["document"] for event in events if event["event"] == "document"]
        assert {item["text"] for item in delivered} == {TEXT, OTHER}
        assert events[-1]["answer"]["documents"][0]["text"] == TEXT
        result = await run(home, "query", QUESTION, "--first", "--good", 0.3, "--json")
        first = json.loads(result.stdout)
        assert [item["text"] for item in first["documents"]] == [TEXT]
        assert first["stopped"] == "a document that is good enough was found"


async def test_a_model_that_may_not_be_used_keeps_the_node_from_starting(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    generation = replace(settings(None), base_url="http://models.example.org", model="scripted")
    async with lab.node("ann", config=replace(lab.config("ann"), generation=generation)) as ann:
        with pytest.raises(ConfigError, match="unencrypted"):
            async with serving(ann, trio.Event()):
                pass
