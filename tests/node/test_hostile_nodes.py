"""Nodes that lie, do not belong or disagree: each is refused or rejected, by name, and survived."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.node.lab import NETWORKS, Lab, add
from zerorag_p2p.control import consortium
from zerorag_p2p.control.setup import init_home
from zerorag_p2p.embedding.precomputed import write_precomputed
from zerorag_p2p.errors import PeerUnreachable, RemoteRefusal
from zerorag_p2p.home import Home
from zerorag_p2p.identity.attribution import open_statement
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.model import Document, Fingerprint, SharingTerms
from zerorag_p2p.node.files import load_identity
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.wire.hello import Hello, decode_hello_reply, encode_hello
from zerorag_p2p.wire.protocols import ADVERTISE, FETCH, GOSSIP, HELLO, QUERY
from zerorag_p2p.wire.refusal import Refusal


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def why_refused(node: Node, lab: Lab, name: str) -> str:
    """The reason that `node` gets when it wants a session with the node called `name`."""
    with pytest.raises((RemoteRefusal, PeerUnreachable)) as caught:
        await node.core.sessions.ensure(lab.peer(name), timeout_s=5.0)
    return str(caught.value)


def outsider(lab: Lab, folder: Path) -> Home:
    """A home with the consortium's roster whose key is not in it."""
    home = Home(folder / "outsider")
    init_home(home, organisation="Outsider", listen=["/ip4/127.0.0.1/tcp/0"], embedder="hashing")
    roster = consortium.read(lab.homes["ann"].home)
    authorities = consortium.describe(roster)["authorities"]
    consortium.install(home, roster, trusted=authorities)
    return home


