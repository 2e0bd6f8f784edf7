"""Files of a node's home that need more care than others: the private key and the lock."""

from __future__ import annotations

import fcntl
import getpass
import os
import secrets
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from zerorag_p2p.errors import KeyFileError, LocalError, PassphraseNeeded
from zerorag_p2p.files import read_bounded, read_secret, sync_folder, write_atomic
from zerorag_p2p.identity.key_encryption import (
    MAX_PASSPHRASE_BYTES,
    SALT_BYTES,
    decrypt_key_file,
    encrypt_key_file,
    is_encrypted,
    key_file_peer,
)
from zerorag_p2p.identity.keys import (
    KEY_FILE_LIMIT,
    Identity,
    decode_key_file,
    encode_key_file,
)
from zerorag_p2p.model import PeerId

LOCK_NAME: Final = "node.lock"

_SECRET_BYTES: Final = 32

#: The environment variable that names the file of a passphrase.
PASSPHRASE_VARIABLE: Final = "ZERORAG_PASSPHRASE_FILE"  # noqa: S105 - a name

#: The longest description of a lock's holder that is read.
_HOLDER_BYTES: Final = 80

_OWNER_ONLY: Final = 0o600


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


def create_identity(path: Path) -> Identity:
    """Generate a private key and store it at `path`.

    Raises:
        KeyFileError: There is a file already, or it cannot be written.
    """
    identity = Identity.generate()
    write_secret(path, encode_key_file(identity))
    return identity


def load_identity(path: Path) -> Identity:
    """Read the private key at `path`; see `find_passphrase` for one that is encrypted.

    Raises:
        KeyFileError: The file is missing, malformed or accessible to others, or it is encrypted and
            its passphrase is not to be found or wrong.
    """
    data = read_secret(path, KEY_FILE_LIMIT)
    passphrase = find_passphrase(path) if is_encrypted(data) else None
    try:
        if passphrase is None:
            return decode_key_file(data)
        return decrypt_key_file(data, passphrase)
    except KeyFileError as error:
        raise type(error)(f"{path}: {error}") from None


def load_peer_id(path: Path) -> PeerId:
    """The peer id of the private key at `path`; no passphrase is needed.

    Raises:
        KeyFileError: The file is missing, malformed or accessible to others.
    """
    try:
        return key_file_peer(read_secret(path, KEY_FILE_LIMIT))
    except KeyFileError as error:
        raise KeyFileError(f"{path}: {error}") from None


def key_is_encrypted(path: Path) -> bool:
    """Whether the private key at `path` needs a passphrase.

    Raises:
        KeyFileError: The file is missing or accessible to others.
    """
    return is_encrypted(read_secret(path, KEY_FILE_LIMIT))


def encode_like(identity: Identity, path: Path) -> bytes:
    """A key file of `identity` that is encrypted if the one at `path` is, by the same passphrase.

    Raises:
        KeyFileError: The passphrase is not to be found.
    """
    if not key_is_encrypted(path):
        return encode_key_file(identity)
    return encrypt_key_file(identity, find_passphrase(path), os.urandom(SALT_BYTES))


def encrypt_key(path: Path, passphrase: bytes) -> PeerId:
    """Put an encrypted key file in the place of the one at `path`; whose key it is.

    Raises:
        KeyFileError: The file cannot be read, or the passphrase is too short or too long.
    """
    identity = load_identity(path)
    data = encrypt_key_file(identity, passphrase, os.urandom(SALT_BYTES))
    write_atomic(path, data, mode=_OWNER_ONLY)
    return identity.peer_id


def decrypt_key(path: Path) -> PeerId:
    """Put a key file without encryption in the place of the one at `path`; whose key it is.

    Raises:
        KeyFileError: The file cannot be read, or its passphrase is not to be found or wrong.
    """
    identity = load_identity(path)
    write_atomic(path, encode_key_file(identity), mode=_OWNER_ONLY)
    return identity.peer_id


def find_passphrase(path: Path) -> bytes:
    """The passphrase of the key file at `path`.

    It is the first line of the file that ZERORAG_PASSPHRASE_FILE names, else of systemd's
    credential `identity.passphrase` (by the key file's name), else typed where there is a terminal.

    Raises:
        PassphraseNeeded: There is none of these.
        KeyFileError: The file cannot be read, is accessible to others or empty.
    """
    named = os.environ.get(PASSPHRASE_VARIABLE)
    if named:
        return read_passphrase(Path(named))
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials:
        credential = Path(credentials) / f"{path.stem.partition('.')[0]}.passphrase"
        if credential.exists():
            # Who may read it is up to systemd, which lets the service in by an access list.
            return _first_line(credential, read_bounded(credential, MAX_PASSPHRASE_BYTES))
    if sys.stdin.isatty():
        return getpass.getpass(f"passphrase of {path}: ").encode()
    raise PassphraseNeeded(
        f"{path} is encrypted: name the file of its passphrase with --passphrase-file or "
        f"{PASSPHRASE_VARIABLE}"
    )


def read_passphrase(path: Path) -> bytes:
    """The first line of a file that only its owner can read.

    Raises:
        KeyFileError: It cannot be read, is accessible to others, empty or too long.
    """
    return _first_line(path, read_secret(path, MAX_PASSPHRASE_BYTES))


def _first_line(path: Path, data: bytes) -> bytes:
    line = data.partition(b"\n")[0].rstrip(b"\r")
    if not line:
        raise KeyFileError(f"{path} begins with an empty line: it has to hold the passphrase")
    return line


def local_secret(path: Path) -> bytes:
    """The 32 random bytes at `path`; made if there is no such file.

    Raises:
        KeyFileError: The file cannot be made or read, has another length, or others may access it.
    """
    if not path.exists():
        write_secret(path, secrets.token_bytes(_SECRET_BYTES))
    secret = read_secret(path, _SECRET_BYTES)
    if len(secret) != _SECRET_BYTES:
        raise KeyFileError(
            f"{path} is damaged: restore it from a backup, or move it away to have a new one made"
        )
    return secret


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
