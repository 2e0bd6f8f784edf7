"""Reading the owner's rules from TOML (docs/policy.md)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

from zerorag_p2p.config import (
    MAX_NAME_BYTES,
    MAX_POLICY_ITEMS,
    MAX_POLICY_RULES,
    MAX_REASON_BYTES,
    MAX_TOPIC_BYTES,
    MAX_TOPICS,
)
from zerorag_p2p.errors import ConfigError, DecodeError, UsageError
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.model import PeerId, Purpose, View
from zerorag_p2p.policy.decision import DEFAULT_RULE, SHARING_PREFIX, TERMS_RULE
from zerorag_p2p.policy.purposes import parse_purpose
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

_Choice = TypeVar("_Choice", Act, Effect, OutboundEffect, View)

_MAX_HOURS: Final = 24 * 366


def read_policy(text: str) -> Policy:
    """Read rules; their example questions are not embedded yet (`Policy.embedded`).

    Raises:
        ConfigError: The text is not TOML, or something in it is unknown, of the wrong type, out
            of bounds or contradicts itself. The message names the rule.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the policy is not valid TOML: {error}") from None
    unknown = sorted(table.keys() - {"rule", "outbound"})
    if unknown:
        raise ConfigError(
            f"the policy has an unknown table {unknown[0]!r}; there are [[rule]] and [[outbound]]"
        )
    rules = tuple(_read_rule(fields) for fields in _tables(table, "rule"))
    outbound = tuple(_read_outbound(fields) for fields in _tables(table, "outbound"))
    names = [rule.name for rule in rules] + [rule.name for rule in outbound]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the policy has two rules named {name!r}; name each differently")
    return Policy(rules, outbound)


