"""Which members may receive a question, and how it is sent to them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from zerorag_p2p.model import PeerId, Purpose, Vector
from zerorag_p2p.policy.rules import OutboundEffect, OutboundRule, Policy

_PSEUDONYM_DIGITS = 24


@dataclass(frozen=True, slots=True)
class Sending:
    """What the owner's rules say about one question.

    Attributes:
        rules: The rules that are about it.
    """

    rules: tuple[OutboundRule, ...] = ()

    @property
    def redact(self) -> tuple[str, ...]:
        """Ids of the redaction rules to apply before the question is sent, each once."""
        return _each_once(self.rules)

    @property
    def redact_anyway(self) -> tuple[str, ...]:
        """Those of `redact` that apply whatever the question says."""
        return _each_once(rule for rule in self.rules if rule.question.any)

    @property
    def remember(self) -> bool:
        """Whether the peers asked may remember the question's embedding."""
        return all(rule.remember for rule in self.rules)

    @property
    def pseudonym(self) -> bool:
        """Whether the question goes out under a pseudonym of its own."""
        return any(rule.pseudonym for rule in self.rules)

    def may_receive(self, member: PeerId, organisation: str, roles: Collection[str]) -> bool:
        """Whether a member may be asked."""
        for rule in self.rules:
            meant = rule.who.includes(member, organisation, roles)
            if rule.effect is OutboundEffect.DENY and meant:
                return False
            if rule.effect is OutboundEffect.ONLY and not meant:
                return False
        return True


def sending_of(
    policy: Policy, *, purpose: Purpose, query: Vector | None, marks: Collection[str] = ()
) -> Sending:
    """The rules about a question.

    A rule whose example questions cannot be compared with the question, for lack of an embedding,
    is taken to be about it.

    Args:
        policy: The owner's rules.
        purpose: What the answer is wanted for.
        query: The question's embedding, unit length, without what rules take out of it that are
            about it whatever it says.
        marks: What people marked the question with.
    """
    return Sending(
        tuple(
            rule
            for rule in policy.outbound
            if (not rule.purposes or purpose in rule.purposes)
            and (not rule.marks or not set(rule.marks).isdisjoint(marks))
            and rule.question.includes(query) is not False
        )
    )


def _each_once(rules: Iterable[OutboundRule]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for rule in rules for item in rule.redact))


def pseudonym(secret: bytes, *, user: str, audit: str) -> str:
    """Under which name the question `audit` of `user` is sent.

    Without the secret nobody can tell whether two questions are of one user. Whoever has it can
    tell, of a user and a question, whether they belong together.
    """
    digest = hmac.digest(secret, f"{audit}\n{user}".encode(), hashlib.sha256)
    return f"u-{digest.hex()[:_PSEUDONYM_DIGITS]}"
