"""Copies, and their owners' power over them, among whole nodes; and what liars try with both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.node.lab import NETWORKS, Lab, add, eventually, impatient
from zerorag_p2p import cbor
from zerorag_p2p.config import NodeConfig
from zerorag_p2p.errors import AttributionError, PolicyDenied, UsageError
from zerorag_p2p.identity import cose
from zerorag_p2p.identity.attribution import (
    Fault,
    open_custody,
    open_statement,
    sign_custody,
    sign_statement,
)
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.withdrawal import encode_withdrawal
from zerorag_p2p.membership.events import WithdrawalPublished
from zerorag_p2p.model import ContentHash, PeerId, Purpose, SharingTerms
from zerorag_p2p.node import serving
from zerorag_p2p.node.files import load_identity
from zerorag_p2p.node.reports import DocumentStatus
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing

TEXT = "apixaban before surgery"
OPEN = Sharing(terms=SharingTerms(copy=True, reshare=True))
Links = tuple[bytes, ...]


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@asynccontextmanager
async def nodes(lab: Lab) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(lab.node(name, config=patient(lab.config(name))))
            for name in lab.names
        ]


def patient(config: NodeConfig) -> NodeConfig:
    """The same configuration for a busy machine, on which nobody is dead who is slow."""
    return replace(
        impatient(config, dial_timeout_s=8.0, request_timeout_s=8.0, query_timeout_s=20.0),
        membership=replace(config.membership, ping_timeout_s=2.0, suspicion_multiplier=6.0),
    )


def only_document(node: Node) -> ContentHash:
    (content_hash,) = node.library.vectors_to_advertise(node.library.collections())[1]
    return content_hash


async def keep(node: Node, content_hash: ContentHash, holder: PeerId, **settings: Any) -> Any:
    """Fetch a document from `holder`, keep it, and share what is kept."""
    document = await node.get(content_hash, peer=holder, **settings)
    copy = await node.keep(document, "kept")
    if copy.kept:
        node.library.share("kept", Sharing())
    return copy


def gone(node: Node, content_hash: ContentHash) -> bool:
    return not node.library.held(content_hash)


# The story.


async def test_a_copy_is_kept_passed_on_and_withdrawn(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid", "dan"])
    async with nodes(lab) as (ann, bob, cid, dan):
        add(ann, TEXT, sharing=OPEN)
        report = await bob.query(TEXT)
        (copy,) = await bob.keep_answer(report.audit, "kept")
        assert copy.kept
        assert copy.passed_on
        content_hash = copy.content_hash
        with pytest.raises(PolicyDenied):
            await cid.get(content_hash, peer=bob.peer_id)  # as long as it is not shared here
        bob.library.share("kept", Sharing())
        assert (await keep(cid, content_hash, bob.peer_id)).passed_on

        ann.library._contents.withdrawn.add(content_hash)  # the owner is silent, the copies speak
        document = await dan.get(content_hash, peer=cid.peer_id)
        assert document.owner.peer == ann.peer_id
        assert document.holder.peer == cid.peer_id
        assert [open_custody(link).custodian for link in document.attribution[1:]] == [
            bob.peer_id,
            cid.peer_id,
        ]
        report = await dan.query(TEXT)
        (found,) = report.documents
        assert found.status is DocumentStatus.VERIFIED
        assert found.score_verified
        assert found.owner.peer == ann.peer_id
        assert found.holder.peer in {bob.peer_id, cid.peer_id}
        ann.library._contents.withdrawn.clear()

        ann.library.withdraw(content_hash)
        for node in (bob, cid):
            await eventually(lambda node=node: gone(node, content_hash))
        await eventually(lambda: dan.status()["withdrawals"] == 1)
        report = await dan.query(TEXT)
        assert not report.documents
        assert not report.rejected

        ann.library.restore(content_hash)
        report = await dan.query(TEXT)
        (found,) = report.documents
        assert found.status is DocumentStatus.VERIFIED
        assert found.holder.peer == ann.peer_id


async def test_a_copy_is_advertised_and_found_through_that(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with nodes(lab) as (ann, bob, _):
        add(ann, TEXT, sharing=OPEN)
        before = bob.core.service.own_advertisement()[0]
        assert before.entries == ()
        await keep(bob, only_document(ann), ann.peer_id)
        advertised = bob.core.service.own_advertisement()[0]
        assert len(advertised.entries) == 1
        ann.library.unshare("notes")
        await eventually(lambda: bob.core.service.own_advertisement()[0].entries == ())


async def test_terms_decide_what_a_holder_may_do(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with nodes(lab) as (ann, bob, cid):
        add(ann, TEXT, sharing=Sharing())
        content_hash = only_document(ann)
        copy = await keep(bob, content_hash, ann.peer_id)
        assert not copy.kept
        assert "does not allow" in copy.reason
        assert gone(bob, content_hash)

        ann.library.share("notes", Sharing(terms=SharingTerms(copy=True)))
        copy = await keep(bob, content_hash, ann.peer_id)
        assert copy.kept
        assert not copy.passed_on
        assert (await bob.get(content_hash)).owner.peer == ann.peer_id
        with pytest.raises(PolicyDenied):
            await cid.get(content_hash, peer=bob.peer_id)

        research = SharingTerms(copy=True, reshare=True, purposes=(Purpose.HRESCH,))
        ann.library.share("notes", Sharing(purposes=(Purpose.HRESCH,), terms=research))
        await eventually(lambda: gone(bob, content_hash))  # less than before is allowed
        copy = await keep(bob, content_hash, ann.peer_id, purpose=Purpose.HRESCH)
        assert copy.passed_on
        with pytest.raises(PolicyDenied):
            await cid.get(content_hash, peer=bob.peer_id)
        document = await cid.get(content_hash, peer=bob.peer_id, purpose=Purpose.HRESCH)
        assert document.holder.peer == bob.peer_id


async def test_terms_that_end_stop_a_holder_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with AsyncExitStack() as stack:
        ahead = 0.0
        ann = await stack.enter_async_context(lab.node("ann"))
        clock = ann._clock
        bob = await stack.enter_async_context(lab.node("bob", clock=lambda: clock() + ahead))
        cid = await stack.enter_async_context(lab.node("cid"))
        terms = replace(OPEN.terms, expires_at=int(clock()) + 100)
        add(ann, TEXT, sharing=Sharing(terms=terms))
        content_hash = only_document(ann)
        await keep(bob, content_hash, ann.peer_id)
        assert (await cid.get(content_hash, peer=bob.peer_id)).holder.peer == bob.peer_id
        ahead = 101.0
        with pytest.raises(PolicyDenied):
            await cid.get(content_hash, peer=bob.peer_id)
        assert bob.library.drop_ended(bob._clock()) == 1
        assert gone(bob, content_hash)


async def test_a_node_that_was_away_learns_of_withdrawals(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    async with AsyncExitStack() as stack:
        ann, bob = [await stack.enter_async_context(lab.node(name)) for name in ("ann", "bob")]
        add(ann, TEXT, sharing=OPEN)
        content_hash = only_document(ann)
        async with lab.node("cid") as cid:
            await keep(cid, content_hash, ann.peer_id)
        ann.library.remove(TEXT[:20])
        await eventually(lambda: bob.status()["withdrawals"] == 1)
        # Rumours have died away by then: what it learns, it asks for.
        for node in (ann, bob):
            await eventually(lambda node=node: not node.core.membership._news._withdrawals)
        async with lab.node("cid") as again:
            await eventually(lambda: gone(again, content_hash))
        assert lab.homes["cid"].home.withdrawals.exists()


async def test_an_owner_that_forgot_is_told_by_the_others(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["bob", "ann"])
    async with lab.node("bob") as bob:
        async with lab.node("ann") as ann:
            add(ann, TEXT, sharing=OPEN)
            ann.library.unshare("notes")
            await eventually(lambda: bob.status()["withdrawals"] == 1)
        lab.homes["ann"].home.withdrawals.unlink()
        async with lab.node("ann") as again:
            await eventually(lambda: again.status()["withdrawals"] == 1)


async def test_what_is_no_copy_is_not_kept(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with nodes(lab) as (ann, bob):
        add(ann, TEXT, sharing=OPEN)
        own = await ann.get(only_document(ann))
        assert (await ann.keep(own, "kept")).reason == "it is our own"
        ann.library.share("notes", Sharing(view=OPEN.view, terms=OPEN.terms))
        document = await bob.get(only_document(ann), peer=ann.peer_id)
        part = replace(document, content=b"", status=DocumentStatus.VERIFIED)
        assert "only a part" in (await bob.keep(part, "kept")).reason
        denied = replace(document, status=DocumentStatus.DENIED)
        assert "denied" in (await bob.keep(denied, "kept")).reason
        with pytest.raises(UsageError, match="none of the last"):
            await bob.keep_answer("0123", "kept")


# Forgeries. Bob holds copies, and lies; Ann owns, Dan passes on, Cid asks.


def signed_by(identity: Identity, template: bytes, **changes: Any) -> bytes:
    """The statement of another owner, altered and signed by `identity`."""
    payload = cbor.decode(cose.payload(template, limit=2_048), limit=2_048)
    return cose.sign1(identity, cbor.encode(payload | changes), aad=Domain.STATEMENT.encode())


def with_payload(link: bytes, **changes: Any) -> bytes:
    """A statement with an altered payload under the signature of the unaltered one."""
    payload = cose.payload(link, limit=2_048)
    altered = cbor.encode(cbor.decode(payload, limit=2_048) | changes)
    return link.replace(cbor.encode(payload), cbor.encode(altered))


def by_another_owner(links: Links, bob: Identity) -> Links:
    return (signed_by(bob, links[0]),)


OTHER_TERMS = {"copy": True, "reshare": True, "purposes": ["TREAT"], "expires-at": 2**40}


def with_other_terms(links: Links, bob: Identity) -> Links:
    altered = with_payload(links[0], terms=OTHER_TERMS)
    return (altered, sign_custody(bob, altered, open_custody(links[-1]).received_at))


def with_other_terms_signed_by_the_member(links: Links, bob: Identity) -> Links:
    altered = signed_by(bob, links[0], terms=OTHER_TERMS)
    return (altered, sign_custody(bob, altered, open_custody(links[-1]).received_at))


def without_its_own_custody(links: Links, bob: Identity) -> Links:
    del bob
    return links[:-1]


def without_the_link_before(links: Links, bob: Identity) -> Links:
    del bob
    return (links[0], links[-1])


def of_another_consortium(links: Links, bob: Identity) -> Links:
    statement = open_statement(links[0])
    return (
        sign_statement(
            bob,
            content_hash=statement.content_hash,
            embedding_hash=statement.embedding_hash,
            fingerprint=statement.fingerprint,
            collection=statement.collection,
            terms=statement.terms,
            consortium="other-0123456789abcdef",
            now=statement.issued_at,
        ),
    )


def of_another_document(links: Links, bob: Identity) -> Links:
    return (signed_by(bob, links[0], **{"owner": bob.peer_id, "content-hash": bytes(32)}),)


FORGERIES: list[tuple[Callable[[Links, Identity], Links], Fault]] = [
    (by_another_owner, Fault.OWNER_MISMATCH),
    (with_other_terms, Fault.SIGNATURE_INVALID),
    (with_other_terms_signed_by_the_member, Fault.OWNER_MISMATCH),
    (without_its_own_custody, Fault.SENDER_NOT_HOLDER),
    (without_the_link_before, Fault.CHAIN_BROKEN),
    (of_another_consortium, Fault.WRONG_CONSORTIUM),
    (of_another_document, Fault.OTHER_DOCUMENT),
]


@asynccontextmanager
async def a_liar_with_a_copy(tmp_path: Path) -> AsyncIterator[tuple[Lab, list[Node], ContentHash]]:
    """Ann's document, kept by Dan, kept from him by Bob; only Bob has it in the end."""
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid", "dan"])
    async with nodes(lab) as (ann, bob, cid, dan):
        add(ann, TEXT, sharing=OPEN)
        content_hash = only_document(ann)
        await keep(dan, content_hash, ann.peer_id)
        await keep(bob, content_hash, dan.peer_id)
        for node in (ann, dan):
            for collection in node.library.collections():
                node.library._contents._sharing[collection] = None
        yield lab, [ann, bob, cid, dan], content_hash


