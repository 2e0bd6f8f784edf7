"""What looks wrong about an owner's rules, before they are in force."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zerorag_p2p.model import PeerId, View
from zerorag_p2p.policy.rules import (
    Act,
    Effect,
    OutboundEffect,
    OutboundRule,
    Policy,
    Rule,
    Who,
)
from zerorag_p2p.policy.sharing import Sharing

#: Text of findings of more rules than one.
_ALSO: Final = "matches wherever it does"


class Severity(enum.StrEnum):
    """Whether a finding is sure to be a mistake."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that looks wrong about one rule."""

    severity: Severity
    rule: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the rules speak of.

    Attributes:
        members: Organisation and roles of every member of the roster but us.
        collections: Our collections, and how each is shared.
        redactions: Ids of the redaction rules that there are.
    """

    members: Mapping[PeerId, tuple[str, tuple[str, ...]]]
    collections: Mapping[str, Sharing | None]
    redactions: Collection[str]


def lint(policy: Policy, surroundings: Surroundings) -> list[Finding]:
    """Everything that looks wrong, in the order of the rules.

    Unknown names, rules that never match, rules without effect behind others, contradictions, and
    rules that let everything out.
    """
    findings: list[Finding] = []
    for number, rule in enumerate(policy.rules):
        findings += _unknown_names(rule, surroundings)
        findings += _never(rule, surroundings)
        findings += _behind_others(rule, policy.rules[:number], policy.rules[number + 1 :])
        findings += _lets_everything_out(rule)
        findings += _not_advertised(rule, surroundings)
    for question_rule in policy.outbound:
        findings += _unknown_members(question_rule.name, question_rule.who, surroundings)
        findings += _unknown_redactions(question_rule, surroundings)
        findings += _asks_nobody(question_rule, surroundings)
    findings += _contradicting_only(policy.outbound, surroundings)
    return findings


def _error(rule: str, sentence: str) -> Finding:
    return Finding(Severity.ERROR, rule, sentence)


def _warning(rule: str, sentence: str) -> Finding:
    return Finding(Severity.WARNING, rule, sentence)


# Names.


def _unknown_names(rule: Rule, surroundings: Surroundings) -> Iterator[Finding]:
    yield from _unknown_members(rule.name, rule.who, surroundings)
    for collection in rule.collections:
        if collection not in surroundings.collections:
            known = ", ".join(map(repr, surroundings.collections)) or "none"
            yield _error(rule.name, f"there is no collection {collection!r}; there are: {known}")


def _unknown_members(name: str, who: Who, surroundings: Surroundings) -> Iterator[Finding]:
    organisations = {organisation for organisation, _ in surroundings.members.values()}
    roles = {role for _, roles in surroundings.members.values() for role in roles}
    for organisation in who.organisations:
        if organisation not in organisations:
            yield _error(name, f"no other member is of an organisation {organisation!r}")
    for member in who.members:
        if member not in surroundings.members:
            yield _error(name, f"{member} is no other member of the consortium")
    for role in who.roles:
        if role not in roles:
            yield _error(name, f"no other member has a role {role!r}")


def _unknown_redactions(rule: OutboundRule, surroundings: Surroundings) -> Iterator[Finding]:
    for item in rule.redact:
        if item not in surroundings.redactions:
            known = ", ".join(surroundings.redactions)
            yield _error(rule.name, f"there is no redaction {item!r}; there are: {known}")


def _meant(who: Who, surroundings: Surroundings) -> list[PeerId]:
    return [
        peer
        for peer, (organisation, roles) in surroundings.members.items()
        if who.includes(peer, organisation, roles)
    ]


# Rules on documents.


def _never(rule: Rule, surroundings: Surroundings) -> Iterator[Finding]:
    if not rule.who.everybody and not _meant(rule.who, surroundings):
        yield _error(rule.name, "it never matches: no member fits all its lists of members")
    if rule.question.impossible:
        yield _error(rule.name, "it never matches: no question is near and far of the same example")
    if rule.effect is Effect.ALLOW and rule.acts == (Act.FETCH,):
        yield _warning(
            rule.name,
            "it lets documents be fetched that no query finds, unless another rule allows results",
        )
    if rule.effect is Effect.ALLOW and rule.acts == (Act.RESULT,) and rule.view is not View.COUNT:
        yield _warning(
            rule.name,
            "what may not be fetched is not found either: unless another rule allows the fetch, "
            "documents are only counted",
        )
    if rule.effect is Effect.EMERGENCY and rule.view is View.COUNT:
        yield _error(rule.name, "it never matches: nothing is counted by emergency access")


def _behind_others(
    rule: Rule, before: tuple[Rule, ...], after: tuple[Rule, ...]
) -> Iterator[Finding]:
    others = (*before, *after)
    if rule.effect is Effect.DENY:
        for other in before:
            if other.effect is Effect.DENY and other.covers(rule):
                yield _warning(rule.name, f"it adds nothing: rule {other.name!r} {_ALSO}")
                return
        return
    for other in others:
        if other.effect is Effect.DENY and _denies_all_of(other, rule):
            if rule.covers(other):
                sentence = f"it contradicts rule {other.name!r}, which denies the same"
            else:
                sentence = f"it never has an effect: rule {other.name!r} denies wherever it matches"
            yield _error(rule.name, sentence)
            return
    for other in others:
        wider = other.effect is rule.effect and other.covers(rule)
        same = wider and rule.covers(other) and rule.view is other.view
        if wider and other.view.rank >= rule.view.rank and (not same or other in before):
            yield _warning(rule.name, f"it adds nothing: rule {other.name!r} {_ALSO}")
            return


def _denies_all_of(denying: Rule, rule: Rule) -> bool:
    """Whether a denying rule leaves nothing of another; what is not fetched is not found."""
    if Act.FETCH in denying.acts and rule.view is not View.COUNT:
        denying = replace(denying, acts=())
    return denying.covers(rule)


def _within(ours: Collection[str], theirs: Collection[str]) -> bool:
    return bool(ours) and set(ours) <= set(theirs)


def _lets_everything_out(rule: Rule) -> Iterator[Finding]:
    if rule.effect is Effect.DENY or rule.collections or not rule.question.any:
        return
    if rule.who.everybody:
        yield _error(
            rule.name,
            "it lets every collection out to every member, those to come included; "
            "name collections or members",
        )
    elif rule.effect is Effect.ALLOW:
        yield _warning(rule.name, "it is about every collection, those to come included")


def _not_advertised(rule: Rule, surroundings: Surroundings) -> Iterator[Finding]:
    if rule.effect is not Effect.ALLOW or Act.ADVERTISE not in rule.acts:
        return
    if not rule.who.everybody or not rule.question.any:
        yield _warning(
            rule.name,
            "it lets nothing be advertised: an advertisement reaches every member at any time",
        )
    elif rule.view.rank < View.PASSAGE.rank:
        yield _warning(
            rule.name,
            f"it lets nothing be advertised: an advertisement shows more than the view {rule.view}",
        )
    for collection in rule.collections:
        sharing = surroundings.collections.get(collection)
        if sharing is not None and not sharing.advertise:
            yield _warning(
                rule.name, f"collection {collection!r} is shared without being advertised"
            )


# Rules on questions.


def _asks_nobody(rule: OutboundRule, surroundings: Surroundings) -> Iterator[Finding]:
    if rule.effect is OutboundEffect.DENY and rule.who.everybody:
        if rule.question.any and not rule.purposes and not rule.marks:
            yield _error(rule.name, "no question leaves this node")
        return
    if rule.effect is not OutboundEffect.ALLOW and not _meant(rule.who, surroundings):
        consequence = (
            "nobody is asked" if rule.effect is OutboundEffect.ONLY else "it never matches"
        )
        yield _error(rule.name, f"{consequence}: no member fits all its lists of members")
    if rule.question.impossible:
        yield _error(rule.name, "it never matches: no question is near and far of the same example")
    if rule.effect is OutboundEffect.ALLOW and not _says_how(rule):
        yield _warning(rule.name, "it has no effect: it restricts nobody and says not how to send")


def _says_how(rule: OutboundRule) -> bool:
    return bool(rule.redact) or not rule.remember or rule.pseudonym


def _contradicting_only(
    rules: tuple[OutboundRule, ...], surroundings: Surroundings
) -> Iterator[Finding]:
    """Rules about the same questions that leave nobody to ask."""
    restricting = [rule for rule in rules if rule.effect is not OutboundEffect.ALLOW]
    for number, rule in enumerate(restricting):
        if rule.effect is not OutboundEffect.ONLY:
            continue
        meant = _meant(rule.who, surroundings)
        others = (other for other in restricting if other is not rule)
        for other in others:
            if other in restricting[:number] and other.effect is OutboundEffect.ONLY:
                continue  # told of the other one
            if meant and _about_all_of(other, rule) and not _left(meant, other, surroundings):
                yield _error(
                    rule.name, f"nobody is asked: rule {other.name!r} leaves out whom it names"
                )


def _about_all_of(rule: OutboundRule, other: OutboundRule) -> bool:
    return (
        rule.question.covers(other.question)
        and (not rule.purposes or _within(other.purposes, rule.purposes))
        and (not rule.marks or _within(other.marks, rule.marks))
    )


def _left(meant: list[PeerId], rule: OutboundRule, surroundings: Surroundings) -> list[PeerId]:
    """Who of `meant` a rule leaves to be asked."""
    named = set(_meant(rule.who, surroundings))
    only = rule.effect is OutboundEffect.ONLY
    return [peer for peer in meant if (peer in named) is only]
