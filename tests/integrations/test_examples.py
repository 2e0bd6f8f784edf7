"""The examples, as a user runs them, against a small testnet."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zerorag_p2p.testnet.background import TestnetStarter

EXAMPLES = Path(__file__).parents[2] / "examples"

NEEDS = {
    "langchain_retriever.py": "langchain_core",
    "llama_index_retriever.py": "llama_index",
    "haystack_pipeline.py": "haystack",
    "mcp_client.py": "mcp",
}

TEXT = "Metformin dose has to be reduced in renal failure."


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == NEEDS.keys()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_finds_the_document_of_another(
    name: str, zerorag_testnet: TestnetStarter
) -> None:
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs the package {NEEDS[name]}")
    testnet = zerorag_testnet({"Clinic": [], "General Hospital": [TEXT, "Sepsis in children."]})
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ZERORAG_")},
        "ZERORAG_HOME": str(testnet.home("Clinic").root),
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "metformin dose in renal failure"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "General Hospital" in result.stdout
    assert TEXT in result.stdout
