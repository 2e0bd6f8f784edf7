"""The peers of a simulation: who fills which place, who is up, who neighbours whom."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, overload

from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId, SharingTerms, Vector
from zerorag_p2p.peer import Peer
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.routing.strategy import strategy_from
from zerorag_p2p.simulation.agenda import Agenda
from zerorag_p2p.simulation.participant import Advertiser, Participant
from zerorag_p2p.simulation.pool import VectorPool
from zerorag_p2p.simulation.randomness import NEIGHBOR_STREAM, SplitMix, draw, preference
from zerorag_p2p.simulation.wires import Wires
from zerorag_p2p.workloads.holdings import ArrayHoldings, DocumentTable, statement_signer
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.sketches import sketched_places
from zerorag_p2p.workloads.workload import Workload

#: Unix seconds at which every simulation starts.
EPOCH: Final = 1_700_000_000.0

CONSORTIUM: Final = "simulation"
COLLECTION: Final = "documents"

#: What the owner of any document allows: copies, which may be passed on.
TERMS: Final = SharingTerms(copy=True, reshare=True)


class _Draw(Sequence[PeerId]):
    """Peers that are drawn only if somebody looks: most walks never explore."""

    def __init__(self, draw: Callable[[], list[PeerId]]) -> None:
        self._draw = draw

    @functools.cached_property
    def _drawn(self) -> list[PeerId]:
        return self._draw()

    @overload
    def __getitem__(self, index: int) -> PeerId: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PeerId]: ...

    def __getitem__(self, index: int | slice) -> PeerId | Sequence[PeerId]:
        return self._drawn[index]

    def __len__(self) -> int:
        return len(self._drawn)


class Population:
    """Peers and what they know of each other apart from questions.

    Attributes:
        table: The documents that there are.
        places: For every place of the workload the peer that fills it, up or not.
        up: Number of peers that are up.

    Args:
        scenario: Routing, network and seed.
        workload: Who holds what at first.
        queries: float32 [m, d], the questions as transmitted.
        agenda: Virtual time.
        wires: What carries advertisements.
    """

    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        queries: Vector,
        *,
        agenda: Agenda,
        wires: Wires,
    ) -> None:
        self.table = DocumentTable(workload)
        self.up = 0
        self._scenario = scenario
        self._workload = workload
        self._agenda = agenda
        self._wires = wires
        self._randomness = random.Random(f"population {scenario.seed}")
        self._neighbor_draws = SplitMix(scenario.seed, NEIGHBOR_STREAM)
        self._fingerprint = workload.fingerprint.digest()
        self._advertiser = Advertiser(self.table, scenario.routing.advertisement_bits)
        self._pool = VectorPool(workload.fingerprint.dimension)
        for vector in (*self._advertiser.coded, *queries):
            self._pool.number(vector)
        self._pool.prepare(queries)
        self._holders = [0] * len(workload.documents)
        self._by_peer: dict[PeerId, Participant] = {}
        self._numbers: dict[PeerId, int] = {}
        self._sketched = sketched_places(
            workload,
            strategy_from(scenario.routing).sketch_limit,
            near_share=scenario.routing.sketch_near_share,
            seed=scenario.seed,
        )
        self._sketched_by: list[list[int]] = [[] for _ in workload.holdings]
        for place, sketched in enumerate(self._sketched.tolist()):
            for other in sketched:
                self._sketched_by[other].append(place)
        # Members as far as failure detectors know: a crashed peer stays in until it is detected.
        self._members: list[PeerId] = []
        self.places = [self._newcomer(place) for place in range(len(workload.holdings))]
        for participant in self.places:
            self._exchange_sketches(participant)
            self._find_neighbors(participant)

    def now(self, participant: Participant) -> float:
        """Unix seconds by a peer's own clock."""
        return EPOCH + self._agenda.now + participant.clock_offset_s

    def everybody(self) -> list[PeerId]:
        """Every peer that there ever was, in the order in which they came."""
        return list(self._by_peer)

    def participant(self, peer: PeerId) -> Participant:
        """The participant behind a peer id, up or not."""
        return self._by_peer[peer]

    def some_members(self, count: int, randomness: random.Random) -> Sequence[PeerId]:
        """Members drawn at random when first looked at, all if there are no more than `count`."""
        return _Draw(lambda: draw(self._members, count, randomness))

    def remote_holders(self, document: int, asker: Participant) -> int:
        """Number of peers that are up and hold a document, `asker` not counted."""
        return self._holders[document] - (document in asker.holdings)

    # Coming and going.

    def _newcomer(self, place: int) -> Participant:
        number = len(self._by_peer)
        seed = hashlib.sha256(f"{self._scenario.seed} {number}".encode()).digest()
        identity = Identity.from_seed(seed)
        skew = self._scenario.network.clock_skew_s
        offset = self._randomness.uniform(-skew, skew)
        sign = statement_signer(
            identity,
            self.table,
            terms=TERMS,
            consortium=CONSORTIUM,
            now=EPOCH + self._agenda.now + offset,
        )
        holdings = ArrayHoldings(self.table, sign)
        holdings.share(COLLECTION, Sharing(terms=TERMS))
        holdings.own(self._workload.holdings[place], COLLECTION)
        peer = Peer(
            identity.peer_id,
            holdings,
            self._scenario.routing,
            fingerprint=self._fingerprint,
            dimension=self._workload.fingerprint.dimension,
            record_of=str.encode,  # any bytes will do: nobody is dialled
            make_rows=self._pool.rows,
            preference=lambda other: preference(number, self._numbers[other]),
        )
        participant = Participant(place, identity, holdings, peer, offset)
        self._by_peer[identity.peer_id] = participant
        self._numbers[identity.peer_id] = number
        self._members.append(identity.peer_id)
        self._count(participant, 1)
        return participant

    def _count(self, participant: Participant, change: int) -> None:
        self.up += change
        for number in participant.holdings.numbers():
            self._holders[number] += change

    def crash(self, places: Iterable[int]) -> None:
        """Stop peers at once; the others learn of it when their failure detectors tell."""
        crashed = [self.places[place] for place in places if self.places[place].up]
        for participant in crashed:
            participant.up = False
            self._count(participant, -1)
        peers = [participant.peer.peer_id for participant in crashed]
        self._agenda.after(self._scenario.network.detection_s, partial(self._detect, peers))

    def _detect(self, crashed: Sequence[PeerId]) -> None:
        gone = frozenset(crashed)
        self._members = [peer for peer in self._members if peer not in gone]
        for participant in self.places:
            if participant.up:
                for peer in crashed:
                    participant.peer.on_departed(peer)
                self._find_neighbors(participant)

    def replace(self, place: int) -> None:
        """Let a newcomer fill the place of a crashed peer."""
        newcomer = self._newcomer(place)
        former = self.places[place]
        newcomer.group = former.group
        self.places[place] = newcomer
        for other in self._sketched_by[place]:
            self.places[other].peer.drop_sketch(former.peer.peer_id)
        self._exchange_sketches(newcomer)
        self._find_neighbors(newcomer)

    def split(self, groups: Sequence[Sequence[int]]) -> None:
        """Cut the network into groups of places."""
        for number, places in enumerate(groups):
            for place in places:
                self.places[place].group = number

    def reunite(self) -> None:
        """Join the groups again."""
        for participant in self.places:
            participant.group = 0

    # Documents.

    def introduce(self, documents: Iterable[int], owners: Iterable[int]) -> None:
        """Let every owner hold all `documents` as its own."""
        numbers = list(documents)
        for place in owners:
            owner = self.places[place]
            new = [number for number in numbers if number not in owner.holdings]
            owner.holdings.own(new, COLLECTION)
            for number in new:
                self._holders[number] += owner.up
            self._refresh_followers(owner)

    def note_copy(self, holder: Participant, document: int) -> None:
        """Take into account that `holder` has kept a copy of a document."""
        self._holders[document] += holder.up
        self._refresh_followers(holder)

    # Sketches: what gossip would have brought about (`workloads.sketches`).

    def _exchange_sketches(self, participant: Participant) -> None:
        """Give a peer the advertisements that it keeps, and its own to all that keep it."""
        place = participant.place
        for other in self._sketched[place].tolist():
            self._sketch(participant, self.places[other])
        self._tell_sketchers(participant)

    def _tell_sketchers(self, owner: Participant) -> None:
        for other in self._sketched_by[owner.place]:
            self._sketch(self.places[other], owner)

    def _sketch(self, keeper: Participant, owner: Participant) -> None:
        # What a peer said before it went down stays until that is detected.
        if keeper.up and owner.up:
            advertised = self._advertiser.advertisement_of(owner, self.now(owner))
            keeper.peer.keep_sketch(advertised)

    # Neighbours.

    def adopt(self, participant: Participant, peer: PeerId) -> None:
        """Make `peer` a neighbour of `participant`, which then fetches its advertisement."""
        participant.peer.add_neighbor(peer, self.now(participant))
        self._agenda.after(self._wires.round_trip(), partial(self._refresh, participant, peer))

    def _find_neighbors(self, participant: Participant) -> None:
        """While a peer has few neighbours, random members become its neighbours."""
        own = participant.peer
        missing = self._scenario.routing.initial_neighbors - len(own.neighbors)
        if missing <= 0:
            return
        drawn = self.some_members(missing + len(own.neighbors) + 1, self._neighbor_draws)
        unknown = [peer for peer in drawn if peer != own.peer_id and peer not in own.neighbors]
        for peer in unknown[:missing]:
            self.adopt(participant, peer)

    def _refresh(self, participant: Participant, peer: PeerId) -> None:
        owner = self._by_peer[peer]
        if owner.up and participant.up and self._wires.connect(participant, owner):
            held: HeldAdvertisement = self._advertiser.advertisement_of(owner, self.now(owner))
            participant.peer.on_advertisement(held)
            owner.followers[participant.peer.peer_id] = None

    def _refresh_followers(self, owner: Participant) -> None:
        """Neighbours see a change the next time that they ask for the advertisement."""
        self._tell_sketchers(owner)
        followers = owner.followers
        owner.followers = {}
        for follower in followers:
            participant = self._by_peer[follower]
            if participant.up and owner.peer.peer_id in participant.peer.neighbors:
                wait = self._randomness.uniform(0.0, self._scenario.network.refresh_s)
                self._agenda.after(wait, partial(self._refresh, participant, owner.peer.peer_id))
