"""Embeddings from an endpoint: what is asked, what is believed, and what a failure costs."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from tests.rag.language_model import (
    Behaviour,
    LanguageModel,
    begin,
    fails,
    hangs,
    language_model,
    says,
)
from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.embedding.endpoint import EndpointEmbedder
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import (
    ConfigError,
    EmbedderUnavailable,
    EmbeddingError,
    ZeroRagError,
)
from zerorag_p2p.library.documents import StoredSource
from zerorag_p2p.library.preparing import Draft, Prepared, prepare
from zerorag_p2p.model import Fingerprint
from zerorag_p2p.model_server import server
from zerorag_p2p.redaction.redaction import Redaction

DIMENSION = 4

# Put together, for a traceback shows the lines of code it passes.
KEY = "-".join(["sk", "very", "secret"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_FIRST_PAUSE_S", 0.001)


def settings(base_url: str, **changes: Any) -> EmbeddingConfig:
    values = {
        "embedder": "endpoint",
        "base_url": base_url,
        "model": "vendor/scripted",
        "revision": "7",
        "dimension": DIMENSION,
        **changes,
    }
    return EmbeddingConfig(**values)


def embedder(model: LanguageModel, **changes: Any) -> EndpointEmbedder:
    return EndpointEmbedder(
        settings(model.base_url, **changes),
        randomness=random.Random(1),
        clock=lambda: 1_000_000_000.0,
    )


def answer(*rows: Any, **changes: Any) -> bytes:
    data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
    return json.dumps({"object": "list", "data": data, **changes}).encode()


def gives(*rows: Any) -> Behaviour:
    return says("application/json", answer(*rows))


def dribbles(piece: bytes, pause_s: float) -> Behaviour:
    """Begins an answer and never ends it."""

    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        begin(handler, "application/json")
        while not over.wait(pause_s):
            handler.wfile.write(piece)

    return behave


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0, 2.0]


def embeds(
    model: LanguageModel, arrange: Callable[[list[Any]], list[Any]] = lambda data: data
) -> Behaviour:
    """Answers by the texts of the request."""

    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        data = [
            {"index": index, "embedding": vector_of(text)}
            for index, text in enumerate(model.requests[-1].body["input"])
        ]
        begin(handler, "application/json")
        handler.wfile.write(json.dumps({"data": arrange(data)}).encode())

    return behave


def unit(text: str) -> np.ndarray[Any, Any]:
    vector = np.array(vector_of(text), np.float32)
    return vector / np.linalg.norm(vector)


def test_texts_are_asked_for_in_batches_and_come_back_in_their_order() -> None:
    texts = ["a" * length for length in range(1, 8)]
    with language_model(fails(500)) as model:
        model.script[:] = [embeds(model, lambda data: data[::-1])]
        vectors = embedder(model, batch_texts=3, prefix="passage: ").embed_documents(texts)
    assert [request.path for request in model.requests] == ["/v1/embeddings"] * 3
    assert [request.body for request in model.requests] == [
        {
            "model": "vendor/scripted",
            "input": [f"passage: {text}" for text in texts[start : start + 3]],
            "encoding_format": "float",
        }
        for start in (0, 3, 6)
    ]
    expected = np.stack([unit(f"passage: {text}") for text in texts])
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert vectors.dtype == np.float32


def test_nothing_is_asked_of_it_before_there_is_a_text() -> None:
    with language_model(fails(500)) as model:
        used = embedder(model)
        assert used.embed_documents([]).shape == (0, DIMENSION)
        assert used.cut("a short text") == [(0, 12)]
    assert model.requests == []


def test_indexes_may_be_left_out() -> None:
    body = json.dumps({"data": [{"embedding": [3, 0, 0, 4]}, {"embedding": [0, 1, 0, 0]}]})
    with language_model(says("application/json; charset=utf-8", body.encode())) as model:
        vectors = embedder(model).embed_documents(["a", "b"])
    np.testing.assert_allclose(vectors, [[0.6, 0.0, 0.0, 0.8], [0.0, 1.0, 0.0, 0.0]], rtol=1e-6)


async def test_a_question_is_embedded_from_a_thread_of_a_running_node() -> None:
    with language_model(fails(500)) as model:
        model.script[:] = [embeds(model)]
        vector = await trio.to_thread.run_sync(embedder(model).embed_query, "which dose?")
    np.testing.assert_allclose(vector, unit("which dose?"), rtol=1e-6)


def test_a_long_question_is_the_mean_of_its_parts() -> None:
    text = "word " * 30
    with language_model(fails(500)) as model:
        model.script[:] = [embeds(model)]
        vector = embedder(model, passage_bytes=100).embed_query(text)
    parts = model.requests[0].body["input"]
    assert "".join(parts) == text
    assert len(parts) > 1
    assert max(map(len, parts)) <= 100
    mean = np.mean([unit(part) for part in parts], axis=0)
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), rtol=1e-5)


def test_passages_are_counted_in_bytes_for_scripts_with_a_token_a_character() -> None:
    used = EndpointEmbedder(settings("http://127.0.0.1/v1", passage_bytes=300))
    text = "心" * 1_000
    spans = used.cut(text)
    assert spans[0][0] == 0
    assert spans[-1][1] == 1_000
    assert all(len(text[start:end].encode()) <= 300 for start, end in spans)


def test_the_fingerprint_is_what_a_local_model_of_the_same_weights_has() -> None:
    config = settings(
        "http://127.0.0.1/v1", model="vendor/small", revision="ab" * 32, pooling="cls"
    )
    assert open_embedder(config).fingerprint == Fingerprint(
        "small", "ab" * 32, dimension=DIMENSION, pooling="cls"
    )


BROKEN: dict[str, tuple[Behaviour, str]] = {
    "no JSON": (says("application/json", b"<p>"), "no list of embeddings"),
    "not even text": (says("application/json", b"\xff\xfe"), "no list of embeddings"),
    "a web site": (says("text/html", b"<p>welcome"), "no list of embeddings"),
    "a list": (says("application/json", b"[]"), "no list of embeddings"),
    "deep": (says("application/json", b"[" * 2_000), "no list of embeddings"),
    "a number": (gives(3), "no list of embeddings"),
    "too few": (gives(), "no list of embeddings"),
    "too many": (gives([1, 0, 0, 0], [1, 0, 0, 0]), "no list of embeddings"),
    "another index": (
        says("application/json", b'{"data": [{"index": 1, "embedding": [1, 0, 0, 0]}]}'),
        "no list of embeddings",
    ),
    "texts for numbers": (gives(["1", 0, 0, 0]), "no list of embeddings"),
    "truths for numbers": (gives([True, 0, 0, 0]), "no list of embeddings"),
    "a huge number": (gives([10**400, 0, 0, 0]), "no list of embeddings"),
    "another dimension": (gives([1, 0, 0]), r"vectors of 3 dimensions, embedding\.dimension is 4"),
    "no end": (dribbles(b" " * 65_536, 0.0), "does not stop sending"),
    "broken off": (says("application/json", answer([1, 0, 0, 0])[:-20]), "no list of embeddings"),
}


@pytest.mark.parametrize(("behaviour", "fault"), BROKEN.values(), ids=BROKEN.keys())
def test_an_answer_that_is_none_is_no_vector_and_is_not_asked_for_again(
    behaviour: Behaviour, fault: str
) -> None:
    with language_model(behaviour) as model:
        with pytest.raises(EmbedderUnavailable, match=fault):
            embedder(model).embed_documents(["a"])
        assert len(model.requests) == 1


def test_two_vectors_for_one_text_and_none_for_another_are_refused() -> None:
    twice = b'{"data": [{"index": 0, "embedding": [1, 0, 0, 0]}, '
    twice += b'{"index": 0, "embedding": [0, 1, 0, 0]}]}'
    with (
        language_model(says("application/json", twice)) as model,
        pytest.raises(EmbedderUnavailable, match="no list of embeddings"),
    ):
        embedder(model).embed_documents(["a", "b"])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300, 0.0])
def test_vectors_without_a_direction_are_refused(bad: float) -> None:
    with (
        language_model(gives([bad, 0, 0, 0])) as model,
        pytest.raises(EmbeddingError) as caught,
    ):
        embedder(model).embed_documents(["a"])
    assert not isinstance(caught.value, EmbedderUnavailable)


def test_rate_limits_and_failures_are_waited_out_but_not_for_ever() -> None:
    with language_model(fails(429, retry_after="0"), fails(503), gives([0, 0, 0, 1])) as model:
        np.testing.assert_allclose(embedder(model).embed_query("a"), [0, 0, 0, 1])
        assert len(model.requests) == 3
    with language_model(fails(429, retry_after="0")) as model:
        with pytest.raises(EmbedderUnavailable, match="too many requests"):
            embedder(model, retries=3).embed_query("a")
        assert len(model.requests) == 4
    with language_model(fails(429, retry_after="600")) as model:
        with pytest.raises(EmbedderUnavailable, match="ask again after 600 s"):
            embedder(model).embed_query("a")
        assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "limits", "fault"),
    [
        (hangs(headers=False), {"silence_timeout_s": 0.05}, "was silent"),
        (dribbles(b" ", 60.0), {"silence_timeout_s": 0.05}, "was silent"),
        (dribbles(b" ", 0.01), {"timeout_s": 0.2}, "did not finish within"),
        (hangs(headers=False), {"timeout_s": 0.1}, "did not finish within"),
        (fails(503), {"retries": 1}, r"failed \(503\)"),
        (fails(404), {}, "no such model or path"),
    ],
)
def test_a_slow_or_failing_endpoint_ends_in_an_error(
    behaviour: Behaviour, limits: dict[str, float], fault: str
) -> None:
    with (
        language_model(behaviour) as model,
        pytest.raises(EmbedderUnavailable, match=fault),
    ):
        embedder(model, **limits).embed_query("a")


def test_an_endpoint_that_is_not_there_is_named() -> None:
    used = EndpointEmbedder(settings("http://127.0.0.1:9/v1", retries=0))
    with pytest.raises(EmbedderUnavailable, match=r"embedding model's endpoint 127\.0\.0\.1:9 can"):
        used.embed_query("a")


def test_one_text_that_the_endpoint_refuses_does_not_keep_out_the_others() -> None:
    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        if any("bad" in text for text in model.requests[-1].body["input"]):
            fails(400, b'{"error": {"code": "context_length_exceeded"}}')(handler, over)
        else:
            embeds(model)(handler, over)

    drafts = [
        Draft(
            StoredSource(id=0, collection="c", name=name, origin="", title="", digest="", parts=1),
            name,
        )
        for name in ("one", "bad", "three")
    ]
    with language_model(behave) as model:
        one, bad, three = prepare(embedder(model), drafts, redaction=Redaction())
    assert isinstance(one, Prepared)
    assert isinstance(three, Prepared)
    assert isinstance(bad, str)
    assert "failed (400 context_length_exceeded)" in bad


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"base_url": ""}, "no address"),
        ({"base_url": "http://10.0.0.5:8080/v1"}, "documents and questions would go to 10.0.0.5"),
        ({"base_url": "https://me:secret@models.example.org/v1"}, "plain address"),
        ({"model": ""}, r"embedding\.model"),
        ({"revision": ""}, r"embedding\.revision"),
        ({"dimension": 0}, r"embedding\.dimension"),
        ({"model": "x" * 200}, "fingerprint"),
        ({"prefix": "x" * 200}, "fingerprint"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_the_start(
    changes: dict[str, Any], fault: str
) -> None:
    config = settings(**{"base_url": "https://models.example.org/v1", **changes})
    with pytest.raises(ConfigError, match=fault) as caught:
        open_embedder(config)
    assert "secret" not in str(caught.value)


def test_an_unencrypted_endpoint_needs_an_explicit_word() -> None:
    open_embedder(settings("http://10.0.0.5:8080/v1", allow_http=True))


@pytest.mark.parametrize("status", [200, 401, 503])
def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    caplog.set_level(logging.DEBUG)
    told = ""
    body = json.dumps({"error": {"code": f"{KEY} is wrong", "message": "the patient"}}).encode()
    with language_model(gives([1, 0, 0, 0]) if status == 200 else fails(status, body)) as model:
        used = embedder(model, key_file=str(path))
        try:
            used.embed_query("the patient")
        except ZeroRagError as error:
            told = f"{error} {error!r}"
    assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {KEY}"}
    assert (told == "") == (status == 200)
    for text in (told, repr(used), caplog.text):
        assert KEY not in text
        assert "the patient" not in text


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o644)
    with language_model(gives([1, 0, 0, 0])) as model:
        with pytest.raises(EmbedderUnavailable, match="others may access"):
            embedder(model, key_file=str(path)).embed_query("a")
        with pytest.raises(
            EmbedderUnavailable, match="does not hold a key for the embedding model"
        ):
            embedder(model, key_environment="NO_SUCH_KEY").embed_query("a")
        with pytest.raises(EmbedderUnavailable, match="does not hold certificates"):
            EndpointEmbedder(
                settings("https://127.0.0.1:9/v1", ca_file=str(tmp_path / "none"))
            ).embed_query("a")
    assert model.requests == []


def test_it_gives_the_same_answers_as_the_model_behind_it() -> None:
    """Documents of a library and questions through an endpoint that runs the hashing embedder."""
    local = HashingEmbedder(64)

    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        rows = local.embed_documents(model.requests[-1].body["input"]).tolist()
        gives(*rows)(handler, over)

    texts = ["warfarin dosing after surgery", "a broken wrist"]
    with language_model(behave) as model:
        used = embedder(model, dimension=64)
        np.testing.assert_allclose(
            used.embed_documents(texts), local.embed_documents(texts), atol=1e-6
        )
        np.testing.assert_allclose(
            used.embed_query(texts[0]), local.embed_query(texts[0]), atol=1e-6
        )
