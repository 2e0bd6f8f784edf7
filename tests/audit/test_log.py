"""An audit log keeps what was acknowledged, and shows every change to it."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit.logs import ASKER, DAY_S, NOON, OWNER, fetch, only_segment, write_ledger, write_log
from zerorag_p2p.audit.entries import GENESIS, Entry, Position, decode_entry
from zerorag_p2p.audit.events import EntriesPurged, FetchReceived
from zerorag_p2p.audit.heads import open_head, sign_head
from zerorag_p2p.audit.ledger import Ledger, verify_folder
from zerorag_p2p.audit.log import AuditLog
from zerorag_p2p.audit.reading import LogReader, Selection
from zerorag_p2p.audit.segments import Chain, Contents, contents, read_segment, segments
from zerorag_p2p.audit.verification import verify_log
from zerorag_p2p.errors import AuditError
from zerorag_p2p.identity.keys import Identity


def entries(folder: Path) -> list[int]:
    return [
        entry.sequence
        for segment in segments(folder)
        for entry in read_segment(segment.path).entries
    ]


def faults(folder: Path) -> tuple[str, ...]:
    return verify_folder(folder, OWNER.peer_id).faults


def is_whole(data: bytes, start: Position, end: Position) -> bool:
    """Whether the bytes of a segment continue a log at `start` and lead to `end`."""
    found, chain = contents(data), Chain(start)
    faults = [chain.follow(entry) for entry in found.entries]
    return not found.rest and not any(faults) and chain.position == end


def test_what_was_written_is_read_again_in_order(tmp_path: Path) -> None:
    write_log(tmp_path / "audit", 5)
    found = read_segment(only_segment(tmp_path / "audit")).entries
    assert [entry.event() for entry in found] == [fetch(number) for number in range(5)]
    assert [entry.at for entry in found] == [NOON + number for number in range(5)]
    assert entries(tmp_path / "audit") == [1, 2, 3, 4, 5]
    assert found[1].previous == found[0].digest


def test_entries_from_before_bytes_and_redactions_were_recorded_are_read(tmp_path: Path) -> None:
    note = {"hash": bytes(32), "given": "whole", "rule": "sharing of wards"}
    fields = {
        "kind": "fetch-received",
        "reference": "0123456789abcdef",
        "peer": ASKER.peer_id,
        "organisation": "City Clinic",
        "user": "node",
        "purpose": "TREAT",
        "view": "whole",
        "outcome": "answered",
        "documents": [note],
    }
    entry = Entry(1, GENESIS, NOON, GENESIS, fields)
    event = entry.event()
    assert isinstance(event, FetchReceived)
    assert (event.sent, event.received) == (None, None)
    assert event.documents[0].redacted == ()
    told = entry.to_json()
    assert told["documents"][0]["redacted"] == []
    assert told["sent"] is None


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 1)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def frames(data: bytes) -> list[tuple[int, int, Position]]:
    """Where each entry of a log's file begins and ends, and where the log is before it."""
    found = []
    start = 0
    while start < len(data):
        entry, end = decode_entry(data, start)
        found.append((start, end, Position(entry.sequence - 1, entry.previous)))
        start = end
    return found


