"""The commands that print what `zerorag top` shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.cli.main import cli
from zerorag_p2p.control.server import serving
from zerorag_p2p.errors import PolicyDenied


async def run(*arguments: object) -> Result:
    call = [str(item) for item in arguments]
    return await trio.to_thread.run_sync(lambda: CliRunner().invoke(cli, call))


async def test_every_figure_of_the_window_is_also_a_command(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"], routing="paper")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        (content_hash,) = bob.library.vectors_to_advertise(["notes"])[1]
        await ann.query("a note")
        bob.library.unshare("notes")
        with pytest.raises(PolicyDenied):
            await ann.core.fetch(content_hash, lab.peer("bob"))
        await eventually(lambda: bool(bob.neighbors()))
        shutdown = trio.Event()
        home = ("--home", bob.home.root)
        async with serving(bob, shutdown):
            as_json = {
                name: json.loads((await run(name, *home, "--json")).stdout)
                for name in ("memory", "refusals", "neighbors", "top")
            }
            for_people = {
                name: (await run(name, *home)).stdout
                for name in ("memory", "refusals", "neighbors")
            }
            shutdown.set()
    assert as_json["memory"]["queriers"][0]["queries"] == 1
    assert "1 of at most 1000 queries are remembered" in for_people["memory"]
    (refusal,) = as_json["refusals"]
    assert (refusal["by"], refusal["document"]) == ("us", content_hash)
    assert refusal["code"] in for_people["refusals"]
    assert as_json["neighbors"][0]["state"] == "connected"
    assert "round trip" in for_people["neighbors"]
    (node,) = as_json["top"]["nodes"]
    assert node["home"] == str(bob.home.root)
    assert {"status", "neighbors", "peers", "memory", "collections", "refusals"} <= node.keys()
    assert node["refusals"] == as_json["refusals"]


async def test_events_are_printed_until_the_node_ends(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    printed: list[Result] = []
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")

        async def print_events(*options: str) -> None:
            printed.append(await run("events", *options, "--home", bob.home.root))

        observers = bob.core.activity._observers
        for options in ((), ("--json",)):
            before = len(observers)
            shutdown = trio.Event()
            async with trio.open_nursery() as nursery, serving(bob, shutdown):
                nursery.start_soon(print_events, *options)
                await eventually(lambda before=before: len(observers) > before)
                await ann.query("a note")
                shutdown.set()
    for_people, as_json = (result.stdout.splitlines() for result in printed)
    assert any("answered Ann (12D3KooW" in line for line in for_people)
    assert for_people[-1] == "the node ends"
    events: list[dict[str, Any]] = [json.loads(line) for line in as_json]
    assert [event["event"] for event in (events[0], events[-1])] == ["watching", "end"]
    assert "query-answered" in {event["event"] for event in events}


def test_without_textual_the_window_names_the_extra(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    script = (
        "import sys; sys.modules['textual'] = None; from zerorag_p2p.cli.main import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "top", "--home", str(lab.homes["ann"].home.root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "zerorag-p2p[tui]" in result.stderr