def forge(node: Node, change: Callable[[Links], Links]) -> None:
    """Let a node attribute what it returns and delivers in another way."""
    search, get = node.library.search, node.library.get

    def forged_search(*arguments: Any, **admission: Any) -> Sequence[Any]:
        found = search(*arguments, **admission)
        return [replace(item, attribution=change(item.attribution)) for item in found]

    def forged_get(content_hash: ContentHash) -> Sequence[Any]:
        return [
            replace(item, copy=item.copy and replace(item.copy, links=change(item.links)))
            for item in get(content_hash)
        ]

    node.library.search = forged_search  # type: ignore[method-assign, assignment]
    node.library.get = forged_get  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(
    ("change", "fault"), FORGERIES, ids=lambda item: getattr(item, "__name__", "")
)
async def test_a_forged_chain_is_rejected_by_name(
    tmp_path: Path, change: Callable[[Links, Identity], Links], fault: Fault
) -> None:
    async with a_liar_with_a_copy(tmp_path) as (lab, (_, bob, cid, _), content_hash):
        honest = await cid.query(TEXT)
        assert [item.holder.peer for item in honest.documents] == [bob.peer_id]
        key = load_identity(lab.homes["bob"].home.key)
        forge(bob, lambda links: change(links, key))
        report = await cid.query(TEXT)
        assert not report.documents
        (rejected,) = report.rejected
        assert rejected.holder.peer == bob.peer_id
        assert rejected.fault is not None
        assert rejected.fault.startswith(f"{fault}: ")
        with pytest.raises(AttributionError) as caught:
            await cid.get(content_hash, peer=bob.peer_id)
        assert caught.value.fault == fault


