"""Nothing that the rules deny leaves a node, and the dry run says what will happen."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.node.lab import Lab
from zerorag_p2p.audit.events import Event, event_fields
from zerorag_p2p.config import NO_LIMITS
from zerorag_p2p.control.policies import Owner, Trial, check
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.identity.attribution import embedding_hash, sign_statement
from zerorag_p2p.identity.custody import take_custody
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import Roster, open_roster
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.loaders import Record
from zerorag_p2p.model import (
    Content,
    ContentHash,
    PeerId,
    Purpose,
    SharingTerms,
    Vector,
    View,
    hash_content,
    hash_prefix,
)
from zerorag_p2p.node.auditing import NoAudit
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.files import load_identity
from zerorag_p2p.node.outgoing import open_advertisement
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.policy.rules import (
    Act,
    Effect,
    Policy,
    Question,
    Rule,
    Topics,
    Who,
)
from zerorag_p2p.policy.sharing import Sharing, terms_to_json
from zerorag_p2p.redaction.builtin import BuiltinRedactor
from zerorag_p2p.wire.advertise import (
    AdvertiseRequest,
    decode_advertise_reply,
    encode_advertise_request,
)
from zerorag_p2p.wire.embedding import int8_codes, int8_wire_bytes, transmitted
from zerorag_p2p.wire.fetch import (
    FetchedDocument,
    FetchRefused,
    FetchRequest,
    FetchResult,
    decode_fetch_reply,
    encode_fetch,
)
from zerorag_p2p.wire.query import QueryRequest, QueryResult, decode_query_reply, encode_query

NOW = 1_800_000_000.0
ASKERS = ("ann", "cid", "dan")
ROLES = {"ann": ("care",), "cid": ("research",), "dan": ()}
COLLECTIONS = ("open", "counted", "chosen", "closed")
#: What owners allow with the copies that are kept in one collection.
COPIED = (
    SharingTerms(copy=True, reshare=True),
    SharingTerms(copy=True, reshare=True, purposes=(Purpose.HRESCH,)),
    SharingTerms(copy=True, reshare=True, purposes=(Purpose.HPAYMT,), expires_at=int(NOW) + 9),
    SharingTerms(copy=True, reshare=True, expires_at=int(NOW)),
    SharingTerms(copy=True),
)
QUESTIONS = ("heart failure", "panic attacks", "iron and anaemia")
TEXTS = {
    collection: [f"{collection}marker{number} {text}" for number, text in enumerate(QUESTIONS)]
    for collection in COLLECTIONS
}

names = st.sampled_from(ASKERS)


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), unique=True, max_size=2).map(tuple)


topics = some(QUESTIONS).map(Topics)
rules = st.builds(
    Rule,
    name=st.just("rule"),
    effect=st.sampled_from(list(Effect)),
    who=st.just(Who())
    | st.builds(
        Who,
        organisations=some(tuple(name.title() for name in ASKERS)),
        roles=some(("care", "research")),
    ),
    collections=st.just(()) | some((*COLLECTIONS, "kept")),
    purposes=st.just(()) | some((Purpose.TREAT, Purpose.ETREAT, Purpose.HRESCH)),
    acts=st.just(()) | some(tuple(Act)),
    question=st.just(Question())
    | st.builds(Question, near=topics, at_least=st.just(0.5), far=topics, below=st.just(0.5)),
    view=st.just(View.WHOLE) | st.sampled_from(list(View)),
    hours=st.just(1.0),
)
policies = st.lists(rules, max_size=4).map(
    lambda items: Policy(
        tuple(replace(rule, name=f"rule {number}") for number, rule in enumerate(items))
    )
)


class RememberingEmbedder(HashingEmbedder):
    """Embeds each question once."""

    @cache  # noqa: B019 - one for the module
    def embed_query(self, text: str) -> Vector:
        return super().embed_query(text)


@dataclass(repr=False)
class Owned:
    """A node that is asked without a network, and what it holds."""

    core: NodeCore
    owner: Owner
    embedder: HashingEmbedder
    peers: dict[str, PeerId]
    texts: dict[ContentHash, tuple[str, str]]
    collections: dict[tuple[str, str], list[ContentHash]]  # by name and terms
    codes: dict[ContentHash, bytes]

    def allowed(self, act: Act, name: str, asked: dict[str, Any]) -> set[ContentHash]:
        """What the dry run says is let out."""
        value = check(self.owner, Trial(peer=name.title(), **asked), NOW)
        return {
            content_hash
            for item in value["decisions"]
            if item["allowed"] and item["act"] == act.value
            for content_hash in self.collections[item["collection"], json.dumps(item["terms"])]
        }


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owned]:
    folder = tmp_path_factory.mktemp("p")
    lab = Lab(folder, "memory", ["bob", *ASKERS])
    home = lab.homes["bob"].home
    identity = load_identity(home.key)
    roster = with_roles(open_roster(home.roster.read_bytes()), lab)
    embedder = RememberingEmbedder()
    sign = statement_signer(identity, embedder.fingerprint, roster.consortium, lambda: NOW - 9)
    with Library(home.library, embedder, sign) as library:
        for collection, texts in TEXTS.items():
            records = [Record(name=text, title=f"title {text[:14]}", text=text) for text in texts]
            library.add_records(records, collection)
        copies = [
            keep(library, identity, embedder, lab, terms, f"keptmarker{number} {QUESTIONS[0]}")
            for number, terms in enumerate(COPIED)
        ]
        library.share("open", Sharing())
        library.share("counted", Sharing(view=View.COUNT))
        library.share("chosen", Sharing(members=(lab.peer("ann"),), purposes=(Purpose.HRESCH,)))
        directory = Directory(identity.peer_id, roster)
        config = replace(lab.config("bob"), limits=NO_LIMITS)
        core = NodeCore(
            identity=identity,
            directory=directory,
            network=lab.bare_network("bob"),
            holdings=library,
            fingerprint=embedder.fingerprint,
            config=config,
            bootstrap=(),
            clock=lambda: NOW,
            randomness=random.Random(0),
            audit=Recording(),
        )
        core.sessions.get = lambda peer: object()  # type: ignore[assignment, method-assign, return-value]
        owner = Owner(
            peer=identity.peer_id,
            roster=roster,
            library=library,
            embedder=embedder,
            redactor=BuiltinRedactor(),
            guard=core.guard,
        )
        texts, codes, collections = {}, {}, {}
        for collection in COLLECTIONS:
            vectors, hashes = library.vectors_to_advertise([collection])
            collections[collection, "null"] = hashes
            for content_hash, vector in zip(hashes, vectors, strict=True):
                document = library.read(library.get(content_hash)[0])
                texts[content_hash] = (document.title, document.text)
                codes[content_hash] = int8_codes(vector)[0].tobytes()
        for terms, (content_hash, content, vector) in zip(COPIED, copies, strict=True):
            collections["kept", json.dumps(terms_to_json(terms))] = [content_hash]
            texts[content_hash] = (content.title, content.text)
            codes[content_hash] = int8_codes(vector)[0].tobytes()
        withdrawn = collections["open", "null"].pop()
        library.withdraw(withdrawn)
        collections["kept", "null"] = []
        library.share("kept", Sharing())
        peers = {name: lab.peer(name) for name in ASKERS}
        yield Owned(core, owner, embedder, peers, texts, collections, codes)


def keep(
    library: Library,
    holder: Identity,
    embedder: HashingEmbedder,
    lab: Lab,
    terms: SharingTerms,
    text: str,
) -> tuple[ContentHash, Content, Vector]:
    """Put a copy of a document of another member's into the collection "kept"."""
    content = Content(f"title {text[:11]}", text, 0, 1)
    vector = transmitted(embedder.embed_query(text))
    statement = sign_statement(
        load_identity(lab.homes["ann"].home.key),
        content_hash=hash_content(content.encode()),
        embedding_hash=embedding_hash(int8_wire_bytes(vector)),
        fingerprint=embedder.fingerprint.digest(),
        collection="theirs",
        terms=terms,
        consortium="lab",
        now=int(NOW) - 9,
    )
    links, chain = take_custody(holder, [statement], int(NOW) - 5)
    library.keep(
        content, "kept", links=links, statement=chain.statement, vector=vector, signed_vector=True
    )
    return chain.statement.content_hash, content, vector


