"""An owner's rules as JSON: shown, checked for mistakes, and tried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zerorag_p2p.embedding.embedder import Embedder
from zerorag_p2p.errors import LibraryError, UsageError
from zerorag_p2p.identity.roster import Member, Roster
from zerorag_p2p.library.library import Library
from zerorag_p2p.model import ContentHash, PeerId, SharingTerms, View
from zerorag_p2p.policy.decision import AccessRequest, Decision
from zerorag_p2p.policy.emergency import EmergencyGrants
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.lint import Severity, Surroundings, lint
from zerorag_p2p.policy.purposes import parse_purpose
from zerorag_p2p.policy.reading import read_policy
from zerorag_p2p.policy.rules import Act, OutboundRule, Policy, Question, Rule, Who
from zerorag_p2p.policy.sharing import terms_to_json
from zerorag_p2p.redaction.redaction import IDENTIFIERS
from zerorag_p2p.redaction.spans import Redactor
from zerorag_p2p.wire.embedding import transmitted

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What decides of one owner, running or not.

    Attributes:
        peer: Our own id.
        roster: Who belongs.
        library: Our documents.
        embedder: Embeds questions.
        redactor: Whose redactions outbound rules may name.
        guard: The rules in force.
    """

    peer: PeerId
    roster: Roster
    library: Library
    embedder: Embedder
    redactor: Redactor
    guard: Guard

    def members(self) -> list[Member]:
        """Every member but us."""
        return [member for member in self.roster.members if member.peer != self.peer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is tried out: whether `peer`, an id or an organisation, would be let see something.

    Attributes:
        document: First digits of a content hash, instead of a collection.
        query: The question, if one is to be judged.
    """

    peer: str
    purpose: str = "TREAT"
    collection: str | None = None
    document: str | None = None
    query: str | None = None
    view: str = View.PASSAGE
    reason: str = ""


def check(owner: Owner, trial: Trial, now: float) -> Json:
    """Decide for trial, by what decides live.

    Returns:
        "decisions", one for each member, collection and act, and whether any of the results and
        fetches would be "allowed".

    Raises:
        UsageError: There is no such member, purpose or view.
        LibraryError: There is no such collection or document.
        EmbeddingError: The question cannot be embedded.
    """
    if trial.view not in list(View):
        raise UsageError(f"{trial.view!r} is no view; choose one of {', '.join(View)}")
    view, purpose = View(trial.view), parse_purpose(trial.purpose)
    members = _members(owner, trial.peer)
    query = None if trial.query is None else transmitted(owner.embedder.embed_query(trial.query))
    decisions: list[Json] = []
    for content_hash, collection, terms in _targets(owner.library, trial):
        sharing = owner.library.sharing(collection)
        for act in Act:
            for member in members:
                everybody = act is Act.ADVERTISE
                request = AccessRequest(
                    act=act,
                    requester=None if everybody else member.peer,
                    organisation="" if everybody else member.organisation,
                    roles=() if everybody else member.roles,
                    purpose=None if everybody else purpose,
                    view=View.PASSAGE if everybody else view,
                    query=query,
                    reason=trial.reason,
                    at=now,
                )
                decision = owner.guard.decide(
                    request, collection=collection, sharing=sharing, terms=terms
                )
                decisions.append(
                    _decision(decision, act, None if everybody else member, collection)
                    | {"document": content_hash, "terms": terms and terms_to_json(terms)}
                )
                if everybody:
                    break
    return {
        "purpose": purpose.value,
        "view": view.value,
        "query": trial.query,
        "allowed": any(item["allowed"] for item in decisions if item["act"] != Act.ADVERTISE.value),
        "decisions": decisions,
    }


def _members(owner: Owner, text: str) -> list[Member]:
    members = [
        member for member in owner.members() if text in {str(member.peer), member.organisation}
    ]
    if not members:
        known = ", ".join(dict.fromkeys(repr(item.organisation) for item in owner.members()))
        raise UsageError(f"no other member is {text!r}; there are: {known or 'none'}")
    return members


def _targets(
    library: Library, trial: Trial
) -> list[tuple[ContentHash | None, str, SharingTerms | None]]:
    """Content hash, collection and terms of what is tried."""
    if trial.document is not None and trial.collection is not None:
        raise UsageError("name a document or a collection, not both")
    if trial.document is not None:
        matching = library.resolve(trial.document)
        if len(matching) != 1:
            raise LibraryError(f"{len(matching)} documents begin with {trial.document}")
        return [(matching[0], item.collection, item.terms) for item in library.get(matching[0])]
    names = library.collections()
    if trial.collection is not None:
        library.sources(trial.collection)  # names the collections that there are, if not this one
        names = [trial.collection]
    return [
        (None, name, terms) for name in names for terms in (None, *library.terms_of_copies(name))
    ]


def _decision(decision: Decision, act: Act, member: Member | None, collection: str) -> Json:
    return {
        "peer": None if member is None else member.peer,
        "organisation": None if member is None else member.organisation,
        "collection": collection,
        "act": act.value,
        **asdict(decision),
    }


def find_mistakes(owner: Owner, text: str) -> Json:
    """What looks wrong about rules that are not in force yet: "findings", "errors", "warnings".

    Raises:
        ConfigError: The rules cannot be read.
    """
    surroundings = Surroundings(
        members={item.peer: (item.organisation, item.roles) for item in owner.members()},
        collections={name: owner.library.sharing(name) for name in owner.library.collections()},
        redactions=(IDENTIFIERS, *owner.redactor.rules),
    )
    findings = lint(read_policy(text), surroundings)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    return {
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [
            {**asdict(finding), "severity": finding.severity.value} for finding in findings
        ],
    }


def describe(policy: Policy) -> Json:
    """The rules, on documents ("rules") and on questions ("outbound")."""
    return {
        "rules": [_rule(rule) for rule in policy.rules],
        "outbound": [_outbound(rule) for rule in policy.outbound],
    }


def _rule(rule: Rule) -> Json:
    return {
        "name": rule.name,
        "effect": rule.effect.value,
        **_who(rule.who),
        "collections": list(rule.collections),
        "purposes": _texts(rule.purposes),
        "acts": _texts(rule.acts),
        **_question(rule.question),
        "view": rule.view.value,
        "hours": rule.hours,
        "reason": rule.reason,
    }


def _outbound(rule: OutboundRule) -> Json:
    return {
        "name": rule.name,
        "effect": rule.effect.value,
        **_who(rule.who),
        "purposes": _texts(rule.purposes),
        **_question(rule.question),
        "marks": list(rule.marks),
        "redact": list(rule.redact),
        "remember": rule.remember,
        "pseudonym": rule.pseudonym,
        "reason": rule.reason,
    }


def _who(who: Who) -> Json:
    return {
        "organisations": list(who.organisations),
        "members": list(who.members),
        "roles": list(who.roles),
    }


def _question(question: Question) -> Json:
    near, far = question.near.texts, question.far.texts
    return {
        "near": list(near),
        "at_least": question.at_least if near else None,
        "far": list(far),
        "below": question.below if far else None,
    }


def _texts(items: Sequence[str]) -> list[str]:
    return [str(item) for item in items]


def grants(taken: EmergencyGrants, policy: Policy, roster: Roster, now: float) -> list[Json]:
    """Who has used emergency access since when, and whether the time is over."""
    hours = {rule.name: rule.hours for rule in policy.rules}
    organisations = {member.peer: member.organisation for member in roster.members}
    return [
        {
            "rule": rule,
            "peer": peer,
            "organisation": organisations.get(peer, ""),
            "begun_at": begun,
            "open": rule in hours and taken.is_open(rule, peer, hours=hours[rule], now=now),
        }
        for rule, peer, begun in taken.entries()
    ]
