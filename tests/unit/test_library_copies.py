"""A library with copies of other owners' documents, and what its owner takes back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import LibraryError, LocalError
from zerorag_p2p.identity.attribution import (
    Statement,
    embedding_hash,
    open_statement,
    sign_statement,
)
from zerorag_p2p.identity.custody import take_custody
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.library import documents
from zerorag_p2p.library.contents import Retraction
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.library.reports import FileStatus
from zerorag_p2p.model import Content, ContentHash, Purpose, SharingTerms, hash_content
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.node.withdrawals import Withdrawals
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.embedding import int8_wire_bytes, transmitted

NOW = 1_800_000_000
OWNER, US = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2))
EMBEDDER = HashingEmbedder(max_words=40)
OPEN = SharingTerms(copy=True, reshare=True)
TEXT = "apixaban before surgery"


@dataclass
class Setup:
    """A library, the withdrawals that it led to, and a clock that goes by hand."""

    home: Path
    now: float = NOW
    withdrawals: Withdrawals = field(init=False)
    library: Library = field(init=False)

    def __post_init__(self) -> None:
        self.withdrawals = Withdrawals(
            US, "sample", lambda: self.now, clock_tolerance_s=120.0, path=self.home / "withdrawals"
        )
        self.open()

    def open(self) -> None:
        sign = statement_signer(
            US,
            EMBEDDER.fingerprint,
            "sample",
            lambda: self.now,
            not_before=self.withdrawals.not_before,
        )
        self.library = Library(
            self.home / "library", EMBEDDER, sign, retract=self.withdrawals.retract
        )

    def add(self, *texts: str, name: str = "") -> list[ContentHash]:
        records = [Record(name=name or text, title="", text=text) for text in texts]
        self.library.add_records(records, "wards")
        return [hash_content(Content("", text).encode()) for text in texts]

    def statement(self, content_hash: ContentHash) -> Statement:
        (stored,) = self.library.held(content_hash)
        return open_statement(stored.attribution)

    def counted(self) -> int:
        return self.library.count(
            EMBEDDER.embed_query(TEXT), -2.0, admit_collection=lambda _: True, admit=lambda _: True
        )

    def is_withdrawn(self, statement: Statement) -> bool:
        return self.withdrawals.covers(statement)

    def keep(self, text: str = TEXT, terms: SharingTerms = OPEN, **changes: object) -> ContentHash:
        content = Content("Anticoagulants", text, 2, 7)
        vector = transmitted(EMBEDDER.embed_query(text))
        statement = sign_statement(
            OWNER,
            content_hash=hash_content(content.encode()),
            embedding_hash=embedding_hash(int8_wire_bytes(vector)),
            fingerprint=EMBEDDER.fingerprint.digest(),
            collection="guidelines",
            terms=terms,
            consortium="sample",
            now=changes.pop("issued_at", NOW - 10),
        )
        links, chain = take_custody(US, [statement], NOW)
        self.library.keep(
            content,
            "copies",
            links=links,
            statement=chain.statement,
            vector=vector,
            signed_vector=bool(changes.pop("signed", True)),
        )
        return chain.statement.content_hash

    def found(self, text: str = TEXT) -> list[ContentHash]:
        hits = self.library.search(
            EMBEDDER.embed_query(text), 5, admit_collection=lambda _: True, admit=lambda _: True
        )
        return [hit.content_hash for hit in hits]

    def advertised(self) -> list[ContentHash]:
        return self.library.vectors_to_advertise(self.library.collections())[1]


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path)
    yield made
    made.library.close()


def taken_back(**changes: object) -> Withdrawal:
    values: dict[str, object] = {
        "owner": OWNER.peer_id,
        "consortium": "sample",
        "collection": "guidelines",
        "issued_at": NOW,
        "expires_at": NOW + 100,
    }
    return Withdrawal(**(values | changes))  # type: ignore[arg-type]


class TestCopies:
    def test_a_copy_is_there_with_its_chain_also_after_a_restart(self, setup: Setup) -> None:
        kept = setup.keep()
        for _ in range(2):
            (stored,) = setup.library.get(kept)
            assert stored.copy is not None
            assert (stored.copy.owner, stored.copy.collection) == (OWNER.peer_id, "guidelines")
            assert len(stored.links) == 2
            assert stored.terms == OPEN
            document = setup.library.read(stored)
            assert (document.text, document.part, document.parts) == (TEXT, 2, 7)
            assert document.content_hash() == kept
            (source,) = setup.library.sources("copies")
            assert source.documents == 1
            assert setup.library.stats().documents == 1
            assert setup.found() == [kept]
            assert setup.advertised() == [kept]
            setup.library.close()
            setup.open()

    def test_it_is_found_by_others_as_its_owner_signed_it(self, setup: Setup) -> None:
        setup.keep()
        (hit,) = setup.library.search(
            EMBEDDER.embed_query(TEXT), 1, admit_collection=lambda _: True, admit=lambda _: True
        )
        statement = open_statement(hit.attribution[0])
        assert embedding_hash(int8_wire_bytes(hit.embedding)) == statement.embedding_hash

    @pytest.mark.parametrize(("terms", "signed"), [(SharingTerms(copy=True), True), (OPEN, False)])
    def test_what_may_not_be_passed_on_is_not_advertised(
        self, setup: Setup, terms: SharingTerms, signed: bool
    ) -> None:
        kept = setup.keep(terms=terms, signed=signed)
        assert setup.advertised() == []
        (stored,) = setup.library.get(kept)
        assert stored.terms is not None
        assert not stored.terms.reshare

    def test_a_newer_statement_takes_the_place_of_an_older_one(self, setup: Setup) -> None:
        kept = setup.keep(terms=SharingTerms(copy=True))
        setup.keep(issued_at=NOW - 20)
        (stored,) = setup.library.get(kept)
        assert stored.terms == SharingTerms(copy=True), "the older statement changes nothing"
        setup.keep(issued_at=NOW - 5)
        (stored,) = setup.library.get(kept)
        assert stored.terms == OPEN

    def test_it_goes_when_its_terms_end(self, setup: Setup) -> None:
        ends, stays = setup.keep(terms=SharingTerms(True, True, (), NOW + 9)), setup.keep("other")
        assert setup.library.drop_ended(NOW + 8) == 0
        assert setup.library.drop_ended(NOW + 9) == 1
        assert (setup.library.held(ends), setup.found()) == ([], [stays])

    @pytest.mark.parametrize(
        "withdrawal",
        [
            taken_back(),
            taken_back(issued_at=NOW - 10),
            taken_back(
                collection=None,
                documents=(hash_content(Content("Anticoagulants", TEXT, 2, 7).encode()),),
            ),
        ],
    )
    def test_it_goes_when_its_owner_takes_it_back(
        self, setup: Setup, withdrawal: Withdrawal
    ) -> None:
        setup.keep()
        generation = setup.library.generation
        assert setup.library.drop_withdrawn(withdrawal) == 1
        assert setup.found() == []
        assert setup.library.generation > generation, "advertisements have to follow"
        database = (setup.home / "library" / "documents.sqlite").read_bytes()
        assert TEXT.encode() not in database

    @pytest.mark.parametrize(
        "withdrawal",
        [
            taken_back(owner=US.peer_id),
            taken_back(collection="copies"),
            taken_back(issued_at=NOW - 11),
            taken_back(documents=(ContentHash("0" * 64),)),
        ],
    )
    def test_it_stays_when_something_else_is_taken_back(
        self, setup: Setup, withdrawal: Withdrawal
    ) -> None:
        kept = setup.keep()
        assert setup.library.drop_withdrawn(withdrawal) == 0
        assert setup.found() == [kept]

    def test_sharing_its_collection_signs_nothing_in_the_name_of_its_owner(
        self, setup: Setup
    ) -> None:
        kept = setup.keep()
        (before,) = setup.library.get(kept)
        setup.library.share("copies", Sharing(terms=SharingTerms(copy=True)))
        setup.library.unshare("copies")
        (after,) = setup.library.get(kept)
        assert after.links == before.links
        assert len(setup.withdrawals) == 0

    def test_only_its_owner_withdraws_it(self, setup: Setup) -> None:
        kept = setup.keep()
        with pytest.raises(LibraryError, match="only its owner"):
            setup.library.withdraw(kept)
        assert setup.library.remove(kept[:12]) == 1
        assert len(setup.withdrawals) == 0


def narrowed(setup: Setup) -> None:
    setup.library.share("wards", Sharing(terms=SharingTerms(copy=True)))


def limited(setup: Setup) -> None:
    setup.library.share("wards", Sharing(terms=SharingTerms(True, True, (Purpose.TREAT,))))


def unshared(setup: Setup) -> None:
    setup.library.unshare("wards")


def removed(setup: Setup) -> None:
    setup.library.remove("note")


def removed_with_its_collection(setup: Setup) -> None:
    setup.library.remove_collection("wards")


def replaced(setup: Setup) -> None:
    setup.add("heparin", name="note")


CHANGES = [narrowed, limited, unshared, removed, removed_with_its_collection, replaced]


class TestTakingBack:
    @pytest.mark.parametrize("change", CHANGES)
    def test_what_allowed_copies_and_holds_no_more_is_withdrawn(
        self, setup: Setup, change: Callable[[Setup], None]
    ) -> None:
        (content_hash,) = setup.add(TEXT, name="note")
        setup.library.share("wards", Sharing(terms=OPEN))
        before = setup.statement(content_hash)
        change(setup)
        assert setup.is_withdrawn(before)
        if setup.library.held(content_hash):
            assert not setup.is_withdrawn(setup.statement(content_hash)), "as it is stated now"

    @pytest.mark.parametrize("change", CHANGES)
    def test_what_never_allowed_copies_is_not(
        self, setup: Setup, change: Callable[[Setup], None]
    ) -> None:
        setup.add(TEXT, name="note")
        setup.library.share("wards", Sharing())
        change(setup)
        assert len(setup.withdrawals) == 0

    def test_wider_terms_take_nothing_back(self, setup: Setup) -> None:
        (content_hash,) = setup.add(TEXT)
        setup.library.share("wards", Sharing(terms=SharingTerms(copy=True, expires_at=NOW + 50)))
        before = setup.statement(content_hash)
        setup.library.share("wards", Sharing(terms=OPEN))
        assert setup.statement(content_hash).terms == OPEN
        assert not setup.is_withdrawn(before)

    def test_what_is_shared_again_is_valid_again_within_the_same_second(self, setup: Setup) -> None:
        (content_hash,) = setup.add(TEXT)
        for _ in range(3):
            setup.library.share("wards", Sharing(terms=OPEN))
            assert not setup.is_withdrawn(setup.statement(content_hash))
            before = setup.statement(content_hash)
            setup.library.unshare("wards")
            assert setup.is_withdrawn(before)

    def test_a_clock_that_went_back_withdraws_all_the_same(self, setup: Setup) -> None:
        (content_hash,) = setup.add(TEXT)
        setup.library.share("wards", Sharing(terms=OPEN))
        before = setup.statement(content_hash)
        setup.now -= 60
        setup.library.unshare("wards")
        assert setup.is_withdrawn(before)
        setup.library.share("wards", Sharing(terms=OPEN))
        assert not setup.is_withdrawn(setup.statement(content_hash))

    def test_it_is_remembered_as_long_as_the_terms_could_last(self, setup: Setup) -> None:
        setup.add(TEXT)
        setup.library.share("wards", Sharing(terms=SharingTerms(True, True, (), NOW + 50)))
        setup.library.unshare("wards")
        (withdrawal,) = setup.withdrawals.all()
        assert withdrawal.expires_at == NOW + 50

    def test_what_ends_by_itself_is_not_withdrawn(self, setup: Setup) -> None:
        setup.add(TEXT)
        setup.library.share("wards", Sharing(terms=SharingTerms(True, True, (), NOW + 50)))
        setup.now = NOW + 50
        assert setup.library.drop_ended(setup.now) == 1
        assert setup.library.sharing("wards") is None
        assert len(setup.withdrawals) == 0

    def test_a_withdrawal_that_cannot_be_written_leaves_all_as_it_was(self, tmp_path: Path) -> None:
        def full(retraction: Retraction) -> None:
            raise OSError(28, "No space left on device", str(retraction.collection))

        setup = Setup(tmp_path)
        (content_hash,) = setup.add(TEXT)
        setup.library.share("wards", Sharing(terms=OPEN))
        setup.library._contents._retract = full
        for change in (
            lambda: setup.library.remove(TEXT),
            lambda: setup.library.unshare("wards"),
            lambda: setup.library.withdraw(TEXT),
        ):
            with pytest.raises(OSError, match="No space left"):
                change()
        setup.library.close()
        setup.open()
        assert setup.found() == [content_hash]
        assert setup.library.sharing("wards") == Sharing(terms=OPEN)
        setup.library.close()


class TestWithdrawing:
    def test_nobody_else_sees_it_until_it_is_restored(self, setup: Setup) -> None:
        withdrawn, other = setup.add(TEXT, "insulin in ketoacidosis")
        setup.library.share("wards", Sharing())
        before = setup.statement(withdrawn)
        assert setup.library.withdraw(TEXT) == [withdrawn]
        assert setup.is_withdrawn(before)
        for _ in range(2):
            assert setup.found() == setup.advertised() == [other]
            assert setup.counted() == 1
            assert setup.library.get(withdrawn) == []
            assert len(setup.library.held(withdrawn)) == 1
            setup.library.close()
            setup.open()
        assert setup.library.restore(withdrawn[:10]) == [withdrawn]
        assert set(setup.found()) == set(setup.advertised()) == {withdrawn, other}
        assert not setup.is_withdrawn(setup.statement(withdrawn))

    def test_neither_sharing_nor_adding_it_again_brings_it_back(self, setup: Setup) -> None:
        (withdrawn,) = setup.add(TEXT)
        setup.library.withdraw(withdrawn)
        setup.library.share("wards", Sharing(terms=OPEN))
        record = Record(name=TEXT, title="", text=TEXT)
        report = setup.library.add_records([record], "wards")
        assert report.count(FileStatus.UNCHANGED) == 1
        setup.library.remove(TEXT)
        setup.library.add_records([record], "wards")
        assert setup.found() == setup.advertised() == []

    def test_what_is_not_held_any_more_is_withdrawn_by_its_hash(self, setup: Setup) -> None:
        (content_hash,) = setup.add(TEXT)
        before = setup.statement(content_hash)
        setup.library.remove(TEXT)
        assert not setup.is_withdrawn(before)
        with pytest.raises(LibraryError, match="there is no source"):
            setup.library.withdraw(content_hash[:20])
        assert setup.library.withdraw(content_hash) == [content_hash]
        assert setup.is_withdrawn(before)
        assert setup.library.withdrawn() == [content_hash]

    def test_what_was_not_withdrawn_is_not_restored(self, setup: Setup) -> None:
        setup.add(TEXT)
        with pytest.raises(LibraryError, match="was withdrawn"):
            setup.library.restore(TEXT)


def test_withdrawals_survive_a_restart_and_damage_is_named(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.add(TEXT)
    setup.library.withdraw(TEXT)
    setup.library.close()
    again = Setup(tmp_path)
    assert again.withdrawals.all() == setup.withdrawals.all()
    again.library.close()
    path = tmp_path / "withdrawals"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(LocalError, match=r"withdrawals is damaged.*restore it from a backup"):
        Setup(tmp_path)


def test_a_database_of_the_first_version_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    database = sqlite3.connect(path)
    for statement in documents._SCHEMA:
        database.execute(statement)
    database.execute("INSERT INTO collections VALUES (1, 'wards', NULL)")
    database.execute("INSERT INTO sources VALUES (1, 1, 'note', '', '', 'digest', '{}', 1)")
    database.execute("PRAGMA user_version = 1")
    database.commit()
    database.close()
    for _ in range(2):
        store = documents.DocumentStore(path)
        assert [source.name for source in store.sources()] == ["note"]
        assert (store.copies(), store.withdrawn()) == ([], [])
        store.close()
