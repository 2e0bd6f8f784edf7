import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.embedding.chunking import split_text
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
