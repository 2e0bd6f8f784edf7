"""What of a redacted collection reaches other peers, over both networks."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.lab import NETWORKS, Lab, add, eventually
from zerorag_p2p import cbor
from zerorag_p2p.config import RedactionConfig
from zerorag_p2p.errors import ConfigError, PolicyDenied
from zerorag_p2p.identity.release import open_release
from zerorag_p2p.library.loaders import Record
from zerorag_p2p.model import View
from zerorag_p2p.node.reports import DocumentStatus
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.redaction.spans import Span

LETTER = "Mrs Holloway was seen on 14 March 2023 with swollen ankles"
REDACTED = "Mrs [name] was seen on [date] with swollen ankles"
NOTES = RedactionConfig(collections={"notes": ("identifiers",)})


class BadEngine:
    """Works until it matters."""

    rules: Sequence[str] = ("anything",)
    broken = False

    def spans(self, text: str) -> Sequence[Span]:
        if self.broken:
            raise ValueError(text)
        return ()


def no_engine() -> None:
    raise OSError("the model is missing")


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_a_redacted_text_arrives_marked_with_the_rules_in_its_release(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    bobs = replace(lab.config("bob"), redaction=NOTES)
    async with lab.node("ann") as ann, lab.node("bob", config=bobs) as bob:
        add(bob, LETTER)
        report = await ann.query("swollen ankles", k=1)
        (document,) = report.documents
        assert document.status is DocumentStatus.VERIFIED
        assert document.text == REDACTED
        # The record is called by the first characters of the letter.
        assert document.title == "Mrs [name] was see"
        assert document.redaction == ("name", "date")
        release = open_release(document.release)
        assert release.redaction == ("name", "date")
        assert not release.complete
        assert document.score_verified
        # What was removed is not in the embedding either.
        assert (await ann.query("Holloway March 2023", k=1)).documents[0].score == 0.0
        titled = await ann.query("swollen ankles", k=1, view=View.TITLE)
        assert [item.title for item in titled.documents] == ["Mrs [name] was see"]
        assert [item.text for item in titled.documents] == [""]
        fetched = await ann.get(document.content_hash, peer=lab.peer("bob"))
        assert fetched.text == REDACTED
        # The owner reads what it wrote.
        assert (await bob.get(document.content_hash)).text == LETTER


async def test_a_text_without_identifiers_arrives_whole(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    bobs = replace(lab.config("bob"), redaction=NOTES)
    async with lab.node("ann") as ann, lab.node("bob", config=bobs) as bob:
        add(bob, "apixaban before surgery")
        (document,) = (await ann.query("apixaban", k=1)).documents
        assert document.text == "apixaban before surgery"
        assert document.redaction == ()
        assert open_release(document.release).complete


async def test_nothing_is_sent_where_the_engine_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    engine = RedactionConfig(engine=f"{__name__}:BadEngine", default=("anything",))
    async with (
        lab.node("ann") as ann,
        lab.node("bob", config=replace(lab.config("bob"), redaction=engine)) as bob,
    ):
        add(bob, LETTER)
        monkeypatch.setattr(BadEngine, "broken", True)
        with caplog.at_level(logging.ERROR, "zerorag.node"):
            (document,) = (await ann.query("swollen ankles", k=1)).documents
        assert document.status is DocumentStatus.UNAVAILABLE
        assert document.fault == "its text could not be redacted, so it is not sent"
        assert document.text == document.title == ""
        assert "ValueError" in caplog.text
        assert "Holloway" not in caplog.text
        refusals = [row for row in bob.refusals() if row["request"] != "gossip"]
        assert [row["code"] for row in refusals] == ["internal"]
        with pytest.raises(PolicyDenied, match="could not be redacted"):
            await ann.get(document.content_hash, peer=lab.peer("bob"))


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("nonsense", "has to be"),
        ("zerorag_p2p.nothing:engine", "cannot be loaded: ModuleNotFoundError"),
        (f"{__name__}:no_engine", "cannot be loaded: OSError: the model is missing"),
        (f"{__name__}:no_engine_of_that_name", "cannot be loaded: AttributeError"),
        ("builtin", "there is no rule 'everything'"),
    ],
)
async def test_a_node_does_not_start_without_its_engine(
    tmp_path: Path, engine: str, message: str
) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    redaction = RedactionConfig(engine=engine, default=("everything",))
    with pytest.raises(ConfigError, match=message):
        async with lab.node("ann", config=replace(lab.config("ann"), redaction=redaction)):
            pass


async def test_a_collection_that_is_redacted_later_is_embedded_anew(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann:
        async with lab.node("bob") as bob:
            add(bob, LETTER)
            (before,) = (await ann.query("swollen ankles", k=1)).documents
            assert before.text == LETTER
            whole = (await ann.query("Holloway", k=1)).documents[0].score
        async with lab.node("bob", config=replace(lab.config("bob"), redaction=NOTES)) as bob:
            await eventually(lambda: bob.library.stats().searchable == 1)
            await eventually(lambda: bool(ann.core.network.connected()))
            (after,) = (await ann.query("swollen ankles", k=1)).documents
            assert after.text == REDACTED
            assert after.content_hash != before.content_hash
            assert (await ann.query("Holloway", k=1)).documents[0].score < whole / 2
            with pytest.raises(PolicyDenied):
                await ann.get(before.content_hash, peer=lab.peer("bob"))


async def test_embeddings_can_be_withheld_without_redaction(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    withheld = RedactionConfig(withhold_embeddings=("notes",))
    async with (
        lab.node("ann") as ann,
        lab.node("bob", config=replace(lab.config("bob"), redaction=withheld)) as bob,
    ):
        add(bob, LETTER)
        (document,) = (await ann.query("swollen ankles", k=1)).documents
        assert document.text == LETTER
        assert not document.score_verified
        assert not bob.core.service.own_advertisement()[0].entries
        bob.library.unshare("notes")
        add_to(bob, "letters", "dialysis and potassium")
        (document,) = (await ann.query("dialysis and potassium", k=1)).documents
        assert document.score_verified
        assert len(bob.core.service.own_advertisement()[0].entries) == 1


async def test_withheld_documents_are_advertised_within_clusters_only(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    bobs = replace(
        lab.config("bob", advertisement_form="centroids", advertisement_min_cluster=3),
        redaction=RedactionConfig(withhold_embeddings=("notes",)),
    )
    async with lab.node("ann") as ann, lab.node("bob", config=bobs) as bob:
        add(bob, *(f"letter {number} about ankle {number % 2}" for number in range(2)))
        assert not bob.core.service.own_advertisement()[0].entries
        add(bob, *(f"letter {number} about ankle {number % 2}" for number in range(7)))
        entries = bob.core.service.own_advertisement()[0].entries
        assert entries
        assert len(entries) <= 2
        assert all(isinstance(entry, int) for entry in entries)
        await eventually(lambda: ann.core.peer.advertisements.get(lab.peer("bob")) is not None)


def add_to(node: Node, collection: str, text: str) -> None:
    node.library.add_records([Record(name=text, title=text, text=text)], collection)
    node.library.share(collection, Sharing())


async def test_a_node_that_nobody_asks_forgets_what_has_expired(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"], routing="paper")
    ahead = 0.0

    def clock() -> float:
        return time.time() + ahead

    async with lab.node("ann", clock=clock) as ann, lab.node("bob", clock=clock) as bob:
        add(bob, "dialysis and potassium")
        await ann.query("dialysis")
        assert bob.status()["remembered_queries"] == 1
        ahead = 31 * 86_400.0
        await eventually(lambda: not bob.status()["remembered_queries"])
        saved = cbor.decode(bob.core.encode_state(), limit=1 << 20)
        assert isinstance(saved, dict)
        assert saved["memory"] == []
