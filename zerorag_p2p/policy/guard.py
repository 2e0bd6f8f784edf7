"""The policy in force, with what it has to remember: one guard for a peer."""

from __future__ import annotations

from collections.abc import Callable

from zerorag_p2p.model import SharingTerms
from zerorag_p2p.policy.decision import AccessRequest, Decision, decide
from zerorag_p2p.policy.emergency import EmergencyGrants
from zerorag_p2p.policy.rules import Policy
from zerorag_p2p.policy.sharing import Sharing


class Guard:
    """Decides by the rules in force. Whoever asks, live or for trial, asks here.

    Args:
        policy: The rules; by default only what sharing a collection allows.

    Attributes:
        policy: The rules in force; others may take their place at any time.
        grants: Who has used emergency access since when.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.grants = EmergencyGrants()

    def decide(
        self,
        request: AccessRequest,
        *,
        collection: str,
        sharing: Sharing | None,
        terms: SharingTerms | None = None,
    ) -> Decision:
        """Decide on the documents of a collection; `decision.decide` explains the arguments."""
        return decide(
            request,
            policy=self.policy,
            grants=self.grants,
            collection=collection,
            sharing=sharing,
            terms=terms,
        )

    def for_request(
        self, request: AccessRequest, sharing: Callable[[str], Sharing | None]
    ) -> Callable[[str, SharingTerms | None], Decision]:
        """Decisions on one request, by collection and owner's terms, each made once.

        Args:
            request: Who asks for what.
            sharing: How a collection is shared; None if it is not.
        """
        made: dict[tuple[str, SharingTerms | None], Decision] = {}

        def decide_once(collection: str, terms: SharingTerms | None = None) -> Decision:
            key = (collection, terms)
            if key not in made:
                made[key] = self.decide(
                    request, collection=collection, sharing=sharing(collection), terms=terms
                )
            return made[key]

        return decide_once
