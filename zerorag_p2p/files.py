"""Files that are whole or absent: atomic writes, bounded reads, secrets."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from zerorag_p2p.errors import KeyFileError, LocalError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace the file at `path` with `data`, or leave it as it was; see `writing_atomic`."""
    with writing_atomic(path, mode=mode) as file:
        file.write(data)


@contextmanager
def writing_atomic(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file that takes the place of the one at `path` when the context is left without an error.

    The data reaches a temporary file in the same folder, then the disk, then its name. The
    temporary file is only readable by its owner from the moment it exists.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames within `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises:
        LocalError: The file is longer.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise LocalError(f"{path} is longer than {limit} bytes")
    return data


def read_secret(path: Path, limit: int) -> bytes:
    """Read a file of at most `limit` bytes that only its owner can read.

    Raises:
        KeyFileError: It is missing, not a regular file, readable by others, or longer.
    """
    # O_NONBLOCK: opening a pipe in the file's place must not hang.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise KeyFileError(f"{path} is a symbolic link: name the file itself") from None
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    try:
        _check_private(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise KeyFileError(f"{path} is longer than {limit} bytes")
    return data


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"{path} is not a regular file")
    if status.st_mode & _OTHERS:
        raise KeyFileError(
            f"others may access {path} (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"run chmod 600 {shlex.quote(str(path))}, and consider the key known to them"
        )
