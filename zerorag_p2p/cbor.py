"""Deterministic CBOR: the only encoding that is signed, hashed or sent.

Encoding follows RFC 8949 section 4.2.1. Decoding accepts nothing else: no trailing bytes, no
duplicate keys, no indefinite lengths, no float that is not finite, no tag but the RFC 8746 typed
arrays below, bounded size and depth, and only bytes that encode back to themselves. Map keys are
text, which makes the key order of RFC 7049 (that cbor2 implements) equal to that of RFC 8949.
"""

from __future__ import annotations

import math
from typing import Any, Final, NoReturn

import cbor2

from zerorag_p2p.errors import DecodeError

#: RFC 8746: signed 8-bit integers, and little-endian IEEE 754 binary16 and binary32.
TAG_SINT8: Final = 72
TAG_FLOAT16: Final = 84
TAG_FLOAT32: Final = 85
TYPED_ARRAY_TAGS: Final = frozenset({TAG_SINT8, TAG_FLOAT16, TAG_FLOAT32})

MAX_DEPTH: Final = 8

# Tags that cbor2 would otherwise turn into Python objects by itself.
_REFUSED_TAGS = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 43000, 52, 54, 100, 256, 258, 260, 261),
    *(1004, 55799),
)


class _Refused(Exception):
    """A tag that is not allowed."""


def _refuse(*_: object) -> NoReturn:
    raise _Refused("a tag that is not allowed")


def _typed_array(tag: cbor2.CBORTag, *_: object) -> cbor2.CBORTag:
    if tag.tag not in TYPED_ARRAY_TAGS or not isinstance(tag.value, bytes):
        raise _Refused(f"tag {tag.tag} is not allowed")
    return tag


_SEMANTIC_DECODERS: Final[dict[int, Any]] = dict.fromkeys(_REFUSED_TAGS, _refuse)


def encode(value: object) -> bytes:
    """Encode `value` deterministically.

    `value` is made of dicts with text keys, lists, tuples, str, bytes, int, bool, None, finite
    floats and typed arrays (`cbor2.CBORTag`). A value of another kind is a programming error.
    """
    return cbor2.dumps(value, canonical=True)


def decode(data: bytes, *, limit: int) -> Any:
    """Decode deterministic CBOR of at most `limit` bytes.

    Raises:
        DecodeError: `data` is too long, malformed, not deterministic, or holds a value that this
            project never sends.
    """
    if len(data) > limit:
        raise DecodeError(f"{len(data)} bytes exceed the limit of {limit}")
    try:
        value = cbor2.loads(
            data,
            tag_hook=_typed_array,
            semantic_decoders=_SEMANTIC_DECODERS,
            max_depth=MAX_DEPTH,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
    except (cbor2.CBORDecodeError, _Refused, ValueError, TypeError, OverflowError) as error:
        raise DecodeError(f"malformed CBOR: {error}") from None
    _check(value)
    if encode(value) != data:
        raise DecodeError("CBOR is not in its deterministic form, or bytes follow it")
    return value


_LEAVES: Final = frozenset({type(None), bool, int, str, bytes, cbor2.CBORTag})


def _check(value: object) -> None:
    kind = type(value)
    if kind in _LEAVES:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                raise DecodeError("a map key is not text")
            if type(item) not in _LEAVES:
                _check(item)
    elif isinstance(value, list):
        for item in value:
            if type(item) not in _LEAVES:
                _check(item)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise DecodeError("a float is not finite")
    else:
        raise DecodeError(f"a value of type {kind.__name__} is not allowed")


class MapReader:
    """Reads a decoded map field by field, with types and bounds, and refuses what is left over.

    Keys that begin with "x-" are ignored, any other unknown key is refused by `finish()`. Every
    method raises `DecodeError` that names `what` and the field.
    """

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise DecodeError(f"{what}: expected a map, got {type(value).__name__}")
        self._fields: dict[str, object] = dict(value)
        self._what = what

    def fail(self, message: str) -> NoReturn:
        """Raise a `DecodeError` about this map."""
        raise DecodeError(f"{self._what}: {message}")

    def _take(self, key: str) -> object:
        try:
            return self._fields.pop(key)
        except KeyError:
            self.fail(f"{key!r} is missing")

    def has(self, key: str) -> bool:
        """Whether the map holds `key` (not yet taken)."""
        return key in self._fields

    def text(self, key: str, *, max_bytes: int, min_bytes: int = 0) -> str:
        """Take a text of `min_bytes` to `max_bytes` bytes of UTF-8."""
        value = self._take(key)
        if not isinstance(value, str):
            self.fail(f"{key!r} is not text")
        if not min_bytes <= len(value.encode()) <= max_bytes:
            self.fail(f"{key!r} is not {min_bytes} to {max_bytes} bytes long")
        return value

    def binary(self, key: str, *, max_bytes: int, min_bytes: int = 0) -> bytes:
        """Take a byte string of `min_bytes` to `max_bytes` bytes."""
        value = self._take(key)
        if not isinstance(value, bytes):
            self.fail(f"{key!r} is not a byte string")
        if not min_bytes <= len(value) <= max_bytes:
            self.fail(f"{key!r} is not {min_bytes} to {max_bytes} bytes long")
        return value

    def integer(self, key: str, *, minimum: int = 0, maximum: int) -> int:
        """Take an integer within the bounds, both included."""
        value = self._take(key)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{key!r} is not an integer")
        if not minimum <= value <= maximum:
            self.fail(f"{key!r} is not between {minimum} and {maximum}")
        return value

    def number(self, key: str, *, minimum: float, maximum: float) -> float:
        """Take a finite float within the bounds, both included."""
        value = self._take(key)
        if not isinstance(value, float):
            self.fail(f"{key!r} is not a float")
        if not minimum <= value <= maximum:
            self.fail(f"{key!r} is not between {minimum} and {maximum}")
        return value

    def boolean(self, key: str) -> bool:
        """Take a boolean."""
        value = self._take(key)
        if not isinstance(value, bool):
            self.fail(f"{key!r} is not a boolean")
        return value

    def items(self, key: str, *, max_items: int, min_items: int = 0) -> list[object]:
        """Take a list of `min_items` to `max_items` items, the items unchecked."""
        value = self._take(key)
        if not isinstance(value, list):
            self.fail(f"{key!r} is not a list")
        if not min_items <= len(value) <= max_items:
            self.fail(f"{key!r} has {len(value)} items, not {min_items} to {max_items}")
        return value

    def map(self, key: str) -> MapReader:
        """Take a nested map."""
        return MapReader(self._take(key), f"{self._what}.{key}")

    def array(self, key: str, *, tags: frozenset[int], max_bytes: int) -> cbor2.CBORTag:
        """Take an RFC 8746 typed array with one of `tags`."""
        value = self._take(key)
        if not isinstance(value, cbor2.CBORTag) or value.tag not in tags:
            self.fail(f"{key!r} is not a typed array with a tag of {sorted(tags)}")
        if len(value.value) > max_bytes:
            self.fail(f"{key!r} is longer than {max_bytes} bytes")
        return value

    def constant(self, key: str, expected: str) -> None:
        """Take a text that has to equal `expected`."""
        value = self._take(key)
        if value != expected:
            self.fail(f"{key!r} is not {expected!r}")

    def finish(self) -> None:
        """Refuse every key that was not taken, but for those that begin with "x-"."""
        if not self._fields:
            return
        unknown = sorted(key[:32] for key in self._fields if not key.startswith("x-"))
        if unknown:
            self.fail(f"unknown keys {unknown[:8]}")
