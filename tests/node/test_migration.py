"""Nodes go over to another embedding model, one after the other, while questions are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.control import consortium
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import ConfigError, EmbedderUnavailable, LocalError, UsageError
from zerorag_p2p.identity.roster import read_roster
from zerorag_p2p.model import Fingerprint, SharingTerms, Vector
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.testnet.memory_network import MemoryHub
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.wire.query import QueryRequest

NEXT: dict[str, Any] = {"embedder": "hashing", "dimension": 128}
OLD = HashingEmbedder(256).fingerprint
NEW = HashingEmbedder(128).fingerprint

TEXTS = {
    "ann": "warfarin dosing after surgery",
    "bob": "a broken wrist of a child",
    "cyd": "shortness of breath at night",
}
NAMES = tuple(TEXTS)


@asynccontextmanager
async def nodes(lab: Lab) -> AsyncIterator[dict[str, Node]]:
    async with AsyncExitStack() as stack:
        running = {}
        for name in lab.names:
            running[name] = await stack.enter_async_context(lab.node(name))
        yield running


def publish(lab: Lab, **change: Any) -> bytes:
    """The next version of the roster, for everybody to take over."""
    return consortium.renew(lab.homes[lab.names[0]].home, **change)


async def spread(running: dict[str, Node], data: bytes) -> None:
    for node in running.values():
        await node.import_roster(data)


async def found(node: Node, owner: Node, text: str) -> bool:
    report = await node.query(text, k=1)
    return [
        (item.status, item.owner.peer, item.text, item.score_verified) for item in report.documents
    ] == [("verified", owner.peer_id, text, True)]


async def everybody_finds_everything(running: dict[str, Node]) -> None:
    for asker in running.values():
        for name, owner in running.items():
            if owner is not asker:
                assert await found(asker, owner, TEXTS[name]), (asker.organisation, name)


def uses(node: Node, fingerprint: Fingerprint) -> bool:
    return node.core.fingerprint == fingerprint


async def test_a_consortium_goes_over_to_another_model_while_questions_are_asked(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", NAMES)
    questions = 0

    async def ask(running: dict[str, Node]) -> None:
        nonlocal questions
        while True:
            await everybody_finds_everything(running)
            questions += 1

    async def asked_twice() -> None:
        before = questions
        await eventually(lambda: questions >= before + 2)

    async with nodes(lab) as running, trio.open_nursery() as nursery:
        ann, bob, cyd = running.values()
        for name, node in running.items():
            await trio.to_thread.run_sync(add, node, TEXTS[name], f"another note of {name}")
        nursery.start_soon(ask, running)
        await asked_twice()
        # Before the roster names it nobody goes over.
        with pytest.raises(UsageError, match="the roster does not name"):
            await ann.models.begin(NEXT)
        await spread(running, publish(lab, next_model=NEXT))
        for node in (ann, bob):
            status = await node.models.begin(NEXT)
            assert status["stage"] == "embedding"
            await eventually(lambda node=node: node.core.held == NEW)  # type: ignore[misc]
            assert node.status()["migration"]["done"] == 2
            await asked_twice()
        # The old model is in use until the roster prefers the next one.
        assert all(uses(node, OLD) for node in running.values())
        await spread(running, publish(lab, prefer_next=True))
        await eventually(lambda: uses(ann, NEW) and uses(bob, NEW))
        assert uses(cyd, OLD)
        await asked_twice()
        # What is added meanwhile is found by both.
        await trio.to_thread.run_sync(add, ann, "a note that came late")
        await eventually(lambda: ann.library.held_progress().missing == 0)
        assert await found(bob, ann, "a note that came late")
        assert await found(cyd, ann, "a note that came late")
        # The last one goes over, and the old model is let go of.
        await cyd.models.begin(NEXT)
        await eventually(lambda: uses(cyd, NEW))
        await asked_twice()
        await bob.models.finish()
        await asked_twice()
        await spread(running, publish(lab, retire_models=True))
        await eventually(lambda: all(node.core.held is None for node in running.values()))
        await asked_twice()
        for node in running.values():
            assert node.status()["migration"]["stage"] == "finished"
            assert node.library.embed_missing() == 0
        nursery.cancel_scope.cancel()
    # The next start takes the new model, whatever config.toml still says.
    lab.hub = MemoryHub()  # where everybody has the address of before
    async with nodes(lab) as running:
        assert all(uses(node, NEW) and node.core.held is None for node in running.values())
        await everybody_finds_everything(running)


async def going_over(running: dict[str, Node], lab: Lab, *names: str, prefer: bool) -> None:
    """Have nodes embed by the next model, and use it if it is preferred."""
    await spread(running, publish(lab, next_model=NEXT))
    for name in names:
        await running[name].models.begin(NEXT)
    await eventually(lambda: all(running[name].core.held == NEW for name in names))
    if prefer:
        await spread(running, publish(lab, prefer_next=True))
        await eventually(lambda: all(uses(running[name], NEW) for name in names))


async def test_going_over_can_be_called_off_and_is_not_ended_before_its_end(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with nodes(lab) as running:
        ann, bob = running.values()
        for name, node in running.items():
            await trio.to_thread.run_sync(add, node, TEXTS[name])
        with pytest.raises(UsageError, match="does not go over"):
            await ann.models.cancel()
        with pytest.raises(UsageError, match="one embedding model only"):
            await ann.models.finish()
        await going_over(running, lab, "ann", prefer=False)
        assert ann.status()["migration"]["stage"] == "answering"
        with pytest.raises(UsageError, match="there is another model already"):
            await ann.models.begin(NEXT)
        with pytest.raises(UsageError, match="is not in use yet"):
            await ann.models.finish()
        await ann.models.cancel()
        assert ann.status()["migration"] is None
        assert not ann.home.model_change.exists()
        assert ann.core.held is None
        assert await found(bob, ann, TEXTS["ann"])
        with pytest.raises(UsageError, match="is in use already"):
            await ann.models.begin({"embedder": "hashing"})
        await ann.models.begin(NEXT)
        await spread(running, publish(lab, prefer_next=True))
        await eventually(lambda: uses(ann, NEW))
        with pytest.raises(UsageError, match="does not go over"):
            await ann.models.cancel()
        assert await found(bob, ann, TEXTS["ann"])
        assert await found(ann, bob, TEXTS["bob"])


class Slow(HashingEmbedder):
    """Takes one text, and for another one waits."""

    def __init__(self) -> None:
        super().__init__(NEW.dimension)
        self.embedded: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        if self.embedded:
            raise EmbedderUnavailable("the model is busy")
        self.embedded += texts
        return super().embed_documents(texts)


async def test_what_was_embedded_before_a_stop_is_not_embedded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    slow = Slow()
    async with nodes(lab) as running:
        ann = running["ann"]
        await trio.to_thread.run_sync(add, ann, TEXTS["ann"], TEXTS["cyd"])
        await spread(running, publish(lab, next_model=NEXT))
        with monkeypatch.context() as patch:
            patch.setattr("zerorag_p2p.node.models.open_embedder", lambda _: slow)
            await ann.models.begin(NEXT)
        await eventually(lambda: ann.status()["migration"]["fault"] == "the model is busy")
        status = ann.status()["migration"]
        assert (status["stage"], status["done"], status["sources"]) == ("embedding", 1, 2)
        assert ann.core.held is None
        assert await found(running["bob"], ann, TEXTS["cyd"])
    lab.hub = MemoryHub()
    rest = HashingEmbedder(NEW.dimension)
    embedded: list[str] = []

    def note(texts: Sequence[str]) -> Vector:
        embedded.extend(texts)
        return HashingEmbedder(NEW.dimension).embed_documents(texts)

    rest.embed_documents = note  # type: ignore[method-assign]
    with monkeypatch.context() as patch:
        patch.setattr(
            "zerorag_p2p.node.models.open_embedder",
            lambda config: rest if config.dimension else HashingEmbedder(),
        )
        async with nodes(lab) as running:
            ann = running["ann"]
            await eventually(lambda: ann.core.held == NEW)
            assert sorted([*slow.embedded, *embedded]) == sorted([TEXTS["ann"], TEXTS["cyd"]])
            assert ann.status()["migration"]["done"] == 2


async def test_the_next_model_is_still_in_use_after_a_restart_in_between(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with nodes(lab) as running:
        for name, node in running.items():
            await trio.to_thread.run_sync(add, node, TEXTS[name])
        await going_over(running, lab, "ann", prefer=True)
    lab.hub = MemoryHub()
    async with nodes(lab) as running:
        ann, bob = running.values()
        assert uses(ann, NEW)
        assert ann.core.held == OLD
        assert uses(bob, OLD)
        assert await found(bob, ann, TEXTS["ann"])
        assert await found(ann, bob, TEXTS["bob"])


async def test_another_model_in_config_toml_counts_more_than_one_gone_over_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with nodes(lab) as running:
        ann = running["ann"]
        await trio.to_thread.run_sync(add, ann, TEXTS["ann"])
        await going_over(running, lab, "ann", prefer=True)
        await ann.models.finish()
    config = replace(lab.config("ann"), embedding=EmbeddingConfig.from_table(NEXT))
    async with lab.node("ann", config=config) as ann:
        assert uses(ann, NEW)
        assert ann.status()["migration"] is None
        assert ann.status()["library"]["searchable"] == 1
    assert "config.toml names another embedding model than before" in caplog.text


async def test_rules_on_questions_hold_for_those_who_ask_by_the_other_model(
    tmp_path: Path,
) -> None:
    """Questions by another model cannot be compared with examples: what is unknown is denied."""
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    rules = """
        [[rule]]
        name = "no wrists"
        effect = "deny"
        near = ["a broken wrist of a child"]
        at_least = 0.9
    """
    async with nodes(lab) as running:
        ann, bob = running.values()
        await trio.to_thread.run_sync(add, ann, TEXTS["ann"], TEXTS["bob"])
        ann.home.policy.write_text(rules)
        await ann.policy.reload()
        assert await found(bob, ann, TEXTS["ann"])
        assert not (await bob.query(TEXTS["bob"])).documents
        await going_over(running, lab, "ann", prefer=True)
        for text in (TEXTS["ann"], TEXTS["bob"]):
            assert not (await bob.query(text)).documents
        await bob.models.begin(NEXT)
        await eventually(lambda: uses(bob, NEW))
        assert await found(bob, ann, TEXTS["ann"])
        assert not (await bob.query(TEXTS["bob"])).documents


async def test_a_copy_of_a_document_that_came_by_the_other_model_is_embedded_anew(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with nodes(lab) as running:
        ann, bob = running.values()
        terms = SharingTerms(copy=True, reshare=True)
        await trio.to_thread.run_sync(partial(add, sharing=Sharing(terms=terms)), bob, TEXTS["bob"])
        await going_over(running, lab, "ann", prefer=True)
        (document,) = (await ann.query(TEXTS["bob"], k=1)).documents
        kept = await ann.keep(document, "copies")
        assert kept.kept
        assert not kept.passed_on
        (own,) = await ann.search_own(await ann.embed_question(TEXTS["bob"]), 1)
        assert own.content_hash == document.content_hash
        assert own.score > 0.99


async def test_what_our_rules_take_out_of_a_question_is_in_neither_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with nodes(lab) as running:
        ann, bob = running.values()
        await trio.to_thread.run_sync(add, bob, TEXTS["bob"])
        ann.home.policy.write_text(
            '[[outbound]]\nname = "careful"\neffect = "allow"\nredact = ["identifiers"]'
        )
        await ann.policy.reload()
        await going_over(running, lab, "ann", prefer=True)
        asked: list[QueryRequest] = []
        answer = bob.core.peer.answer

        def listen(request: QueryRequest, *others: object) -> object:
            asked.append(request)
            return answer(request, *others)  # type: ignore[arg-type]

        monkeypatch.setattr(bob.core.peer, "answer", listen)
        report = await ann.query("a broken wrist of Mrs Catherine Okonkwo")
        assert "Catherine" not in report.sent
        assert len(report.documents) == 1
        by_digest = {item.fingerprint: item for item in asked}
        expected = transmitted(HashingEmbedder(256).embed_query(report.sent))
        np.testing.assert_array_equal(by_digest[OLD.digest()].embedding, expected)
        for request in asked:
            assert request.fingerprint in {OLD.digest(), NEW.digest()}
            if request.fingerprint == NEW.digest():
                expected = transmitted(HashingEmbedder(128).embed_query(report.sent))
                np.testing.assert_array_equal(request.embedding, expected)


def test_the_roster_names_models_in_the_order_of_their_use(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    home = lab.homes["ann"].home

    def models(**change: Any) -> tuple[tuple[Fingerprint, ...], tuple[Fingerprint, ...]]:
        data = publish(lab, **change)
        consortium.install(home, data)
        roster = read_roster(data).roster
        return roster.fingerprints_current, roster.fingerprints_next

    with pytest.raises(UsageError, match="names no next embedding model"):
        consortium.renew(home, prefer_next=True)
    with pytest.raises(UsageError, match="uses hashing-test-only@1"):
        consortium.renew(home, next_model={"embedder": "hashing"})
    with pytest.raises(ConfigError, match="unknown setting"):
        consortium.renew(home, next_model={"colour": "red"})
    assert models(next_model=NEXT) == ((OLD,), (NEW,))
    assert models() == ((OLD,), (NEW,))
    assert models(prefer_next=True) == ((NEW, OLD), ())
    assert models(retire_models=True) == ((NEW,), ())


async def test_a_damaged_file_of_the_change_is_named(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    home = lab.homes["ann"].home
    for damaged in (b"{", b"[]", b'{"configured": {"colour": "red"}}', b"\xff"):
        home.model_change.write_bytes(damaged)
        with pytest.raises(LocalError, match=r"model\.json is damaged"):
            async with lab.node("ann"):
                pass
