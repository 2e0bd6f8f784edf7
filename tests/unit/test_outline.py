from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.library.outline import (
    Mark,
    TextBuilder,
    outline_from_json,
    outline_json,
    places,
    sections,
)


def test_passages_are_told_their_pages_and_sections() -> None:
    outline = (
        Mark(0, 0, "1"),
        Mark(0, 1, "Sepsis"),
        Mark(50, 2, "Fluids"),
        Mark(100, 0, "2"),
        Mark(150, 3, "Children"),
        Mark(200, 1, "Shock"),
        Mark(200, 0, "3"),
    )
    spans = [(0, 50), (40, 120), (120, 150), (150, 201), (200, 300)]
    assert places(outline, spans) == [
        {"page": "1", "section": "Sepsis"},
        {"page": "1-2", "section": "Sepsis"},
        {"page": "2", "section": "Sepsis > Fluids"},
        {"page": "2-3", "section": "Sepsis > Fluids > Children"},
        {"page": "3", "section": "Shock"},
    ]
    assert sections(outline) == [0, 50, 150, 200]


def test_what_comes_before_the_first_heading_belongs_to_it_if_they_share_a_passage() -> None:
    assert places((Mark(5, 1, "A"),), [(0, 4), (0, 9)]) == [{}, {"section": "A"}]
    assert places((), [(0, 4)]) == [{}]


marks = st.lists(
    st.builds(Mark, st.integers(0, 99), st.integers(0, 3), st.text(max_size=3)), max_size=9
).map(lambda items: tuple(sorted(items, key=lambda mark: mark.offset)))


@given(marks)
def test_outlines_survive_json(outline: tuple[Mark, ...]) -> None:
    assert outline_from_json(outline_json(outline)) == outline


@given(st.lists(st.tuples(st.integers(-1, 3), st.sampled_from(["", " a\n", "b c", " "]))))
def test_marks_point_at_what_was_added(steps: list[tuple[int, str]]) -> None:
    builder = TextBuilder()
    for level, text in steps:
        if level > 0:
            builder.add_heading(level, text)
        elif level == 0:
            builder.add_page("7")
        else:
            builder.add_paragraph(text)
    assert builder.length == len(builder.text)
    for mark in builder.outline:
        if mark.level:
            assert builder.text[mark.offset :].startswith(mark.label)
        assert builder.text[: mark.offset] == "" or builder.text[: mark.offset].endswith("\n\n")


def test_a_text_with_an_outline_of_its_own() -> None:
    builder = TextBuilder()
    builder.add_paragraph("first")
    builder.add_text("  head\n\nbody ", (Mark(2, 1, "head"),))
    assert builder.text == "first\n\nhead\n\nbody"
    assert builder.outline == (Mark(7, 1, "head"),)
