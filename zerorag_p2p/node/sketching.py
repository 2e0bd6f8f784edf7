"""Sketches, advertisements of peers that need not be neighbours: asking, judging, passing on."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from typing import Final

from zerorag_p2p.config import (
    GOSSIP_ADVERTISEMENT_BYTES,
    MAX_GOSSIP_ADVERTISEMENTS,
    MembershipConfig,
    RoutingConfig,
)
from zerorag_p2p.errors import DecodeError, IntegrityError
from zerorag_p2p.model import PeerId, RefusalCode
from zerorag_p2p.node.outgoing import AdvertisementOpener, SealedAdvertisement
from zerorag_p2p.node.state import held_advertisement
from zerorag_p2p.peer import Peer
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.routing.sketches import Sketch, SketchChoice, choose_to_pass_on
from zerorag_p2p.wire.gossip import (
    AdvertisementsReply,
    AdvertisementsRequest,
    PassedOn,
    advertisement_digest,
)
from zerorag_p2p.wire.refusal import Refusal

logger = logging.getLogger("zerorag.node")

_KEY_BYTES: Final = 16


class Sketching:
    """Sees to the sketches of `peer`; inactive where its routing wants none.

    Args:
        peer: Routing state, which holds what is chosen.
        own: Our own advertisement at the moment.
        admits: Whether a peer is a member now.
        is_alive: Whether the failure detector holds a peer for alive.
        record_of: The signed record of a peer, if one is known.
        learn: Takes in the signed record of a peer, or raises `IntegrityError`.
        open_advertisement: How advertisements are verified.
        settings: How much is passed on, and how often.
        routing: How many bytes of sketches are kept, and how many of the nearest.
        clock_tolerance_s: What expires sooner is not passed on: for the receiver it may have.
        clock: Unix seconds.
        randomness: Decides what is passed on, and whose advertisements are kept at random.
    """

    def __init__(
        self,
        *,
        peer: Peer,
        own: Callable[[], SealedAdvertisement],
        admits: Callable[[PeerId], bool],
        is_alive: Callable[[PeerId], bool],
        record_of: Callable[[PeerId], bytes | None],
        learn: Callable[[bytes, PeerId], None],
        open_advertisement: AdvertisementOpener,
        settings: MembershipConfig,
        routing: RoutingConfig,
        clock_tolerance_s: float,
        clock: Callable[[], float],
        randomness: random.Random,
    ) -> None:
        self._peer = peer
        self._own = own
        self._admits = admits
        self._is_alive = is_alive
        self._record_of = record_of
        self._learn = learn
        self._open = open_advertisement
        self._settings = settings
        self._clock_tolerance_s = clock_tolerance_s
        self._clock = clock
        self._randomness = randomness
        # Draws nothing where nothing is wanted, which leaves everything else as it was.
        key = randomness.randbytes(_KEY_BYTES) if self.active else b""
        self._choice = SketchChoice(
            peer.sketch_limit,
            routing.sketch_bytes,
            near_share=routing.sketch_near_share,
            key=key,
        )
        self._own_sketch: Sketch | None = None
        # Of every advertisement held, neighbours' included.
        self._sketches: dict[PeerId, Sketch] = {}
        # Sequence and digest of the newest one that was not kept, by owner, the oldest first.
        self._declined: dict[PeerId, tuple[int, bytes]] = {}
        self._answered_at: dict[PeerId, float] = {}

    @property
    def active(self) -> bool:
        """Whether advertisements of others are wanted at all."""
        return self._peer.sketch_limit > 0

    @property
    def size(self) -> int:
        """Bytes of all sketches."""
        return self._choice.size

    def near(self) -> Sequence[PeerId]:
        """The owners of sketches that are nearest by content."""
        return self._choice.near

    # What is held.

    def offer(self, advertisement: HeldAdvertisement) -> bool:
        """Take in a verified advertisement, a neighbour's or any; whether it is new and kept."""
        held = self._peer.advertisements.get(advertisement.owner)
        known = -1 if held is None else held.sequence
        declined, _ = self._declined.get(advertisement.owner, (-1, b""))
        if advertisement.owner == self._peer.peer_id:
            return False
        if advertisement.sequence < max(known, declined):
            return False
        if held is not None and advertisement.sequence == known:
            advertisement = held
        kept = self._peer.on_advertisement(advertisement)
        if self.active:
            kept |= self._choose(advertisement)
        return kept and advertisement.sequence > known

    def _choose(self, advertisement: HeldAdvertisement) -> bool:
        self._ours()  # by which nearness is measured
        sketch = self._sketch_of(advertisement)
        verdict = self._choice.offer(sketch)
        for dropped in verdict.dropped:
            self._peer.drop_sketch(dropped.owner)
            self._decline(dropped)
        if verdict.kept:
            self._declined.pop(sketch.owner, None)
            self._peer.keep_sketch(advertisement)
        else:
            self._peer.drop_sketch(sketch.owner)
            self._decline(sketch)
        return verdict.kept

    def _decline(self, sketch: Sketch) -> None:
        self._declined.pop(sketch.owner, None)
        self._declined[sketch.owner] = (sketch.advertisement.sequence, sketch.digest)
        if len(self._declined) > self._settings.sketch_declined_limit:
            del self._declined[next(iter(self._declined))]

    def drop_lost(self) -> bool:
        """Forget sketches that the peer has let go of; whether there were any."""
        if len(self._choice) == len(self._peer.sketches):
            return False
        for owner in [sketch.owner for sketch in self._choice]:
            if owner not in self._peer.sketches:
                self._choice.remove(owner)
        self._declined.clear()  # there is room for some of them
        return True

    def start_afresh(self) -> None:
        """Forget all sketches: the peer routes by another embedding model."""
        self.drop_lost()
        self._sketches.clear()
        self._declined.clear()
        self._own_sketch = None

    def _drop_stale(self) -> None:
        """Let go of sketches that have expired, or whose owners are members no more."""
        now = self._clock()
        for owner in list(self._peer.sketches):
            held = self._peer.advertisements.get(owner)
            if held is None or held.expires_at <= now or not self._admits(owner):
                self._peer.drop_sketch(owner)

    def _held(self) -> list[Sketch]:
        self._sketches = {held.owner: self._sketch_of(held) for held in self._peer.advertisements}
        return list(self._sketches.values())

    def _sketch_of(self, advertisement: HeldAdvertisement) -> Sketch:
        owner = advertisement.owner
        for sketch in (self._choice.get(owner), self._sketches.get(owner)):
            if sketch is not None and sketch.advertisement is advertisement:
                return sketch
        return Sketch.of(advertisement)

    def _ours(self) -> Sketch:
        own = self._own()
        ours = self._own_sketch
        if ours is None or ours.advertisement.sequence != own.advertisement.sequence:
            ours = self._own_sketch = Sketch.of(held_advertisement(own))
            self._choice.compare_with(ours.direction)
        return ours

    # Asking.

    def request(self) -> AdvertisementsRequest:
        """What to ask another peer for."""
        self._drop_stale()
        ours = self._ours()
        known = self._known() | {ours.digest}
        return AdvertisementsRequest(tuple(sorted(known)), ours.direction)

    def _known(self) -> set[bytes]:
        held = {sketch.digest for sketch in self._held()}
        return held.union(digest for _, digest in self._declined.values())

    def take_in(self, sender: PeerId, reply: AdvertisementsReply) -> bool:
        """Judge what `sender` passed on; whether anything of it is kept."""
        known = self._known()
        gained = False
        for item in reply.advertisements:
            if advertisement_digest(item.sealed) in known:
                continue
            try:
                gained |= self._judge(item)
            except (DecodeError, IntegrityError) as error:
                logger.warning("%s passed on a bad advertisement: %s", sender, error)
        return gained

    def _judge(self, item: PassedOn) -> bool:
        opened = self._open(item.sealed, owner=None, dimension=self._peer.dimension)
        advertisement = opened.advertisement
        owner = advertisement.owner
        if advertisement.fingerprint != self._peer.fingerprint:
            raise IntegrityError(f"that of {owner} is of vectors of another embedding model")
        if advertisement.expires_at <= self._clock():
            raise IntegrityError(f"that of {owner} has expired")
        if not (self._admits(owner) and self._is_alive(owner)):
            return False
        kept = self.offer(held_advertisement(opened))
        if kept and item.record is not None:
            self._learn(item.record, owner)
        return kept

    # Answering.

    def wants(self, asker: PeerId, request: AdvertisementsRequest) -> bool:
        """Whether to ask back `asker`, whom we answered: we would keep what it advertises."""
        return (
            request.near is not None
            and asker not in self._declined
            and asker not in self._peer.sketches
            and self._choice.would_keep(asker, request.near)
        )

    def answer(
        self, asker: PeerId, request: AdvertisementsRequest
    ) -> AdvertisementsReply | Refusal:
        """Advertisements that `asker` lacks, ours first."""
        if not self.active:
            return Refusal(
                RefusalCode.UNSUPPORTED, "this peer passes on no advertisements of others"
            )
        if request.near is not None and len(request.near) != self._peer.dimension:
            return Refusal(
                RefusalCode.NO_COMMON_EMBEDDING,
                f"{len(request.near)} dimensions, this peer uses {self._peer.dimension}",
            )
        now = self._clock()
        pause_s = self._settings.exchange_interval_s / 2
        self._answered_at = {
            peer: at for peer, at in self._answered_at.items() if now - at < pause_s
        }
        if asker in self._answered_at:
            return Refusal(
                RefusalCode.RATE_LIMITED,
                f"advertisements once in {pause_s:g} s are enough",
                math.ceil(pause_s),
            )
        self._answered_at[asker] = now
        known = set(request.known)

        def is_wanted(sketch: Sketch) -> bool:
            return (
                sketch.owner != asker
                and sketch.digest not in known
                and sketch.size <= GOSSIP_ADVERTISEMENT_BYTES
                and sketch.advertisement.expires_at > now + self._clock_tolerance_s
            )

        ours = self._ours()
        sketches = choose_to_pass_on(
            list(filter(is_wanted, self._held())),
            near=request.near,
            first=ours if is_wanted(ours) else None,
            count=MAX_GOSSIP_ADVERTISEMENTS,
            byte_limit=self._settings.sketch_exchange_bytes,
            randomness=self._randomness,
        )
        return AdvertisementsReply(
            tuple(
                PassedOn(sketch.advertisement.signed, self._record_of(sketch.owner))
                for sketch in sketches
            )
        )