def test_every_bit_flip_of_twenty_entries_is_detected(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 20)
    path = only_segment(folder)
    data = path.read_bytes()
    report = verify_folder(folder, OWNER.peer_id)
    assert not report.faults
    last = Position(report.last, bytes.fromhex(report.digest))
    for start, end, before in frames(data):
        for bit in range(8 * (end - start)):
            changed = bytearray(data[start:])
            changed[bit // 8] ^= 1 << bit % 8
            # What comes before this entry is as it was.
            assert not is_whole(bytes(changed), before, last), (before.sequence, bit)
            if bit % 509 == 0:  # and so says the verification of the folder
                path.write_bytes(data[:start] + changed)
                assert faults(folder), (before.sequence, bit)


def test_ten_thousand_random_flips_over_ten_thousand_entries_are_detected(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 10_000, segment_bytes=16 << 10)
    places = []
    for segment in segments(folder):
        data = segment.path.read_bytes()
        last = contents(data).entries[-1].position
        places += [(data[start:], end - start, before, last) for start, end, before in frames(data)]
    assert len(places) == 10_000
    assert not verify_log(folder, [OWNER.peer_id]).faults
    randomness = random.Random(1)
    for data, size, begin, last in randomness.choices(places, k=10_000):
        bit = randomness.randrange(8 * size)
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert not is_whole(bytes(changed), begin, last), (begin.sequence, bit)


def test_every_truncation_is_detected_against_the_head(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 20)
    path = only_segment(folder)
    data = path.read_bytes()
    ends = [0, *(end for _, end, _ in frames(data))]
    for size in range(ends[-2], len(data)):  # within the last entry, and it as a whole
        path.write_bytes(data[:size])
        assert faults(folder) == ("entry 20, which a signed head names, is missing",), size
    for size in sorted({size for end in ends[:-2] for size in (end, end + 1, end + 200)}):
        path.write_bytes(data[:size])
        assert faults(folder) == ("entry 20, which a signed head names, is missing",), size
    path.unlink()
    assert faults(folder) == ("entry 20, which a signed head names, is missing",)


def test_entries_cannot_be_exchanged_removed_or_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 4)
    path = only_segment(folder)
    data = path.read_bytes()
    one, two, three, four = (data[start:end] for start, end, _ in frames(data))
    for order in (
        [one, three, two, four],
        [one, three, four],
        [two, three, four],
        [one, two, two, three, four],
        [one, two, three, four, four],
    ):
        path.write_bytes(b"".join(order))
        assert faults(folder), order


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 60, segment_bytes=8 << 10)
    first, second, *_ = segments(folder)
    second.path.unlink()
    (fault,) = verify_log(folder, [OWNER.peer_id]).faults
    assert f"follows entry {second.first - 1}" in fault
    first.path.unlink()
    assert (
        "its owner did not remove those before it" in verify_log(folder, [OWNER.peer_id]).faults[-1]
    )


def test_a_rewritten_history_does_not_fit_the_heads(tmp_path: Path) -> None:
    folder, other = tmp_path / "audit", tmp_path / "other"
    write_ledger(folder, 10)
    log = AuditLog(other)
    for number in range(30):
        log.append(fetch(number + 1), NOON)
    log.write()
    log.close()
    only_segment(folder).write_bytes(only_segment(other).read_bytes())
    assert faults(folder) == ("entry 10 is not the one that a signed head names",)


# Crashes.


def test_a_torn_tail_is_cut_to_the_last_whole_entry(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 3)
    path = only_segment(folder)
    data = path.read_bytes()
    for rest in (data[:1], data[:3], data[:100], data[: len(data) // 3 - 1], bytes(64)):
        path.write_bytes(data + rest)
        assert verify_log(folder, [OWNER.peer_id]).tail == len(rest)
        log = AuditLog(folder)
        assert (log.cut, log.damage, log.durable.sequence) == (len(rest), "", 3)
        log.close()
        assert path.read_bytes() == data


def test_a_file_with_nothing_but_a_torn_entry_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 3)
    (folder / "000000000004.log").write_bytes(only_segment(folder).read_bytes()[:50])
    log = AuditLog(folder)
    assert (log.cut, log.damage, log.durable.sequence) == (50, "", 3)
    log.append(fetch(3), NOON)
    log.write()
    log.close()
    assert entries(folder) == [1, 2, 3, 4]
    assert not verify_log(folder, [OWNER.peer_id]).faults


def test_damage_is_no_torn_tail_and_stays_for_whoever_looks_into_it(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 5)
    path = only_segment(folder)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    log = AuditLog(folder)
    assert log.cut == 0
    assert log.damage.startswith(f"{path.name}, at byte")
    log.append(fetch(9), NOON)
    log.write()
    log.close()
    assert path.read_bytes() == damaged
    assert len(segments(folder)) == 2
    assert len(verify_log(folder, [OWNER.peer_id]).faults) == 1


def test_what_a_head_covers_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 5)
    path = only_segment(folder)
    data = path.read_bytes()
    third = frames(data)[2][1]
    changed = data[:third] + (100_000).to_bytes(4, "big") + data[third + 4 :]
    path.write_bytes(changed)
    ledger = Ledger(folder, OWNER, NOON)
    assert any("no entry any more" in fault for fault in ledger.faults)
    assert "entry 5, which a signed head names, is missing" in ledger.faults
    ledger.close(NOON)
    assert path.read_bytes() == changed


def test_a_file_without_a_readable_entry_is_put_aside(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 2)
    path = only_segment(folder)
    path.write_bytes(b"\x00\x00\x00\x05" + path.read_bytes()[4:])
    log = AuditLog(folder)
    assert log.damage
    log.append(fetch(0), NOON)
    log.write()
    log.close()
    assert (folder / "000000000001.damaged").exists()
    assert any("holds no entry" in fault for fault in verify_log(folder, [OWNER.peer_id]).faults)


