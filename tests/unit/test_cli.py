import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from zerorag_p2p import errors
from zerorag_p2p.cli.command import Program
from zerorag_p2p.cli.main import cli
from zerorag_p2p.cli.output import duration, printable, size
from zerorag_p2p.cli.query import finish
from zerorag_p2p.config import NodeConfig
from zerorag_p2p.control.setup import config_text
from zerorag_p2p.policy.purposes import parse_purpose


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(item) for item in arguments])


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    result = run(
        *("init", "--home", folder, "--organisation", "General Hospital"),
        *("--embedder", "hashing", "--listen", "/ip4/127.0.0.1/tcp/4401"),
    )
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.parametrize("path", list(commands(cli)), ids=" ".join)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Example:\n    zerorag" in result.stdout


@pytest.mark.parametrize(
    "path",
    [path for path in commands(cli) if path != ("mcp",)],  # It speaks JSON-RPC and nothing else.
    ids=" ".join,
)
def test_every_command_speaks_json(path: tuple[str, ...]) -> None:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    if not isinstance(command, click.Group):
        assert "--json" in [option for item in command.params for option in item.opts]


def test_init_makes_a_private_home_with_readable_settings(home: Path) -> None:
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "identity.key").stat().st_mode) == 0o600
    config = NodeConfig.from_toml((home / "config.toml").read_text())
    assert config.organisation == "General Hospital"
    assert config.network.listen == ("/ip4/127.0.0.1/tcp/4401",)
    assert config.embedding.embedder == "hashing"


def test_init_overwrites_nothing(home: Path) -> None:
    key = (home / "identity.key").read_bytes()
    result = run("init", "--home", home)
    assert result.exit_code == 1
    assert "nothing is overwritten" in result.stderr
    assert (home / "identity.key").read_bytes() == key


def test_every_commented_setting_is_the_default_when_the_sign_is_taken_away() -> None:
    lines = [
        line.removeprefix("# ")
        for line in config_text({}).splitlines()
        if " = " in line or line.startswith("[")
    ]
    assert NodeConfig.from_toml("\n".join(lines)) == NodeConfig()


def test_id_prints_the_peer_id_alone(home: Path) -> None:
    text = run("id", "--home", home).stdout
    assert text.startswith("12D3KooW")
    assert json.loads(run("id", "--home", home, "--json").stdout) == {"peer_id": text.strip()}


def test_the_home_comes_from_the_environment_where_no_option_names_one(home: Path) -> None:
    result = CliRunner(env={"ZERORAG_HOME": str(home)}).invoke(cli, ["id"])
    assert result.exit_code == 0


@pytest.mark.parametrize("command", [("status",), ("peers",), ("neighbors",), ("query", "x")])
def test_without_a_node_the_exit_code_is_3_and_the_way_to_start_one_is_named(
    home: Path, command: tuple[str, ...]
) -> None:
    result = run(*command, "--home", home, "--json")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert f"zerorag node run --home {home}" in result.stderr


