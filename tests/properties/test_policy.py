"""The owner's rules decide as they are written, whoever asks for what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.model import PeerId, Purpose, SharingTerms, View
from zerorag_p2p.policy.decision import AccessRequest, Decision, decide
from zerorag_p2p.policy.emergency import EmergencyGrants
from zerorag_p2p.policy.outbound import sending_of
from zerorag_p2p.policy.rules import (
    Act,
    Effect,
    OutboundEffect,
    OutboundRule,
    Policy,
    Question,
    Rule,
    Topics,
    Who,
)
from zerorag_p2p.policy.sharing import Sharing

NOW = 1_800_000_000.0
COLLECTIONS = ("heart", "mind")
ORGANISATIONS = ("Clinic", "University")
ROLES = ("care", "research")
PEERS = tuple(PeerId(f"peer {number}") for number in range(2))
#: Enough to tell them apart; rules that match are rare otherwise.
PURPOSES = (Purpose.TREAT, Purpose.ETREAT)
DIRECTIONS = {
    name: np.array(vector, dtype=np.float32)
    for name, vector in {"x": (1, 0), "y": (0, 1), "xy": (0.8, 0.6)}.items()
}


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), unique=True, max_size=2).map(tuple)


def topics() -> st.SearchStrategy[Topics]:
    names = st.just(()) | st.lists(st.sampled_from(sorted(DIRECTIONS)), min_size=1, unique=True)
    return names.map(
        lambda chosen: Topics(
            tuple(chosen), np.stack([DIRECTIONS[name] for name in chosen]) if chosen else None
        )
    )


thresholds = st.sampled_from((0.1, 0.7, 0.9))
whos = st.builds(
    Who, organisations=some(ORGANISATIONS), members=some(PEERS), roles=some(ROLES)
) | st.just(Who())
questions = st.just(Question()) | st.builds(
    Question, near=topics(), at_least=thresholds, far=topics(), below=thresholds
)
purposes = st.just(()) | st.lists(st.sampled_from(PURPOSES), unique=True).map(tuple)
rules = st.builds(
    Rule,
    name=st.just("rule"),
    effect=st.sampled_from(list(Effect)),
    who=whos,
    collections=st.just(()) | some(COLLECTIONS),
    purposes=purposes,
    acts=st.just(()) | st.lists(st.sampled_from(list(Act)), unique=True, max_size=2).map(tuple),
    question=questions,
    view=st.just(View.WHOLE) | st.sampled_from(list(View)),
    hours=st.just(1.0),
)
policies = st.lists(rules, max_size=4).map(
    lambda items: Policy(
        tuple(replace(rule, name=f"rule {number}") for number, rule in enumerate(items))
    )
)
sharings = st.none() | st.builds(
    Sharing,
    members=some(PEERS),
    purposes=purposes,
    view=st.sampled_from(list(View)),
    advertise=st.booleans(),
)
queries = st.none() | st.sampled_from(sorted(DIRECTIONS)).map(DIRECTIONS.__getitem__)
requests = st.builds(
    AccessRequest,
    act=st.sampled_from((Act.RESULT, Act.FETCH)),
    requester=st.sampled_from(PEERS),
    organisation=st.sampled_from(ORGANISATIONS),
    roles=some(ROLES),
    purpose=st.sampled_from(PURPOSES),
    view=st.sampled_from(list(View)),
    query=queries,
    reason=st.sampled_from(("", "no kin, unconscious")),
    at=st.just(NOW),
)
terms = st.none() | st.builds(
    SharingTerms,
    copy=st.just(True),
    reshare=st.booleans(),
    purposes=purposes,
    expires_at=st.sampled_from((None, int(NOW) - 1, int(NOW) + 1)),
)


def judge(
    request: AccessRequest,
    policy: Policy,
    *,
    sharing: Sharing | None = None,
    copied: SharingTerms | None = None,
    collection: str = "heart",
    grants: EmergencyGrants | None = None,
) -> Decision:
    return decide(
        request,
        policy=policy,
        grants=grants or EmergencyGrants(),
        collection=collection,
        sharing=sharing,
        terms=copied,
    )


# The same again, from the description in docs/policy.md, as simply as it can be said.


def fits(rule: Rule, request: AccessRequest, *, unknown: bool) -> bool:
    who = rule.who
    asked = [rule.question.near, rule.question.far]
    if any(item.texts for item in asked) and request.query is None:
        question = unknown
    else:
        near = [float(DIRECTIONS[text] @ request.query) for text in rule.question.near.texts]
        far = [float(DIRECTIONS[text] @ request.query) for text in rule.question.far.texts]
        question = (not near or max(near) >= rule.question.at_least) and (
            not far or max(far) < rule.question.below
        )
    return (
        (not who.organisations or request.organisation in who.organisations)
        and (not who.members or request.requester in who.members)
        and (not who.roles or bool(set(who.roles) & set(request.roles)))
        and (not rule.collections or "heart" in rule.collections)
        and (not rule.purposes or request.purpose in rule.purposes)
        and (not rule.acts or request.act in rule.acts)
        and question
    )


def expected(request: AccessRequest, policy: Policy, sharing: Sharing | None) -> bool:
    if request.act is Act.FETCH and request.view is View.COUNT:
        return False
    if request.act is Act.RESULT and request.view is not View.COUNT:
        fetch = replace(request, act=Act.FETCH)
        return matched(fetch, policy, sharing) and matched(request, policy, sharing)
    return matched(request, policy, sharing)


def matched(request: AccessRequest, policy: Policy, sharing: Sharing | None) -> bool:
    denied = any(
        rule.effect is Effect.DENY and fits(rule, request, unknown=True) for rule in policy.rules
    )
    shared = (
        sharing is not None
        and (not sharing.members or request.requester in sharing.members)
        and (not sharing.purposes or request.purpose in sharing.purposes)
        and request.view.rank <= sharing.view.rank
    )
    allowed = any(
        rule.effect is Effect.ALLOW
        and fits(rule, request, unknown=False)
        and request.view.rank <= rule.view.rank
        for rule in policy.rules
    )
    emergency = (
        request.purpose is Purpose.ETREAT
        and bool(request.reason)
        and request.view is not View.COUNT
        and any(
            rule.effect is Effect.EMERGENCY
            and fits(rule, request, unknown=False)
            and request.view.rank <= rule.view.rank
            for rule in policy.rules
        )
    )
    return not denied and (shared or allowed or emergency)


@settings(max_examples=500)
@given(requests, policies, sharings)
def test_decisions_are_those_of_the_description(
    request: AccessRequest, policy: Policy, sharing: Sharing | None
) -> None:
    decision = judge(request, policy, sharing=sharing)
    assert decision.allowed is expected(request, policy, sharing)
    assert decision.reason
    names = {rule.name for rule in policy.rules} | {"default", "sharing of heart"}
    assert decision.rule in names


@settings(max_examples=300)
@given(requests, policies, sharings)
def test_what_may_not_be_fetched_is_not_found(
    request: AccessRequest, policy: Policy, sharing: Sharing | None
) -> None:
    found = judge(replace(request, act=Act.RESULT), policy, sharing=sharing)
    fetched = judge(replace(request, act=Act.FETCH), policy, sharing=sharing)
    assert fetched.allowed or not found.allowed or request.view is View.COUNT


@given(requests, policies, sharings, rules)
def test_a_further_denial_never_lets_more_out(
    request: AccessRequest, policy: Policy, sharing: Sharing | None, denial: Rule
) -> None:
    stricter = Policy((*policy.rules, replace(denial, name="more", effect=Effect.DENY)))
    if judge(request, stricter, sharing=sharing).allowed:
        assert judge(request, policy, sharing=sharing).allowed


@given(requests, policies, sharings)
def test_less_is_allowed_where_more_is(
    request: AccessRequest, policy: Policy, sharing: Sharing | None
) -> None:
    if not judge(request, policy, sharing=sharing).allowed:
        return
    for view in View:
        if View.COUNT.rank < view.rank <= request.view.rank:
            assert judge(replace(request, view=view), policy, sharing=sharing).allowed


def members() -> Iterator[tuple[PeerId, str, tuple[str, ...]]]:
    """Everybody who could belong, members of no list of any rule among them."""
    for peer in (*PEERS, PeerId("a peer to come")):
        for organisation in (*ORGANISATIONS, "an organisation to come"):
            for roles in ((), ROLES[:1], ROLES[1:], ROLES):
                yield peer, organisation, roles


@given(policies, sharings, terms)
def test_what_is_advertised_every_member_may_see_for_some_purpose_and_any_question(
    policy: Policy, sharing: Sharing | None, copied: SharingTerms | None
) -> None:
    advertising = AccessRequest(
        act=Act.ADVERTISE,
        requester=None,
        organisation="",
        purpose=None,
        view=View.PASSAGE,
        at=NOW,
    )
    if not judge(advertising, policy, sharing=sharing, copied=copied).allowed:
        return

    def sees(member: tuple[PeerId, str, tuple[str, ...]], purpose: Purpose) -> bool:
        peer, organisation, roles = member
        request = AccessRequest(
            act=Act.RESULT,
            requester=peer,
            organisation=organisation,
            roles=roles,
            purpose=purpose,
            view=View.PASSAGE,
            reason="",
            at=NOW,
        )
        return all(
            judge(replace(request, query=query), policy, sharing=sharing, copied=copied).allowed
            for query in (None, *DIRECTIONS.values())
        )

    assert any(all(sees(member, purpose) for member in members()) for purpose in Purpose)


@given(requests, policies, sharings, terms)
def test_the_holder_of_a_copy_is_bound_by_the_owners_terms(
    request: AccessRequest, policy: Policy, sharing: Sharing | None, copied: SharingTerms | None
) -> None:
    decision = judge(request, policy, sharing=sharing, copied=copied)
    if copied is None or not decision.allowed:
        return
    assert copied.reshare
    assert copied.expires_at is None or copied.expires_at > NOW
    assert not copied.purposes or request.purpose in copied.purposes
    assert judge(request, policy, sharing=sharing).allowed


outbound_rules = st.builds(
    OutboundRule,
    name=st.just("out"),
    effect=st.sampled_from(list(OutboundEffect)),
    who=whos,
    purposes=purposes,
    question=questions,
    marks=some(("private",)),
    remember=st.booleans(),
)


@given(
    st.lists(outbound_rules, max_size=4).map(tuple),
    st.sampled_from(PURPOSES),
    queries,
    some(("private",)),
    outbound_rules,
)
def test_a_further_restriction_never_lets_more_members_ask(
    given_rules: tuple[OutboundRule, ...],
    purpose: Purpose,
    query: np.ndarray | None,
    marks: tuple[str, ...],
    more: OutboundRule,
) -> None:
    sending = sending_of(Policy((), given_rules), purpose=purpose, query=query, marks=marks)
    stricter = sending_of(
        Policy((), (*given_rules, more)), purpose=purpose, query=query, marks=marks
    )
    for member in members():
        assert sending.may_receive(*member) or not stricter.may_receive(*member)
    assert sending.remember or not stricter.remember


@given(outbound_rules, st.sampled_from(PURPOSES), queries, some(("private",)))
def test_an_outbound_rule_keeps_the_question_from_whom_it_says(
    rule: OutboundRule, purpose: Purpose, query: np.ndarray | None, marks: tuple[str, ...]
) -> None:
    sending = sending_of(Policy((), (rule,)), purpose=purpose, query=query, marks=marks)
    about = Rule(name="x", effect=Effect.DENY, purposes=rule.purposes, question=rule.question)
    request = AccessRequest(
        act=Act.RESULT,
        requester=PEERS[0],
        organisation="",
        purpose=purpose,
        view=View.WHOLE,
        query=query,
        at=NOW,
    )
    concerned = fits(about, request, unknown=True) and (
        not rule.marks or bool(set(rule.marks) & set(marks))
    )
    for peer, organisation, roles in members():
        meant = rule.who.includes(peer, organisation, roles)
        kept = concerned and (
            (rule.effect is OutboundEffect.DENY and meant)
            or (rule.effect is OutboundEffect.ONLY and not meant)
        )
        assert sending.may_receive(peer, organisation, roles) is not kept
