import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import MAX_TOKENS
from zerorag_p2p.control.scopes import Scope
from zerorag_p2p.control.tokens import Token, TokenBook, check_label
from zerorag_p2p.control.users import pseudonym
from zerorag_p2p.errors import KeyFileError, LocalError, UsageError


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> TokenBook:
    return TokenBook(tmp_path / "tokens.json", clock)


def test_a_token_is_found_by_its_text_only_and_its_text_is_not_kept(
    book: TokenBook, tmp_path: Path, clock: Clock
) -> None:
    made = book.create("intranet", Scope.QUERY, lifetime_s=None)
    text = made["token"]
    found = book.find(text)
    assert found is not None
    assert (found.label, found.scope) == ("intranet", Scope.QUERY)
    for wrong in ("", text[:-1], f"{text}x", text.upper(), found.digest):
        assert book.find(wrong) is None
    path = tmp_path / "tokens.json"
    assert text not in path.read_text()
    assert text.removeprefix("zerorag_") not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "digest" not in book.shown()[0]
    assert TokenBook(path, clock).find(text) == found


def test_a_token_ends_with_its_lifetime(book: TokenBook, clock: Clock) -> None:
    text = book.create("intranet", Scope.ADMIN, lifetime_s=60)["token"]
    clock.now += 59
    assert book.find(text) is not None
    clock.now += 1
    assert book.find(text) is None
    assert book.shown() == []
    book.create("intranet", Scope.QUERY, lifetime_s=60)  # Its label is free again.


def test_rotation_keeps_scope_and_lifetime_and_ends_the_present_token(
    book: TokenBook, clock: Clock
) -> None:
    told: list[Token] = []
    first = book.create("intranet", Scope.READ_ONLY, lifetime_s=100)["token"]
    book.on_change = told.append
    clock.now += 10
    second = book.rotate("intranet", overlap_s=20)
    assert (second["scope"], second["ends_at"]) == ("read-only", clock.now + 100)
    assert [token.ends_at for token in told] == [clock.now + 20]
    assert book.find(first) is not None
    clock.now += 20
    assert book.find(first) is None
    assert book.find(second["token"]) is not None
    third = book.rotate("intranet", overlap_s=0)["token"]
    assert book.find(second["token"]) is None
    assert book.find(third) is not None


def test_a_second_rotation_ends_what_still_overlapped(book: TokenBook, clock: Clock) -> None:
    first = book.create("intranet", Scope.QUERY, lifetime_s=None)["token"]
    second = book.rotate("intranet", overlap_s=1_000)["token"]
    book.rotate("intranet", overlap_s=1_000)
    assert book.find(first) is None
    assert book.find(second) is not None


def test_an_overlap_does_not_outlive_the_token(book: TokenBook, clock: Clock) -> None:
    text = book.create("intranet", Scope.QUERY, lifetime_s=10)["token"]
    book.rotate("intranet", overlap_s=1_000)
    clock.now += 10
    assert book.find(text) is None


def test_revocation_ends_every_token_of_a_label(book: TokenBook) -> None:
    told: list[Token] = []
    book.on_change = told.append
    other = book.create("other", Scope.QUERY, lifetime_s=None)["token"]
    texts = [book.create("intranet", Scope.QUERY, lifetime_s=None)["token"]]
    texts.append(book.rotate("intranet", overlap_s=1_000)["token"])
    told.clear()
    assert book.revoke("intranet") == {"label": "intranet", "revoked": 2}
    assert [token.label for token in told] == ["intranet"] * 2
    assert [book.find(text) for text in texts] == [None, None]
    assert book.find(other) is not None
    for act in (book.revoke, lambda label: book.rotate(label, overlap_s=0)):
        with pytest.raises(UsageError, match="token list"):
            act("intranet")


def test_a_label_has_one_application_and_tokens_are_bounded(book: TokenBook) -> None:
    book.create("intranet", Scope.QUERY, lifetime_s=None)
    with pytest.raises(UsageError, match="rotate or revoke"):
        book.create("intranet", Scope.ADMIN, lifetime_s=None)
    for number in range(MAX_TOKENS - 1):
        book.create(f"app-{number}", Scope.QUERY, lifetime_s=None)
    with pytest.raises(UsageError, match="revoke those"):
        book.create("one-more", Scope.QUERY, lifetime_s=None)
    before = book.shown()
    with pytest.raises(UsageError, match="revoke those"):
        book.rotate("intranet", overlap_s=10)
    assert book.shown() == before


@pytest.mark.parametrize("text", ["", "a/b", "ä", "-x", "a b", "x" * 65, "a\n"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="label"):
        check_label(text)


def test_a_file_that_others_can_read_or_that_is_damaged_is_refused(
    book: TokenBook, tmp_path: Path, clock: Clock
) -> None:
    book.create("intranet", Scope.QUERY, lifetime_s=None)
    path = tmp_path / "tokens.json"
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        TokenBook(path, clock)
    path.chmod(0o600)
    content = json.loads(path.read_text())
    content["tokens"][0]["scope"] = "everything"
    path.write_text(json.dumps(content))
    with pytest.raises(LocalError, match=r"tokens.json is damaged: tokens\.0\.scope"):
        TokenBook(path, clock)


_texts = st.text(min_size=1, max_size=20)
_labels = st.from_regex(r"[A-Za-z0-9]{0,8}", fullmatch=True)


@given(st.binary(min_size=32, max_size=32), _labels, _texts, _labels, _texts)
def test_a_pseudonym_is_the_same_for_the_same_user_of_an_application_only(
    key: bytes, application: str, user: str, other_application: str, other_user: str
) -> None:
    name = pseudonym(key, application, user)
    assert name == pseudonym(key, application, user)
    assert len(name) <= 128
    same = (application, user) == (other_application, other_user)
    assert (pseudonym(key, other_application, other_user) == name) is same
    assert pseudonym(bytes(32 * [key[0] ^ 1]), application, user) != name or key == bytes(
        32 * [key[0] ^ 1]
    )
