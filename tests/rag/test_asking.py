"""Questions to whole nodes, with and without a language model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.node.lab import Lab, add
from tests.rag.language_model import (
    Behaviour,
    LanguageModel,
    answers_whole,
    drips,
    fails,
    floods,
    hangs,
    language_model,
    says,
    streams,
)
from zerorag_p2p.config import AskingConfig, GenerationConfig
from zerorag_p2p.errors import RerankerUnavailable
from zerorag_p2p.library import documents
from zerorag_p2p.model import Purpose
from zerorag_p2p.node.reports import DocumentStatus
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.rag import asking as asking_module
from zerorag_p2p.rag.asking import OWN_LIBRARY_ANSWERS, OWN_LIBRARY_ONLY, Asker
from zerorag_p2p.rag.reports import (
    AskProgress,
    AskReport,
    Question,
    Scope,
    SourcesFound,
    TextGenerated,
)

TEXT = "apixaban is stopped two days before surgery"
OTHER = "insulin is infused in ketoacidosis"
ANSWER = "Apixaban is stopped two days before surgery [1]."


def settings(model: LanguageModel | None, **changes: Any) -> GenerationConfig:
    if model is None:
        return GenerationConfig()
    given: dict[str, Any] = {"connect_timeout_s": 5.0, "silence_timeout_s": 5.0, **changes}
    return GenerationConfig(base_url=model.base_url, model="scripted", **given)


@asynccontextmanager
async def asking(
    folder: Path, model: LanguageModel | None = None, **generation: Any
) -> AsyncIterator[tuple[Node, Node, Asker]]:
    """A node that asks, one that owns documents, and the asker of the first."""
    lab = Lab(folder, "memory", ["ann", "bob"])
    config = replace(lab.config("ann"), generation=settings(model, **generation))
    async with lab.node("ann", config=config) as ann, lab.node("bob") as bob:
        yield ann, bob, Asker(ann)


async def ask(asker: Asker, text: str = TEXT, **settings: Any) -> AskReport:
    return await asker.ask(Question(text=text, **settings), lambda _: None)


def texts(report: AskReport) -> list[str]:
    return [passage.text for passage in report.passages]


async def test_without_a_language_model_the_passages_are_the_answer(tmp_path: Path) -> None:
    async with asking(tmp_path) as (_, bob, asker):
        add(bob, TEXT, OTHER)
        report = await ask(asker)
        assert texts(report) == [TEXT, OTHER]
        assert (report.answer, report.fault) == (None, None)
        assert [passage.number for passage in report.passages] == [1, 2]
        assert report.passages[0].best.owner.organisation == "Bob"
        assert report.search.contacts


async def test_a_model_answers_from_what_was_found_and_its_citations_are_checked(
    tmp_path: Path,
) -> None:
    told: list[AskProgress] = []
    script = streams("Apixaban is stopped two days be", "fore surgery [", "1]. Bleeding stops [9]")
    with language_model(script) as model:
        async with asking(tmp_path, model) as (_, bob, asker):
            add(bob, TEXT)
            report = await asker.ask(Question(text="When is apixaban stopped?"), told.append)
    answer = report.answer
    assert answer is not None
    assert answer.text == "Apixaban is stopped two days before surgery [1]. Bleeding stops"
    assert answer.removed == (9,)
    (citation,) = answer.citations
    assert (citation.number, citation.support, citation.supported) == (1, 1.0, True)
    assert report.fault is None
    events = [type(progress) for progress in told]
    assert events.index(SourcesFound) < events.index(TextGenerated)
    shown = "".join(item.text for item in told if isinstance(item, TextGenerated))
    assert shown == answer.text
    (request,) = model.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "scripted"
    assert TEXT in request.user


async def test_a_server_that_does_not_stream_is_understood(tmp_path: Path) -> None:
    with language_model(answers_whole(ANSWER)) as model:
        async with asking(tmp_path, model) as (_, bob, asker):
            add(bob, TEXT)
            report = await ask(asker)
    assert report.answer is not None
    assert report.answer.text == ANSWER


FAILING: dict[str, tuple[Behaviour, str]] = {
    "refuses the key": (fails(401), "refused the key (401)"),
    "has no such model": (
        fails(404, b'{"error": {"code": "model_not_found", "message": "secret"}}'),
        "no such model or path (404 model_not_found)",
    ),
    "fails": (fails(500), "failed (500)"),
    "redirects": (fails(302, location="http://127.0.0.1:1/"), "is somewhere else (302)"),
    "is rate-limited": (fails(429, retry_after="3600"), "ask again after 3600 s"),
    "hangs before its answer": (hangs(headers=False), "was silent for 0.3 s"),
    "hangs in its answer": (hangs("Apixaban"), "was silent for 0.3 s"),
    "never ends": (drips("word ", 0.02), "did not finish within 1 s"),
    "breaks off": (streams("Apixaban", finish=None, end=b""), "broke off"),
    "ends early": (streams("Apixaban", finish="length"), "cut at generation.max_tokens"),
    "filters": (streams("Apixaban", finish="content_filter"), "early (content_filter)"),
    "says nothing": (streams(), "answered nothing"),
    "is a web site": (says("text/html", b"<p>welcome"), "no chat completion"),
    "sends no JSON": (says("text/event-stream", b"data: {\n\n"), "no JSON"),
    "sends another JSON": (says("application/json", b'{"choices": 3}'), "no chat completion"),
    "sends deep JSON": (says("application/json", b"[" * 100_000), "no JSON"),
    "sends an error": (
        says("text/event-stream", b'data: {"error": {"type": "overloaded"}}\n\n'),
        "reports an error (overloaded)",
    ),
    "sends an endless line": (floods(b"x" * 65_536), "an endless line"),
    "sends endless comments": (floods(b":" + b"x" * 65_535 + b"\n"), "does not stop sending"),
}


@pytest.mark.parametrize("how", FAILING)
async def test_whatever_becomes_of_the_model_the_passages_are_delivered(
    tmp_path: Path, how: str
) -> None:
    behaviour, fault = FAILING[how]
    limits = {"silence_timeout_s": 0.3, "timeout_s": 1.0, "retries": 0}
    with language_model(behaviour) as model:
        async with asking(tmp_path, model, **limits) as (_, bob, asker):
            add(bob, TEXT)
            report = await ask(asker)
    assert report.fault is not None
    assert fault in report.fault
    assert "secret" not in report.fault
    assert texts(report) == [TEXT]
    assert report.passages[0].best.status is DocumentStatus.VERIFIED


async def test_what_was_written_before_a_failure_is_kept(tmp_path: Path) -> None:
    with language_model(hangs(ANSWER)) as model:
        async with asking(tmp_path, model, silence_timeout_s=0.3) as (_, bob, asker):
            add(bob, TEXT)
            report = await ask(asker)
    assert report.answer is not None
    assert report.answer.text == ANSWER
    assert report.fault is not None


async def test_nobody_is_asked_if_a_document_of_our_own_answers(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ann, bob, asker):
        add(ann, TEXT)
        add(bob, f"{TEXT} and started again after it")
        report = await ask(asker)
        assert report.search.stopped == OWN_LIBRARY_ANSWERS
        assert not report.search.contacts
        assert texts(report) == [TEXT]
        assert report.own_best == pytest.approx(1.0, abs=1e-6)
        network = await ask(asker, scope=Scope.NETWORK)
        assert [passage.best.owner.organisation for passage in network.passages] == ["Bob"]
        assert network.own_best is None
        other = await ask(asker, OTHER)
        assert other.search.contacts
        assert {passage.best.owner.organisation for passage in other.passages} == {"Ann", "Bob"}


async def test_our_own_documents_are_enough_if_nothing_else_is_wanted(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ann, bob, asker):
        add(ann, OTHER)
        add(bob, TEXT)
        report = await ask(asker, scope=Scope.LOCAL)
        assert report.search.stopped == OWN_LIBRARY_ONLY
        assert texts(report) == [OTHER]
        assert not report.search.contacts
        assert bob.status()["requests"]["answered"] == 0 or not bob.refusals()


RARE = "zolgensma is given to infants with weak muscles"
FEVERS = [
    f"{where} a patient with fever and cough"
    for where in ("home", "ward", "clinic", "winter", "travel", "school", "again", "work")
]


@pytest.mark.parametrize("words", [True, False])
async def test_our_own_documents_are_found_by_their_words_too(tmp_path: Path, words: bool) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    config = replace(lab.config("ann"), asking=AskingConfig(words=words))
    async with lab.node("ann", config=config) as ann:
        add(ann, *FEVERS, RARE)
        report = await ask(Asker(ann), "a patient with fever and zolgensma", k=3, scope=Scope.LOCAL)
    assert (RARE in texts(report)) is words
    assert len(texts(report)) == 3
    best = max(passage.score for passage in report.passages)
    assert report.own_best == pytest.approx(best, abs=1e-6)


async def test_without_full_text_search_vectors_answer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(documents, "_FULL_TEXT_MODULE", "no_such_module")
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        add(ann, *FEVERS)
        report = await ask(Asker(ann), FEVERS[0], k=1, scope=Scope.LOCAL)
    assert texts(report) == FEVERS[:1]
    assert "no full-text search" in caplog.text


class Reads:
    """Prefers passages that have a word, or does not work."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((question, list(texts)))
        if not self.word:
            raise RerankerUnavailable("it is broken")
        return [float(self.word in text) for text in texts]


