"""Names of people: found by titles, labels, relatives, lists and the form "Surname, Given".

A text is cut into words once, and every word looks at a bounded number of words around it, so the
work grows with the length of the text. Only capitalised words are taken for names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from zerorag_p2p.redaction.names import (
    AMBIGUOUS_GIVEN,
    AMBIGUOUS_SURNAMES,
    EPONYM_NOUNS,
    GIVEN,
    LONG_TITLES,
    NOT_NAMES,
    PARTICLES,
    RELATIONS,
    SHORT_TITLES,
    SURNAMES,
)
from zerorag_p2p.redaction.spans import Span

_LISTED: Final = GIVEN | AMBIGUOUS_GIVEN | SURNAMES | AMBIGUOUS_SURNAMES
_TITLES: Final = SHORT_TITLES | LONG_TITLES

#: Letters of the longest word in capitals that is taken for an abbreviation ("ANA", "DAS").
_ABBREVIATION: Final = 5

#: Most words of one name, and of them between two that are capitalised.
_MOST_WORDS: Final = 5
_MOST_PARTICLES: Final = 2

_WORD: Final = re.compile(r"[^\W\d_]++(?:[-'’][^\W\d_]++)*+")
_SPACE: Final = re.compile(r"[^\S\n]{1,3}+\Z")
_AFTER_INITIAL: Final = re.compile(r"\.?[^\S\n]{0,2}+\Z")
_COMMA: Final = re.compile(r",[^\S\n]{1,2}+\Z")

#: A label in front of a name; what stands behind it is a name even if no list has it.
_LABEL: Final = re.compile(
    r"""(?i:\b(?:
        (?:patient|full|first|last|given|family|maiden|sur|fore)?[ ]?name(?:[ ]of[ ]patient)?
      | patient | paciente | patientin | paziente | nom | nombre | pt | re
      | nok | next[ ]of[ ]kin | emergency[ ]contact | contact | carer
      | consultant | gp | named[ ]nurse | key[ ]worker | surgeon | anaesthetist | author
      | signed | dictated[ ]by | typed[ ]by | witness | interpreter
    )[^\S\n]{0,2}+[:=][^\S\n]{0,3}+)""",
    re.VERBOSE,
)
_CLOSE_LABEL: Final = re.compile(r"(?i:name|signed|by|witness|nok|kin)[^\S\n]{0,2}[:=]")
_GREETING: Final = re.compile(r"\b(?:[Dd]ear|[Hh]i|[Hh]ello)[^\S\n]{1,2}+")
_ENCOUNTER: Final = re.compile(
    r"""(?i:\b(?:seen|signed|reviewed|examined|dictated|referred|accompanied|interpreted|assessed)
    [ ]by | \b(?:spoke|spoken|speaking|discussed)[ ](?:to|with) | \bon[ ]behalf[ ]of
    | \b(?:known[ ]as|named|called|née|nee|cc|referring))[^\S\n]{1,2}+""",
    re.VERBOSE,
)
_SURNAME_LIKE: Final = re.compile(
    r"(?:o'|mc|fitz)[a-z]{4,}"
    r"|[a-z]{3,}(?:opoulos|sson|sk[iay]|wicz|enko|ovic|shvili|oglu|dottir)"
)
_DEPARTMENT: Final = re.compile(
    r"(?:ology|ologist|iatry|iatric|iatrics|iatrician|therapy|surgery)s?\Z"
)


class _Word(NamedTuple):
    """A word; `text` is without accents, in lower case and without a possessive 's.

    Attributes:
        end: Where `text` ends; `after`, where a possessive 's behind it does.
    """

    start: int
    end: int
    after: int
    text: str
    capital: bool
    upper: bool


def name_spans(text: str, rule: str) -> list[Span]:
    """Where `text` names people; each span is named after `rule`."""
    return [Span(start, end, rule) for start, end in _Finder(text).found()]


class _Finder:
    """One search through one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = [_word(match) for match in _WORD.finditer(text)]
        self._number = {word.start: number for number, word in enumerate(self._words)}

    def found(self) -> Iterator[tuple[int, int]]:
        yield from self._labelled()
        for number, word in enumerate(self._words):
            if not word.capital:
                if word.text in RELATIONS:
                    yield from self._relative(number)
                elif word.text in SHORT_TITLES:
                    yield from self._titled(number)
                continue
            if word.text in SHORT_TITLES or word.text in LONG_TITLES:
                yield from self._titled(number)
            if word.text in RELATIONS:
                yield from self._relative(number)
            yield from self._inverted(number)
            yield from self._free(number)

    # The ways to tell.

    def _titled(self, number: int) -> Iterator[tuple[int, int]]:
        """After a title any capitalised words are a name."""
        short = self._words[number].text in SHORT_TITLES
        if not self._follows(number, _AFTER_INITIAL if short else _SPACE):
            return
        after = number + 1
        if self._words[after].text in _TITLES:
            return  # "Prof Dr": the second title will tell
        last = self._run(after)
        if last is not None:
            yield self._span(after, last)

    def _labelled(self) -> Iterator[tuple[int, int]]:
        for pattern in (_LABEL, _GREETING, _ENCOUNTER):
            for match in pattern.finditer(self._text):
                first = self._number.get(match.end())
                if first is not None:
                    certain = pattern is _GREETING or bool(_CLOSE_LABEL.search(match.group()))
                    yield from self._behind(first, certain, inverted=pattern is _LABEL)

    def _behind(self, first: int, certain: bool, *, inverted: bool) -> Iterator[tuple[int, int]]:
        """A name at `first`; if that is not `certain`, one of two words or one that is listed.

        `inverted`: it may be "Surname, Given".
        """
        last = self._run(first)
        if last is None or self._is_eponym(last):
            return
        words = self._words[first : last + 1]
        if inverted and self._comma_after(last):
            further = self._run(last + 1)
            last = last if further is None else further
        elif not certain and not any(_listed(word) for word in words):
            capitals = [word for word in words if word.capital]
            if len(capitals) < 2 or any(_is_department(word) for word in words):
                return
        yield self._span(first, last)

    def _relative(self, number: int) -> Iterator[tuple[int, int]]:
        """As in "her husband Tadeusz"; a title behind the relative has its own way."""
        if self._follows(number, _SPACE) or self._comma_after(number):
            first = number + 1
            if not self._words[first].upper:
                last = self._run(first)
                if last is not None and not self._is_eponym(last):
                    yield self._span(first, last)

    def _inverted(self, number: int) -> Iterator[tuple[int, int]]:
        """As in "Kowalska, Ewa" and "OKORO, Blessing"; one of the two has to be listed."""
        word = self._words[number]
        if word.text in NOT_NAMES or len(word.text) < 2 or not self._comma_after(number):
            return
        first = number + 1
        given = self._words[first]
        if not given.capital or given.text in NOT_NAMES:
            return
        surname = _is_surname(word.text) or _any(word.text, AMBIGUOUS_SURNAMES)
        either = _any(given.text, GIVEN) or _any(given.text, AMBIGUOUS_GIVEN)
        begins = self._begins_line(number)
        if (surname and either) or (either and (word.upper or begins)) or (surname and begins):
            last = self._run(first)
            yield self._span(self._first_of(number), first if last is None else last)

    def _free(self, number: int) -> Iterator[tuple[int, int]]:
        """Listed names in the middle of a text."""
        word = self._words[number]
        if word.text in NOT_NAMES and not _any(word.text, AMBIGUOUS_GIVEN):
            return
        if _any(word.text, GIVEN) or self._starts_name(number):
            found = self._run(number)
            last = number if found is None else found
            if last == number and word.upper and len(word.text) <= _ABBREVIATION:
                return
            if not self._is_eponym(last):
                yield self._span(number, last)
        elif _is_surname(word.text) and not self._is_eponym(number):
            first = self._first_of(number)
            if first < number or not word.upper or len(word.text) > _ABBREVIATION:
                yield self._span(first, number)
        elif _any(word.text, AMBIGUOUS_SURNAMES) and not self._is_eponym(number):
            first = self._first_of(number)
            if first < number and len(self._words[first].text) == 1:  # "T. Young"
                yield self._span(first, number)
        else:
            yield from self._pair(number)

    def _pair(self, number: int) -> Iterator[tuple[int, int]]:
        """Two or three words with a capital each in the middle of a sentence, in no list."""
        before = self._words[number - 1] if number else None
        if self._begins_sentence(number) or (
            before and before.capital and self._follows(number - 1, _SPACE)
        ):
            return
        last = self._run(number)
        if last is None or not 1 <= last - number <= 2 or self._is_eponym(last):
            return
        words = [word for word in self._words[number : last + 1] if word.text not in PARTICLES]
        if len(words) > 1 and all(_may_be_name(word) for word in words):
            yield self._span(number, last)

    def _starts_name(self, number: int) -> bool:
        """As in "Grace Turner": a given name that may be a word, before what may be a surname."""
        word = self._words[number]
        if not _any(word.text, AMBIGUOUS_GIVEN) or not self._follows(number, _SPACE):
            return False
        after = self._words[number + 1]
        return after.capital and (
            _is_surname(after.text)
            or (_any(after.text, AMBIGUOUS_SURNAMES) and not self._is_eponym(number + 1))
        )

    # Words beside each other.

    def _run(self, first: int) -> int | None:
        """The last word of the name that begins at word `first`; None if none does."""
        last: int | None = None
        number, particles = first, 0
        while number < len(self._words) and number - first < _MOST_WORDS + _MOST_PARTICLES:
            word = self._words[number]
            if number > first:
                before = self._words[number - 1]
                gap = _AFTER_INITIAL if before.capital and len(before.text) == 1 else _SPACE
                if not self._follows(number - 1, gap):
                    break
            if word.text in PARTICLES and (not word.capital or number > first):
                particles += 1
                if particles > _MOST_PARTICLES:
                    break
            elif word.capital and (word.text not in NOT_NAMES or len(word.text) == 1):
                if number > first and word.text in EPONYM_NOUNS:
                    break
                last, particles = number, 0
            else:
                break
            number += 1
        if last is not None and all(len(word.text) == 1 for word in self._words[first : last + 1]):
            return None  # letters alone: "Vitamin B", "patient X"
        return last

    def _first_of(self, number: int) -> int:
        """Where the name begins whose surname is word `number`."""
        first = number
        while first > 0 and number - first < 2:
            before = self._words[first - 1]
            initial = before.capital and len(before.text) == 1
            if not self._follows(first - 1, _AFTER_INITIAL if initial else _SPACE):
                break
            if not before.capital or (before.text in NOT_NAMES and not initial):
                break
            if before.text in _TITLES:
                break
            if self._begins_sentence(first - 1) and not (initial or _listed(before)):
                break
            first -= 1
        return first

    def _follows(self, number: int, gap: re.Pattern[str]) -> bool:
        """Whether the next word stands behind word `number` with such a gap."""
        if number + 1 >= len(self._words):
            return False
        start, end = self._words[number].after, self._words[number + 1].start
        return end - start <= 4 and gap.match(self._text[start:end]) is not None

    def _comma_after(self, number: int) -> bool:
        return self._follows(number, _COMMA)

    def _begins_line(self, number: int) -> bool:
        start = self._words[number].start
        before = self._text[max(0, start - 4) : start].rstrip(" \t-*•")
        return not before or before[-1] in "\n:;(|"

    def _begins_sentence(self, number: int) -> bool:
        start = self._words[number].start
        before = self._text[max(0, start - 3) : start].rstrip()
        return not before or before[-1] in ".!?:;\n"

    def _is_eponym(self, last: int) -> bool:
        """Whether a noun as in "Parkinson's disease" or "Glasgow Coma Scale" comes soon after."""
        for number in (last, last + 1):
            if not self._follows(number, _SPACE):
                return False
            if self._words[number + 1].text in EPONYM_NOUNS:
                return True
        return False

    def _span(self, first: int, last: int) -> tuple[int, int]:
        word = self._words[last]
        return self._words[first].start, word.end


