"""The built-in engine: patterns of identifiers and lists of names (docs/redaction.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from zerorag_p2p.redaction import patterns, people
from zerorag_p2p.redaction.spans import Span

DATE: Final = "date"
NAME: Final = "name"
PHONE: Final = "phone"
EMAIL: Final = "email"
URL: Final = "url"
IP: Final = "ip"
RECORD_NUMBER: Final = "record-number"
NATIONAL_NUMBER: Final = "national-number"
ADDRESS: Final = "address"
AGE: Final = "age"

#: Every rule, in the order in which a release lists them.
RULES: Final = (*(NAME, DATE, AGE, ADDRESS, PHONE, EMAIL, URL, IP, RECORD_NUMBER, NATIONAL_NUMBER),)

_PATTERNS: Final = (
    (DATE, patterns.DATE),
    (DATE, patterns.DATE_LABELLED),
    (AGE, patterns.AGE),
    (ADDRESS, patterns.ADDRESS),
    (ADDRESS, patterns.ADDRESS_LABELLED),
    (PHONE, patterns.PHONE),
    (PHONE, patterns.PHONE_LABELLED),
    (EMAIL, patterns.EMAIL),
    (URL, patterns.URL),
    (IP, patterns.IP),
    (RECORD_NUMBER, patterns.RECORD_NUMBER_LABELLED),
    (NATIONAL_NUMBER, patterns.NATIONAL_NUMBER),
    (NATIONAL_NUMBER, patterns.NATIONAL_NUMBER_LABELLED),
)
#: Patterns whose first group is what is removed; the label before it stays.
_LABELLED: Final = frozenset(
    (
        patterns.DATE_LABELLED,
        patterns.ADDRESS_LABELLED,
        patterns.PHONE_LABELLED,
        patterns.RECORD_NUMBER_LABELLED,
        patterns.NATIONAL_NUMBER_LABELLED,
    )
)

#: Characters before a bare number in which a register may be named ("PMID: 31562797").
_REGISTER_CHARACTERS: Final = 16


class BuiltinRedactor:
    """Finds common identifiers in English text, and some in other languages."""

    @property
    def rules(self) -> tuple[str, ...]:
        """Ids of every rule."""
        return RULES

    def spans(self, text: str) -> list[Span]:
        """What identifies people in `text`, in time proportional to its length."""
        spans = people.name_spans(text, NAME)
        for rule, pattern in _PATTERNS:
            group = 1 if pattern in _LABELLED else 0
            spans += (Span(*match.span(group), rule) for match in pattern.finditer(text))
        spans += _bare_numbers(text)
        return spans


def _bare_numbers(text: str) -> Iterator[Span]:
    """Long numbers that no register of studies or codes gave out."""
    for match in patterns.RECORD_NUMBER.finditer(text):
        before = text[max(0, match.start() - _REGISTER_CHARACTERS) : match.start()]
        if not patterns.NO_RECORD.search(before):
            yield Span(*match.span(), RECORD_NUMBER)


def pattern_list() -> tuple[re.Pattern[str], ...]:
    """Every pattern of the engine, but for that of a single word."""
    return (
        *(pattern for _, pattern in _PATTERNS),
        patterns.RECORD_NUMBER,
        patterns.NO_RECORD,
        *people.pattern_list(),
    )