async def test_a_peer_outside_the_roster_gets_nothing(
    tmp_path: Path, network: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(ann, "a note")
        config = lab.config("bob")
        config = replace(
            config,
            network=replace(
                config.network,
                listen=("/ip4/127.0.0.1/tcp/0",),
                bootstrap=(f"/memory/1/p2p/{lab.peer('ann')}",) if network == "memory" else (),
            ),
        )
        home = outsider(lab, tmp_path)
        async with lab.node("bob", home=home.root, config=config) as stranger:
            for _ in range(3):
                report = await stranger.query("a note", timeout_s=3.0)
                assert not report.documents
                assert all(contact.outcome != "answered" for contact in report.contacts)
            assert stranger.peer_id not in {row["peer"] for row in ann.peers()}
        assert caplog.text.count(stranger.peer_id) <= 4  # once a node, refuser and refused
        assert (await bob.query("a note")).documents


async def test_a_clock_that_is_off_is_named(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with (
        lab.node("ann"),
        lab.node("bob", clock=lambda: time.time() + 600) as bob,
    ):
        assert "clock skew 600 s" in await why_refused(bob, lab, "ann")
        rows = {row["peer"]: row for row in bob.peers()}
        assert "clock skew 600 s" in rows[lab.peer("ann")]["last_error"]


async def test_another_model_of_the_same_dimension_is_refused_with_both_names(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    vectors = tmp_path / "vectors.npz"
    other = Fingerprint("other-model", "1", 256)
    write_precomputed(vectors, ["a note"], np.eye(1, 256, dtype=np.float32), other)
    config = lab.config("bob")
    config = replace(
        config,
        embedding=replace(config.embedding, embedder="precomputed", vectors=str(vectors)),
    )
    async with lab.node("ann"), lab.node("bob", config=config) as bob:
        reason = await why_refused(bob, lab, "ann")
        assert "no-common-embedding" in reason
        assert "hashing-test-only" in reason
        assert "other-model" in reason


async def test_a_member_of_another_consortium_is_refused_with_both_names(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    # Bob belongs to both consortia, and runs with the roster of the other one.
    other = Lab(tmp_path / "other", network, ["eve"], title="other")
    requests = [consortium.request(lab.homes[name].home)[0] for name in ("ann", "bob")]
    roster = consortium.approve(other.homes["eve"].home, requests)
    lab.homes["bob"].home.roster.write_bytes(roster)
    async with lab.node("ann"), lab.node("bob") as bob:
        reason = await why_refused(bob, lab, "ann")
        assert "wrong-consortium" in reason
        assert "'lab-" in reason
        assert "'other-" in reason


async def test_a_hello_with_the_record_of_another_peer_is_refused(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        impostor = sign_record(Identity.generate(), ("/ip4/127.0.0.1/tcp/1",), 2**40)
        hello = replace(bob.core._hello(), record=impostor)
        await bob.core.network.connect(
            lab.peer("ann"), bob.core.directory.addresses(lab.peer("ann")), timeout_s=3.0
        )
        payload = encode_hello(hello)
        data = await bob.core.network.request(lab.peer("ann"), HELLO, payload, timeout_s=3.0)
        reply = decode_hello_reply(data)
        assert isinstance(reply, Refusal)
        assert "was given as one of" in reply.reason
        assert ann.core.directory.record(lab.peer("bob")) != impostor


async def test_nothing_is_answered_before_hello_and_no_garbage_harms(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(ann, "a note")
        bare = lab.bare_network("cid")
        async with bare.running():
            await bare.connect(lab.peer("ann"), ann.core.addresses(), timeout_s=3.0)

            async def ask(protocol: str, payload: bytes) -> bytes:
                return await bare.request(lab.peer("ann"), protocol, payload, timeout_s=3.0)

            for protocol in (QUERY, FETCH, ADVERTISE, GOSSIP):
                assert b"hello-required" in await ask(protocol, b"\xa0")
            for garbage in (b"", b"\xff", b"\xa1dtypeequery", b"\x9f" * 1_000):
                assert b"malformed" in await ask(HELLO, garbage)
            record = sign_record(load_identity(lab.homes["cid"].home.key), (), 1)
            hello = encode_hello(replace(bob.core._hello(), record=record))
            assert isinstance(decode_hello_reply(await ask(HELLO, hello)), Hello)
            for protocol in (QUERY, FETCH, ADVERTISE, GOSSIP):
                assert b"malformed" in await ask(protocol, b"\xa0")
        assert (await bob.query("a note")).documents


async def test_a_statement_signed_by_somebody_else_is_shown_as_rejected(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        stranger = Identity.generate()
        sign = statement_signer(
            stranger, bob.embedder.fingerprint, bob.core.directory.roster.consortium, time.time
        )
        text = "a note about apixaban"
        add(bob, text)
        add(cid, "another note about apixaban")
        forged = sign(
            Document(title=text[:20], text=text, collection="notes", source=text[:20]),
            bob.embedder.embed_query(text),
            SharingTerms(),
        )
        genuine = bob.library.search

        def forging(*arguments: object, **admission: object) -> list[object]:
            found = genuine(*arguments, **admission)  # type: ignore[arg-type]
            return [replace(item, attribution=(forged,)) for item in found]

        bob.library.search = forging  # type: ignore[method-assign, assignment]
        report = await ann.query("a note about apixaban", k=2)
        assert [item.holder.peer for item in report.documents] == [lab.peer("cid")]
        (rejected,) = report.rejected
        assert rejected.holder.peer == lab.peer("bob")
        assert rejected.status == "rejected"
        assert rejected.fault is not None
        assert stranger.peer_id in rejected.fault


async def test_a_text_that_does_not_hash_to_its_statement_is_rejected_for_the_next_holder(
    tmp_path: Path, network: str
) -> None:
    # As published everybody is asked, so that both holders are known.
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"], routing="paper")
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        liars = (bob, cid)
        for node in liars:
            add(node, "the same text")
        report = await ann.query("the same text")
        first = report.documents[0].holder.peer
        liar = next(node for node in liars if node.peer_id == first)
        genuine = liar.library.read

        def altered(stored: object) -> Document:
            return replace(genuine(stored), text="another text")  # type: ignore[arg-type]

        liar.library.read = altered  # type: ignore[method-assign]
        report = await ann.query("the same text")
        (document,) = report.documents
        assert document.status == "verified"
        assert document.text == "the same text"
        if any(item.holder.peer == first for item in report.rejected):
            assert document.holder.peer != first
        only_liar = await ann.query("the same text", budget=1)
        if only_liar.contacts[0].peer == first:
            assert only_liar.documents[0].status == "rejected"
            assert only_liar.documents[0].text == ""


async def test_an_embedding_that_is_not_the_signed_one_is_rejected(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        genuine = bob.library.search

        def boosted(embedding: object, k: int, **admission: object) -> list[object]:
            found = genuine(embedding, k, **admission)  # type: ignore[arg-type]
            return [replace(item, embedding=embedding, score=1.0) for item in found]  # type: ignore[arg-type]

        bob.library.search = boosted  # type: ignore[method-assign, assignment]
        report = await ann.query("something else entirely")
        assert not report.documents
        (rejected,) = report.rejected
        assert rejected.fault is not None
        assert rejected.fault.startswith("other-embedding")


async def test_an_advertisement_of_another_peer_is_not_believed(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        add(cid, "a note")
        genuine = cid.core.service.own_advertisement()
        bob.core.service.own_advertisement = lambda: genuine  # type: ignore[method-assign]
        reply = await ann.core.exchanges.advertisement(
            lab.peer("bob"), dimension=256, known_sequence=None, timeout_s=3.0
        )
        assert "was given as one of" in str(reply)
        held = ann.core.peer.advertisements.get(lab.peer("bob"))
        assert held is None or held.owner == lab.peer("bob")


async def test_statements_name_their_owner_and_consortium(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        add(ann, "a note")
        (content_hash,) = ann.library.vectors_to_advertise(["notes"])[1]
        (stored,) = ann.library.get(content_hash)
        statement = open_statement(stored.attribution)
        assert statement.owner == lab.peer("ann")
        assert statement.content_hash == content_hash
        assert statement.consortium == ann.core.directory.roster.consortium
