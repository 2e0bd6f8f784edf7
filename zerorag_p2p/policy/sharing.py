"""How an owner shares one collection: to whom, for what, how much of it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import MAX_INTEGER, MAX_NAME_BYTES, MAX_ROSTER_MEMBERS
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.model import PeerId, Purpose, SharingTerms, View

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The rule of one shared collection. A collection without one is not shared.

    Attributes:
        members: Peers that may see it; empty for every member of the consortium.
        purposes: Purposes of use it may serve; empty for any.
        view: The most that may be shown of a document.
        advertise: Whether its documents may be advertised to the whole consortium.
        terms: What a receiver may do with a copy; part of the attribution of every document.
    """

    members: tuple[PeerId, ...] = ()
    purposes: tuple[Purpose, ...] = ()
    view: View = View.WHOLE
    advertise: bool = True
    terms: SharingTerms = field(default_factory=SharingTerms)

    def to_json(self) -> dict[str, object]:
        """The values JSON knows that `from_json` reads back."""
        return {
            "members": list(self.members),
            "purposes": [str(purpose) for purpose in self.purposes],
            "view": str(self.view),
            "advertise": self.advertise,
            "terms": terms_to_json(self.terms),
        }

    @classmethod
    def from_json(cls, value: object) -> Sharing:
        """Read what `to_json` returned.

        Raises:
            DecodeError: A field is missing, unknown, of another type or out of bounds.
        """
        reader = MapReader(value, "sharing")
        members = _texts(reader.items("members", max_items=MAX_ROSTER_MEMBERS), "members")
        purposes = _purposes(reader.items("purposes", max_items=len(Purpose)))
        view = _choice(View, reader.text("view", max_bytes=MAX_NAME_BYTES))
        advertise = reader.boolean("advertise")
        terms = reader.map("terms")
        reader.finish()
        sharing = cls(
            members=tuple(PeerId(member) for member in members),
            purposes=purposes,
            view=view,
            advertise=advertise,
            terms=SharingTerms(
                copy=terms.boolean("copy"),
                reshare=terms.boolean("reshare"),
                purposes=_purposes(terms.items("purposes", max_items=len(Purpose))),
                expires_at=(
                    terms.integer("expires-at", maximum=MAX_INTEGER)
                    if terms.has("expires-at")
                    else None
                ),
            ),
        )
        terms.finish()
        return sharing


def terms_to_json(terms: SharingTerms) -> dict[str, object]:
    """Terms as `Sharing.to_json` holds them; "expires-at" only where they end."""
    value: dict[str, object] = {
        "copy": terms.copy,
        "reshare": terms.reshare,
        "purposes": [str(purpose) for purpose in terms.purposes],
    }
    if terms.expires_at is not None:
        value["expires-at"] = terms.expires_at
    return value


def _texts(items: Sequence[object], what: str) -> list[str]:
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) != len(items):
        raise DecodeError(f"sharing: an item of {what!r} is not text")
    return texts


def _purposes(items: Sequence[object]) -> tuple[Purpose, ...]:
    return tuple(_choice(Purpose, text) for text in _texts(items, "purposes"))


def _choice(kind: type[_Choice], text: str) -> _Choice:
    try:
        return kind(text)
    except ValueError:
        choices = ", ".join(kind)
        raise DecodeError(f"sharing: {text!r} is not one of {choices}") from None
