"""The authority revokes a member, one hospital imports the roster, and the others drop it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hospitals import Hospital, set_up

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TIMEOUT_S = 60.0


def await_peers(hospital: Hospital, condition: Callable[[dict[str, Any]], bool]) -> None:
    """Look at the node's members, by peer id, until `condition` holds of them."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        rows = {row["peer"]: row for row in json.loads(hospital.must("peers", "--json"))}
        if condition(rows):
            return
        assert time.monotonic() < deadline, rows


def version(hospital: Hospital) -> int:
    number: int = json.loads(hospital.must("consortium", "show", "--json"))["version"]
    return number


def test_a_roster_that_one_node_imports_ends_the_membership_everywhere(tmp_path: Path) -> None:
    authority, told, other, leaving = hospitals = [
        set_up(tmp_path / name, name) for name in ("authority", "told", "other", "leaving")
    ]
    roster = tmp_path / "roster.cbor"
    founded = json.loads(authority.must("consortium", "create", "cardio", "--json"))
    for hospital in hospitals[1:]:
        request = hospital.home / "request"
        hospital.must("consortium", "request", "--out", request)
        authority.must("consortium", "approve", request, "--out", roster)
    try:
        # The authority's own home runs no node: what the others learn, they learn of each other.
        for hospital in hospitals[1:]:
            trusted = founded["authorities"][0]
            hospital.must("consortium", "import", roster, "--authority", trusted)
            hospital.start()
        peer = leaving.must("id").strip()
        for hospital in (told, other):
            await_peers(hospital, lambda rows: rows[peer]["connected"])
        before = version(other)

        reason = "left the consortium"
        authority.must("consortium", "revoke", peer, "--reason", reason, "--out", roster)
        told.must("consortium", "import", roster)

        for hospital in (told, other):
            await_peers(hospital, lambda rows: peer not in rows)
        await_peers(leaving, lambda rows: not any(row["connected"] for row in rows.values()))
        assert version(other) == version(told) == before + 1
        assert peer not in {row["peer"] for row in json.loads(other.must("neighbors", "--json"))}
        former = json.loads(other.must("consortium", "show", "--json"))["former"]
        assert [(item["peer"], item["reason"]) for item in former] == [(peer, reason)]
    finally:
        for hospital in hospitals:
            if hospital.process is not None:
                hospital.stop()