async def test_a_reranker_orders_what_we_and_others_have(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ann, bob, _):
        add(ann, *FEVERS[:4])
        add(bob, RARE, FEVERS[5])
        question = "fever or weak muscles"
        plain = await ask(Asker(ann), question, k=2)
        reranker = Reads("school")
        report = await ask(Asker(ann, reranker=reranker), question, k=2)
        assert texts(report)[0] == FEVERS[5]
        assert FEVERS[5] not in texts(plain)
        ((asked, read),) = reranker.asked
        assert asked == question
        assert set(read) == {*FEVERS[:4], FEVERS[5], RARE}
        assert read[0] == texts(plain)[0]
        broken = Reads("")
        assert texts(await ask(Asker(ann, reranker=broken), question, k=2)) == texts(plain)
        assert len(broken.asked) == 1


async def test_passages_beyond_what_a_reranker_reads_stay_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_module, "RERANKED_PASSAGES", 2)
    lab = Lab(tmp_path, "memory", ["ann"])
    config = replace(lab.config("ann"), asking=AskingConfig(words=False, diversity=0.0))
    async with lab.node("ann", config=config) as ann:
        add(ann, *FEVERS[:3], RARE)
        reranker = Reads("zolgensma")
        report = await ask(Asker(ann, reranker=reranker), FEVERS[0], k=4, scope=Scope.LOCAL)
        plain = await ask(Asker(ann), FEVERS[0], k=4, scope=Scope.LOCAL)
    assert len(reranker.asked[0][1]) == 2
    assert texts(report) == texts(plain)
    assert texts(report)[-1] == RARE


