"""Files of a node's home that need more care than others: the private key and the lock."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from zerorag_p2p.errors import KeyFileError, LocalError
from zerorag_p2p.files import sync_folder
from zerorag_p2p.identity.keys import (
    KEY_FILE_LIMIT,
    Identity,
    decode_key_file,
    encode_key_file,
)

LOCK_NAME: Final = "node.lock"

#: The longest description of a lock's holder that is read.
_HOLDER_BYTES: Final = 80

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def write_secret(path: Path, data: bytes) -> None:
    """Create a file that only its owner can read, from the first moment on.

    It appears whole, and never in the place of another file.

    Raises:
        KeyFileError: There is a file already, or the folder cannot be written.
    """
    try:
        # mkstemp makes files of mode 0600; link, unlike rename, refuses to replace.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(name, path)
        finally:
            os.unlink(name)
        sync_folder(path.parent)
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists already and is not overwritten: move it away first"
        ) from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be created: {error.strerror}") from None


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


def create_identity(path: Path) -> Identity:
    """Generate a private key and store it at `path`.

    Raises:
        KeyFileError: There is a file already, or it cannot be written.
    """
    identity = Identity.generate()
    write_secret(path, encode_key_file(identity))
    return identity


def load_identity(path: Path) -> Identity:
    """Read the private key at `path`.

    Raises:
        KeyFileError: The file is missing, malformed or accessible to others.
    """
    data = read_secret(path, KEY_FILE_LIMIT)
    try:
        return decode_key_file(data)
    except KeyFileError as error:
        raise KeyFileError(f"{path}: {error}") from None


class HomeLock:
    """Keeps others out of a home, while this process lives and holds it.

    The kernel holds the lock, not the file: after a crash the file stays and the lock is free.

    Args:
        home: The folder; of a node or of a testnet.
        holder: What this process does there, for those that are kept out.
    """

    def __init__(self, home: Path, *, holder: str = "a node") -> None:
        self._home = home
        self._holder = holder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LocalError: Another process has it, or the file cannot be written.
        """
        assert self._descriptor is None, "the lock is taken once"
        path = self._home / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LocalError(f"{path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise LocalError(
                f"{holder or 'another process'} already runs in {self._home}: stop it or choose "
                "another folder"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{self._holder} (process {os.getpid()})\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back. The file stays: removing it could remove another node's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
