from __future__ import annotations

import pytest

from zerorag_p2p.errors import DecodeError, KeyFileError
from zerorag_p2p.identity import keys
from zerorag_p2p.identity.keys import Identity

SEED = bytes(range(32))


def test_peer_id_is_the_one_libp2p_derives() -> None:
    from libp2p.crypto.ed25519 import create_new_key_pair
    from libp2p.peer.id import ID

    pair = create_new_key_pair(SEED)
    identity = Identity.from_seed(SEED)
    assert identity.peer_id == ID.from_pubkey(pair.public_key).to_string()
    assert identity.public_key == pair.public_key.to_bytes()
    assert pair.public_key.verify(b"message", identity.sign(b"message"))


def test_generated_identities_differ() -> None:
    assert Identity.generate().peer_id != Identity.generate().peer_id


def test_peer_id_holds_the_public_key() -> None:
    identity = Identity.from_seed(SEED)
    assert keys.public_key_of(identity.peer_id) == identity.public_key
    assert keys.parse_peer_id(str(identity.peer_id)) == identity.peer_id


def test_signature_is_good_for_one_message_and_one_peer() -> None:
    identity, other = Identity.from_seed(SEED), Identity.generate()
    signature = identity.sign(b"message")
    assert keys.verify(identity.peer_id, signature, b"message")
    assert not keys.verify(identity.peer_id, signature, b"another")
    assert not keys.verify(identity.peer_id, signature[:-1], b"message")
    assert not keys.verify(other.peer_id, signature, b"message")


PEER = Identity.from_seed(SEED).peer_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12D3KooW",
        PEER[:-1],
        PEER + "1",
        PEER[:-1] + " ",
        " " + PEER[1:],
        "1" + PEER[:-1],
        PEER.replace("K", "0"),
        PEER[:-1] + "é",
        "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
        "z" * 52,
        "1" * 52,
    ],
)
def test_anything_but_an_ed25519_peer_id_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="not an Ed25519 peer id"):
        keys.parse_peer_id(text)


def test_the_secret_is_not_shown() -> None:
    identity = Identity.from_seed(SEED)
    assert str(identity.peer_id) in repr(identity)
    assert SEED.hex() not in f"{identity!r}{identity}{identity.__reduce_ex__}"


def test_key_file_gives_the_identity_back() -> None:
    identity = Identity.generate()
    data = keys.encode_key_file(identity)
    assert len(data) < keys.KEY_FILE_LIMIT
    assert keys.decode_key_file(data).seed == identity.seed


def test_every_damaged_byte_of_a_key_file_is_noticed() -> None:
    data = keys.encode_key_file(Identity.from_seed(SEED))
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x01
        # The last digit of the base64 text has bits that mean nothing: same key, or noticed.
        try:
            seed = keys.decode_key_file(bytes(damaged)).seed
        except KeyFileError:
            continue
        assert seed == SEED


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"-----BEGIN PRIVATE KEY-----\n", b"\n\n\n", b"a\nb\nc\nd\ne\n"]
)
def test_other_files_are_not_key_files(data: bytes) -> None:
    with pytest.raises(KeyFileError, match="not a key file"):
        keys.decode_key_file(data)


def test_a_seed_of_another_length_is_refused() -> None:
    with pytest.raises(KeyFileError, match="32 bytes"):
        Identity.from_seed(bytes(31))
    with pytest.raises(DecodeError, match="32 bytes"):
        keys.peer_id_from_public_key(bytes(33))
