"""What the built-in redaction removes, and that it fails closed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.clinical_notes import clinical_notes
from benchmarks.redaction import measure
from zerorag_p2p.config import NodeConfig, RedactionConfig
from zerorag_p2p.errors import ConfigError, RedactionError
from zerorag_p2p.model import Content
from zerorag_p2p.redaction.builtin import RULES, BuiltinRedactor
from zerorag_p2p.redaction.redaction import Redaction, redact
from zerorag_p2p.redaction.spans import Span, merge

ENGINE = BuiltinRedactor()


class Engine:
    """An engine that finds what it was told."""

    rules: Sequence[str] = ("first", "second")

    def __init__(self, *spans: Span) -> None:
        self.found = spans

    def spans(self, text: str) -> Sequence[Span]:
        del text
        return self.found


def redacted(text: str) -> str:
    return redact(text, ENGINE, RULES).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DOB 12/05/1947, seen 3rd of March 2023.", "DOB [date], seen [date]."),
        ("Relapse in March 2021 and on 2022-11-30T10:15:00Z", "Relapse in [date] and on [date]"),
        ("Review on 14 March, again by 5/11.", "Review on [date], again by [date]."),
        ("Am 3. Oktober 2022 aufgenommen", "Am [date] aufgenommen"),
        ("Call 020 7946 0123 or bleep 4417", "Call [phone] or bleep [phone]"),
        ("Write to a.b+c@ward.example.org now", "Write to [email] now"),
        ("See https://x.example/y?z=1 from 192.0.2.44", "See [url] from [ip]"),
        ("MRN: H0092817, NHS No 943 476 5919", "MRN: [record-number], NHS No [national-number]"),
        ("SSN 078-05-1120", "SSN [national-number]"),
        ("Lives at 14 Elm Road, Leeds LS8 2QJ alone", "Lives at [address] alone"),
        ("4021 Larkspur Avenue, Dayton, OH 45402", "[address]"),
        ("wohnhaft Lindenstraße 18, 10969 Berlin", "wohnhaft [address]"),
        ("A 93-year-old man, aged 101", "A [age] man, [age]"),
        ("An 89-year-old man", "An 89-year-old man"),
        ("Dr A. B. Xylander-Quux agreed", "Dr [name] agreed"),
        ("Prof. van der Qwerty's clinic", "Prof. [name]'s clinic"),
        ("KOWALSKA, Ewa was seen", "[name] was seen"),
        ("with her husband Zbigniew today", "with her husband [name] today"),
        ("Patient name: Quux Frobnicate", "Patient name: [name]"),
        ("Mrs Parkinson has Parkinson's disease", "Mrs [name] has Parkinson's disease"),
        ("Ms Grace Young came", "Ms [name] came"),
        ("Siobhán Ní Bhriain rang", "[name] rang"),
        ("GRACE TAYLOR rang", "[name] rang"),
    ],
)
def test_identifiers_are_removed_and_marked(text: str, expected: str) -> None:
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Stevens-Johnson syndrome, Guillain-Barré syndrome, Wilson's disease",
        "Glasgow Coma Scale 14/15, BP 120/80, ratio 1/2/3",
        "BRCA1, CYP2C19*2, HLA-B27, NCT04280705, PMID: 31562797",
        "NICE guideline NG28 of 2015, version 1.2.24",
        "May be repeated. Will need Grace. Max 4 g.",
        "ANA positive, ELISA negative, viral load 1200000 copies/ml",
        "Median 64 years, 95 patients, 92% at 90 days",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert redacted(text) == text


def test_recall_and_precision_on_the_labelled_texts_do_not_fall() -> None:
    """`python -m benchmarks.redaction` prints the figures (docs/redaction.md)."""
    notes = clinical_notes()
    assert notes == clinical_notes()
    for held_out, everything, names in ((False, 0.98, 0.96), (True, 0.94, 0.87)):
        figures = measure([note for note in notes if note.held_out is held_out])
        assert figures["all"].recall >= everything
        assert figures["all"].precision >= 0.98
        assert figures["name"].recall >= names
        for rule in set(RULES) - {"name"}:
            assert figures[rule].recall >= 0.95, rule


@given(st.text(st.sampled_from("Ab1 .,-/@:\n'(é") | st.characters(), max_size=200))
def test_spans_lie_in_the_text_and_everything_else_stays(text: str) -> None:
    spans = ENGINE.spans(text)
    assert all(0 <= span.start < span.end <= len(text) and span.rule in RULES for span in spans)
    kept, after = "", 0
    for removal in merge(spans):
        assert removal.start >= after
        kept += text[after : removal.start] + f"[{removal.mark}]"
        after = removal.end
    assert redact(text, ENGINE, RULES).text == kept + text[after:]


def test_overlapping_spans_become_one_removal_named_after_the_longest() -> None:
    engine = Engine(Span(2, 6, "second"), Span(0, 3, "first"), Span(8, 9, "first"))
    result = redact("0123456789", engine, engine.rules)
    assert result.text == "[second]67[first]9"
    assert result.rules == ("first", "second")


def test_rules_that_do_not_apply_remove_nothing() -> None:
    engine = Engine(Span(0, 3, "first"), Span(2, 6, "second"))
    assert redact("0123456789", engine, ("second",)).text == "01[second]6789"
    assert redact("0123456789", engine, ()).text == "0123456789"


@pytest.mark.parametrize(
    "span",
    [
        Span(0, 11, "first"),
        Span(-1, 2, "first"),
        Span(3, 3, "first"),
        Span(0, 1, "third"),
        Span("0", 1, "first"),  # type: ignore[arg-type]
        None,
    ],
)
def test_what_an_engine_may_not_say_stops_the_text(span: Span) -> None:
    with pytest.raises(RedactionError, match="nothing is sent"):
        redact("0123456789", Engine(span), ("second",))


def test_an_error_of_an_engine_stops_the_text_and_does_not_quote_it() -> None:
    class Failing(Engine):
        def spans(self, text: str) -> Sequence[Span]:
            raise ValueError(text)

    with pytest.raises(RedactionError) as caught:
        redact("a secret", Failing(), ("first",))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def config(text: str) -> RedactionConfig:
    return NodeConfig.from_toml(text).redaction


def test_rules_apply_by_collection() -> None:
    redaction = Redaction.from_config(
        config(
            "[redaction]\ndefault = ['phone', 'date']\nwithhold_embeddings = ['open', 'letters']\n"
            "[redaction.collections]\nnotes = ['identifiers']\nopen = []\n'cafe\u0301' = ['name']"
        ),
        ENGINE,
    )
    assert redaction.rules("notes") == RULES
    assert redaction.rules("anything else") == ("date", "phone")
    assert redaction.rules("open") == ()
    assert redaction.rules("caf\u00e9") == ("name",)
    content = Content("Dr Quux", "on 14 March 2023", 1, 2, b"s" * 16)
    assert redaction.redact(content, "notes") == (
        Content("Dr [name]", "on [date]", 1, 2),
        ("name", "date"),
    )
    assert redaction.redact(content, "open") == (content, ())
    nobody = Content("Dose", "5 mg", salt=b"s" * 16)
    assert redaction.redact(nobody, "notes") == (nobody, ())
    withheld = [redaction.withholds_embeddings(name) for name in ("notes", "open", "letters")]
    assert withheld == [False, True, True]
    assert redaction.embedded("Dr Quux on 14 March 2023", "notes") == "Dr  on "
    assert redaction.embedded("14 March 2023", "notes") == "[date]"
    assert redaction.embedded("Dr Quux", "open") == "Dr Quux"
    applied = [redaction.applied(name) for name in ("notes", "other", "open")]
    assert applied == ["builtin " + " ".join(RULES), "builtin date phone", ""]
    assert not Redaction().withholds_embeddings("notes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[redaction]\ndefault = ['dates']", "redaction.default.*no rule 'dates'; known: identif"),
        ("[redaction.collections]\nnotes = ['x']", "redaction.collections.notes.*no rule 'x'"),
        ("[redaction.collections]\nnotes = 'date'", "has to be a list of texts"),
        ("[redaction]\ncollections = ['notes']", "has to be a table"),
    ],
)
def test_a_rule_that_there_is_not_is_a_mistake_in_the_settings(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Redaction.from_config(config(text), ENGINE)


@pytest.mark.parametrize("rules", [(), ("a", "a"), ("",), ("a\nb",), ("x" * 129,)])
def test_rules_that_a_release_cannot_list_are_refused(rules: tuple[str, ...]) -> None:
    engine = Engine()
    engine.rules = rules
    with pytest.raises(ConfigError, match="redaction engine"):
        Redaction.from_config(RedactionConfig(), engine)
