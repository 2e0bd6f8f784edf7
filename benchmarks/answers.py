"""Answers of a language model from what nodes find, and from a central index (paper, section 4.3).

python -m benchmarks.answers --pubmedqa FOLDER --base-url http://127.0.0.1:8000/v1 --model NAME

PubMedQA's questions are answered by yes, no or maybe. Half of the work is the model's: compare
figures of one model only.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import trio

from benchmarks.pubmedqa import PubMedConsortium, Question
from zerorag_p2p.config import GenerationConfig
from zerorag_p2p.experiments.answers import Prompt, decision_in
from zerorag_p2p.model import ContentHash
from zerorag_p2p.rag.endpoint import Endpoint
from zerorag_p2p.testnet.processes import LocalConsortium
from zerorag_p2p.workloads.pubmedqa import PubMedQA

K = 5


def decide(endpoint: Endpoint, prompt: Prompt, passage_chars: int) -> str:
    """The model's decision; "" if it makes none."""
    pieces: list[str] = []
    trio.run(endpoint.complete, prompt.messages(passage_chars), pieces.append)
    return decision_in("".join(pieces))


def report(name: str, found: int, right: int, count: int) -> None:
    print(f"{name:<14} abstract among {K}: {found / count:6.1%}   right: {right / count:6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pubmedqa", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--key-environment", default="", metavar="NAME")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings = GenerationConfig(
        base_url=options.base_url, model=options.model, key_environment=options.key_environment
    )
    endpoint = Endpoint(settings, randomness=random.Random(options.seed))
    data = PubMedQA.load(options.pubmedqa)
    with tempfile.TemporaryDirectory(prefix="answers-") as name:
        folder = Path(name)
        with LocalConsortium(folder) as nodes:
            consortium = PubMedConsortium.set_up(
                data, nodes, folder, count=options.nodes, seed=options.seed
            )
            asked = consortium.draw(options.questions, options.seed)
            ask_all(consortium, endpoint, settings, asked)


def ask_all(
    consortium: PubMedConsortium,
    endpoint: Endpoint,
    settings: GenerationConfig,
    asked: Sequence[tuple[str, Question]],
) -> None:
    data = consortium.data
    contents = {data.hash_of(number): data.content(number) for number in range(len(data.pmids))}
    ways = ("ZeroRAG", "central index")
    found, right = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
    always = 0
    for asker, question in asked:
        with consortium.nodes.client(asker) as client:
            answer = client.query(question.text, k=K)
        hashes = {
            "ZeroRAG": [ContentHash(item["content_hash"]) for item in answer["documents"]],
            "central index": consortium.exact(asker, question, K),
        }
        truth = data.decisions[question.abstract]
        always += truth == "yes"
        for way in ways:
            prompt = Prompt(question.text, [contents[item] for item in hashes[way]])
            decision = decide(endpoint, prompt, settings.passage_chars)
            found[way] += data.hash_of(question.abstract) in hashes[way]
            right[way] += decision == truth
    for way in ways:
        report(way, found[way], right[way], len(asked))
    print(f"{'always yes':<14} {'':>23}   right: {always / len(asked):6.1%}")
    print("paper, 50,000 peers, Phi3.5-mini-instruct: ZeroRAG 93.0% and 77%, HNSW 97.3% and 79%")


if __name__ == "__main__":
    main()
