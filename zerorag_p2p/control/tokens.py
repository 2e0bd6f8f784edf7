"""Tokens of applications that reach the local interface over TCP, kept as hashes.

A token is 256 random bits. There is nothing to guess, so one SHA-256 protects it as well as the
slow functions that passwords need, and every request can be checked.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zerorag_p2p.config import MAX_TOKENS, TOKENS_FILE_LIMIT
from zerorag_p2p.control.scopes import Scope
from zerorag_p2p.errors import LocalError, UsageError
from zerorag_p2p.files import read_secret, write_atomic
from zerorag_p2p.identity.expiry import Ending, Expiring

#: Begins every token, so that a scanner for leaked secrets can find one.
PREFIX: Final = "zerorag_"

_SECRET_BYTES: Final = 32
_DIGEST_DIGITS: Final = 64

#: Letters, digits, and signs that mean nothing in a path: a label is part of one.
LABEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

Label = Annotated[str, Field(pattern=LABEL_PATTERN)]


def check_label(text: str) -> str:
    """A label as a person typed it.

    Raises:
        UsageError: It is none.
    """
    if re.fullmatch(LABEL_PATTERN, text) is None:
        raise UsageError(
            f"{text!r} is no label: it has at most 64 letters, digits, dots, dashes and underscores"
        )
    return text


class Token(BaseModel):
    """What is kept of a token.

    Attributes:
        label: The application that has it.
        digest: SHA-256 of the token, in hexadecimal.
        created_at: Unix seconds.
        lifetime_s: How long it was made for, None for without end.
        ends_at: Unix seconds, None for never; earlier than its lifetime once it was rotated.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label
    scope: Scope
    digest: str = Field(pattern=f"^[0-9a-f]{{{_DIGEST_DIGITS}}}$")
    created_at: int
    lifetime_s: int | None
    ends_at: int | None

    def valid(self, now: float) -> bool:
        """Whether it still counts."""
        return self.ends_at is None or now < self.ends_at

    def shown(self) -> dict[str, Any]:
        """What may be shown of it, ready for JSON."""
        return self.model_dump(mode="json", exclude={"digest", "lifetime_s"})


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[Token] = Field(max_length=MAX_TOKENS)


class TokenBook:
    """The tokens of one home, in its file and in memory.

    Whoever makes one holds the home's lock.

    Args:
        path: The file; it appears with the first token.
        clock: Unix seconds.

    Attributes:
        on_change: Told of every token that ends earlier than it said before.

    Raises:
        KeyFileError: Others can read the file.
        LocalError: The file is malformed.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._tokens = _read(path) if path.exists() else []
        self.on_change: Callable[[Token], None] = lambda _: None

    def shown(self) -> list[dict[str, Any]]:
        """Every token that is valid, in the order in which they were made, ready for JSON."""
        return [token.shown() for token in self._valid()]

    def endings(self) -> list[Ending]:
        """When the last token of each application ends that has an end."""
        last = {token.label: token.ends_at for token in self._valid()}
        return [(Expiring.TOKEN, label, end) for label, end in last.items() if end is not None]

    def find(self, presented: str) -> Token | None:
        """The token that was presented, if it is one and is valid now.

        Every stored hash is compared, each in constant time: how long it takes tells nothing.
        """
        digest = _digest(presented)
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found if found is not None and found.valid(self._clock()) else None

    def create(self, label: str, scope: Scope, *, lifetime_s: int | None) -> dict[str, Any]:
        """Make a token; what was made, with the "token" itself, which is not kept.

        Raises:
            UsageError: The label is in use, or there are too many tokens.
        """
        kept = self._valid()
        if any(token.label == label for token in kept):
            raise UsageError(
                f"{label!r} has a token already; rotate or revoke it, or choose another label"
            )
        return self._add(kept, label, scope, lifetime_s)

    def rotate(self, label: str, *, overlap_s: int) -> dict[str, Any]:
        """Make a new token in the place of the present one, with the same scope and lifetime.

        Args:
            label: Whose.
            overlap_s: How long the present one counts beside it, at most.

        Raises:
            UsageError: No token has the label, or there are too many tokens.
        """
        valid = self._valid()
        former = [token for token in valid if token.label == label]
        if not former:
            raise _unknown(label)
        now, present = int(self._clock()), former[-1]
        end = now + overlap_s
        if present.ends_at is not None:
            end = min(end, present.ends_at)
        ended = [*(_ended(token, now) for token in former[:-1]), _ended(present, end)]
        kept = [token for token in valid if token.label != label]
        if overlap_s:
            kept.append(ended[-1])
        made = self._add(kept, label, present.scope, present.lifetime_s)
        self._tell(ended)
        return made

    def revoke(self, label: str) -> dict[str, Any]:
        """End every token of a label, and the requests that are under way with it.

        Raises:
            UsageError: No token has the label.
        """
        valid = self._valid()
        ended = [token for token in valid if token.label == label]
        if not ended:
            raise _unknown(label)
        self._write([token for token in valid if token.label != label])
        self._tell([_ended(token, int(self._clock())) for token in ended])
        return {"label": label, "revoked": len(ended)}

    def _valid(self) -> list[Token]:
        now = self._clock()
        return [token for token in self._tokens if token.valid(now)]

    def _add(
        self, kept: Sequence[Token], label: str, scope: Scope, lifetime_s: int | None
    ) -> dict[str, Any]:
        if len(kept) >= MAX_TOKENS:
            raise UsageError(f"there are {MAX_TOKENS} tokens already; revoke those out of use")
        text = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        now = int(self._clock())
        token = Token(
            label=label,
            scope=scope,
            digest=_digest(text),
            created_at=now,
            lifetime_s=lifetime_s,
            ends_at=None if lifetime_s is None else now + lifetime_s,
        )
        self._write([*kept, token])
        return {**token.shown(), "token": text}

    def _write(self, tokens: Sequence[Token]) -> None:
        data = _File(tokens=list(tokens)).model_dump_json(indent=2).encode() + b"\n"
        write_atomic(self._path, data, mode=0o600)
        self._tokens = list(tokens)

    def _tell(self, ended: Sequence[Token]) -> None:
        for token in ended:
            self.on_change(token)


def _read(path: Path) -> list[Token]:
    data = read_secret(path, TOKENS_FILE_LIMIT)
    try:
        file = _File.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise LocalError(
            f"{path} is damaged: {where}: {first['msg']}; move it away and create tokens anew"
        ) from None
    return file.tokens


def _ended(token: Token, at: int) -> Token:
    return token.model_copy(update={"ends_at": at})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _unknown(label: str) -> UsageError:
    return UsageError(f"no token is labelled {label!r}; `zerorag token list` shows them")
