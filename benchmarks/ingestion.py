"""How fast files are read, and how much memory a large one takes.

python -m benchmarks.ingestion [--megabytes 200] [--shape jsonl] [--length 2000]

Nothing is embedded: every passage gets the same vector, so that what is measured is reading,
cutting and storing. No graph is built either. Each measurement is a process of its own. Seconds are
those of the processor, which depend less on what else a machine does.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.reports import FileStatus
from zerorag_p2p.model import Vector

WORDS = "renal cardiac dose potassium stroke insulin fever antibiotic scan ward the of and in"
SHAPES = {
    "jsonl": "JSON Lines of notes",
    "csv": "a table of notes",
    "json": "a FHIR bundle of notes",
    "txt": "one text",
}


class Unembedded(HashingEmbedder):
    """Cuts as any embedder does, and gives every passage the same vector."""

    def __init__(self) -> None:
        super().__init__(384)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        return np.ones((len(texts), 384), dtype=np.float32)


def write(path: Path, size: int, length: int) -> None:
    """Write a file of about `size` bytes whose texts have `length` characters."""
    draw = random.Random(0)
    words = WORDS.split()
    text = ""
    while len(text) < length:
        text += " ".join(draw.choices(words, k=12)).capitalize() + ". "
    with path.open("w") as file:
        file.write(
            {".csv": "id,text\n", ".json": '{"resourceType": "Bundle", "entry": ['}.get(
                path.suffix, ""
            )
        )
        for number in range(size // length):
            said = f"Number {number}. {text}"
            match path.suffix:
                case ".csv":
                    file.write(f"{number},{said}\n")
                case ".txt":
                    file.write(f"{said}\n\n")
                case ".jsonl":
                    file.write(json.dumps({"id": number, "text": said}) + "\n")
                case ".json":
                    note = {"resourceType": "Observation", "id": str(number)}
                    entry = {"resource": {**note, "note": [{"text": said}]}}
                    file.write((",\n" if number else "") + json.dumps(entry))
        file.write("]}" if path.suffix == ".json" else "")


def used_bytes() -> int:
    """Most memory that this process ever used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def add(folder: Path, path: Path) -> dict[str, float]:
    """Add a file twice; seconds, and by how much the most memory ever used grew."""
    with Library(folder, Unembedded(), lambda *_: bytes(400), exact_limit=10**9) as library:
        before, began = used_bytes(), time.process_time()
        report = library.add([path], "notes")
        first = time.process_time() - began
        grown = used_bytes() - before
        began = time.process_time()
        again = library.add([path], "notes")
        second = time.process_time() - began
        assert report.documents == again.documents
        assert [item.status for item in again.files] == [FileStatus.UNCHANGED]
        return {
            "documents": report.documents,
            "seconds": first,
            "again_s": second,
            "grown_bytes": grown,
        }


def hold(folder: Path) -> int:
    """By how much the most memory ever used grows when a library is opened."""
    before = used_bytes()
    with Library(folder, Unembedded(), lambda *_: bytes(400), exact_limit=10**9):
        return used_bytes() - before


def measure(shape: str, megabytes: int, length: int) -> dict[str, float]:
    """Measure one shape of file, in processes of their own."""
    with tempfile.TemporaryDirectory(prefix="zerorag-") as name:
        path = Path(name, f"large.{shape}")
        write(path, megabytes * 1_000_000, length)
        values: dict[str, float] = {"bytes": path.stat().st_size}
        for step in ("add", "hold"):
            command = [sys.executable, "-m", "benchmarks.ingestion", "--step", step]
            command += [str(Path(name, "library")), str(path)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            values |= json.loads(result.stdout)
    return values


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    parser.add_argument("--length", type=int, default=2_000, help="characters of a note")
    parser.add_argument("--step", choices=["add", "hold"])
    parser.add_argument("paths", nargs="*", type=Path)
    given = parser.parse_args()
    if given.step == "add":
        print(json.dumps(add(*given.paths)))
        return
    if given.step == "hold":
        print(json.dumps({"held_bytes": hold(given.paths[0])}))
        return
    for shape in given.shape or SHAPES:
        values = measure(shape, given.megabytes, given.length)
        rate = values["documents"] / values["seconds"]
        print(
            f"{SHAPES[shape]} of {given.length} characters, {values['bytes'] / 1e6:.0f} MB: "
            f"{values['documents']:.0f} documents in {values['seconds']:.0f} s, "
            f"{rate:.0f} a second; added again in {values['again_s']:.0f} s; memory grew by "
            f"{values['grown_bytes'] / 1e6:.0f} MB, and by {values['held_bytes'] / 1e6:.0f} MB "
            "when the library was opened afterwards.",
            flush=True,
        )
        print(json.dumps({"benchmark": f"ingest {shape}", **values}), flush=True)


if __name__ == "__main__":
    main()
