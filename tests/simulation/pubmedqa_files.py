"""Small files in the format of PubMedQA's, with random embeddings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

DECISIONS = ("yes", "no", "maybe", "yes")


def write_pubmedqa(folder: Path, abstracts: int) -> None:
    generator = np.random.default_rng(1)
    items, lines = {}, []
    for number in range(abstracts):
        items[str(number)] = {
            "QUESTION": f"question {number}?",
            "CONTEXTS": [f"abstract {number},", "second part"],
            "MESHES": ["Humans", f"Topic {number % 2}", "Humans"],
            "final_decision": DECISIONS[number % len(DECISIONS)],
        }
        rephrasings = [f"question {number}, variant {variant}?" for variant in range(5)]
        lines.append(json.dumps({"pmid": str(number), "rephrasings": rephrasings}))
    (folder / "ori_pqal.json").write_text(json.dumps(items))
    (folder / "rephrasings.jsonl").write_text("\n".join(lines))
    np.savez(
        folder / "embeddings-all-mpnet-base-v2.npz",
        pmid=np.array(list(items)),
        documents=generator.normal(size=(abstracts, 768)).astype(np.float16),
        queries=generator.normal(size=(abstracts, 6, 768)).astype(np.float16),
    )
