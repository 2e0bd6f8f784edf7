"""The heads that are kept apart from a log: its own, those of others, and those they returned.

In the audit folder, `head.cbor` is our newest signed head; `heads.cbor` holds heads of other
members' logs, and those of ours that they returned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.audit.entries import Position
from zerorag_p2p.audit.heads import Head, open_head, sign_head
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import AUDIT_HEAD_LIMIT, AUDIT_HEADS_LIMIT, MAX_ROSTER_MEMBERS
from zerorag_p2p.errors import AuditError, DecodeError, IntegrityError, LocalError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.identity.fields import read_peer
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.message import map_readers

_VERSION: Final = 1
_PRIVATE_FILE: Final = 0o600
_HEAD_FILE: Final = "head.cbor"
_BOOK_FILE: Final = "heads.cbor"


class HeadBook:
    """The heads of an audit folder, each kept as its signer made it.

    Args:
        folder: Where the files are.
        owners: Whose log it is: its key, and those that it had before.

    Attributes:
        head: Our newest signed head; None before the first.
        held: The newest head of each counterpart's log.
        returned: The newest head of our log that each counterpart returned. Under our own name, one
            of ours that the log did not reach when it was opened.
        faults: Files that cannot be used, a sentence each.
    """

    def __init__(self, folder: Path, *owners: PeerId) -> None:
        self._folder = folder
        self._owners = owners
        self.head: bytes | None = None
        self.held: dict[PeerId, bytes] = {}
        self.returned: dict[PeerId, bytes] = {}
        self.faults: list[str] = []
        self._read(folder / _HEAD_FILE, AUDIT_HEAD_LIMIT, self._take_head)
        self._read(folder / _BOOK_FILE, AUDIT_HEADS_LIMIT, self._take_book)
        self._saved = self._encode()

    def _read(self, path: Path, limit: int, take: Callable[[bytes], None]) -> None:
        try:
            take(read_bounded(path, limit))
        except FileNotFoundError:
            return
        except (DecodeError, IntegrityError, LocalError) as error:
            self.faults.append(f"{path.name} cannot be used: {error}")

    def _take_head(self, data: bytes) -> None:
        open_head(data, *self._owners)
        self.head = data

    def _take_book(self, data: bytes) -> None:
        reader = MapReader(cbor.decode(data, limit=AUDIT_HEADS_LIMIT), "audit heads")
        reader.integer("version", minimum=_VERSION, maximum=_VERSION)
        held, returned = (_read_items(reader, key) for key in ("held", "returned"))
        reader.finish()
        self.held = {peer: signed for peer, signed in held.items() if _verifies(signed, peer)}
        self.returned = {
            peer: signed for peer, signed in returned.items() if _verifies(signed, *self._owners)
        }

    @property
    def newest(self) -> Head | None:
        """Our newest signed head, read."""
        return None if self.head is None else open_head(self.head, *self._owners)

    def own_heads(self) -> list[Head]:
        """Every head of our log that is known: the one kept, and those that others returned."""
        signed = {*self.returned.values(), *(() if self.head is None else (self.head,))}
        return [open_head(item, *self._owners) for item in sorted(signed)]

    def keep_contradicted(self) -> None:
        """Keep our newest head, which the log does not reach, beside those that follow it."""
        if self.head is not None:
            self.returned[self._owners[0]] = self.head

    def sign(self, identity: Identity, position: Position, at: float) -> None:
        """Sign `position` as our newest head and keep it, if it is another. Blocks.

        Raises:
            AuditError: It cannot be written.
        """
        newest = self.newest
        if position == Position():
            return
        if newest is not None and (newest.owner, newest.position) == (identity.peer_id, position):
            return
        head = sign_head(identity, position, at)
        _write(self._folder / _HEAD_FILE, head)
        self.head = head

    def save(self) -> None:
        """Keep the heads of others, and those they returned, if they changed. Blocks.

        Raises:
            AuditError: They cannot be written.
        """
        data = self._encode()
        if data != self._saved:
            _write(self._folder / _BOOK_FILE, data)
            self._saved = data

    def hold(self, peer: PeerId, signed: bytes) -> bytes | None:
        """Take the head of `peer`'s log that it shows; the one to return to it, if any.

        It is the newest that was held before, unless that is what it shows.

        Raises:
            DecodeError: The head is malformed.
            IntegrityError: It is not signed by `peer`.
        """
        before = self.held.get(peer)
        if before == signed:
            return None
        shown = open_head(signed, peer)
        if before is None or open_head(before, peer).sequence < shown.sequence:
            self.held[peer] = signed
        return before

    def take_back(self, peer: PeerId, signed: bytes) -> Head:
        """Keep a head of our log that `peer` returned.

        Raises:
            DecodeError: The head is malformed.
            IntegrityError: It is not signed by us.
        """
        head = open_head(signed, *self._owners)
        before = self.returned.get(peer)
        if before is None and len(self.returned) >= MAX_ROSTER_MEMBERS:
            del self.returned[next(iter(self.returned))]
        if before is None or open_head(before, *self._owners).sequence <= head.sequence:
            self.returned[peer] = signed
        return head

    def keep(self, admits: Callable[[PeerId], bool]) -> None:
        """Forget the heads of those that are no members any more; what they returned stays."""
        for peer in [peer for peer in self.held if not admits(peer)]:
            del self.held[peer]

    def _encode(self) -> bytes:
        # Copies: other threads may add heads meanwhile.
        return cbor.encode(
            {
                "version": _VERSION,
                "held": _items(dict(self.held)),
                "returned": _items(dict(self.returned)),
            }
        )


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomic(path, data, mode=_PRIVATE_FILE)
    except OSError as error:
        raise AuditError(f"{path} cannot be written: {error.strerror}") from None


def _items(heads: dict[PeerId, bytes]) -> list[dict[str, object]]:
    return [{"peer": peer, "head": signed} for peer, signed in heads.items()]


def _read_items(reader: MapReader, key: str) -> dict[PeerId, bytes]:
    heads = {}
    for item in map_readers(reader, key, max_items=MAX_ROSTER_MEMBERS + 1):
        peer = read_peer(item, "peer")
        heads[peer] = item.binary("head", max_bytes=AUDIT_HEAD_LIMIT)
        item.finish()
    return heads


def _verifies(signed: bytes, *owners: PeerId) -> bool:
    try:
        open_head(signed, *owners)
    except (DecodeError, IntegrityError):
        return False
    return True
