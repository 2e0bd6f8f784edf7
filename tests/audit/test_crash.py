"""A process is killed while it writes; no entry that it reported is lost."""

from __future__ import annotations

import os
import random
import select
import signal
from pathlib import Path

import pytest

from tests.audit.logs import NOON, OWNER, fetch
from zerorag_p2p.audit.ledger import Ledger
from zerorag_p2p.audit.reading import LogReader, Selection

WRITES = 200
KILLS = 20


def append_until_killed(folder: Path, first: int, report: int) -> None:
    """Append entries in small groups, and tell the number of each group's last when durable."""
    ledger = Ledger(folder, OWNER, NOON)
    number = first
    while True:
        for _ in range(1 + number % 3):
            number = ledger.log.append(fetch(number), NOON)
        ledger.log.write()
        os.write(report, f"{number}\n".encode())
        if number % 5 == 0:
            ledger.sign_head(NOON)


def run_and_kill(folder: Path, first: int, randomness: random.Random) -> int:
    """The last entry that a process reported before it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            append_until_killed(folder, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as reports:
        for _ in range(WRITES // KILLS):
            assert reports.readline()
        # The moment is random; waiting ends early only if the process ended, which is a failure.
        select.select([], [], [], randomness.uniform(0, 0.002))
        os.kill(child, signal.SIGKILL)
        reported = [int(line) for line in reports.read().split()]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return reported[-1] if reported else first


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_no_acknowledged_entry_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    randomness = random.Random(1)
    last = 0
    for _ in range(KILLS):
        reported = run_and_kill(folder, last, randomness)
        ledger = Ledger(folder, OWNER, NOON)
        assert not ledger.faults
        last = ledger.log.durable.sequence
        assert last >= reported
        assert not ledger.verify().faults
        ledger.close(NOON)
    assert last >= WRITES
    found = LogReader(folder).newest(Selection(), last)
    assert [entry["sequence"] for entry in found] == list(range(1, last + 1))


def test_an_entry_cut_at_any_byte_is_taken_back(tmp_path: Path) -> None:
    """What a kill in the midst of a write leaves, whatever part of it reached the file."""
    folder = tmp_path / "audit"
    ledger = Ledger(folder, OWNER, NOON)
    ledger.log.append(fetch(0), NOON)
    ledger.close(NOON)
    (path,) = folder.glob("*.log")
    whole = path.read_bytes()
    ledger = Ledger(folder, OWNER, NOON)
    ledger.log.append(fetch(1), NOON)
    ledger.log.write()
    ledger.log.close()
    both = path.read_bytes()
    for size in range(len(whole), len(both)):
        path.write_bytes(both[:size])
        ledger = Ledger(folder, OWNER, NOON)
        assert (ledger.log.durable.sequence, ledger.log.cut) == (1, size - len(whole))
        assert not ledger.faults
        ledger.log.close()
        assert path.read_bytes() == whole