def test_the_head_that_a_log_does_not_reach_is_kept_as_evidence(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 10)
    path = only_segment(folder)
    data = path.read_bytes()
    path.write_bytes(data[: frames(data)[6][1]])
    ledger = Ledger(folder, OWNER, NOON)
    assert ledger.faults == ["entry 10, which a signed head names, is missing"]
    for number in range(20):
        ledger.log.append(fetch(100 + number), NOON)
    ledger.close(NOON)
    assert faults(folder) == ("entry 10 is not the one that a signed head names",)


def test_a_damaged_head_is_a_fault(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 3)
    for name in ("head.cbor", "heads.cbor"):
        path = folder / name
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(b"\xff")
        assert any(name in fault for fault in faults(folder))
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)
    other = sign_head(ASKER, Position(3, GENESIS), NOON)
    (folder / "head.cbor").write_bytes(other)
    assert any("head.cbor" in fault for fault in faults(folder))


# A disk that is full or fails.


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int | None], None]:
    """Makes a call of `os` fail from now on, or work again."""
    real = {name: getattr(os, name) for name in ("write", "fdatasync")}

    def fail(name: str, code: int | None) -> None:
        def refuse(descriptor: int, *arguments: bytes) -> int:
            if arguments:  # half of it reaches the disk
                data = bytes(arguments[0])
                real["write"](descriptor, data[: len(data) // 2])
            raise OSError(code, os.strerror(code or 0))

        monkeypatch.setattr(os, name, real[name] if code is None else refuse)

    return fail


@pytest.mark.parametrize(("call", "code"), [("write", errno.ENOSPC), ("fdatasync", errno.EIO)])
def test_a_failed_write_leaves_the_log_whole_and_can_be_tried_again(
    tmp_path: Path, failing: Callable[[str, int | None], None], call: str, code: int
) -> None:
    folder = tmp_path / "audit"
    log = AuditLog(folder)
    log.append(fetch(0), NOON)
    log.write()
    before = only_segment(folder).read_bytes()
    failing(call, code)
    log.append(fetch(1), NOON)
    log.append(fetch(2), NOON)
    for _ in range(2):
        with pytest.raises(AuditError, match=os.strerror(code)):
            log.write()
        assert log.durable.sequence == 1
        assert only_segment(folder).read_bytes() == before
    failing(call, None)
    log.write()
    assert log.durable.sequence == 3
    log.close()
    assert entries(folder) == [1, 2, 3]
    assert not verify_log(folder, [OWNER.peer_id]).faults


def test_a_full_disk_for_a_new_file_loses_nothing(
    tmp_path: Path, failing: Callable[[str, int | None], None]
) -> None:
    folder = tmp_path / "audit"
    log = AuditLog(folder)
    log.append(fetch(0), NOON)
    log.write()
    failing("write", errno.ENOSPC)
    log.append(fetch(1), NOON + DAY_S)
    with pytest.raises(AuditError):
        log.write()
    failing("write", None)
    log.write()
    log.close()
    assert len(segments(folder)) == 2
    assert entries(folder) == [1, 2]
    assert not verify_log(folder, [OWNER.peer_id]).faults


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError, match="cannot be written"):
        AuditLog(tmp_path / "file" / "audit")


# Old entries.


def days(folder: Path, count: int) -> Ledger:
    """A log with three entries a day, from the first day on."""
    ledger = Ledger(folder, OWNER, NOON)
    for day in range(count):
        for number in range(3):
            ledger.log.append(fetch(10 * day + number), NOON + day * DAY_S + number)
    ledger.log.write()
    return ledger


def test_purged_entries_are_gone_and_the_rest_verifies(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    ledger = days(folder, 5)
    ledger.sign_head(NOON + 4 * DAY_S)
    purge = ledger.purge(NOON + 2 * DAY_S - 3_600, NOON + 5 * DAY_S)
    assert (purge.entries, purge.up_to) == (6, 6)
    assert entries(folder) == [7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    again = ledger.purge(NOON + 3 * DAY_S - 3_600, NOON + 5 * DAY_S)
    assert (again.entries, again.up_to) == (3, 9)
    nothing = ledger.purge(NOON + 3 * DAY_S - 3_600, NOON + 5 * DAY_S)
    assert nothing.entries == 0
    assert not ledger.verify().faults
    ledger.close(NOON + 5 * DAY_S)
    report = verify_folder(folder, OWNER.peer_id)
    assert (report.faults, report.first, report.last, report.purged) == ((), 10, 17, 9)


def test_the_file_that_grows_is_never_purged(tmp_path: Path) -> None:
    ledger = days(tmp_path / "audit", 2)
    assert ledger.purge(NOON + 100 * DAY_S, NOON + 100 * DAY_S).up_to == 3
    assert ledger.purge(NOON + 200 * DAY_S, NOON + 100 * DAY_S).up_to == 6
    assert ledger.purge(NOON + 200 * DAY_S, NOON + 100 * DAY_S).entries == 0
    ledger.close(NOON)
    assert not faults(tmp_path / "audit")


def test_only_the_owner_can_remove_entries(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    days(folder, 4).close(NOON)
    log = AuditLog(folder)
    log.purge(NOON + DAY_S - 3_600, ASKER, NOON + 4 * DAY_S)
    log.close()
    assert any("its owner did not remove" in fault for fault in faults(folder))


def test_a_purge_does_not_excuse_the_loss_of_more(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    ledger = days(folder, 4)
    ledger.purge(NOON + DAY_S - 3_600, NOON + 4 * DAY_S)
    ledger.close(NOON + 4 * DAY_S)
    assert not faults(folder)
    segments(folder)[0].path.unlink()
    assert any("its owner did not remove" in fault for fault in faults(folder))


def test_a_purge_that_was_interrupted_is_no_fault(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    ledger = days(folder, 4)
    kept = {segment.path: segment.path.read_bytes() for segment in segments(folder)}
    ledger.purge(NOON + 2 * DAY_S - 3_600, NOON + 4 * DAY_S)
    ledger.close(NOON + 4 * DAY_S)
    second = list(kept)[1]
    second.write_bytes(kept[second])
    assert not faults(folder)
    ledger = Ledger(folder, OWNER, NOON)
    assert ledger.purge(NOON + 2 * DAY_S - 3_600, NOON + 4 * DAY_S).entries == 3
    ledger.close(NOON + 4 * DAY_S)
    assert not faults(folder)


def test_a_purge_is_an_entry_that_names_the_cut(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    ledger = days(folder, 3)
    ledger.purge(NOON + DAY_S - 3_600, NOON + 3 * DAY_S)
    ledger.close(NOON + 3 * DAY_S)
    (entry,) = LogReader(folder).newest(Selection(kind=EntriesPurged.kind), 10)
    assert entry["up_to"] == 3


# Looking up.


def test_entries_are_selected_by_what_they_name(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    other = Identity.from_seed(bytes(31) + b"\x03").peer_id
    log = AuditLog(folder, segment_bytes=2_000)
    for number in range(20):
        log.append(fetch(number, peer=other if number % 2 else ASKER.peer_id), NOON + number)
    log.write()
    log.close()

    def found(**selection: object) -> list[int]:
        chosen = Selection(**selection)  # type: ignore[arg-type]
        return [entry["sequence"] for entry in LogReader(folder).newest(chosen, 100)]

    assert found(since=NOON + 15) == [16, 17, 18, 19, 20]
    assert found(peer=other) == list(range(2, 21, 2))
    assert found(peer="city") == list(range(1, 21))
    assert found(peer="General") == []
    assert found(kind="fetch-answered") == list(range(1, 21))
    assert found(kind="query-asked") == []
    assert found(document=f"{4:064x}") == [5]
    assert found(reference=f"{4:016x}") == [5]
    assert found(reference=f"{4:016x}", peer=other) == []
    seen, after = [], 0
    while True:
        some, reached = LogReader(folder).page(after, Selection(peer=other))
        seen += [entry["sequence"] for entry in some]
        if reached == after:
            break
        after = reached
    assert seen == list(range(2, 21, 2))


def test_disclosures_tell_who_received_a_document(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 5)
    reader = LogReader(folder)
    row = reader.disclosures(f"{3:064x}"[:62])[3]
    assert row["peer"] == ASKER.peer_id
    assert (row["given"], row["purpose"], row["at"]) == ("whole", "TREAT", NOON + 3)
    assert len(reader.disclosures(f"{3:064x}")) == 1
    assert reader.disclosures("f" * 64) == []
    assert not reader.faults


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write_log(folder, 40, segment_bytes=4 << 10)
    _, second, *_ = segments(folder)
    damaged = bytearray(second.path.read_bytes())
    damaged[10] ^= 1
    second.path.write_bytes(damaged)
    reader = LogReader(folder)
    found = [entry["sequence"] for entry in reader.newest(Selection(), 100)]
    third = segments(folder)[2].first
    assert found == [*range(1, second.first), *range(third, 41)]
    (fault,) = reader.faults
    assert fault.startswith(second.path.name)


# Heads of others.


def test_a_head_held_before_is_returned_unless_it_is_the_one_shown(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "audit", OWNER, NOON)
    book, peer = ledger.book, ASKER.peer_id
    first, second = (
        sign_head(ASKER, Position(number, bytes([number]) * 32), NOON) for number in (3, 5)
    )
    assert book.hold(peer, first) is None
    assert book.hold(peer, first) is None
    assert book.hold(peer, second) == first
    assert book.hold(peer, first) == second  # its log ends earlier than it did
    assert book.held == {peer: second}
    ledger.log.append(fetch(1), NOON)
    ledger.close(NOON)
    again = Ledger(tmp_path / "audit", OWNER, NOON)
    assert again.book.held == {peer: second}
    again.book.keep(lambda _: False)
    assert again.book.held == {}
    again.close(NOON)


def test_a_head_that_was_returned_shows_a_cut_after_all_files_were_put_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "audit"
    write_ledger(folder, 5)
    backup = {path: path.read_bytes() for path in folder.iterdir()}
    ledger = Ledger(folder, OWNER, NOON)
    ledger.log.append(fetch(6), NOON)
    ledger.log.write()
    ledger.sign_head(NOON)
    witnessed = ledger.book.head
    assert witnessed is not None
    assert open_head(witnessed, OWNER.peer_id).sequence == 6
    ledger.close(NOON)
    for path, data in backup.items():
        path.write_bytes(data)
    ledger = Ledger(folder, OWNER, NOON)
    assert not ledger.faults
    returned = ledger.book.take_back(ASKER.peer_id, witnessed)
    assert ledger.contradicted([returned]) == ["entry 6, which a signed head names, is missing"]
    ledger.close(NOON)
    assert faults(folder) == ("entry 6, which a signed head names, is missing",)


def test_heads_that_come_back_cost_a_look_at_each_file_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "audit"
    ledger = days(folder, 4)
    ledger.sign_head(NOON)
    assert ledger.book.head is not None
    lately = open_head(ledger.book.head, OWNER.peer_id)
    files = segments(folder)
    positions = [entry.position for file in files for entry in read_segment(file.path).entries]
    heads = [
        open_head(sign_head(OWNER, position, NOON), OWNER.peer_id) for position in positions[:-1]
    ]
    read: list[Path] = []

    def reading(path: Path) -> Contents:
        read.append(path)
        return read_segment(path)

    monkeypatch.setattr("zerorag_p2p.audit.segments.read_segment", reading)
    assert ledger.contradicted([lately] * 3) == []
    assert read == []
    assert ledger.contradicted(heads) == []
    assert len(read) == len({*read}) <= len(files)
    wrong = dataclasses.replace(heads[0], digest=bytes(32))
    assert ledger.contradicted([wrong, *heads]) == [
        f"entry {wrong.sequence} is not the one that a signed head names"
    ]
    ledger.close(NOON + 4 * DAY_S)


# Another key.


def test_a_log_goes_on_under_the_next_keys_of_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    ledger = days(folder, 4)
    ledger.purge(NOON + 2 * DAY_S - 3_600, NOON + 4 * DAY_S)
    ledger.close(NOON + 4 * DAY_S)
    keys = [OWNER, ASKER, Identity.from_seed(bytes(31) + b"\x03")]
    for before, key in itertools.pairwise(keys):
        assert verify_folder(folder, key.peer_id).faults
        again = Ledger(folder, key, NOON + 5 * DAY_S, former=[before.peer_id])
        assert not again.faults
        again.close(NOON + 5 * DAY_S)
        assert not verify_folder(folder, key.peer_id).faults


def test_another_key_does_not_seal_what_was_cut_without_leave(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    days(folder, 4).close(NOON + 4 * DAY_S)
    segments(folder)[0].path.unlink()
    Ledger(folder, ASKER, NOON + 5 * DAY_S, former=[OWNER.peer_id]).close(NOON + 5 * DAY_S)
    told = verify_folder(folder, ASKER.peer_id).faults
    assert any("its owner did not remove" in fault for fault in told)
