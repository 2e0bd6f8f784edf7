"""The patterns of the built-in engine cannot take long, by their structure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from zerorag_p2p.redaction.builtin import BuiltinRedactor, pattern_list

#: Characters that one match may look at.
WIDEST = 700

LONG = 200_000


def parts(operator: Any, argument: Any) -> list[Any]:
    """The sequences inside one item of a parsed pattern."""
    if operator is _constants.BRANCH:
        return list(argument[1])
    if operator is _constants.SUBPATTERN:
        return [argument[3]]
    if operator is _constants.ATOMIC_GROUP:
        return [argument]
    if operator in {_constants.ASSERT, _constants.ASSERT_NOT}:
        return [argument[1]]
    if operator in {
        _constants.MAX_REPEAT,
        _constants.MIN_REPEAT,
        _constants.POSSESSIVE_REPEAT,
    }:
        return [argument[2]]
    return []


def faults(items: Sequence[Any], *, inside: bool = False) -> Iterator[str]:
    """Repetitions without a bound, and those that give back inside others that do."""
    for operator, argument in items:
        gives_back = operator in {_constants.MAX_REPEAT, _constants.MIN_REPEAT}
        if gives_back or operator is _constants.POSSESSIVE_REPEAT:
            least, most, _ = argument
            if most is _constants.MAXREPEAT:
                yield f"no bound: {argument}"
            gives_back = gives_back and least != most and most > 1
            if gives_back and inside:
                yield f"nested: {argument}"
        keeps = operator in {_constants.ATOMIC_GROUP, _constants.POSSESSIVE_REPEAT}
        for part in parts(operator, argument):
            yield from faults(part, inside=not keeps and (inside or gives_back))


@pytest.mark.parametrize("pattern", pattern_list())
def test_every_repetition_has_a_bound_and_none_that_gives_back_holds_another(
    pattern: re.Pattern[str],
) -> None:
    parsed = _parser.parse(pattern.pattern, pattern.flags)
    assert not list(faults(parsed))
    assert parsed.getwidth()[1] <= WIDEST


@pytest.mark.parametrize("pattern", [r"(?:a{1,3}b?){1,9}c", r"a*b", r"(?:\w{1,9}){2,5}"])
def test_the_check_finds_what_it_looks_for(pattern: str) -> None:
    assert list(faults(_parser.parse(pattern, 0)))


@pytest.mark.parametrize(
    "piece",
    ["1", "12-", "Ab ", "a@a.", "1 Ab Ab ", "Mon, 1 Jan ", "A. ", "tel 1 ", "mrn A-1", "address: "],
)
def test_long_hostile_texts_are_searched(piece: str) -> None:
    # Quadratic work on 200,000 characters would take an hour.
    text = (piece * (LONG // len(piece)))[: LONG - 20] + " on 14 March 2023."
    assert any(
        text[span.start : span.end].endswith("14 March 2023")
        for span in BuiltinRedactor().spans(text)
    )
