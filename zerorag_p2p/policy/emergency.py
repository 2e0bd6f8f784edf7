"""Emergency access: how long a member may use it, from its first access on."""

from __future__ import annotations

from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_EMERGENCY_GRANTS, MAX_INTEGER, MAX_NAME_BYTES
from zerorag_p2p.identity.fields import read_peer
from zerorag_p2p.model import PeerId

#: Bytes of the longest encoding.
GRANTS_LIMIT: Final = 256 * MAX_EMERGENCY_GRANTS

_HOUR_S: Final = 3_600.0


class EmergencyGrants:
    """Since when each member has used each emergency rule.

    A member's time begins with its first access by a rule. Once it is over, the member is refused
    until the operator rearms the rule for it. When `MAX_EMERGENCY_GRANTS` are noted, nobody else
    gets access before one is rearmed.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[str, PeerId], float] = {}

    def is_open(self, rule: str, peer: PeerId, *, hours: float, now: float) -> bool:
        """Whether `peer` may use `rule` at unix time `now`."""
        begun = self._begun.get((rule, peer))
        if begun is None:
            return len(self._begun) < MAX_EMERGENCY_GRANTS
        return now < begun + hours * _HOUR_S

    def begin(self, rule: str, peer: PeerId, now: float) -> bool:
        """Note an access at unix time `now`; whether it is the first."""
        if (rule, peer) in self._begun:
            return False
        self._begun[rule, peer] = now
        return True

    def rearm(self, peer: PeerId | None = None) -> int:
        """Let `peer`, or everybody, use emergency rules anew; how many grants that took back."""
        taken = [key for key in self._begun if peer is None or key[1] == peer]
        for key in taken:
            del self._begun[key]
        return len(taken)

    def entries(self) -> list[tuple[str, PeerId, float]]:
        """Rule, member and unix time of the first access, the oldest first."""
        return [(rule, peer, begun) for (rule, peer), begun in self._begun.items()]

    def encode(self) -> bytes:
        """The bytes that `restore` reads."""
        return cbor.encode(
            {
                "grants": [
                    {"rule": rule, "peer": peer, "begun-at": int(begun)}
                    for (rule, peer), begun in self._begun.items()
                ]
            }
        )

    def restore(self, data: bytes) -> None:
        """Take over what `encode` returned.

        Raises:
            DecodeError: It is malformed.
        """
        reader = cbor.MapReader(cbor.decode(data, limit=GRANTS_LIMIT), "emergency grants")
        begun: dict[tuple[str, PeerId], float] = {}
        for item in reader.items("grants", max_items=MAX_EMERGENCY_GRANTS):
            entry = cbor.MapReader(item, "emergency grant")
            rule = entry.text("rule", min_bytes=1, max_bytes=MAX_NAME_BYTES)
            peer = read_peer(entry, "peer")
            begun[rule, peer] = entry.integer("begun-at", maximum=MAX_INTEGER)
            entry.finish()
        reader.finish()
        self._begun = begun
