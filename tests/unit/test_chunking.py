import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.embedding.chunking import cut_passages, split_text
from zerorag_p2p.errors import EmbeddingError


def count_words(text: str) -> int:
    return len(text.split())


def count_awkwardly(text: str) -> int:
    # Two pieces joined may have more tokens than both alone.
    return len(text) + text.count("\n\n")


def test_a_text_that_fits_stays_whole() -> None:
    assert split_text("one two\n\nthree", 3, count_words) == ["one two\n\nthree"]
    assert split_text("", 1, count_words) == [""]


def test_paragraphs_are_kept_together_where_they_fit() -> None:
    text = "a b c\n\nd e\n\n\nf g h i\n"
    assert split_text(text, 5, count_words) == ["a b c\n\nd e\n\n\n", "f g h i\n"]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    text = 'One two three. He said "four five!" Six seven?  Eight nine ten'
    assert split_text(text, 4, count_words) == [
        "One two three. ",
        'He said "four five!" ',
        "Six seven?  ",
        "Eight nine ten",
    ]


def test_long_sentences_are_cut_between_words_and_long_words_inside() -> None:
    assert split_text("a b c d e", 2, count_words) == ["a b ", "c d ", "e"]
    assert split_text("abcdefgh", 3, len) == ["ab", "cd", "ef", "gh"]


def test_a_character_longer_than_the_limit_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="longer than the model's 1 tokens"):
        split_text("é", 1, lambda text: len(text.encode()))


texts = st.text(alphabet=st.sampled_from('ab .!?\n\t"é。\r\u2028'), max_size=200)


@given(texts, st.integers(1, 12), st.sampled_from([count_words, len, count_awkwardly]))
def test_nothing_is_lost_and_every_part_fits(text: str, limit: int, count: object) -> None:
    assert callable(count)
    parts = split_text(text, limit, count)
    assert "".join(parts) == text
    assert all(count(part) <= limit for part in parts)
    assert all(parts) or parts == [""]


def overlaps(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:before] for (_, before), (start, _) in itertools.pairwise(spans)]


def test_passages_begin_with_the_end_of_the_one_before() -> None:
    text = "".join(f"This is sentence number {number}. " for number in range(40))
    spans = cut_passages(text, 40, count_words)
    assert len(spans) == 6
    assert all(item.startswith("This is sentence") for item in overlaps(text, spans))
    assert text[slice(*spans[1])].startswith("This is sentence number 6. This is sentence number 7")


def test_where_a_sentence_is_too_long_words_are_repeated() -> None:
    text = "word " * 100
    assert overlaps(text, cut_passages(text, 40, count_words)) == ["word " * 5] * 2


def test_sections_stay_together_and_repeat_nothing() -> None:
    sections = [f"Heading {n}\n\n" + "Some words here. " * 9 for n in range(4)]
    text = "".join(sections)
    starts = [text.index(f"Heading {n}") for n in range(4)]
    spans = cut_passages(text, 40, count_words, starts)
    assert spans == list(itertools.pairwise([*starts, len(text)]))
    # Small ones share a passage.
    text = "".join(f"# {n}\nword\n" for n in range(20))
    spans = cut_passages(text, 40, count_words, [text.index(f"# {n}\n") for n in range(20)])
    assert len(spans) == 2
    assert text[spans[1][0] :].startswith("# 11\n")


def test_a_text_that_fits_is_one_passage() -> None:
    assert cut_passages("# A\nx\n# B\ny", 10, count_words, [0, 6]) == [(0, 11)]
    assert cut_passages("", 10, count_words) == [(0, 0)]


@given(
    texts,
    st.integers(2, 30),
    st.sampled_from([count_words, len, count_awkwardly]),
    st.lists(st.integers(-1, 210), max_size=5).map(sorted),
)
def test_passages_cover_the_text_and_fit(
    text: str, limit: int, count: Callable[[str], int], sections: list[int]
) -> None:
    spans = cut_passages(text, limit, count, sections)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(count(text[start:end]) <= limit for start, end in spans)
    for (first, before), (start, end) in itertools.pairwise(spans):
        assert first <= start <= before < end
