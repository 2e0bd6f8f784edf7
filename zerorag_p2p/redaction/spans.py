"""Spans: which parts of a text an engine wants removed, and the seam behind which engines stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A part of a text that a rule removes: characters `start` up to, but not with, `end`."""

    start: int
    end: int
    rule: str


class Redactor(Protocol):
    """An engine that finds identifiers. It may be asked from several threads."""

    @property
    def rules(self) -> Sequence[str]:
        """Ids of every rule that a span of this engine may name."""

    def spans(self, text: str) -> Sequence[Span]:
        """What is to be removed from `text`, in any order; spans may overlap."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Overlapping spans as one.

    Attributes:
        mark: Rule that the removal is marked with: that of the longest span.
        rules: Every rule that had a part in it, in order of position.
    """

    start: int
    end: int
    mark: str
    rules: tuple[str, ...]


def merge(spans: Iterable[Span]) -> list[Removal]:
    """Overlapping spans become one removal; those that only touch stay apart."""
    groups: list[list[Span]] = []
    reached = 0
    for span in sorted(spans, key=lambda item: (item.start, -item.end, item.rule)):
        if not groups or span.start >= reached:
            groups.append([])
        groups[-1].append(span)
        reached = max(reached, span.end)
    return [_as_one(group) for group in groups]


def _as_one(group: Sequence[Span]) -> Removal:
    longest = max(group, key=lambda span: span.end - span.start)
    return Removal(
        start=group[0].start,
        end=max(span.end for span in group),
        mark=longest.rule,
        rules=tuple(dict.fromkeys(span.rule for span in group)),
    )
