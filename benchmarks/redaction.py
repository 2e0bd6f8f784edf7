"""How much of what identifies people the built-in redaction finds, and what else it removes.

python -m benchmarks.redaction [--misses]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.clinical_notes import Label, Note, clinical_notes
from zerorag_p2p.redaction.builtin import RULES, BuiltinRedactor
from zerorag_p2p.redaction.people import listed
from zerorag_p2p.redaction.spans import Span

#: Hospital texts in which nobody is named.
CORPUS: Final = Path(__file__).parent.parent / "testnet" / "corpora" / "hospitals"


@dataclass(frozen=True)
class Figures:
    """What became of the identifiers of one rule.

    Attributes:
        labelled: Identifiers in the texts.
        removed: Those of which nothing legible is left, whatever rule removed them.
        named: Those that the right rule had a part in.
        found: Spans that the rule found.
        right: Those that have a part of an identifier in them.
    """

    labelled: int = 0
    removed: int = 0
    named: int = 0
    found: int = 0
    right: int = 0

    @property
    def recall(self) -> float:
        """Share of the identifiers that was removed."""
        return self.removed / self.labelled if self.labelled else 1.0

    @property
    def precision(self) -> float:
        """Share of the removals that were of an identifier."""
        return self.right / self.found if self.found else 1.0


def measure(notes: Sequence[Note]) -> dict[str, Figures]:
    """Figures by rule, "all" of them, and names by whether a list has every part of them."""
    engine = BuiltinRedactor()
    labelled, removed, named, found, right = (Counter[str]() for _ in range(5))
    for note in notes:
        spans = engine.spans(note.text)
        for label in note.labels:
            keys = [label.rule, "all"]
            if label.rule == "name":
                known = listed(note.text[label.start : label.end])
                keys.append("name, listed" if known else "name, not listed")
            for key in keys:
                labelled[key] += 1
                removed[key] += is_removed(note, label, spans)
                named[key] += any(
                    _overlap(span, label) and span.rule == label.rule for span in spans
                )
        for span in spans:
            for key in (span.rule, "all"):
                found[key] += 1
                right[key] += any(_overlap(span, label) for label in note.labels)
    keys = [*RULES, "name, listed", "name, not listed", "all"]
    return {
        key: Figures(labelled[key], removed[key], named[key], found[key], right[key])
        for key in keys
    }


def is_removed(note: Note, label: Label, spans: Sequence[Span]) -> bool:
    """Whether no letter or digit of an identifier is left."""
    return all(
        any(span.start <= place < span.end for span in spans)
        for place in range(label.start, label.end)
        if note.text[place].isalnum()
        and not _is_particle(note.text[label.start : label.end], place - label.start)
    )


def _is_particle(identifier: str, place: int) -> bool:
    """Whether the character belongs to "the" or "of" in a date."""
    words = identifier.split(" ")
    start = 0
    for word in words:
        if start <= place < start + len(word):
            return word.lower() in {"the", "of"}
        start += len(word) + 1
    return False


def _overlap(span: Span, label: Label) -> bool:
    return span.start < label.end and label.start < span.end


def main() -> None:
    """Measure, and print a table for people and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--misses", action="store_true", help="show those of the development half")
    arguments = parser.parse_args()
    notes = clinical_notes()
    halves = {
        "development": measure([note for note in notes if not note.held_out]),
        "held out": measure([note for note in notes if note.held_out]),
    }
    print(f"{len(notes)} texts, {sum(len(note.labels) for note in notes)} identifiers\n")
    print("| half | rule | identifiers | recall | spans | precision |")
    print("|---|---|---|---|---|---|")
    for half, figures in halves.items():
        for rule, item in figures.items():
            precision = f"{item.precision:.3f}" if item.found else "-"
            spans = item.found or "-"
            print(
                f"| {half} | {rule} | {item.labelled} | {item.recall:.3f} | {spans} | {precision} |"
            )
    corpus = [path.read_text(encoding="utf-8") for path in sorted(CORPUS.rglob("*.md"))]
    engine = BuiltinRedactor()
    began = time.process_time()
    spans = sum(len(engine.spans(text)) for text in corpus)
    seconds = time.process_time() - began
    characters = sum(len(text) for text in corpus)
    print(
        f"\n{len(corpus)} documents of the testnet's corpus, "
        f"{sum(len(text.split()) for text in corpus)} words, nobody named: {spans} spans; "
        f"{seconds / characters * 1e6:.1f} ms for 1,000 characters"
    )
    if arguments.misses:
        _print_misses([note for note in notes if not note.held_out])
    print(
        json.dumps(
            {
                half: {
                    rule: {"recall": round(item.recall, 4), "precision": round(item.precision, 4)}
                    for rule, item in figures.items()
                }
                for half, figures in halves.items()
            }
        )
    )


def _print_misses(notes: Sequence[Note]) -> None:
    engine = BuiltinRedactor()
    for note in notes:
        spans = engine.spans(note.text)
        for label in note.labels:
            if not is_removed(note, label, spans):
                start, end = max(0, label.start - 30), label.end + 20
                print(f"missed {label.rule}: {note.text[start:end]!r}")
        for span in spans:
            if not any(_overlap(span, label) for label in note.labels):
                print(f"removed for nothing, {span.rule}: {note.text[span.start : span.end]!r}")


if __name__ == "__main__":
    main()