async def test_a_reranker_that_there_is_not_is_told_of_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    config = replace(lab.config("ann"), asking=AskingConfig(reranker=str(tmp_path / "none")))
    async with lab.node("ann", config=config) as ann:
        with pytest.raises(RerankerUnavailable, match="is no cross-encoder"):
            Asker(ann)


async def test_the_same_text_of_two_owners_is_one_passage_with_both(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ann, bob, asker):
        add(ann, OTHER)
        add(bob, OTHER.replace(" ", "  "))
        report = await ask(asker, "ketoacidosis")
        (passage,) = report.passages
        assert {document.owner.organisation for document in passage.documents} == {"Ann", "Bob"}


async def test_the_same_question_is_answered_from_memory_while_nothing_changed(
    tmp_path: Path,
) -> None:
    with language_model(streams(ANSWER)) as model:
        async with asking(tmp_path, model) as (ann, bob, asker):
            add(bob, TEXT)
            first = await ask(asker)
            again = await ask(asker, f"  {TEXT} ")
            assert again.reused is not None
            assert (again.reused.what, again.reused.similarity) == ("answer", 1.0)
            assert again.answer == first.answer
            assert again.search.audit == first.search.audit
            assert len(model.requests) == 1
            for change in (
                {"user": "eve"},
                {"application": "ward"},
                {"purpose": Purpose.HRESCH},
                {"scope": Scope.NETWORK},
                {"k": 2},
                {"marks": ("study",)},
                {"reuse": False},
            ):
                assert (await ask(asker, **change)).reused is None
            asker.invalidate([first.passages[0].best.content_hash])
            assert (await ask(asker)).reused is None
            assert (await ask(asker)).reused is not None
            add(ann, OTHER)
            assert (await ask(asker)).reused is None
            asker.invalidate_all()
            assert (await ask(asker)).reused is None


async def test_a_question_that_is_nearly_the_same_shares_sources_but_no_answer(
    tmp_path: Path,
) -> None:
    with language_model(streams(ANSWER)) as model:
        async with asking(tmp_path, model) as (_, bob, asker):
            add(bob, TEXT)
            await ask(asker)
            near = await ask(asker, TEXT + "?!")
            assert near.reused is not None
            assert (near.reused.what, near.reused.question) == ("sources", TEXT)
            assert near.reused.similarity >= AskingConfig().same_question
            assert len(model.requests) == 2
            assert (await ask(asker, "insulin")).reused is None


async def test_sources_are_kept_when_the_model_fails_and_emergencies_never_are(
    tmp_path: Path,
) -> None:
    with language_model(fails(500), streams(ANSWER)) as model:
        async with asking(tmp_path, model, retries=0) as (_, bob, asker):
            add(bob, TEXT)
            assert (await ask(asker)).fault is not None
            again = await ask(asker)
            assert again.reused is not None
            assert again.reused.what == "sources"
            assert again.answer is not None
            third = await ask(asker)
            assert third.reused is not None
            assert third.reused.what == "answer"
            emergency = {"purpose": Purpose.ETREAT, "reason": "unconscious"}
            await ask(asker, **emergency)
            assert (await ask(asker, **emergency)).reused is None


async def test_what_an_owner_took_back_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as (ann, bob, asker):
        add(bob, TEXT)
        await ask(asker)
        assert (await ask(asker)).reused is not None
        monkeypatch.setattr(ann.core.withdrawals, "covers", lambda _: True)
        gone = await ask(asker)
        assert gone.reused is None
        assert not gone.passages


async def test_a_roster_that_changed_makes_every_answer_new(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ann, bob, asker):
        add(bob, TEXT)
        await ask(asker)
        directory = ann.core.directory
        roster = replace(directory.roster, version=directory.roster.version + 1)
        await ann.core.replace_roster(roster, b"")
        assert (await ask(asker)).reused is None
