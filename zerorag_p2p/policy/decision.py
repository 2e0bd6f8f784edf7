"""Whether a peer may see a document: one pure function for results, fetches and advertisements.

Everything is denied that no rule allows, and whatever a rule denies stays denied whoever else
allows it. Sharing a collection is an allowing rule of its own. What may not be fetched is not
ranked, and only what every member may see is advertised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zerorag_p2p.model import PeerId, Purpose, SharingTerms, Vector, View
from zerorag_p2p.policy.emergency import EmergencyGrants
from zerorag_p2p.policy.rules import Act, Effect, Policy, Rule, Who
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.policy.terms import withheld_by_terms

#: Names decisions that no rule of the file made; no rule may be called so.
DEFAULT_RULE: Final = "default"
TERMS_RULE: Final = "owner's terms"
SHARING_PREFIX: Final = "sharing of "


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """Who asks for what, and for what purpose.

    Attributes:
        requester: The authenticated peer; None stands for every member, now and later.
        organisation: The requester's organisation as the roster names it.
        roles: The requester's roles as the roster names them.
        purpose: Purpose of use; None for an advertisement, which serves every purpose.
        query: Embedding of the question, unit length; None where it is not known.
        reason: Why the requester asks for emergency access, or "".
        at: Unix time.
    """

    act: Act
    requester: PeerId | None
    organisation: str
    roles: tuple[str, ...] = ()
    purpose: Purpose | None
    view: View
    query: Vector | None = None
    reason: str = ""
    at: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome, the rule that led to it and a sentence for people.

    Attributes:
        allowed: Whether the document may be let out.
        rule: Name of the rule that decided.
        reason: Why.
        emergency: Whether it is allowed by an emergency rule only.
    """

    allowed: bool
    rule: str
    reason: str
    emergency: bool = False


def decide(
    request: AccessRequest,
    *,
    policy: Policy,
    grants: EmergencyGrants,
    collection: str,
    sharing: Sharing | None,
    terms: SharingTerms | None = None,
) -> Decision:
    """Decide on the documents of one collection.

    Args:
        request: Who asks for what.
        policy: The rules of this peer's owner.
        grants: Who has used emergency access since when.
        collection: Name of the collection the document belongs to.
        sharing: How the collection is shared; None if it is not.
        terms: What the owner of a copy allows its holders; None for a document of our own.
    """
    rules = policy.rules
    if sharing is not None:
        rules = (_sharing_rule(collection, sharing), *rules)
    purpose = None if request.act is Act.ADVERTISE else request.purpose
    withheld = withheld_by_terms(terms, sharing, purpose, request.at)
    if withheld:
        return Decision(False, TERMS_RULE, withheld)
    if request.act is Act.ADVERTISE:
        return _decide_advertisement(collection, rules, sharing, terms)
    if request.view is View.COUNT:
        if request.act is Act.FETCH:
            return Decision(False, DEFAULT_RULE, "a count is asked for by a query, not by a fetch")
        return _decide_access(request, collection, rules, grants)
    fetch = _decide_access(replace(request, act=Act.FETCH), collection, rules, grants)
    if request.act is Act.FETCH or not fetch.allowed:
        return fetch
    return _decide_access(request, collection, rules, grants)


def _sharing_rule(collection: str, sharing: Sharing) -> Rule:
    return Rule(
        name=f"{SHARING_PREFIX}{collection}",
        effect=Effect.ALLOW,
        who=Who(members=sharing.members),
        collections=(collection,),
        purposes=sharing.purposes,
        acts=() if sharing.advertise else (Act.RESULT, Act.FETCH),
        view=sharing.view,
    )


def _decide_access(
    request: AccessRequest, collection: str, rules: tuple[Rule, ...], grants: EmergencyGrants
) -> Decision:
    concerned = [rule for rule in rules if rule.about(collection)]
    for rule in concerned:
        if rule.effect is Effect.DENY and _may_match(rule, request):
            return Decision(
                False,
                rule.name,
                _because(f"rule {rule.name!r} denies {collection!r} to {_asker(request)}", rule),
            )
    nearest: tuple[str, ...] | None = None
    for effect in (Effect.ALLOW, Effect.EMERGENCY):
        for rule in concerned:
            if rule.effect is not effect:
                continue
            lacking = tuple(_lacking(rule, request, grants))
            if not lacking:
                reason = _because(
                    f"rule {rule.name!r} allows {collection!r} to {_asker(request)}", rule
                )
                return Decision(True, rule.name, reason, effect is Effect.EMERGENCY)
            if nearest is None or len(lacking) < len(nearest):
                nearest = lacking
    if nearest is None:
        return Decision(False, DEFAULT_RULE, f"collection {collection!r} is not shared")
    reason = f"collection {collection!r} is shared {' and '.join(nearest)}"
    return Decision(False, DEFAULT_RULE, reason)


