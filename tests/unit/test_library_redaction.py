"""Redacted documents are hashed with a salt, and what is removed from them is not embedded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.identity.attribution import embedding_hash, open_statement
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.library.reports import FileStatus
from zerorag_p2p.model import SALT_BYTES, Content, Vector, decode_content, hash_content
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.redaction.builtin import RULES, BuiltinRedactor
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.redaction.spans import Span
from zerorag_p2p.wire.embedding import int8_wire_bytes, transmitted

OWNER = Identity.from_seed(b"o" * 32)
TEXT = "Mrs Holloway was seen on 14 March 2023"
RECORD = Record(name="letter", title="Letter", text=TEXT)
EMBEDDER = HashingEmbedder()


def open_library(home: Path, *redacted: str, rules: tuple[str, ...] = RULES) -> Library:
    sign = statement_signer(OWNER, EMBEDDER.fingerprint, "consortium", lambda: 1_000_000.0)
    redaction = Redaction(collections=dict.fromkeys(redacted, rules))
    return Library(home, EMBEDDER, sign, redaction=redaction)


def embedding_of(library: Library, collection: str = "notes") -> Vector:
    """The embedding of the only document."""
    (row,) = library.vectors_to_advertise([collection])[0]
    return row


def only_document(library: Library, collection: str = "notes") -> tuple[Content, str, bytes]:
    """What is in the only document, the hash it is found by, and the owner's statement."""
    ((content_hash),) = library.vectors_to_advertise([collection])[1]
    (stored,) = library.get(content_hash)
    return library.read(stored).whole(), content_hash, stored.attribution


def test_a_salt_is_hashed_with_the_documents_of_a_salted_collection_only(tmp_path: Path) -> None:
    with open_library(tmp_path, "notes") as library:
        library.add_records([RECORD], "notes")
        library.add_records([RECORD], "open")
        content, content_hash, statement = only_document(library)
        assert len(content.salt) == SALT_BYTES
        assert hash_content(content.encode()) == content_hash
        assert content_hash != hash_content(Content("Letter", TEXT).encode())
        assert open_statement(statement).content_hash == content_hash
        signed = open_statement(statement).embedding_hash
        assert signed == embedding_hash(int8_wire_bytes(embedding_of(library)))
        assert only_document(library, "open")[0].salt == b""


def test_what_is_removed_is_not_embedded(tmp_path: Path) -> None:
    with open_library(tmp_path, "notes") as library:
        library.add_records([RECORD], "notes")
        library.add_records([RECORD], "open")
        expected = EMBEDDER.embed_documents(["Mrs  was seen on ", TEXT])
        assert np.array_equal(embedding_of(library), transmitted(expected[0]))
        assert np.array_equal(embedding_of(library, "open"), transmitted(expected[1]))
        library.add_records([Record(name="name", title="", text="Margaret Holloway")], "notes")
        assert library.stats().searchable == 3


@pytest.mark.parametrize("rules", [("date",), ()])
def test_other_rules_embed_the_documents_anew(tmp_path: Path, rules: tuple[str, ...]) -> None:
    with open_library(tmp_path, "notes") as library:
        library.add_records([RECORD], "notes")
        before = only_document(library)
    with open_library(tmp_path, "notes", rules=rules) as library:
        assert library.stats().searchable == 0
        assert library.embed_missing() == 1
        left = TEXT if not rules else "Mrs Holloway was seen on "
        expected = EMBEDDER.embed_documents([left])[0]
        assert np.array_equal(embedding_of(library), transmitted(expected))
        assert only_document(library)[:2] == before[:2]
    with open_library(tmp_path, "notes", rules=rules) as library:
        assert library.stats().searchable == 1
        assert library.embed_missing() == 0


def test_a_text_that_cannot_be_redacted_is_not_added(tmp_path: Path) -> None:
    class Failing(BuiltinRedactor):
        def spans(self, text: str) -> list[Span]:
            raise ValueError(text)

    redaction = Redaction(Failing(), default=("name",))
    sign = statement_signer(OWNER, EMBEDDER.fingerprint, "consortium", lambda: 1_000_000.0)
    with Library(tmp_path, EMBEDDER, sign, redaction=redaction) as library:
        (report,) = library.add_records([RECORD], "notes").files
        assert report.status is FileStatus.SKIPPED
        assert "redaction engine failed" in report.reason
        assert "Holloway" not in report.reason
        assert library.stats().documents == 0


def test_adding_the_same_again_keeps_the_salt(tmp_path: Path) -> None:
    with open_library(tmp_path, "notes") as library:
        library.add_records([RECORD], "notes")
        before = only_document(library)
        library.add_records([RECORD], "notes")
        assert only_document(library) == before
    with open_library(tmp_path, "notes") as library:
        assert only_document(library) == before


def test_documents_that_were_there_before_are_salted_and_stay_withdrawn(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        library.add_records([RECORD, Record(name="other", title="", text="dialysis")], "notes")
        (withdrawn,) = library.withdraw("other")
        before = only_document(library)
    with open_library(tmp_path, "notes") as library:
        assert library.embed_missing() == 2
        content, content_hash, statement = only_document(library)
        assert (content.title, content.text) == ("Letter", TEXT)
        assert content_hash != before[1]
        assert open_statement(statement).content_hash == content_hash
        assert not library.get(before[1])  # type: ignore[arg-type]
        assert withdrawn in library.withdrawn()
        (other,) = library.restore("other")
        assert other != withdrawn
        after = (content, content_hash, statement)
    with open_library(tmp_path, "notes") as library:
        assert set(library.vectors_to_advertise(["notes"])[1]) == {after[1], other}


@pytest.mark.parametrize("salt", [b"", b"s" * SALT_BYTES])
def test_content_with_and_without_salt_is_read_back(salt: bytes) -> None:
    content = Content("title", "text", 1, 2, salt)
    assert decode_content(content.encode()) == content
