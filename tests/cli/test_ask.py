"""`zerorag ask` between two node processes, with a language model as `config.toml` names it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rag.language_model import LanguageModel, fails, language_model, streams
from zerorag_p2p.testnet.processes import LocalConsortium

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TEXT = "Metformin dose has to be reduced in renal failure."
ANSWER = "The metformin dose is reduced in renal failure [1]."
KEY = "-".join(["sk", "very", "secret"])


@dataclass
class Asking:
    nodes: LocalConsortium
    model: LanguageModel

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        home = self.nodes["clinic"].home.root
        command = [sys.executable, "-m", "zerorag_p2p", *map(str, arguments), "--home", str(home)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    folder = tmp_path_factory.mktemp("a")
    key = folder / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    with language_model(streams(ANSWER)) as model, LocalConsortium(folder) as nodes:
        hashing: dict[str, object] = {"embedding.embedder": "hashing"}
        nodes.add("hospital", "General Hospital", hashing)
        generation = {
            "generation.base_url": model.base_url,
            "generation.model": "scripted",
            "generation.key_file": str(key),
            "generation.retries": 0,
        }
        nodes.add("clinic", "City Clinic", {**hashing, **generation})
        nodes.enrol("cardio")
        nodes.start()
        note = folder / "metformin.txt"
        note.write_text(TEXT)
        with nodes.client("hospital") as client:
            client.add_documents([note], "wards")
            client.share("wards")
        yield Asking(nodes, model)


def test_a_question_is_answered_from_the_document_of_another_hospital(
    asking: Asking, tmp_path: Path
) -> None:
    saved = tmp_path / "answer.json"
    result = asking.run("ask", "metformin in renal failure", "--save", saved)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{ANSWER}\n")
    assert "General Hospital" in result.stdout
    assert "verified" in result.stdout
    (request,) = asking.model.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert TEXT in request.user
    assert asking.run("verify", saved).returncode == 0
    as_json = json.loads(asking.run("ask", "metformin in renal failure", "--json").stdout)
    assert as_json["answer"]["text"] == ANSWER
    assert as_json["reused"]["what"] == "answer"
    assert len(asking.model.requests) == 1


def test_a_model_that_fails_is_told_of_without_the_key(asking: Asking) -> None:
    asking.model.script[:] = [fails(401, f'{{"error": "{KEY}"}}'.encode())]
    result = asking.run("ask", "metformin in renal failure", "--no-cache")
    assert result.returncode == 5
    assert TEXT in result.stdout
    assert "refused the key (401)" in result.stderr
    log = asking.nodes["clinic"].log.read_text()
    assert "refused the key (401)" in log
    for text in (result.stdout, result.stderr, log):
        assert KEY not in text
    assert "renal failure" not in log