async def test_a_release_of_other_bytes_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_liar_with_a_copy(tmp_path) as (_, (_, bob, cid, _), content_hash):
        genuine = serving.sign_release
        monkeypatch.setattr(
            serving,
            "sign_release",
            lambda identity, content, **settings: genuine(identity, b"another", **settings),
        )
        with pytest.raises(AttributionError) as caught:
            await cid.get(content_hash, peer=bob.peer_id)
        assert caught.value.fault == Fault.RELEASE_OF_OTHER_BYTES
        report = await cid.query(TEXT)
        assert [item.status for item in report.documents] == [DocumentStatus.REJECTED]


async def test_a_copy_against_the_terms_is_rejected(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with nodes(lab) as (ann, bob, cid):
        add(ann, TEXT, sharing=OPEN)
        content_hash = only_document(ann)
        await keep(bob, content_hash, ann.peer_id)
        bob.library.drop_withdrawn = lambda _: 0  # type: ignore[method-assign, assignment]
        ann.library.share("notes", Sharing())
        (strict,) = ann.library.get(content_hash)
        ann.library._contents._sharing["notes"] = None
        key = load_identity(lab.homes["bob"].home.key)
        taken = sign_custody(key, strict.links[0], bob._clock() + 2)
        forge(bob, lambda _: (strict.links[0], taken))
        report = await cid.query(TEXT)
        assert not report.documents
        assert str(report.rejected[0].fault).startswith(Fault.COPY_NOT_ALLOWED)


# Withdrawals that are not followed, ignored, forged or replayed.


async def test_a_holder_that_ignores_a_withdrawal_is_not_believed(tmp_path: Path) -> None:
    async with a_liar_with_a_copy(tmp_path) as (_, (ann, bob, cid, dan), content_hash):
        bob.library.drop_withdrawn = lambda _: 0  # type: ignore[method-assign, assignment]
        ann.library.withdraw(content_hash)
        await eventually(lambda: cid.status()["withdrawals"] == 1)
        await eventually(lambda: gone(dan, content_hash))
        assert not gone(bob, content_hash)
        report = await cid.query(TEXT)
        assert not report.documents
        (rejected,) = report.rejected
        assert str(rejected.fault).startswith(f"{Fault.WITHDRAWN}: ")
        with pytest.raises(AttributionError) as caught:
            await cid.get(content_hash, peer=bob.peer_id)
        assert caught.value.fault == Fault.WITHDRAWN


async def test_a_member_cannot_withdraw_for_an_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with nodes(lab) as (ann, bob, cid):
        add(ann, TEXT, sharing=OPEN)
        content_hash = only_document(ann)
        await keep(cid, content_hash, ann.peer_id)
        (genuine,) = ann.core.withdrawals.retract(
            _retraction(ann, content_hash, collection="another")
        )
        forged = replace(genuine, collection=None, documents=(content_hash,))
        key = load_identity(lab.homes["bob"].home.key)
        sealed = seal(key, Domain.WITHDRAWAL, encode_withdrawal(forged))
        bob.core._gossip._handle(WithdrawalPublished(sealed))
        await eventually(lambda: f"{bob.peer_id} withdraws documents of" in caplog.text)
        await eventually(lambda: cid.status()["withdrawals"] == 1)  # Ann's own, of something else
        assert not gone(cid, content_hash)
        assert (await bob.query(TEXT)).documents


def _retraction(node: Node, content_hash: ContentHash, collection: str) -> Any:
    from zerorag_p2p.library.contents import Retraction

    (stored,) = node.library.get(content_hash)
    return Retraction(collection=collection, statements=(stored.attribution,))


async def test_a_replayed_withdrawal_has_no_effect_on_what_is_newer(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with nodes(lab) as (ann, bob, cid):
        add(ann, TEXT, sharing=OPEN)
        content_hash = only_document(ann)
        await keep(cid, content_hash, ann.peer_id)
        ann.library.withdraw(content_hash)
        (old,) = ann.core.withdrawals.missing(())
        await eventually(lambda: gone(cid, content_hash))
        await eventually(lambda: bob.status()["withdrawals"] == 1)
        ann.library.restore(content_hash)
        assert (await keep(cid, content_hash, ann.peer_id)).kept
        cid.core.withdrawals._book.expire(2**40)  # as if it had never heard of it
        assert cid.status()["withdrawals"] == 0
        bob.core._gossip._handle(WithdrawalPublished(old))
        await eventually(lambda: cid.status()["withdrawals"] == 1)
        assert not gone(cid, content_hash)
        document = await bob.get(content_hash, peer=cid.peer_id)
        assert document.status is DocumentStatus.VERIFIED


async def test_statements_from_before_a_revocation_stay_valid(tmp_path: Path) -> None:
    """What a member signed before it was revoked, others may still hold (protocols/attribution)."""
    from zerorag_p2p.control import consortium

    async with a_liar_with_a_copy(tmp_path) as (lab, (ann, bob, cid, _), content_hash):
        (stored,) = bob.library.get(content_hash)
        issued_at = open_statement(stored.links[0]).issued_at
        roster = consortium.revoke(lab.homes["ann"].home, ann.peer_id, "left")
        for node in (bob, cid):
            await node.import_roster(roster)
        former = cid.core.directory.roster.former_member(ann.peer_id)
        assert former is not None
        document = None
        if issued_at < former.date:
            document = await cid.get(content_hash, peer=bob.peer_id)
            assert document.status is DocumentStatus.VERIFIED
        moved = replace(former, date=issued_at)
        earlier = replace(cid.core.directory.roster, former=(moved,))
        cid.core.directory.replace_roster(earlier, None)
        with pytest.raises(AttributionError) as caught:
            await cid.get(content_hash, peer=bob.peer_id)
        assert caught.value.fault == Fault.OWNER_NOT_MEMBER