def _may_match(rule: Rule, request: AccessRequest) -> bool:
    """Whether a denying rule matches, or might: what cannot be told is denied."""
    return (
        (request.requester is None or _includes(rule.who, request))
        and rule.serves(request.purpose)
        and (not rule.acts or request.act in rule.acts)
        and rule.question.includes(request.query) is not False
    )


def _includes(who: Who, request: AccessRequest) -> bool:
    if request.requester is None:
        return who.everybody
    return who.includes(request.requester, request.organisation, request.roles)


def _lacking(rule: Rule, request: AccessRequest, grants: EmergencyGrants) -> list[str]:
    """What keeps an allowing rule from matching, each as the end of "is shared ..."."""
    lacking = []
    if not _includes(rule.who, request):
        lacking.append(f"with others than {request.organisation!r}")
    if not rule.serves(request.purpose):
        lacking.append(f"for {', '.join(rule.purposes)}, not for {request.purpose}")
    if rule.acts and request.act not in rule.acts:
        lacking.append(f"for {', '.join(rule.acts)}, not for {request.act}")
    if request.view.rank > rule.view.rank:
        lacking.append(f"up to the view {rule.view}, not {request.view}")
    about = rule.question.includes(request.query)
    if about is False:
        lacking.append("for other questions")
    elif about is None:
        lacking.append("for certain questions, and which one this is about is not known")
    if rule.effect is Effect.EMERGENCY:
        lacking += _lacking_for_emergency(rule, request, grants)
    return lacking


def _lacking_for_emergency(
    rule: Rule, request: AccessRequest, grants: EmergencyGrants
) -> list[str]:
    lacking = []
    if request.purpose is not Purpose.ETREAT:
        lacking.append(f"in an emergency, not for {request.purpose}")
    if request.view is View.COUNT:
        lacking.append("in an emergency, not to be counted")
    if not request.reason.strip():
        lacking.append("in an emergency with a stated reason, and none is stated")
    elif request.requester is None or not grants.is_open(
        rule.name, request.requester, hours=rule.hours, now=request.at
    ):
        lacking.append(
            f"in an emergency for {rule.hours:g} h, which are over until the operator rearms it"
        )
    return lacking


def _decide_advertisement(
    collection: str,
    rules: tuple[Rule, ...],
    sharing: Sharing | None,
    terms: SharingTerms | None,
) -> Decision:
    """Whether there is a purpose for which every member may see the documents, now and later.

    Rules that name members or questions allow not everybody, and deny somebody. An advertisement
    tells what documents are about, so that a view that shows less does not do.
    """
    if sharing is not None and not sharing.advertise:
        reason = f"collection {collection!r} is shared but not advertised"
        return Decision(False, f"{SHARING_PREFIX}{collection}", reason)
    binding = terms or (SharingTerms() if sharing is None else sharing.terms)
    concerned = [rule for rule in rules if rule.about(collection)]
    denied: Rule | None = None
    for purpose in Purpose:
        if binding.purposes and purpose not in binding.purposes:
            continue
        allowing = _allowing_everybody(concerned, purpose)
        if allowing is None:
            continue
        denying = (
            rule for rule in concerned if rule.effect is Effect.DENY and rule.serves(purpose)
        )
        against = next(denying, None)
        if against is None:
            return Decision(
                True, allowing.name, f"every member may see collection {collection!r} for {purpose}"
            )
        denied = denied or against
    if denied is not None:
        reason = f"rule {denied.name!r} may keep collection {collection!r} from a member"
        return Decision(False, denied.name, _because(reason, denied))
    reason = (
        f"there is no purpose for which every member may see collection {collection!r}, "
        "and an advertisement reaches all"
    )
    return Decision(False, DEFAULT_RULE, reason)


def _allowing_everybody(rules: list[Rule], purpose: Purpose) -> Rule | None:
    """The rule that allows every member to advertise, if others or it allow the rest, too."""
    allowing = [
        rule
        for rule in rules
        if rule.effect is Effect.ALLOW
        and rule.who.everybody
        and rule.question.any
        and rule.serves(purpose)
        and rule.view.rank >= View.PASSAGE.rank
    ]
    by_act = {
        act: next((rule for rule in allowing if not rule.acts or act in rule.acts), None)
        for act in Act
    }
    return by_act[Act.ADVERTISE] if all(by_act.values()) else None


def _asker(request: AccessRequest) -> str:
    return f"{request.organisation!r} for {request.purpose}"


def _because(sentence: str, rule: Rule) -> str:
    return f"{sentence}: {rule.reason}" if rule.reason else sentence