def with_roles(roster: Roster, lab: Lab) -> Roster:
    by_peer = {lab.peer(name): roles for name, roles in ROLES.items()}
    members = tuple(
        replace(
            member,
            roles=by_peer.get(member.peer, ()),
            not_before=0,
            not_after=int(NOW) + 1_000,
        )
        for member in roster.members
    )
    return replace(roster, members=members, issued_at=1, expires_at=int(NOW) + 1_000)


def put_in_force(owned: Owned, policy: Policy) -> None:
    def embed(texts: Any) -> np.ndarray:
        return np.stack([transmitted(owned.embedder.embed_query(text)) for text in texts])

    owned.core.guard.policy = policy.embedded(embed)
    owned.core.guard.grants.rearm()


def ask(owned: Owned, name: str, question: str, **changes: Any) -> tuple[bytes, QueryResult]:
    request = QueryRequest(
        embedding=transmitted(owned.embedder.embed_query(question)),
        fingerprint=owned.embedder.fingerprint.digest(),
        k=100,
        budget_left=0,
        deadline_ms=1_000,
        user="u",
        **changes,
    )
    reply = trio.run(owned.core.service.answer_query, owned.peers[name], encode_query(request))
    result = decode_query_reply(reply, k=100)
    assert isinstance(result, QueryResult), result
    return reply, result


