"""Properties of the fusion of rankings, and of what is looked up of a question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import MAX_SEARCHED_WORDS
from zerorag_p2p.library.lexical import fuse, searched_words
from zerorag_p2p.vocabulary import COMMON_WORDS

rankings = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=12), max_size=4)
dampings = st.floats(0, 100)


@given(rankings, dampings)
def test_everything_ranked_is_in_the_fused_ranking_once(
    given_rankings: list[list[int]], damping: float
) -> None:
    fused = fuse(given_rankings, damping=damping)
    assert sorted(fused) == sorted({item for ranking in given_rankings for item in ranking})


@given(st.lists(st.integers(), unique=True, max_size=12), st.integers(1, 4))
def test_rankings_that_agree_stay_as_they_are(ranking: list[int], count: int) -> None:
    assert fuse([ranking] * count) == ranking
    assert fuse([ranking, []]) == ranking


@given(rankings, dampings)
def test_what_no_ranking_has_behind_another_is_not_behind_it(
    given_rankings: list[list[int]], damping: float
) -> None:
    fused = fuse(given_rankings, damping=damping)
    absent = 1_000

    def places(item: int) -> list[int]:
        return [ranking.index(item) if item in ranking else absent for ranking in given_rankings]

    for place, item in enumerate(fused):
        for later in fused[place + 1 :]:
            pairs = list(zip(places(item), places(later), strict=True))
            assert any(first < second for first, second in pairs) or all(
                first == second for first, second in pairs
            )


def test_the_second_of_both_beats_the_first_of_one() -> None:
    assert fuse([["a", "b"], ["c", "b"]]) == ["b", "a", "c"]


@given(st.text(max_size=400))
def test_looked_up_are_letters_and_digits_only_each_word_once(question: str) -> None:
    words = searched_words(question)
    assert len(words) == len(set(words)) <= MAX_SEARCHED_WORDS
    for word in words:
        assert word not in COMMON_WORDS
        assert all(character == "_" or character.isalnum() for character in word)


def test_the_words_of_a_question_are_in_its_order() -> None:
    question = "What is the dose of Apixaban 2.5 mg, and is apixaban safe?"
    assert searched_words(question) == ["dose", "apixaban", "2", "5", "mg", "safe"]
    assert len(searched_words(" ".join(map(str, range(500))))) == MAX_SEARCHED_WORDS
