"""Sessions: what was agreed with each connected peer before anything else is said.

A session begins with an exchange of hellos over a connection, whoever opened it, and ends with the
connection. Nothing but a hello is answered without one.

Two peers cannot always agree on whether they have a session: a reply to a hello may come too late
for the peer that waits for it, and then only the peer that answered knows of one. Its next request
is refused, and it says hello in its turn (`Sessions.ensure`, `afresh`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import trio

from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.errors import (
    ConnectionLost,
    DecodeError,
    IntegrityError,
    PeerUnreachable,
    RemoteError,
    RemoteRefusal,
)
from zerorag_p2p.model import Fingerprint, PeerId, RefusalCode
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.network import Network
from zerorag_p2p.wire.hello import (
    Hello,
    check_hello,
    decode_hello,
    decode_hello_reply,
    encode_hello,
)
from zerorag_p2p.wire.protocols import HELLO, family
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

logger = logging.getLogger("zerorag.node")


@dataclass(frozen=True, slots=True)
class Session:
    """What two peers agreed on.

    Attributes:
        hello: What the other side said.
        agreed: The embedding model that both use.
        since: Unix seconds.
        clock_skew_s: How far the other clock is ahead of ours.
    """

    peer: PeerId
    hello: Hello
    agreed: Fingerprint
    since: float
    clock_skew_s: float


class Sessions:
    """Sessions by peer, and the hello protocol that creates them.

    Args:
        own_hello: Our hello at this moment.
        clock: Unix seconds.
        activity: Takes in figures and refusals.
    """

    def __init__(
        self,
        network: Network,
        directory: Directory,
        own_hello: Callable[[], Hello],
        settings: NetworkConfig,
        clock: Callable[[], float],
        *,
        activity: Activity,
    ) -> None:
        self._network = network
        self._directory = directory
        self._own_hello = own_hello
        self._settings = settings
        self._clock = clock
        self._activity = activity
        self._sessions: dict[PeerId, Session] = {}
        self._opening: dict[PeerId, trio.Lock] = {}
        #: The last refusal or failure of a hello, by peer; bounded by the roster.
        self.last_error: dict[PeerId, str] = {}
        #: What each peer could compare when it last said hello; bounded by the roster.
        self.fingerprints: dict[PeerId, tuple[Fingerprint, ...]] = {}
        #: The highest roster version that a session partner named.
        self.newest_roster_seen = directory.roster.version

    def get(self, peer: PeerId) -> Session | None:
        """The session with `peer`, if there is one."""
        return self._sessions.get(peer)

    def __len__(self) -> int:
        return len(self._sessions)

    def end(self, peer: PeerId) -> None:
        """Forget the session with `peer`: its connection is gone, or one side refuses the other."""
        self._sessions.pop(peer, None)

    def end_all(self) -> None:
        """Let hello be said anew with everybody: what we say of ourselves has changed."""
        self._sessions.clear()

    async def ensure(self, peer: PeerId, *, timeout_s: float, afresh: bool = False) -> Session:
        """Have a session with `peer`, dialling and saying hello where needed.

        Args:
            peer: With whom.
            timeout_s: Time for everything.
            afresh: Say hello even if there is a session, since `peer` says that it knows of none.

        Raises:
            PeerUnreachable: Nobody answers as `peer`, or no address is known.
            RemoteRefusal: One side refuses the other, with the reason.
            RequestTimeout, ConnectionLost, RemoteError: The exchange failed.
        """
        session = None if afresh else self._sessions.get(peer)
        if session is not None:
            return session
        lock = self._opening.setdefault(peer, trio.Lock())
        deadline = trio.current_time() + timeout_s
        try:
            with trio.fail_at(deadline):
                async with lock:
                    session = None if afresh else self._sessions.get(peer)
                    if session is None:
                        session = await self._open(peer, deadline)
        except trio.TooSlowError:
            raise PeerUnreachable(f"{peer} gave no session within {timeout_s:g} s") from None
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._opening.pop(peer, None)
        return session

    async def _open(self, peer: PeerId, deadline: float) -> Session:
        addresses = self._directory.addresses(peer)
        if not addresses and peer not in self._network.connected():
            raise PeerUnreachable(f"no address of {peer} is known")
        dial_s = min(self._settings.dial_timeout_s, deadline - trio.current_time())
        await self._network.connect(peer, addresses, timeout_s=dial_s)
        ours = self._own_hello()
        reply = await self._network.request(
            peer,
            HELLO,
            encode_hello(ours),
            timeout_s=max(deadline - trio.current_time(), 0.0),
        )
        try:
            theirs = decode_hello_reply(reply)
        except DecodeError as error:
            raise RemoteError(f"{peer} sent a malformed hello: {error}") from None
        if isinstance(theirs, Refusal):
            self._on_refusal(peer, theirs.error(), by="them")
            raise theirs.error()
        try:
            return self._accept(peer, ours, theirs, we_dialled=True)
        except RemoteRefusal as refusal:
            self._on_refusal(peer, refusal, by="us")
            raise

    async def answer_hello(self, peer: PeerId, payload: bytes) -> bytes:
        """Answer the hello of a peer that is connected to us."""
        now = self._clock()
        if not self._directory.admits(peer, now):
            reason = f"{peer} {self._directory.standing(peer, now).describe()}"
            stranger = Refusal(RefusalCode.NOT_A_MEMBER, reason)
            self._on_refusal(peer, stranger.error(), by="us")
            return encode_refusal(stranger)
        ours = self._own_hello()
        try:
            self._accept(peer, ours, decode_hello(payload), we_dialled=False)
        except DecodeError as error:
            return encode_refusal(Refusal(RefusalCode.MALFORMED, str(error)))
        except RemoteRefusal as refusal:
            self._on_refusal(peer, refusal, by="us")
            return encode_refusal(Refusal(RefusalCode(refusal.code), refusal.reason))
        return encode_hello(ours)

    def _accept(self, peer: PeerId, ours: Hello, theirs: Hello, *, we_dialled: bool) -> Session:
        now = self._clock()
        checked = check_hello(
            ours,
            theirs,
            we_dialled=we_dialled,
            now_ms=int(now * 1000),
            tolerance_s=self._settings.clock_tolerance_s,
        )
        if isinstance(checked, Refusal):
            raise checked.error()
        try:
            self._directory.learn(theirs.record, peer)
        except IntegrityError as error:
            raise RemoteRefusal(RefusalCode.MALFORMED, str(error)) from None
        if peer not in self._network.connected():
            raise ConnectionLost(f"the connection to {peer} ended during the hello")
        session = Session(peer, theirs, checked, now, theirs.clock_ms / 1000 - now)
        self._sessions[peer] = session
        self.fingerprints[peer] = theirs.fingerprints
        self.last_error.pop(peer, None)
        self._notice_roster(peer, theirs.roster_version)
        return session

    def _on_refusal(
        self, peer: PeerId, refusal: RemoteRefusal, *, by: Literal["us", "them"]
    ) -> None:
        """End what was agreed before, and tell the operator: once as long as it stays the same."""
        self.end(peer)
        if self.last_error.get(peer) != refusal.reason:
            self.last_error[peer] = refusal.reason
            logger.warning("no session with %s: %s", peer, refusal.reason)
            self._activity.tell_refusal(
                peer, by=by, request=family(HELLO), code=refusal.code, reason=refusal.reason
            )

    def _notice_roster(self, peer: PeerId, version: int) -> None:
        if version > max(self.newest_roster_seen, self._directory.roster.version):
            logger.warning(
                "%s has roster version %d, ours is %d; get the newer one and run "
                "`zerorag consortium import`",
                peer,
                version,
                self._directory.roster.version,
            )
        self.newest_roster_seen = max(self.newest_roster_seen, version)
