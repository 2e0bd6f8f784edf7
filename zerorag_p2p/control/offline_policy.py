"""The rules of a home whose node does not run."""

from __future__ import annotations

import time
from typing import Any

from zerorag_p2p.control import policies
from zerorag_p2p.control.offline import OfflineLibrary
from zerorag_p2p.control.policies import Owner, Trial
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.node.policies import load_grants, load_policy, read_policy_text, save_grants
from zerorag_p2p.node.redactor import open_redaction
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.reading import read_policy

Json = dict[str, Any]


class OfflinePolicy(OfflineLibrary):
    """What `zerorag_p2p.client.Client` offers on rules, while the home is locked.

    Raises:
        LocalError: As `OfflineLibrary`.
    """

    def check_policy(
        self,
        peer: str,
        *,
        purpose: str,
        collection: str | None = None,
        document: str | None = None,
        query: str | None = None,
        view: str,
        reason: str = "",
    ) -> Json:
        """Decide for trial."""
        guard = Guard(load_policy(read_policy_text(self._home), self._embedder))
        load_grants(self._home, guard)
        trial = Trial(
            peer=peer,
            purpose=purpose,
            collection=collection,
            document=document,
            query=query,
            view=view,
            reason=reason,
        )
        return policies.check(self._owner(guard), trial, time.time())

    def lint_policy(self, text: str) -> Json:
        """What looks wrong about rules."""
        return policies.find_mistakes(self._owner(Guard()), text)

    def policy(self) -> Json:
        """The rules of the file, which are in force once a node runs."""
        text = read_policy_text(self._home)
        rules = Guard().policy if text is None else read_policy(text)
        return {"file": str(self._home.policy), "fault": "", **policies.describe(rules)}

    def emergencies(self) -> Json:
        """Who has used emergency access since when; single accesses are known to a node only."""
        guard = self._grants()
        return {
            "grants": policies.grants(guard.grants, guard.policy, self._roster, time.time()),
            "accesses": [],
        }

    def rearm(self, peer: str | None = None) -> Json:
        """Let a member, or everybody, have emergency access anew."""
        guard = self._grants()
        count = guard.grants.rearm(None if peer is None else parse_peer_id(peer))
        if count:
            save_grants(self._home, guard)
        return {"rearmed": count}

    def _grants(self) -> Guard:
        text = read_policy_text(self._home)
        guard = Guard(None if text is None else read_policy(text))
        load_grants(self._home, guard)
        return guard

    def _owner(self, guard: Guard) -> Owner:
        redaction = open_redaction(self._home.load_config().redaction)
        return Owner(
            peer=self._own,
            roster=self._roster,
            library=self._library,
            embedder=self._embedder,
            redactor=redaction.redactor,
            guard=guard,
        )
