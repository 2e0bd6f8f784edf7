"""The rules of an owner: whom they are about, which questions, and what they decide."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zerorag_p2p.model import PeerId, Purpose, Vector, View

#: Embeds n texts into unit vectors [n, d], as questions are transmitted.
EmbedTexts = Callable[[Sequence[str]], Vector]


class Act(enum.StrEnum):
    """What would let the document, or something about it, out."""

    RESULT = "result"
    FETCH = "fetch"
    ADVERTISE = "advertise"


class Effect(enum.StrEnum):
    """What a rule on documents does where it matches."""

    ALLOW = "allow"
    DENY = "deny"
    EMERGENCY = "emergency"


class OutboundEffect(enum.StrEnum):
    """What a rule on questions does where it matches.

    ALLOW: it restricts nobody, and says how the question is sent.
    DENY: the members it names are not asked.
    ONLY: nobody but the members it names is asked.
    """

    ALLOW = "allow"
    DENY = "deny"
    ONLY = "only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Members that a rule is about: those that fit every list that is not empty."""

    organisations: tuple[str, ...] = ()
    members: tuple[PeerId, ...] = ()
    roles: tuple[str, ...] = ()

    @property
    def everybody(self) -> bool:
        """Whether every member is meant, now and later."""
        return not (self.organisations or self.members or self.roles)

    def includes(self, member: PeerId, organisation: str, roles: Collection[str]) -> bool:
        """Whether a member is meant."""
        return (
            (not self.organisations or organisation in self.organisations)
            and (not self.members or member in self.members)
            and (not self.roles or not set(self.roles).isdisjoint(roles))
        )

    def covers(self, other: Who) -> bool:
        """Whether everybody whom `other` means is meant here, too."""
        return (
            _wider(self.organisations, other.organisations)
            and _wider(self.members, other.members)
            and _wider(self.roles, other.roles)
        )


@dataclass(frozen=True, slots=True)
class Topics:
    """Example questions.

    Attributes:
        texts: The questions.
        vectors: Their embeddings, unit rows [n, d]; None while they are not embedded.
    """

    texts: tuple[str, ...] = ()
    vectors: Vector | None = field(default=None, compare=False)

    def similarity(self, query: Vector | None) -> float | None:
        """Cosine of `query` [d] with the most similar example; None if it cannot be told."""
        if query is None or self.vectors is None or self.vectors.shape[1:] != query.shape:
            return None
        return float(np.max(self.vectors @ query))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Questions that a rule is about, by their similarity with example questions.

    Attributes:
        near: A question has to be at least `at_least` similar to one of these, if there are any.
        far: A question has to be less than `below` similar to each of these, if there are any.
    """

    near: Topics = field(default_factory=Topics)
    at_least: float = 0.0
    far: Topics = field(default_factory=Topics)
    below: float = 0.0

    @property
    def any(self) -> bool:
        """Whether every question is meant, and none at all as well."""
        return not (self.near.texts or self.far.texts)

    def includes(self, query: Vector | None) -> bool | None:
        """Whether a question is meant; None if that cannot be told, without an embedding."""
        verdicts: list[bool | None] = []
        if self.near.texts:
            similarity = self.near.similarity(query)
            verdicts.append(None if similarity is None else similarity >= self.at_least)
        if self.far.texts:
            similarity = self.far.similarity(query)
            verdicts.append(None if similarity is None else similarity < self.below)
        if False in verdicts:
            return False
        return None if None in verdicts else True

    def covers(self, other: Question) -> bool:
        """Whether every question that `other` means is meant here, as far as can be told."""
        near = not self.near.texts or (
            bool(other.near.texts)
            and set(other.near.texts) <= set(self.near.texts)
            and self.at_least <= other.at_least
        )
        far = not self.far.texts or (
            set(self.far.texts) <= set(other.far.texts) and self.below >= other.below
        )
        return near and far

    @property
    def impossible(self) -> bool:
        """Whether no question can be near and far as asked for: an example is in both lists."""
        near, far = set(self.near.texts), set(self.far.texts)
        return bool(near) and near <= far and self.at_least >= self.below

    def embedded(self, embed: EmbedTexts) -> Question:
        """The same with the embeddings of its examples."""
        return replace(self, near=_embedded(self.near, embed), far=_embedded(self.far, embed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule on documents. An empty condition is always fulfilled.

    Attributes:
        name: Tells it apart, in decisions and in the audit log.
        effect: What it does where it matches.
        who: Requesters it is about.
        collections: Collections it is about.
        purposes: Purposes of use it is about.
        acts: What is done with the document.
        question: Questions it is about.
        view: The most that an allowing rule lets out of a document.
        hours: How long a member may use an emergency rule from its first access on.
        reason: A sentence for people.
    """

    name: str
    effect: Effect
    who: Who = field(default_factory=Who)
    collections: tuple[str, ...] = ()
    purposes: tuple[Purpose, ...] = ()
    acts: tuple[Act, ...] = ()
    question: Question = field(default_factory=Question)
    view: View = View.WHOLE
    hours: float = 0.0
    reason: str = ""

    def about(self, collection: str) -> bool:
        """Whether it is about documents of `collection`."""
        return not self.collections or collection in self.collections

    def serves(self, purpose: Purpose | None) -> bool:
        """Whether it is about this purpose of use."""
        return not self.purposes or purpose in self.purposes

    def covers(self, other: Rule) -> bool:
        """Whether it matches wherever `other` does, as far as that can be told."""
        return (
            self.who.covers(other.who)
            and _wider(self.collections, other.collections)
            and _wider(self.purposes, other.purposes)
            and _wider(self.acts, other.acts)
            and self.question.covers(other.question)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRule:
    """A rule on questions asked here. An empty condition is always fulfilled.

    Attributes:
        name: Tells it apart.
        effect: What it does where it matches.
        who: Members that DENY keeps the question from, and that ONLY gives it to.
        purposes: Purposes of use it is about.
        question: Questions it is about.
        marks: Marks that people give to questions; one of them has to be there.
        redact: Ids of redaction rules that are applied to the question before it is embedded.
        remember: Whether the peers asked may remember the question's embedding.
        pseudonym: Whether each question is sent under a pseudonym of its own.
        reason: A sentence for people.
    """

    name: str
    effect: OutboundEffect
    who: Who = field(default_factory=Who)
    purposes: tuple[Purpose, ...] = ()
    question: Question = field(default_factory=Question)
    marks: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    remember: bool = True
    pseudonym: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules of an owner, in the order in which they are written.

    The empty policy lets out what sharing a collection allows, and asks every member everything.
    """

    rules: tuple[Rule, ...] = ()
    outbound: tuple[OutboundRule, ...] = ()

    @property
    def judges_questions(self) -> bool:
        """Whether a decision on a document may depend on the question."""
        return any(not rule.question.any for rule in self.rules)

    def embedded(self, embed: EmbedTexts) -> Policy:
        """The same with the embeddings of all example questions."""
        return Policy(
            tuple(replace(rule, question=rule.question.embedded(embed)) for rule in self.rules),
            tuple(replace(rule, question=rule.question.embedded(embed)) for rule in self.outbound),
        )


def _wider(ours: Collection[object], theirs: Collection[object]) -> bool:
    """Whether a condition holds wherever the other does; an empty one always holds."""
    return not ours or (bool(theirs) and set(theirs) <= set(ours))


def _embedded(topics: Topics, embed: EmbedTexts) -> Topics:
    return replace(topics, vectors=embed(topics.texts)) if topics.texts else topics