def _word(match: re.Match[str]) -> _Word:
    raw = match.group()
    plain = raw[:-2] if raw[-2:].lower() in {"'s", "’s"} and len(raw) > 2 else raw
    return _Word(
        start=match.start(),
        end=match.start() + len(plain),
        after=match.end(),
        text=_fold(plain) if len(plain) <= 64 else "",
        capital=plain[0].isupper(),
        upper=len(plain) > 1 and plain.isupper(),
    )


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.replace("’", "'").replace("ł", "l"))
    return "".join(item for item in decomposed if not unicodedata.combining(item)).lower()


def _any(word: str, names: frozenset[str]) -> bool:
    """Whether a word, or a part of one like "Smith-Jones", is listed."""
    if word in names:
        return True
    return "-" in word and any(part in names for part in word.split("-"))


def _listed(word: _Word) -> bool:
    return _any(word.text, _LISTED)


def _is_surname(word: str) -> bool:
    return _any(word, SURNAMES) or _SURNAME_LIKE.fullmatch(word) is not None


def _may_be_name(word: _Word) -> bool:
    return word.capital and not word.upper and len(word.text) > 1 and not _is_department(word)


def _is_department(word: _Word) -> bool:
    return _DEPARTMENT.search(word.text) is not None


def pattern_list() -> tuple[re.Pattern[str], ...]:
    """Every pattern that texts are searched by here, but for single words."""
    return (_LABEL, _CLOSE_LABEL, _GREETING, _ENCOUNTER, _DEPARTMENT)


def listed(name: str) -> bool:
    """Whether the lists have every part of a name, particles and initials aside."""
    words = [_word(match) for match in _WORD.finditer(name)]
    return all(len(word.text) == 1 or word.text in PARTICLES or _listed(word) for word in words)