def fetch(owned: Owned, name: str, **changes: Any) -> tuple[bytes, set[ContentHash]]:
    documents = (*owned.texts, ContentHash("0" * 64))  # the last one is not held
    request = FetchRequest(documents=documents, deadline_ms=1_000, user="u", **changes)
    reply = trio.run(owned.core.service.answer_fetch, owned.peers[name], encode_fetch(request))
    result = decode_fetch_reply(reply, asked=documents)
    assert isinstance(result, FetchResult), result
    refused = [item for item in result.items if isinstance(item, FetchRefused)]
    assert len({(item.code, item.reason) for item in refused}) == 1  # which is which is not told
    delivered = {item.content_hash for item in result.items if isinstance(item, FetchedDocument)}
    return reply, delivered


class Recording(NoAudit):
    """Keeps what a node would write into its audit log, as it would be written."""

    active = True

    def __init__(self) -> None:
        self.fields: list[dict[str, Any]] = []

    def record(self, event: Event) -> None:
        self.fields.append(event_fields(event))


class Logged(logging.Handler):
    """Everything that is logged meanwhile, and recorded in the audit log of `core`."""

    def __init__(self, core: NodeCore) -> None:
        super().__init__(logging.DEBUG)
        assert isinstance(core.audit, Recording)
        self.recorded = core.audit.fields
        self.recorded.clear()
        self._lines = ""

    @property
    def text(self) -> str:
        return f"{self._lines}{self.recorded}"

    def emit(self, record: logging.LogRecord) -> None:
        self._lines += f"{record.getMessage()}\n"

    def __enter__(self) -> Logged:
        logging.getLogger("zerorag").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("zerorag").removeHandler(self)


@settings(deadline=None, max_examples=60)
@given(
    policies,
    names,
    st.sampled_from((Purpose.TREAT, Purpose.ETREAT, Purpose.HRESCH)),
    st.sampled_from(list(View)),
    st.sampled_from(QUESTIONS),
    st.sampled_from(("", "unconscious, no kin")),
)
def test_answers_hold_what_the_dry_run_allows_and_nothing_else(
    owned: Owned,
    policy: Policy,
    name: str,
    purpose: Purpose,
    view: View,
    question: str,
    reason: str,
) -> None:
    put_in_force(owned, policy)
    asked: dict[str, Any] = {"purpose": purpose.value, "view": view.value, "reason": reason}
    findable = owned.allowed(Act.RESULT, name, {**asked, "query": question})
    with Logged(owned.core) as logged:
        reply, result = ask(
            owned,
            name,
            question,
            purpose=purpose,
            view=view,
            audit="a",
            reason=reason or None,
            above=-1.0,
        )
    if view is View.COUNT:
        assert result.documents == ()
        assert result.count == len(findable)
    else:
        assert result.count is None
        assert {item.content_hash for item in result.documents} == findable
    shown = set() if view is View.COUNT else findable
    (entry,) = (item for item in logged.recorded if item["kind"] == "query-answered")
    assert {item["hash"] for item in entry.get("documents", ())} == {
        bytes.fromhex(item) for item in shown
    }
    for content_hash, (title, text) in owned.texts.items():
        told = content_hash in shown
        assert (bytes.fromhex(content_hash) in reply) is told
        assert (owned.codes[content_hash] in reply) is (told and view.rank >= View.PASSAGE.rank)
        for secret in (title, text):
            assert secret.encode() not in reply
            assert secret not in logged.text

    # The same person fetches everything, under the same reference and under another.
    for audit, known in (("a", question), ("b", None)):
        deliverable = owned.allowed(Act.FETCH, name, {**asked, "query": known})
        with Logged(owned.core) as logged:
            reply, delivered = fetch(
                owned, name, purpose=purpose, view=view, audit=audit, reason=reason or None
            )
        assert delivered == deliverable
        for content_hash, (title, text) in owned.texts.items():
            told = content_hash in deliverable
            assert (title.encode() in reply) is told
            assert (text.encode() in reply) is (told and view.rank >= View.PASSAGE.rank)
            assert owned.codes[content_hash] not in reply
            for secret in (title, text):
                assert secret not in logged.text


@settings(deadline=None, max_examples=60)
@given(policies, names)
def test_an_advertisement_holds_what_every_member_can_find(
    owned: Owned, policy: Policy, name: str
) -> None:
    put_in_force(owned, policy)
    request = encode_advertise_request(AdvertiseRequest(None))
    reply = trio.run(owned.core.service.answer_advertise, owned.peers[name], request)
    sealed = decode_advertise_reply(reply)
    assert isinstance(sealed, bytes)
    advertisement = open_advertisement(
        sealed, owner=owned.core.peer_id, dimension=owned.embedder.fingerprint.dimension
    ).advertisement
    advertised = set(advertisement.entries)
    assert advertised == {
        hash_prefix(item) for item in owned.allowed(Act.ADVERTISE, name, {"purpose": "TREAT"})
    }
    for asker in ASKERS:
        findable: set[ContentHash] = set()
        for purpose in Purpose:
            by_question = [
                owned.allowed(Act.RESULT, asker, {"purpose": purpose.value, "query": question})
                for question in QUESTIONS
            ]
            findable |= set.intersection(*by_question)
        assert advertised <= {hash_prefix(item) for item in findable}
