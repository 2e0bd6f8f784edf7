"""A process is killed at random moments while it adds and saves; nothing it reported is lost."""

import os
import random
import select
import signal
from pathlib import Path

import pytest

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.model import Document, SharingTerms, Vector
from zerorag_p2p.wire.embedding import transmitted

KILLS = 50
EMBEDDER = HashingEmbedder(64)


def sign(document: Document, embedding: Vector, terms: SharingTerms) -> bytes:
    return b"statement"


def open_library(home: Path) -> Library:
    return Library(home, EMBEDDER, sign, exact_limit=20)


def add_until_killed(home: Path, round_number: int, report: int) -> None:
    """Add sources, saving graphs all the while, and write the name of each that was reported."""
    with open_library(home) as library:
        os.write(report, b"open\n")
        number = 0
        while True:
            name = f"{round_number}-{number}"
            library.add_records([Record(name=name, title=name, text=f"note {name}")], "notes")
            os.write(report, f"{name}\n".encode())
            contents = library._contents
            if contents.catalog.index("notes").can_save:
                contents.save_graph("notes")
            number += 1


def run_and_kill(home: Path, round_number: int, randomness: random.Random) -> list[str]:
    """The names that a process reported before it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            add_until_killed(home, round_number, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as reports:
        assert reports.readline() == b"open\n"
        # The moment is random; waiting ends early only if the process ended, which is a failure.
        select.select([], [], [], randomness.uniform(0, 0.15))
        os.kill(child, signal.SIGKILL)
        names = reports.read().decode().splitlines()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return names


@pytest.mark.slow
# From Python 3.12 on. The threads are numpy's own, and the child computes on one.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_nothing_reported_is_lost_and_the_index_is_whole(tmp_path: Path) -> None:
    home = tmp_path / "library"
    randomness = random.Random(1)
    reported: set[str] = set()
    for round_number in range(KILLS):
        names = run_and_kill(home, round_number, randomness)
        reported.update(names)
        with open_library(home) as library:
            library.maintain()
            stored = {source.name for source in library.sources()}
            assert reported <= stored
            assert library.stats().searchable == len(stored)
            assert library.stats().graphs == (len(stored) > 20)
            assert not list((home / "graphs").glob(".*"))
            # A graph finds most of the best, not always the very best; it has to hold them all.
            index = library._contents.catalog.index("notes")
            if index._graph is not None:
                assert {int(key) for key in index._graph.keys} == set(index.keys.tolist())
            for name in names[-3:]:
                wanted = transmitted(EMBEDDER.embed_query(f"note {name}"))
                assert (index.rows @ wanted).max() > 1.0 - 1e-6
    assert len(reported) > KILLS
