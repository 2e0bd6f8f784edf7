"""From advertised documents to the peers that should be asked for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from zerorag_p2p.model import PeerId
from zerorag_p2p.routing.adverts import AdvertisedDocument
from zerorag_p2p.routing.evidence import Advertised, PeerReferral

#: Tells equals apart: of two peers that would do as well, the one with the smaller value is asked.
Preference: TypeAlias = Callable[[PeerId], float]

#: Peers that a walk starts with for one document; the rest of its holders are not needed.
MAX_HOLDERS: Final = 8


def refer_to_holders(
    documents: Sequence[AdvertisedDocument], preference: Preference
) -> list[PeerReferral]:
    """Every peer that advertises one of `documents`, up to `MAX_HOLDERS` for each.

    Where there are more, those that advertise most of `documents` are taken.
    """
    rank = _ranking(documents, preference)
    advertised: dict[PeerId, list[Advertised]] = {}
    for document in documents:
        for owner in sorted(document.owners, key=rank)[:MAX_HOLDERS]:
            advertised.setdefault(owner, []).append(document.advertised)
    return _referrals(advertised)


def refer_to_few(
    documents: Sequence[AdvertisedDocument], preference: Preference
) -> list[PeerReferral]:
    """Few peers that together advertise all `documents`, found greedily."""
    rank = _ranking(documents, preference)
    advertised: dict[PeerId, list[Advertised]] = {}
    for document in documents:
        owner = next((peer for peer in advertised if peer in document.owners), None)
        if owner is None:
            owner = min(document.owners, key=rank)
        advertised.setdefault(owner, []).append(document.advertised)
    return _referrals(advertised)


def _ranking(
    documents: Sequence[AdvertisedDocument], preference: Preference
) -> Callable[[PeerId], tuple[int, float]]:
    """Who advertises most comes first."""
    counts = Counter(owner for document in documents for owner in document.owners)
    return lambda peer: (-counts[peer], preference(peer))


def _referrals(advertised: dict[PeerId, list[Advertised]]) -> list[PeerReferral]:
    return [PeerReferral(peer, tuple(items)) for peer, items in advertised.items()]