def test_a_home_that_was_not_set_up_is_an_error_that_names_the_next_step(tmp_path: Path) -> None:
    result = run("status", "--home", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "zerorag init" in result.stderr


def test_wrong_usage_is_exit_code_2() -> None:
    assert run("query").exit_code == 2
    assert run("query", "x", "-k", "0").exit_code == 2
    assert run("no-such-command").exit_code == 2


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.LocalError("a"), 1),
        (errors.UsageError("a"), 2),
        (errors.PolicyDenied("a"), 4),
        (errors.RosterError("a"), 7),
        (PermissionError(13, "Permission denied", "/x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(error: BaseException, exit_code: int) -> None:
    def fail() -> None:
        raise error

    program = Program("zerorag", commands={"fail": click.Command("fail", callback=fail)})
    result = CliRunner().invoke(program, ["fail"])
    assert result.exit_code == exit_code
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_consortium_grows_and_shrinks_on_files(home: Path, tmp_path: Path) -> None:
    other, roster, asked = tmp_path / "other", tmp_path / "roster.cbor", tmp_path / "a.request"
    run("init", "--home", other, "--organisation", "Clinic", "--embedder", "hashing")
    founded = run("consortium", "create", "cardio", "--home", home, "--json", "--out", roster)
    assert founded.exit_code == 0, founded.output
    authority = json.loads(founded.stdout)["authorities"][0]
    assert stat.S_IMODE((home / "authority.key").stat().st_mode) == 0o600

    assert run("consortium", "request", "--home", other, "--out", asked).exit_code == 0
    approved = run("consortium", "approve", asked, "--home", home, "--out", roster, "--json")
    assert approved.exit_code == 0, approved.output
    members = json.loads(approved.stdout)["members"]
    assert {member["organisation"] for member in members} == {"General Hospital", "Clinic"}

    imported = run("consortium", "import", roster, "--home", other, "--authority", authority)
    assert imported.exit_code == 0, imported.output
    assert "version 2" in imported.stdout

    peer = run("id", "--home", other).stdout.strip()
    revoked = run(
        *("consortium", "revoke", peer, "--reason", "key lost", "--home", home),
        *("--out", roster, "--json"),
    )
    former = json.loads(revoked.stdout)["former"]
    assert [(item["peer"], item["reason"]) for item in former] == [(peer, "key lost")]
    shown = run("consortium", "show", roster, "--home", other)
    assert "key lost" in shown.stdout


def test_the_first_roster_is_trusted_only_by_a_decision(home: Path, tmp_path: Path) -> None:
    other, roster = tmp_path / "other", tmp_path / "roster.cbor"
    run("init", "--home", other, "--organisation", "Clinic", "--embedder", "hashing")
    run("consortium", "create", "cardio", "--home", home, "--out", roster)
    stranger = run("id", "--home", other).stdout.strip()

    silent = run("consortium", "import", roster, "--home", other)
    assert silent.exit_code == 2
    assert "--authority" in silent.stderr
    assert not (other / "roster.cbor").exists()
    wrong = run("consortium", "import", roster, "--home", other, "--authority", stranger)
    assert wrong.exit_code == 7
    assert "not signed by" in wrong.stderr
    assert run("consortium", "import", roster, "--home", other, "--yes").exit_code == 0
    again = run("consortium", "import", roster, "--home", other, "--authority", stranger)
    assert again.exit_code == 2


def test_an_old_or_forged_roster_is_refused(home: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.cbor", tmp_path / "2.cbor"
    run("consortium", "create", "cardio", "--home", home, "--out", first)
    assert run("consortium", "renew", "--home", home, "--out", second).exit_code == 0
    result = run("consortium", "import", first, "--home", home)
    assert result.exit_code == 7
    assert "goes back to version 1" in result.stderr
    data = bytearray(second.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)
    assert run("consortium", "import", second, "--home", home).exit_code == 7


def test_only_the_founder_can_approve(home: Path, tmp_path: Path) -> None:
    asked = tmp_path / "a.request"
    assert run("consortium", "request", "--home", home, "--out", asked).exit_code == 0
    result = run("consortium", "approve", asked, "--home", home)
    assert result.exit_code == 1
    assert "consortium create" in result.stderr


def test_text_of_others_cannot_steer_a_terminal() -> None:
    assert printable("a\x1b[2Jb\u202ec\r\nd") == "a\ufffd[2Jb\ufffdc\ufffd\nd"


def test_figures_for_people() -> None:
    assert [size(0), size(999), size(20_480), size(3e9)] == ["0 B", "999 B", "20.5 kB", "3.0 GB"]
    assert [duration(5), duration(3_700), duration(90_000)] == ["5 s", "1 h 1 min", "1 d 1 h"]


def test_purposes_have_plain_names() -> None:
    assert parse_purpose("Research") == parse_purpose("hresch") == "HRESCH"
    with pytest.raises(errors.UsageError, match="public-health"):
        parse_purpose("curiosity")


def _answer(
    *statuses: str,
    complete: bool = True,
    codes: tuple[str, ...] = (),
    count: int | None = None,
    withheld: tuple[str, ...] = (),
) -> dict[str, object]:
    return {
        "count": count,
        "withheld": withheld,
        "documents": [{"status": status} for status in statuses],
        "rejected": [],
        "contacts": [
            {"code": code, "outcome": "refused" if code else "answered"} for code in codes
        ],
        "complete": complete,
    }


@pytest.mark.parametrize(
    ("answer", "exit_code"),
    [
        (_answer("verified"), 0),
        (_answer("verified", complete=False), 5),
        (_answer("verified", "denied"), 5),
        (_answer("denied"), 4),
        (_answer("rejected"), 7),
        (_answer(), 6),
        (_answer(codes=("denied", "denied")), 4),
        (_answer(codes=("denied", "")), 6),
        (_answer(codes=("",), count=0), 0),
        (_answer(codes=("",), count=3, complete=False), 5),
        (_answer(codes=("busy",), count=0), 6),
        (_answer(withheld=("Clinic",)), 4),
    ],
)
def test_the_exit_code_of_a_query_tells_how_good_the_answer_is(
    answer: dict[str, object], exit_code: int
) -> None:
    program = Program(
        "zerorag",
        commands={"q": click.Command("q", callback=lambda: finish(answer))},
    )
    assert CliRunner().invoke(program, ["q"]).exit_code == exit_code


CONTACTS = [
    {
        "peer": f"12D3KooW{'Ab3' * 13}{number:05}",
        "organisation": organisation,
        "evidence": evidence,
        "score": None if evidence == "nothing" else 0.7123,
        "outcome": outcome,
        "reason": "",
        "code": "",
        "documents": 1,
        "improved": number == 1,
        "referrals": 10,
        "new_candidates": 3,
        "milliseconds": 1001.2,
    }
    for number, (organisation, evidence, outcome) in enumerate(
        (
            ("Tarnbeck Kidney and Transplant Hospital", "advertisement", "answered"),
            ("Greywater Institute of Neurology", "query memory", "unreachable"),
            ("", "nothing", "timed out"),
        ),
        start=1,
    )
]

ANSWER = {
    "query": "a question",
    "asker": {"organisation": "Clinic", "peer": "12D3KooW" + "C" * 44},
    "documents": [
        {
            "title": "A title",
            "part": 0,
            "parts": 1,
            "score": 0.7,
            "score_verified": True,
            "owner": {"organisation": "Clinic", "peer": "12D3KooW" + "C" * 44},
            "holder": {"organisation": "Clinic", "peer": "12D3KooW" + "C" * 44},
            "collection": "wards",
            "status": "verified",
            "text": "some words of a passage " * 20,
            "redaction": [],
        }
    ],
    "rejected": [],
    "contacts": CONTACTS,
    "budget": 50,
    "complete": True,
    "bytes_sent": 1,
    "bytes_received": 2,
    "milliseconds": 3.0,
    "stopped": "nobody left to ask",
    "sent": "a question",
    "removed": [],
    "outbound": [],
    "withheld": [],
    "count": None,
}


class Answering(AbstractContextManager["Answering"]):
    """A client of a node, or of a testnet, that has one answer to every question."""

    def __exit__(self, *_: object) -> None:
        pass

    def query(self, *_: object, **__: object) -> dict[str, object]:
        return ANSWER


@pytest.fixture(params=["query", "testnet query"])
def ask(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """A command that asks, and is answered."""
    monkeypatch.setenv("ZERORAG_TESTNET", str(tmp_path))
    monkeypatch.setattr("zerorag_p2p.cli.query.connect", lambda _: Answering())
    monkeypatch.setattr("zerorag_p2p.cli.testnet.open_client", lambda _: Answering())
    command: str = request.param
    return [*command.split(), "a question"]


def test_every_contact_is_explained_in_a_narrow_terminal(ask: list[str]) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*ask, "--explain"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("#"))
    assert lines[heading].split() == [
        *("#", "organisation", "led", "by", "score", "outcome", "docs", "ms")
    ]
    end = lines.index("", heading)
    assert max(map(len, lines[:end])) <= 80
    table = [line.rstrip() for line in lines[heading + 2 : end]]
    assert table == [
        "1   Tarnbeck Kidney and        advertisement   0.712   answered      1      1001",
        "    Transplant Hospital",
        "2   Greywater Institute of     query memory    0.712   unreachable   1      1001",
        "    Neurology",
        "3   unknown organisation       nothing         -       timed out     1      1001",
    ]


def test_a_wide_terminal_shows_all_of_a_contact(ask: list[str]) -> None:
    result = CliRunner(env={"COLUMNS": "140"}).invoke(cli, [*ask, "--explain"])
    heading = next(line for line in result.stdout.splitlines() if line.startswith("#"))
    assert {"peer", "better", "refs", "new"} <= set(heading.split())
    assert "12D3KooW…300001" in result.stdout


def test_programs_are_told_everything_about_a_contact(ask: list[str]) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*ask, "--explain", "--json"])
    assert json.loads(result.stdout)["contacts"] == CONTACTS


def test_help_needs_neither_numpy_nor_the_network(tmp_path: Path) -> None:
    code = (
        "import sys; from zerorag_p2p.cli.main import cli; "
        "heavy = {'numpy', 'libp2p', 'trio', 'fastapi', 'httpx', 'rich'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
