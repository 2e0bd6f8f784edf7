from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.errors import KeyFileError, PassphraseNeeded, WrongPassphrase
from zerorag_p2p.identity.key_encryption import (
    SALT_BYTES,
    decrypt_key_file,
    encrypt_key_file,
    is_encrypted,
    key_file_peer,
)
from zerorag_p2p.identity.keys import Identity, decode_key_file, encode_key_file
from zerorag_p2p.node.files import (
    PASSPHRASE_VARIABLE,
    create_identity,
    decrypt_key,
    encrypt_key,
    key_is_encrypted,
    load_identity,
    load_peer_id,
    write_secret,
)

IDENTITY = Identity.from_seed(bytes(range(32)))
PASSPHRASE = b"correct horse battery"
CHEAP = 1 << 10
SEALED = encrypt_key_file(IDENTITY, PASSPHRASE, bytes(SALT_BYTES), cost=CHEAP)


def test_an_encrypted_key_opens_with_its_passphrase_only() -> None:
    assert is_encrypted(SEALED)
    assert key_file_peer(SEALED) == IDENTITY.peer_id
    assert decrypt_key_file(SEALED, PASSPHRASE).seed == IDENTITY.seed
    assert IDENTITY.seed not in SEALED
    with pytest.raises(WrongPassphrase, match="does not open"):
        decrypt_key_file(SEALED, PASSPHRASE + b"!")
    with pytest.raises(KeyFileError, match="first line"):
        decode_key_file(SEALED.replace(b"sealed", b"seed", 1).split(b"scrypt")[0] + b"seed x\n")


def test_a_plain_key_names_its_peer_too() -> None:
    plain = encode_key_file(IDENTITY)
    assert not is_encrypted(plain)
    assert key_file_peer(plain) == IDENTITY.peer_id


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(SEALED) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_never_taken_for_the_key(position: int, bit: int) -> None:
    damaged = bytearray(SEALED)
    damaged[position] ^= 1 << bit
    # A bit of the cost may ask for a gigabyte: those files are refused or take their time.
    if damaged[position : position + 1].isdigit() and SEALED[position : position + 1].isdigit():
        return
    with pytest.raises(KeyFileError):
        decrypt_key_file(bytes(damaged), PASSPHRASE)


@pytest.mark.parametrize("cost", ["0", "1", "3", "1023", "2097152", "99999999"])
def test_a_strange_cost_is_refused_before_it_is_paid(cost: str) -> None:
    with pytest.raises(KeyFileError, match="damaged"):
        decrypt_key_file(SEALED.replace(b"scrypt 1024 ", f"scrypt {cost} ".encode()), PASSPHRASE)


@pytest.mark.parametrize("passphrase", [b"", b"1234567", bytes(1_025)])
def test_passphrases_have_bounds(passphrase: bytes) -> None:
    with pytest.raises(KeyFileError, match="8 to 1024 bytes"):
        encrypt_key_file(IDENTITY, passphrase, bytes(SALT_BYTES), cost=CHEAP)


def passphrase_file(folder: Path, text: bytes = PASSPHRASE + b"\n") -> Path:
    path = folder / "passphrase"
    write_secret(path, text)
    return path


def test_a_key_is_encrypted_and_decrypted_in_place_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "identity.key"
    identity = create_identity(path)
    encrypt_key(path, PASSPHRASE)
    assert key_is_encrypted(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_peer_id(path) == identity.peer_id
    with pytest.raises(PassphraseNeeded, match="--passphrase-file"):
        load_identity(path)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(passphrase_file(tmp_path)))
    assert load_identity(path).seed == identity.seed
    decrypt_key(path)
    assert not key_is_encrypted(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    monkeypatch.delenv(PASSPHRASE_VARIABLE)
    assert load_identity(path).seed == identity.seed


def test_a_wrong_passphrase_names_the_key_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "identity.key"
    write_secret(path, SEALED)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(passphrase_file(tmp_path, b"something else")))
    with pytest.raises(WrongPassphrase, match=r"identity.key: the passphrase does not open"):
        load_identity(path)


def test_a_passphrase_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "identity.key"
    write_secret(path, SEALED)
    named = passphrase_file(tmp_path)
    named.chmod(0o644)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(named))
    with pytest.raises(KeyFileError, match="others may access"):
        load_identity(path)


def test_an_empty_passphrase_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "identity.key"
    write_secret(path, SEALED)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(passphrase_file(tmp_path, b"\nlate\n")))
    with pytest.raises(KeyFileError, match="empty line"):
        load_identity(path)


@pytest.mark.parametrize("name", ["identity", "authority"])
def test_a_credential_of_systemd_opens_the_key_of_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{name}.key"
    write_secret(path, SEALED)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / f"{name}.passphrase").write_bytes(PASSPHRASE)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    assert load_identity(path).seed == IDENTITY.seed
