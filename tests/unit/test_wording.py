import pytest

from zerorag_p2p.wording import milliseconds, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-0.5, "0 s"), (59.4, "59 s"), (60, "1 min"), (7_199, "1 h"), (200_000, "2 d")],
)
def test_a_span_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (4.25, "4.2 ms"), (44.4, "44 ms"), (12_345.0, "12.3 s")],
)
def test_milliseconds_become_seconds_where_they_are_many(value: float | None, text: str) -> None:
    assert milliseconds(value) == text
