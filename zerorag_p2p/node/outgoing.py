"""One request to one peer: session, encoding, deadline, byte counts, decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import trio

from zerorag_p2p.config import MAX_DEADLINE_MS, MAX_FETCH_DOCUMENTS, NetworkConfig
from zerorag_p2p.errors import (
    DecodeError,
    IntegrityError,
    NetworkError,
    RemoteError,
    RemoteRefusal,
)
from zerorag_p2p.identity.envelope import Domain, open_envelope
from zerorag_p2p.model import ContentHash, PeerId, Purpose, RefusalCode, View
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.contacts import Failure, Outcome, failure_of
from zerorag_p2p.node.network import Network
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.wire.advertise import (
    Advertisement,
    AdvertiseRequest,
    decode_advertise_reply,
    decode_advertisement,
    encode_advertise_request,
)
from zerorag_p2p.wire.fetch import (
    FetchItem,
    FetchRefused,
    FetchRequest,
    decode_fetch_reply,
    encode_fetch,
)
from zerorag_p2p.wire.gossip import (
    GossipReply,
    GossipRequest,
    decode_gossip_reply,
    encode_gossip,
)
from zerorag_p2p.wire.protocols import ADVERTISE, FETCH, GOSSIP, LIMITS, QUERY, family
from zerorag_p2p.wire.query import QueryRequest, QueryResult, decode_query_reply, encode_query
from zerorag_p2p.wire.refusal import Refusal

_Reply = TypeVar("_Reply")

#: Makes a request from its deadline in milliseconds, and what decodes the reply to it.
_Encoder: TypeAlias = Callable[[int], tuple[bytes, Callable[[bytes], _Reply | Refusal]]]


@dataclass(slots=True)
class Traffic:
    """Payload bytes that went out and came in."""

    sent: int = 0
    received: int = 0

    def add(self, other: Traffic) -> None:
        """Count what another has counted as well."""
        self.sent += other.sent
        self.received += other.received


@dataclass(frozen=True, slots=True)
class SealedAdvertisement:
    """An advertisement and the sealed object it came in."""

    advertisement: Advertisement
    sealed: bytes


class AdvertisementOpener(Protocol):
    """What `open_advertisement` does; a testnet lets its nodes share the work."""

    def __call__(
        self, sealed: bytes, *, owner: PeerId | None, dimension: int
    ) -> SealedAdvertisement:
        """See `open_advertisement`."""


class Exchanges:
    """Requests to other peers. Every method returns an answer or why there is none.

    Args:
        on_outcome: Told after every exchange but gossip, which keeps its own account, how it ended
            and whether the peer had the full request timeout to answer.
        activity: Takes in figures and refusals.
        open_advertisement: How advertisements are verified.
    """

    def __init__(
        self,
        network: Network,
        sessions: Sessions,
        settings: NetworkConfig,
        on_outcome: Callable[[PeerId, Outcome, bool], None],
        *,
        activity: Activity,
        open_advertisement: AdvertisementOpener,
    ) -> None:
        self._network = network
        self._sessions = sessions
        self._settings = settings
        self._on_outcome = on_outcome
        self._activity = activity
        self._open_advertisement = open_advertisement
        # Until when (trio's time) a peer wants not to be asked by a protocol.
        self._not_before: dict[tuple[PeerId, str], tuple[float, Failure]] = {}

    async def query(
        self,
        peer: PeerId,
        request: Callable[[int], QueryRequest],
        *,
        dimension: int,
        timeout_s: float,
        traffic: Traffic,
    ) -> QueryResult | Failure:
        """Send a query; `request` makes it from the deadline in milliseconds."""

        def encode(deadline_ms: int) -> tuple[bytes, Callable[[bytes], QueryResult | Refusal]]:
            asked = request(deadline_ms)

            def decode(data: bytes) -> QueryResult | Refusal:
                return decode_query_reply(data, k=asked.k, dimension=dimension)

            return encode_query(asked), decode

        return await self._exchange(peer, QUERY, encode, timeout_s, traffic)

    async def fetch(
        self,
        peer: PeerId,
        documents: Sequence[ContentHash],
        *,
        purpose: Purpose,
        view: View,
        user: str,
        audit: str,
        timeout_s: float,
        traffic: Traffic,
        reason: str | None = None,
    ) -> list[FetchItem] | Failure:
        """Fetch documents from one holder, in their order; in several requests if need be."""
        deadline = trio.current_time() + timeout_s
        items: list[FetchItem] = []
        for start in range(0, len(documents), MAX_FETCH_DOCUMENTS):
            batch = tuple(documents[start : start + MAX_FETCH_DOCUMENTS])

            def encode(
                deadline_ms: int, batch: tuple[ContentHash, ...] = batch
            ) -> tuple[bytes, Callable[[bytes], list[FetchItem] | Refusal]]:
                request = FetchRequest(
                    documents=batch,
                    purpose=purpose,
                    user=user,
                    audit=audit,
                    view=view,
                    deadline_ms=deadline_ms,
                    reason=reason,
                )

                def decode(data: bytes) -> list[FetchItem] | Refusal:
                    reply = decode_fetch_reply(data, asked=batch)
                    return reply if isinstance(reply, Refusal) else list(reply.items)

                return encode_fetch(request), decode

            left = deadline - trio.current_time()
            reply = await self._exchange(peer, FETCH, encode, left, traffic)
            if isinstance(reply, Failure):
                return reply
            for item in reply:
                if isinstance(item, FetchRefused):
                    self._activity.tell_refusal(
                        peer,
                        by="them",
                        request=family(FETCH),
                        code=item.code,
                        reason=item.reason,
                        document=item.content_hash,
                    )
            items.extend(reply)
        return items

    async def advertisement(
        self, peer: PeerId, *, dimension: int, known_sequence: int | None, timeout_s: float
    ) -> SealedAdvertisement | Failure | None:
        """The advertisement of `peer`; None if the one we know is the newest."""

        def decode(data: bytes) -> SealedAdvertisement | Refusal | None:
            sealed = decode_advertise_reply(data)
            if sealed is None or isinstance(sealed, Refusal):
                return sealed
            return self._open_advertisement(sealed, owner=peer, dimension=dimension)

        def encode(
            deadline_ms: int,
        ) -> tuple[bytes, Callable[[bytes], SealedAdvertisement | Refusal | None]]:
            del deadline_ms
            return encode_advertise_request(AdvertiseRequest(known_sequence)), decode

        return await self._exchange(peer, ADVERTISE, encode, timeout_s, Traffic())

    async def gossip(
        self, peer: PeerId, request: GossipRequest, *, timeout_s: float
    ) -> GossipReply | Failure:
        """Send a gossip request."""

        def decode(data: bytes) -> GossipReply | Refusal:
            return decode_gossip_reply(data, asked=request)

        def encode(deadline_ms: int) -> tuple[bytes, Callable[[bytes], GossipReply | Refusal]]:
            del deadline_ms
            return encode_gossip(request), decode

        return await self._exchange(peer, GOSSIP, encode, timeout_s, Traffic())

    async def _exchange(
        self,
        peer: PeerId,
        protocol: str,
        encode: _Encoder[_Reply],
        timeout_s: float,
        traffic: Traffic,
    ) -> _Reply | Failure:
        refused = self.refused_until_later(peer, protocol)
        if refused is not None:
            return refused
        patience = min(self._settings.request_timeout_s, timeout_s)
        deadline = trio.current_time() + patience
        try:
            await self._sessions.ensure(peer, timeout_s=patience)
            reply = await self._ask(peer, protocol, encode, deadline, traffic)
            if isinstance(reply, Refusal) and reply.code is RefusalCode.HELLO_REQUIRED:
                # Only we knew of the session (node.sessions). The request was not looked at.
                left = deadline - trio.current_time()
                await self._sessions.ensure(peer, timeout_s=left, afresh=True)
                reply = await self._ask(peer, protocol, encode, deadline, traffic)
            if isinstance(reply, Refusal):
                self._activity.tell_refusal(
                    peer,
                    by="them",
                    request=family(protocol),
                    code=reply.code,
                    reason=reply.reason,
                )
                raise reply.error()
        except (NetworkError, RemoteError, RemoteRefusal, DecodeError, IntegrityError) as error:
            failure = failure_of(error)
            if protocol != GOSSIP:
                self._note_wish(peer, protocol, failure)
                full_time = patience >= self._settings.request_timeout_s
                self._on_outcome(peer, failure.outcome, full_time)
            return failure
        if protocol != GOSSIP:
            self._on_outcome(peer, Outcome.ANSWERED, True)
        return reply

    def refused_until_later(self, peer: PeerId, protocol: str) -> Failure | None:
        """The refusal by which `peer` asked to be left alone for a time that is not over."""
        until, failure = self._not_before.get((peer, protocol), (-math.inf, None))
        if failure is None or trio.current_time() < until:
            return failure
        del self._not_before[peer, protocol]
        return None

    def _note_wish(self, peer: PeerId, protocol: str, failure: Failure) -> None:
        if failure.retry_after_s:
            now = trio.current_time()
            over = [key for key, (until, _) in self._not_before.items() if until <= now]
            for key in over:
                del self._not_before[key]
            self._not_before[peer, protocol] = (now + failure.retry_after_s, failure)

    async def _ask(
        self,
        peer: PeerId,
        protocol: str,
        encode: _Encoder[_Reply],
        deadline: float,
        traffic: Traffic,
    ) -> _Reply | Refusal:
        left = max(deadline - trio.current_time(), 0.001)
        payload, decode = encode(min(int(left * 1000) or 1, MAX_DEADLINE_MS))
        traffic.sent += len(payload)
        self._activity.figures.note(peer, sent=len(payload))
        asked = trio.current_time()
        data = await self._network.request(peer, protocol, payload, timeout_s=left)
        traffic.received += len(data)
        figures = self._activity.figures.note(peer, received=len(data))
        if protocol != FETCH:  # A text of a megabyte says little about the round trip.
            figures.note_round_trip(trio.current_time() - asked)
        return decode(data)


def open_advertisement(
    sealed: bytes, *, owner: PeerId | None, dimension: int
) -> SealedAdvertisement:
    """Verify an advertisement: sealed by the peer it names, which is `owner` if that is known.

    Raises:
        DecodeError: It is malformed.
        IntegrityError: The seal does not verify.
    """
    envelope = open_envelope(sealed, Domain.ADVERTISEMENT, limit=LIMITS[ADVERTISE][1])
    advertisement = decode_advertisement(envelope.payload, dimension=dimension)
    expected = owner or envelope.signer
    if not advertisement.owner == envelope.signer == expected:
        raise IntegrityError(
            f"an advertisement of {advertisement.owner}, sealed by {envelope.signer}, "
            f"was given as one of {expected}"
        )
    return SealedAdvertisement(advertisement, sealed)