def _tables(table: dict[str, Any], kind: str) -> list[_Fields]:
    items = table.get(kind, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ConfigError(f"the policy's rules are tables: write [[{kind}]]")
    if len(items) > MAX_POLICY_RULES:
        raise ConfigError(
            f"the policy has {len(items)} [[{kind}]] tables, more than {MAX_POLICY_RULES}"
        )
    return [_Fields(kind, number, item) for number, item in enumerate(items, start=1)]


def _read_rule(fields: _Fields) -> Rule:
    effect = fields.choice("effect", Effect)
    rule = Rule(
        name=fields.name,
        effect=effect,
        who=fields.who(),
        collections=fields.names("collections"),
        purposes=fields.purposes(),
        acts=tuple(fields.as_choice("acts", Act, text) for text in fields.names("acts")),
        question=fields.question(),
        view=fields.choice("view", View) if fields.has("view") else View.WHOLE,
        hours=fields.number("hours", 0.0, _MAX_HOURS) if fields.has("hours") else 0.0,
        reason=fields.text("reason", MAX_REASON_BYTES) if fields.has("reason") else "",
    )
    if effect is Effect.DENY and fields.given("view"):
        fields.fail("a rule that denies has no view: it shows nothing")
    if effect is not Effect.EMERGENCY and fields.given("hours"):
        fields.fail("only an emergency rule has hours")
    if effect is Effect.EMERGENCY and rule.hours <= 0:
        fields.fail("an emergency rule needs hours, for instance `hours = 4`")
    if effect is Effect.EMERGENCY and rule.purposes not in {(), (Purpose.ETREAT,)}:
        fields.fail("an emergency rule serves the purpose emergency (ETREAT) only")
    if effect is Effect.EMERGENCY and Act.ADVERTISE in rule.acts:
        fields.fail("an emergency rule never lets anything be advertised")
    fields.finish()
    return rule


def _read_outbound(fields: _Fields) -> OutboundRule:
    rule = OutboundRule(
        name=fields.name,
        effect=fields.choice("effect", OutboundEffect),
        who=fields.who(),
        purposes=fields.purposes(),
        question=fields.question(),
        marks=fields.names("marks"),
        redact=fields.names("redact"),
        remember=fields.boolean("remember", default=True),
        pseudonym=fields.boolean("pseudonym", default=False),
        reason=fields.text("reason", MAX_REASON_BYTES) if fields.has("reason") else "",
    )
    if rule.effect is OutboundEffect.ALLOW and not rule.who.everybody:
        fields.fail(
            "an outbound rule that allows is about every member; "
            'to ask some members only, write effect = "only"'
        )
    if rule.effect is OutboundEffect.ONLY and rule.who.everybody:
        fields.fail("an outbound rule of the effect only names organisations, members or roles")
    fields.finish()
    return rule


class _Fields:
    """The fields of one rule, taken one by one; `finish` refuses what is left."""

    def __init__(self, kind: str, number: int, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._given = frozenset(values)
        self._where = f"[[{kind}]] number {number}"
        self.name = self._read_name()
        self._where = f"[[{kind}]] {self.name!r}"

    def _read_name(self) -> str:
        name = self.text("name", MAX_NAME_BYTES)
        if name in {DEFAULT_RULE, TERMS_RULE} or name.startswith(SHARING_PREFIX):
            self.fail(f"{name!r} names decisions that no rule makes; choose another name")
        return name

    def fail(self, reason: str) -> NoReturn:
        raise ConfigError(f"policy, {self._where}: {reason}")

    def has(self, key: str) -> bool:
        return key in self._values

    def given(self, key: str) -> bool:
        return key in self._given

    def finish(self) -> None:
        for key in sorted(self._values):
            self.fail(f"unknown setting {key!r}")

    def text(self, key: str, max_bytes: int) -> str:
        if key not in self._values:
            self.fail(f"{key!r} is missing")
        return self._check_text(key, self._values.pop(key), max_bytes)

    def _check_text(self, key: str, value: object, max_bytes: int) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{key!r} has to be a text that is not empty")
        if len(value.encode()) > max_bytes or not value.isprintable():
            self.fail(f"{key!r} has to be one line of at most {max_bytes} bytes")
        return value

    def names(
        self, key: str, *, max_items: int = MAX_POLICY_ITEMS, max_bytes: int = MAX_NAME_BYTES
    ) -> tuple[str, ...]:
        if key not in self._values:
            return ()
        items = self._values.pop(key)
        if not isinstance(items, list) or not 1 <= len(items) <= max_items:
            self.fail(f"{key!r} has to be a list of 1 to {max_items} texts; leave it out for any")
        texts = tuple(self._check_text(key, item, max_bytes) for item in items)
        if len(set(texts)) != len(texts):
            self.fail(f"{key!r} lists something twice")
        return texts

    def number(self, key: str, low: float, high: float) -> float:
        value = self._values.pop(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"{key!r} has to be a number")
        if not low <= value <= high:
            self.fail(f"{key!r} has to be from {low:g} to {high:g}")
        return float(value)

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self._values.pop(key, default)
        if not isinstance(value, bool):
            self.fail(f"{key!r} has to be true or false")
        return value

    def choice(self, key: str, kind: type[_Choice]) -> _Choice:
        return self.as_choice(key, kind, self.text(key, MAX_NAME_BYTES))

    def as_choice(self, key: str, kind: type[_Choice], text: str) -> _Choice:
        try:
            return kind(text)
        except ValueError:
            self.fail(f"{key!r} is {text!r}, but has to be one of {', '.join(kind)}")

    def purposes(self) -> tuple[Purpose, ...]:
        try:
            purposes = tuple(parse_purpose(text) for text in self.names("purposes"))
        except UsageError as error:
            self.fail(str(error))
        return tuple(dict.fromkeys(purposes))

    def who(self) -> Who:
        return Who(
            organisations=self.names("organisations"),
            members=tuple(self._peer(text) for text in self.names("members")),
            roles=self.names("roles"),
        )

    def _peer(self, text: str) -> PeerId:
        try:
            return parse_peer_id(text)
        except DecodeError as error:
            self.fail(f"'members': {error}")

    def question(self) -> Question:
        near, at_least = self._topics("near", "at_least")
        far, below = self._topics("far", "below")
        return Question(near=near, at_least=at_least, far=far, below=below)

    def _topics(self, key: str, threshold_key: str) -> tuple[Topics, float]:
        texts = self.names(key, max_items=MAX_TOPICS, max_bytes=MAX_TOPIC_BYTES)
        if bool(texts) != self.has(threshold_key):
            self.fail(f"{key!r} and {threshold_key!r} (a cosine) belong together")
        return Topics(texts), self.number(threshold_key, -1.0, 1.0) if texts else 0.0
