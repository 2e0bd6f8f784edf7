from __future__ import annotations

import pytest

from zerorag_p2p import cbor
from zerorag_p2p.errors import DecodeError, IntegrityError, UsageError
from zerorag_p2p.identity import cose
from zerorag_p2p.identity.envelope import Domain, open_envelope, seal, signing_input
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import PeerRecord, open_record, sign_record

ALICE = Identity.from_seed(bytes([1]) * 32)


def test_envelope_gives_signer_and_payload() -> None:
    envelope = open_envelope(
        seal(ALICE, Domain.ADVERTISEMENT, b"payload"), Domain.ADVERTISEMENT, limit=300
    )
    assert (envelope.signer, envelope.payload) == (ALICE.peer_id, b"payload")


def test_a_signature_of_one_domain_is_worth_nothing_in_another() -> None:
    for domain in Domain:
        for other in Domain:
            data = seal(ALICE, domain, b"payload")
            if domain is other:
                open_envelope(data, other, limit=300)
            else:
                with pytest.raises(IntegrityError):
                    open_envelope(data, other, limit=300)


def test_signing_inputs_never_collide_and_are_no_cose_or_noise_input() -> None:
    inputs = {signing_input(domain, payload) for domain in Domain for payload in (b"", b"/1", b"1")}
    assert len(inputs) == len(Domain) * 3
    assert signing_input(Domain.ROSTER, b"x") == b"zerorag-p2p signature\x00\x10zerorag/roster/1x"
    for message in inputs:
        assert not message.startswith(
            (b"noise-libp2p-static-key:", cbor.encode(["Signature1"])[:1])
        )


def test_limit_is_that_of_the_whole_envelope() -> None:
    data = seal(ALICE, Domain.ROSTER, bytes(100))
    open_envelope(data, Domain.ROSTER, limit=len(data))
    with pytest.raises(DecodeError, match="exceed the limit"):
        open_envelope(data, Domain.ROSTER, limit=len(data) - 1)
    message = cose.sign1(ALICE, bytes(100), aad=b"")
    cose.verify1(message, aad=b"", limit=len(message))
    with pytest.raises(DecodeError, match="exceed the limit"):
        cose.verify1(message, aad=b"", limit=len(message) - 1)


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65_536])
def test_cose_carries_payloads_of_any_size(size: int) -> None:
    message = cose.sign1(ALICE, bytes(size), aad=b"kind")
    assert cose.verify1(message, aad=b"kind", limit=1 << 20) == (ALICE.peer_id, bytes(size))


def test_record_says_where_its_signer_is() -> None:
    addresses = ["/ip4/192.0.2.1/tcp/4001", "/dns4/node.example.org/tcp/4001"]
    record = open_record(sign_record(ALICE, addresses, 7))
    assert record == PeerRecord(ALICE.peer_id, tuple(addresses), 7)


@pytest.mark.parametrize("address", ["", "192.0.2.1", "/ip4/192.0.2.1/", f"/p2p/{ALICE.peer_id}"])
def test_nobody_signs_an_address_that_others_would_refuse(address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        sign_record(ALICE, [address], 1)
