"""Emergency access that was given: how long it lasts, and the alarm about it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from zerorag_p2p.config import KEPT_EMERGENCIES
from zerorag_p2p.model import ContentHash, PeerId
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.happenings import EmergencyAccess
from zerorag_p2p.policy.emergency import EmergencyGrants
from zerorag_p2p.wording import counted

logger = logging.getLogger("zerorag.policy")


class Emergencies:
    """Takes in emergency accesses and raises the alarm about each.

    Args:
        grants: Where the first access of a member by a rule is noted.
        activity: Told of every access.
        clock: Unix seconds.

    Attributes:
        accesses: How many there were since the start.
        last: The last of them, oldest first.
        on_changed: Told when grants changed, to be kept across restarts.
    """

    def __init__(
        self, grants: EmergencyGrants, activity: Activity, clock: Callable[[], float]
    ) -> None:
        self._grants = grants
        self._activity = activity
        self._clock = clock
        self.accesses = 0
        self.last: deque[EmergencyAccess] = deque(maxlen=KEPT_EMERGENCIES)
        self.on_changed: Callable[[], None] = lambda: None

    def note(
        self,
        peer: PeerId,
        organisation: str,
        *,
        rules: Sequence[str],
        request: str,
        user: str,
        audit: str,
        reason: str,
        documents: Sequence[ContentHash],
    ) -> None:
        """Take in that documents are let out by emergency rules alone."""
        now = self._clock()
        begun = [self._grants.begin(rule, peer, now) for rule in rules]
        if any(begun):
            self.on_changed()
        access = EmergencyAccess(
            at=now,
            peer=peer,
            organisation=organisation,
            rules=tuple(rules),
            request=request,
            user=user,
            audit=audit,
            reason=reason,
            documents=tuple(documents),
            first=any(begun),
        )
        self.accesses += 1
        self.last.append(access)
        # The reason that was stated may name a patient: it is shown on demand, not logged.
        logger.warning(
            "emergency access: %s (%s) is given %s by %s; `zerorag policy emergencies` shows why",
            organisation,
            peer,
            counted(len(documents), "document"),
            ", ".join(map(repr, rules)),
        )
        self._activity.tell(access)

    def rearm(self, peer: PeerId | None = None) -> int:
        """Let `peer`, or everybody, have emergency access anew; how many grants that took back."""
        count = self._grants.rearm(peer)
        if count:
            self.on_changed()
        return count
