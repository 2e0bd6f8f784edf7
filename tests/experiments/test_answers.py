"""Questions that a language model decides from what an experiment found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.rag.language_model import LanguageModel, fails, language_model, streams
from tests.simulation.pubmedqa_files import write_pubmedqa
from zerorag_p2p.cli.main import cli
from zerorag_p2p.config import GenerationConfig
from zerorag_p2p.errors import GenerationError, UsageError
from zerorag_p2p.experiments.answers import DECISIONS, decision_in, draw_sample
from zerorag_p2p.experiments.run import Order, run
from zerorag_p2p.experiments.store import load_result, store_result
from zerorag_p2p.workloads.outcome_table import OutcomeTable


@pytest.fixture(scope="module")
def pubmedqa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pubmedqa")
    write_pubmedqa(folder, 40)
    return folder


def order(
    results: Path, pubmedqa: Path | None, model: LanguageModel | None, variants: str = "exact"
) -> Order:
    settings = None
    if model is not None:
        settings = GenerationConfig(base_url=model.base_url, model="phi", retries=0)
    return Order(
        name="fig5",
        scale="smoke",
        variants=variants,
        pubmedqa=pubmedqa,
        results=results,
        language_model=settings,
    )


def test_every_system_answers_the_same_questions_from_what_it_found(
    tmp_path: Path, pubmedqa: Path
) -> None:
    with language_model(streams("Yes, ", "it is [1].")) as model:
        result = run(order(tmp_path, pubmedqa, model, variants=""))
    samples = [item["sample"]["events"] for item in result["runs"]]
    assert len(samples) == 4
    assert all(sample == samples[0] for sample in samples)
    assert len(samples[0]) == 60  # A tenth of sixty peers' ten questions.
    right = {item["answers"]["right"] for item in result["runs"]}
    assert len(right) == 1, "the model says the same whatever was found"
    assert 0.0 < right.pop() < 1.0
    by_variant = {item["variant"]: item for item in result["runs"]}
    found = by_variant["exact"]["sample"]["results"]
    assert by_variant["HNSW"]["sample"]["results"] == found
    assert all(len(documents) == 5 for documents in found)
    exact = by_variant["exact"]
    assert exact["answers"]["held"] >= exact["by_tenth"][9]["recall_at_1"]
    user = model.requests[0].user
    assert user.count("second part") == 5
    assert "Begin the answer with the word yes, no or maybe." in user
    prompts = {
        (documents_of[0], tuple(documents_of[1]))
        for item in result["runs"]
        for documents_of in zip(item["sample"]["events"], item["sample"]["results"], strict=True)
    }
    assert len(model.requests) <= len(prompts), "nothing is asked twice"


def test_what_is_right_is_what_the_data_says(tmp_path: Path, pubmedqa: Path) -> None:
    rates = {}
    for word in ("yes", "no", "maybe", "perhaps"):
        with language_model(streams(word)) as model:
            result = run(order(tmp_path / word, pubmedqa, model))
        rates[word] = result["runs"][0]["answers"]["right"]
    assert rates["perhaps"] == 0.0
    assert rates["yes"] + rates["no"] + rates["maybe"] == pytest.approx(1.0, abs=1e-5)
    assert rates["yes"] > max(rates["no"], rates["maybe"])  # Half of the decisions.


def test_decisions_and_runs_outlive_a_model_that_fails(tmp_path: Path, pubmedqa: Path) -> None:
    failing = language_model(*[streams("no")] * 24, fails(500))
    with failing as model, pytest.raises(GenerationError):
        run(order(tmp_path, pubmedqa, model))
    assert (tmp_path / "fig5" / DECISIONS).is_file()
    with language_model(streams("no")) as model:
        result = run(order(tmp_path, pubmedqa, model))
        assert 0 < len(model.requests) <= 60 - 24
        store_result(result, tmp_path / "fig5")
        asked = len(model.requests)
        again = run(order(tmp_path, pubmedqa, model))
        assert len(model.requests) == asked
    assert again["runs"][0]["answers"] == result["runs"][0]["answers"]
    assert load_result(tmp_path, "fig5")["runs"][0]["answers"]["model"] == "phi"


def test_damaged_decisions_are_asked_for_again(tmp_path: Path, pubmedqa: Path) -> None:
    path = tmp_path / "fig5" / DECISIONS
    path.parent.mkdir()
    path.write_text("{")
    with language_model(streams("no")) as model:
        run(order(tmp_path, pubmedqa, model))
        assert model.requests


def test_what_cannot_be_answered_is_refused(tmp_path: Path, pubmedqa: Path) -> None:
    with language_model(streams("no")) as model:
        with pytest.raises(UsageError, match="give PubMedQA"):
            run(order(tmp_path, None, model))
        settings = order(tmp_path, pubmedqa, model)
        result = run(order(tmp_path / "old", pubmedqa, None))
        del result["runs"][0]["sample"]
        store_result(result, tmp_path / "old" / "fig5")
        for kept in (tmp_path / "old" / "fig5" / "runs").iterdir():
            kept.unlink()
        with pytest.raises(UsageError, match="kept no results"):
            run(order(tmp_path / "old", pubmedqa, model))
        other = Order(name="table1", results=tmp_path, language_model=settings.language_model)
        with pytest.raises(UsageError, match="no questions for a language model"):
            run(other)
        assert not model.requests


def test_the_command_shows_answers_beside_the_published_ones(
    tmp_path: Path, pubmedqa: Path
) -> None:
    arguments = ["experiment", "run", "fig5", "--scale", "smoke", "--results", str(tmp_path)]
    arguments += ["--variants", "HNSW", "--pubmedqa", str(pubmedqa)]
    lonely = CliRunner().invoke(cli, [*arguments, "--model", "phi"])
    assert lonely.exit_code == 2
    assert "give --base-url and --model" in lonely.stderr
    with language_model(streams("Maybe.")) as model:
        ran = CliRunner().invoke(cli, [*arguments, "--model", "phi", "--base-url", model.base_url])
    assert ran.exit_code == 0, ran.output
    assert "right answers" in ran.stdout
    shown = CliRunner().invoke(cli, ["experiment", "compare", "fig5", "--results", str(tmp_path)])
    (line,) = [line for line in shown.stdout.splitlines() if "right answers" in line]
    assert "79.000%" in line


@pytest.mark.parametrize(
    ("text", "decision"),
    [("Yes, [1].", "yes"), ("The answer is: NO", "no"), ("maybe", "maybe"), ("Nobody knows", "")],
)
def test_a_decision_is_the_first_word_that_is_one(text: str, decision: str) -> None:
    assert decision_in(text) == decision


def test_the_sample_is_of_answerable_questions_of_the_last_tenth() -> None:
    events = np.arange(1_000)
    table = OutcomeTable(
        events=events,
        answerable=events % 2 == 0,
        hit=np.ones(1_000, dtype=np.bool_),
        recall_at_1=np.ones(1_000, dtype=np.bool_),
        results=np.stack([events, np.full(1_000, -1)], axis=1).astype(np.int32),
    )
    sample = draw_sample(table, 1_000, 20, seed=1)
    assert len(set(sample["events"])) == 20
    assert all(event >= 900 and event % 2 == 0 for event in sample["events"])
    assert sample["results"] == [[event] for event in sample["events"]]
    assert draw_sample(table, 1_000, 80, seed=1)["events"] == list(range(900, 1_000, 2))
    assert draw_sample(table, 1_000, 20, seed=2) != sample
