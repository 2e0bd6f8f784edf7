"""Several authorities and the life of keys, typed as their users type them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zerorag_p2p.cli.main import cli


def run(*arguments: object, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, [str(item) for item in arguments], input=typed)


def must(*arguments: object, typed: str | None = None) -> str:
    result = run(*arguments, typed=typed)
    assert result.exit_code == 0, result.output
    return result.stdout


def value(*arguments: object) -> dict[str, object]:
    parsed: dict[str, object] = json.loads(must(*arguments, "--json"))
    return parsed


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path, Path]:
    names = ("north", "south", "east")
    for name in names:
        must("init", "--home", tmp_path / name, "--organisation", name, "--embedder", "hashing")
    return tuple(tmp_path / name for name in names)  # type: ignore[return-value]


def test_a_roster_collects_signatures_until_it_is_complete(
    homes: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    north, south, east = homes
    roster = tmp_path / "roster.cbor"
    others = [value("consortium", "authority", "--home", home)["authority"] for home in homes[1:]]
    named = [item for other in others for item in ("--authority", other)]

    refused = run("consortium", "create", "lab", "--home", north, *named)
    assert refused.exit_code == 2
    assert "--out" in refused.stderr
    assert not (north / "authority.key").exists()

    founded = must("consortium", "create", "lab", "--home", north, *named, "--out", roster)
    assert "1 of the 3 authorities of version 1 signed, 2 needed" in founded
    assert founded.count("may sign: ") == 2
    assert "zerorag consortium sign" in founded
    early = run("consortium", "import", roster, "--home", north, "--yes")
    assert early.exit_code == 7
    assert "signed by 1 of its 3 authorities and needs 2" in early.stderr
    assert "needed 2" in must("consortium", "show", roster, "--home", north)

    # Nobody signs what was not shown.
    unseen = run("consortium", "sign", roster, "--home", south)
    assert unseen.exit_code == 2
    assert "member: north" in unseen.stderr
    signed = must("consortium", "sign", roster, "--home", south, typed="y\n")
    assert "2 of the 3 authorities of version 1 signed, 2 needed" in signed
    assert "zerorag consortium import" in signed
    for home in homes:
        must("consortium", "import", roster, "--home", home, "--authority", others[0])

    request = tmp_path / "south.request"
    must("consortium", "request", "--home", south, "--out", request)
    proposal = tmp_path / "proposal.cbor"
    alone = run("consortium", "approve", request, "--home", north)
    assert alone.exit_code == 2
    progress = value("consortium", "approve", request, "--home", north, "--out", proposal)
    assert progress["progress"]["complete"] is False  # type: ignore[index]
    copies = []
    for home in (south, east):
        copies.append(tmp_path / f"{home.name}.cbor")
        must("consortium", "sign", proposal, "--home", home, "--yes", "--out", copies[-1])
    combined = value("consortium", "combine", *copies, "--home", north, "--out", proposal)
    assert combined["progress"]["complete"] is True  # type: ignore[index]
    assert len(combined["signed-by"]) == 3  # type: ignore[arg-type]
    assert "version 2 is in force" in must("consortium", "import", proposal, "--home", north)


def test_a_passphrase_protects_what_signs(homes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    north = homes[0]
    must("consortium", "create", "lab", "--home", north)
    peer = must("id", "--home", north).strip()
    must("keys", "encrypt", "--home", north, typed="correct horse\ncorrect horse\n")
    key = north / "identity.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "encrypted private key" in key.read_text()
    assert must("id", "--home", north).strip() == peer
    (shown, authority) = value("keys", "show", "--home", north)["keys"]  # type: ignore[misc]
    assert (shown["encrypted"], authority["encrypted"]) == (True, False)  # type: ignore[index]

    request = tmp_path / "request"
    without = run("consortium", "request", "--home", north, "--out", request)
    assert without.exit_code == 1
    assert "--passphrase-file" in without.stderr
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    for path, text in ((wrong, "another horse\n"), (right, "correct horse\n")):
        path.touch(mode=0o600)
        path.write_text(text)
    failed = run(
        "--passphrase-file", wrong, "consortium", "request", "--home", north, "--out", request
    )
    assert failed.exit_code == 1
    assert "the passphrase does not open the key" in failed.stderr
    must("--passphrase-file", right, "consortium", "request", "--home", north, "--out", request)

    must("--passphrase-file", right, "keys", "decrypt", "--home", north)
    assert "seed" in key.read_text()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    # The option sets it for the process that runs one command; here all are one process.
    monkeypatch.setenv("ZERORAG_PASSPHRASE_FILE", "")


def test_a_key_is_rotated_with_a_hand_over(homes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    north = homes[0]
    must("consortium", "create", "lab", "--home", north)
    old = must("id", "--home", north).strip()
    made = must("keys", "rotate", "--home", north)
    assert "zerorag consortium request" in made
    again = run("keys", "rotate", "--home", north)
    assert again.exit_code == 1
    assert "under way" in again.stderr
    request, roster = tmp_path / "new.request", tmp_path / "roster.cbor"
    assert f"in the place of {old}" in must(
        "consortium", "request", "--home", north, "--out", request
    )
    must(
        *("consortium", "approve", request, "--home", north, "--out", roster),
        *("--overlap-days", "5"),
    )
    shown = {row["key"]: row for row in value("keys", "show", "--home", north)["keys"]}  # type: ignore[attr-defined, index]
    assert shown["identity"]["standing"] == shown["next"]["standing"] == "member"
    assert shown["identity"]["until"] < shown["next"]["until"]


def test_a_home_is_paused_without_a_node(homes: tuple[Path, Path, Path]) -> None:
    north = homes[0]
    paused = value("pause", "--reason", "audit week", "--home", north)
    assert paused["pause"]["reason"] == "audit week"  # type: ignore[index]
    assert (north / "pause.json").exists()
    assert value("resume", "--home", north) == {"pause": None}
    assert not (north / "pause.json").exists()
    refused = run("pause", "--reason", "x" * 400, "--home", north)
    assert refused.exit_code == 2
