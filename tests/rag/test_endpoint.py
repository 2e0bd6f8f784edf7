"""The endpoint of a language model: which one may be used, its key, and how often it is asked."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from tests.rag.language_model import LanguageModel, fails, language_model, streams
from zerorag_p2p.config import GenerationConfig
from zerorag_p2p.errors import ConfigError, GenerationError, KeyFileError
from zerorag_p2p.model_server import server
from zerorag_p2p.rag.endpoint import Endpoint
from zerorag_p2p.rag.prompt import Message

MESSAGES = (Message("system", "rules"), Message("user", "question"))

# Put together, for a traceback shows the lines of code it passes.
KEY = "-".join(["sk", "very", "secret"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_FIRST_PAUSE_S", 0.001)


def endpoint(base_url: str, **settings: Any) -> Endpoint:
    config = GenerationConfig(base_url=base_url, model="scripted", **settings)
    return Endpoint(config, randomness=random.Random(1), clock=lambda: 1_000_000_000.0)


async def complete(model: LanguageModel, **settings: Any) -> str:
    pieces: list[str] = []
    assert await endpoint(model.base_url, **settings).complete(MESSAGES, pieces.append) is None
    return "".join(pieces)


async def test_a_failure_that_may_pass_is_tried_again_but_not_for_ever() -> None:
    with language_model(fails(503), fails(429, retry_after="0"), streams("yes")) as model:
        assert await complete(model) == "yes"
        assert len(model.requests) == 3
        assert model.requests[0].body == model.requests[2].body
    with language_model(fails(503)) as model:
        with pytest.raises(GenerationError, match=r"failed \(503\)"):
            await complete(model, retries=2)
        assert len(model.requests) == 3


@pytest.mark.parametrize(
    "behaviour",
    [
        fails(400),
        fails(401),
        fails(429, retry_after="600"),
        fails(503, retry_after="Sun, 09 Sep 2001 02:46:40 GMT"),
        streams("half", finish=None, end=b""),
    ],
    ids=["bad request", "bad key", "wait too long", "wait until too late", "begun"],
)
async def test_what_would_not_help_is_not_tried(behaviour: Any) -> None:
    with language_model(behaviour) as model:
        with pytest.raises(GenerationError):
            await complete(model)
        assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("Sun, 09 Sep 2001 01:47:00 GMT", 20.0),
        ("Sun, 09 Sep 2001 01:46:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1" * 400, 111_111_111.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert server._retry_after(value, 1_000_000_000.0) == seconds


async def test_half_of_a_character_becomes_one_that_can_be_written() -> None:
    with language_model(streams("a\ud83d", "b\ud83d\ude00")) as model:
        assert await complete(model) == "a\ufffdb\U0001f600"


async def test_an_endpoint_that_is_not_there_is_named_without_its_path() -> None:
    unreachable = endpoint("http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(GenerationError, match=r"127\.0\.0\.1:9 cannot be reached"):
        await unreachable.complete(MESSAGES, print)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"base_url": "models.example.org"}, "no address"),
        ({"base_url": "ftp://models.example.org"}, "no address"),
        ({"base_url": "https://[::1"}, "no address"),
        ({"base_url": "https://models.example.org:port"}, "no address"),
        ({"base_url": "https://me:secret@models.example.org/v1"}, "plain address"),
        ({"base_url": "https://models.example.org/v1?key=secret"}, "plain address"),
        ({"base_url": "http://models.example.org/v1"}, "unencrypted"),
        ({"base_url": "http://10.0.0.5:8000/v1"}, "unencrypted"),
        ({"base_url": "https://models.example.org/v1", "model": ""}, "generation.model"),
    ],
)
def test_an_endpoint_that_may_not_be_used_is_refused_at_the_start(
    settings: dict[str, str], fault: str
) -> None:
    config = GenerationConfig(**{"model": "scripted", **settings})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=fault) as caught:
        Endpoint(config, randomness=random.Random(1))
    assert "secret" not in str(caught.value)


def test_an_unencrypted_endpoint_needs_an_explicit_word_or_this_machine() -> None:
    for base_url in ("http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:8000/v1"):
        endpoint(base_url)
    endpoint("http://10.0.0.5:8000/v1", allow_http=True)
    endpoint("https://models.example.org/v1")


async def test_a_key_comes_from_a_private_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    monkeypatch.setenv("SOME_KEY", KEY)
    with language_model(streams("yes")) as model:
        await complete(model)
        await complete(model, key_file=str(path))
        await complete(model, key_environment="SOME_KEY")
        path.chmod(0o640)
        with pytest.raises(KeyFileError, match="others may access"):
            await complete(model, key_file=str(path))
        with pytest.raises(KeyFileError, match="does not hold a key"):
            await complete(model, key_environment="NO_SUCH_KEY")
    sent = [request.headers.get("authorization") for request in model.requests]
    assert sent == [None, f"Bearer {KEY}", f"Bearer {KEY}"]


@pytest.mark.parametrize("status", [401, 500, 302])
async def test_the_key_is_in_no_error_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o600)
    caplog.set_level(logging.DEBUG)
    body = f'{{"error": {{"code": "{KEY} is wrong", "message": "wrong key {KEY}"}}}}'.encode()
    with language_model(fails(status, body, location="http://127.0.0.1:9/")) as model:
        used = endpoint(model.base_url, key_file=str(path))
        with pytest.raises(GenerationError) as caught:
            await used.complete(MESSAGES, print)
    assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {KEY}"}
    for text in (str(caught.value), repr(caught.value), repr(used), repr(vars(used)), caplog.text):
        assert KEY not in text


async def test_a_file_that_holds_more_than_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("two words\nand a line")
    path.chmod(0o600)
    with (
        language_model(streams("yes")) as model,
        pytest.raises(KeyFileError, match="does not hold a key") as caught,
    ):
        await complete(model, key_file=str(path))
    assert "two words" not in str(caught.value)


async def test_proxies_and_passwords_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password other")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with language_model(streams("yes")) as model:
        assert await complete(model) == "yes"
        assert "authorization" not in model.requests[0].headers
