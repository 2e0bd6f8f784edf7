from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from zerorag_p2p.errors import KeyFileError, LocalError
from zerorag_p2p.files import read_secret
from zerorag_p2p.node.files import (
    LOCK_NAME,
    HomeLock,
    create_identity,
    load_identity,
    write_secret,
)


def test_created_identity_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    identity = create_identity(path)
    assert load_identity(path).seed == identity.seed
    assert [item.name for item in tmp_path.iterdir()] == ["node.key"]


def test_key_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        create_identity(tmp_path / "node.key")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "node.key").stat().st_mode) == 0o600


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    identity = create_identity(path)
    with pytest.raises(KeyFileError, match="not overwritten"):
        create_identity(path)
    assert load_identity(path).seed == identity.seed


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_a_key_that_others_may_access_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "my node.key"
    create_identity(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=rf"mode {mode:04o}.*chmod 600 '.*my node.key'"):
        load_identity(path)


def test_only_a_regular_file_is_a_key(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    create_identity(path)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="symbolic link"):
        load_identity(tmp_path / "link")
    with pytest.raises(KeyFileError, match="not a regular file"):
        load_identity(tmp_path / "pipe")
    with pytest.raises(KeyFileError, match="not a regular file"):
        load_identity(tmp_path)
    with pytest.raises(KeyFileError, match="No such file"):
        load_identity(tmp_path / "absent")


def test_a_damaged_key_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    write_secret(path, b"damaged")
    with pytest.raises(KeyFileError, match=r"node.key: not a key file"):
        load_identity(path)


def test_secrets_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_secret(path, bytes(10))
    assert read_secret(path, 10) == bytes(10)
    with pytest.raises(KeyFileError, match="longer than 9 bytes"):
        read_secret(path, 9)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"absent/node.key cannot be created"):
        create_identity(tmp_path / "absent" / "node.key")


def test_a_home_has_one_node(tmp_path: Path) -> None:
    with HomeLock(tmp_path), pytest.raises(LocalError, match=rf"process {os.getpid()}\).*another"):
        HomeLock(tmp_path).acquire()
    with HomeLock(tmp_path):
        pass


def test_who_holds_a_folder_is_named(tmp_path: Path) -> None:
    with (
        HomeLock(tmp_path, holder="a testnet"),
        pytest.raises(LocalError, match=r"^a testnet \(process \d+\) already runs in"),
    ):
        HomeLock(tmp_path).acquire()


HOLDER = """
import sys
from pathlib import Path
from zerorag_p2p.node.files import HomeLock
with HomeLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(LocalError, match=rf"process {process.pid}\)"):
            HomeLock(tmp_path).acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / LOCK_NAME).read_text() == f"a node (process {process.pid})\n"
    with HomeLock(tmp_path):
        assert (tmp_path / LOCK_NAME).read_text() == f"a node (process {os.getpid()})\n"
