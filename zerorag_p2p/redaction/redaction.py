"""Redacting texts, and which rules apply to which collection.

It fails closed: where an engine raises, names a rule that it does not have or a span outside the
text, there is no redacted text at all, and nothing may leave.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zerorag_p2p.config import MAX_NAME_BYTES, MAX_REDACTIONS, RedactionConfig
from zerorag_p2p.errors import ConfigError, RedactionError
from zerorag_p2p.model import Content
from zerorag_p2p.redaction.builtin import BuiltinRedactor
from zerorag_p2p.redaction.spans import Redactor, Removal, Span, merge

#: Name of a set of rules: every rule of the engine.
IDENTIFIERS: Final = "identifiers"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without what the rules removed, each removal marked as in "[date]".

    Attributes:
        rules: Ids of the rules that removed something, in the engine's order.
    """

    text: str
    rules: tuple[str, ...]


def redact(text: str, redactor: Redactor, rules: Collection[str]) -> Redacted:
    """Remove from a text what the `rules` find.

    Args:
        text: The text.
        redactor: The engine.
        rules: Ids of rules, as `rule_ids` returns them.

    Raises:
        RedactionError: The engine failed. The message holds nothing of the text.
    """
    if not rules:
        return Redacted(text, ())
    removals = _removals(text, redactor, rules)
    used = {rule for removal in removals for rule in removal.rules}
    return Redacted(
        _without(text, removals, marked=True),
        tuple(rule for rule in redactor.rules if rule in used),
    )


def _removals(text: str, redactor: Redactor, rules: Collection[str]) -> list[Removal]:
    return merge(span for span in _checked_spans(text, redactor) if span.rule in rules)


def _without(text: str, removals: Sequence[Removal], *, marked: bool) -> str:
    pieces, after = [], 0
    for removal in removals:
        pieces += [text[after : removal.start], f"[{removal.mark}]" if marked else ""]
        after = removal.end
    pieces.append(text[after:])
    left = "".join(pieces)
    return left if marked or left.strip() else ""


def _checked_spans(text: str, redactor: Redactor) -> Sequence[Span]:
    try:
        spans = tuple(redactor.spans(text))
        known = frozenset(redactor.rules)
        sound = all(0 <= span.start < span.end <= len(text) for span in spans)
        unknown = next((span.rule for span in spans if span.rule not in known), None)
    except Exception as error:  # an engine is foreign code; what it says may quote the text
        raise RedactionError(
            f"the redaction engine failed ({type(error).__name__}); nothing is sent"
        ) from None
    if not sound:
        raise RedactionError("the redaction engine named a span outside the text; nothing is sent")
    if unknown is not None:
        raise RedactionError(
            f"the redaction engine used a rule that it does not have, {unknown!r:.40}; "
            "nothing is sent"
        )
    return spans


def rule_ids(names: Sequence[str], redactor: Redactor, where: str) -> tuple[str, ...]:
    """Ids of the rules that `names` stand for: of rules, or "identifiers" for all of them.

    Args:
        names: As a setting has them.
        redactor: The engine.
        where: The setting, for the message.

    Raises:
        ConfigError: The engine has no such rule.
    """
    for name in names:
        if name != IDENTIFIERS and name not in redactor.rules:
            known = ", ".join([IDENTIFIERS, *redactor.rules])
            raise ConfigError(f"setting {where!r}: there is no rule {name!r}; known: {known}")
    if IDENTIFIERS in names:
        return tuple(redactor.rules)
    return tuple(rule for rule in redactor.rules if rule in names)


@dataclass(frozen=True, slots=True)
class Redaction:
    """What of each collection does not leave.

    Attributes:
        redactor: The engine.
        engine: Its name in the settings.
        default: Rules for collections that are not named.
        collections: Rules by name of collection.
        withheld: Collections, redacted or not, whose embeddings do not leave.
    """

    redactor: Redactor = field(default_factory=BuiltinRedactor)
    engine: str = "builtin"
    default: tuple[str, ...] = ()
    collections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()

    @classmethod
    def from_config(cls, config: RedactionConfig, redactor: Redactor) -> Redaction:
        """Apply the settings to an engine.

        Raises:
            ConfigError: The engine has no rule that a setting names, or its rules cannot be listed
                in a release.
        """
        _check_rules(redactor)
        return cls(
            redactor=redactor,
            engine=config.engine,
            default=rule_ids(config.default, redactor, "redaction.default"),
            collections={
                _normalised(name): rule_ids(names, redactor, f"redaction.collections.{name}")
                for name, names in config.collections.items()
            },
            withheld=frozenset(_normalised(name) for name in config.withhold_embeddings),
        )

    def named(self) -> list[str]:
        """Names of the collections that the settings mention, sorted."""
        return sorted({*self.collections, *self.withheld})

    def rules(self, collection: str) -> tuple[str, ...]:
        """Ids of the rules that apply to a collection."""
        return self.collections.get(collection, self.default)

    def withholds_embeddings(self, collection: str) -> bool:
        """Whether the embeddings of a collection stay here."""
        return collection in self.withheld

    def applied(self, collection: str) -> str:
        """What is done to a collection, in a word to compare; "" if nothing is."""
        rules = self.rules(collection)
        return f"{self.engine} {' '.join(rules)}" if rules else ""

    def embedded(self, text: str, collection: str) -> str:
        """What of a text is embedded: an embedding tells what was removed from its text.

        Raises:
            RedactionError: It may not be embedded, since the engine failed.
        """
        rules = self.rules(collection)
        if not rules:
            return text
        removals = _removals(text, self.redactor, rules)
        # Marks could make a text longer than the model reads.
        return _without(text, removals, marked=False) or _without(text, removals, marked=True)

    def redact(self, content: Content, collection: str) -> tuple[Content, tuple[str, ...]]:
        """Content as it may leave a collection, and the rules that removed something.

        Raises:
            RedactionError: It may not leave, since the engine failed.
        """
        rules = self.rules(collection)
        if not rules:
            return content, ()
        title = redact(content.title, self.redactor, rules)
        text = redact(content.text, self.redactor, rules)
        used = {*title.rules, *text.rules}
        if not used:
            return content, ()
        redacted = Content(title.text, text.text, content.part, content.parts)
        return redacted, tuple(rule for rule in rules if rule in used)


def _check_rules(redactor: Redactor) -> None:
    rules = redactor.rules
    if not rules or len(rules) > MAX_REDACTIONS or len(set(rules)) != len(rules):
        raise ConfigError(
            f"the redaction engine has to have 1 to {MAX_REDACTIONS} rules, each once, "
            f"got {len(rules)}"
        )
    for rule in rules:
        if not rule or not rule.isprintable() or len(rule.encode()) > MAX_NAME_BYTES:
            raise ConfigError(
                f"the redaction engine's rule {rule!r:.40} cannot be listed in a release: an id "
                f"takes 1 to {MAX_NAME_BYTES} bytes of printable text"
            )


def _normalised(name: str) -> str:
    return unicodedata.normalize("NFC", name)
