from __future__ import annotations

import json
from typing import Any

import pycddl
import pytest

from tests.vectors import generate_gossip
from zerorag_p2p.audit.heads import Head, encode_head
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.identity.withdrawal import Withdrawal, encode_withdrawal
from zerorag_p2p.wire.gossip import encode_gossip, encode_gossip_reply

FOLDER = generate_gossip.PROTOCOLS / "gossip"


def vectors(validity: str) -> list[Any]:
    return [
        pytest.param(vector, id=f"{vector['message']}-{vector['name']}")
        for vector in json.loads((FOLDER / "vectors" / f"{validity}.json").read_text())
    ]


def decode(vector: dict[str, Any]) -> Any:
    return generate_gossip.DECODERS[vector["message"]](bytes.fromhex(vector["hex"]), vector)


@pytest.mark.parametrize("vector", vectors("valid"))
def test_valid_vector_decodes_to_its_value(vector: dict[str, Any]) -> None:
    assert generate_gossip.describe(decode(vector)) == vector["value"]


@pytest.mark.parametrize("vector", vectors("valid"))
def test_valid_vector_is_what_its_value_encodes_to(vector: dict[str, Any]) -> None:
    if "extension" in vector["name"]:
        pytest.skip("unknown keys are ignored, so they cannot come back")
    value = decode(vector)
    match value:
        case Withdrawal():
            data = encode_withdrawal(value)
        case Head():
            data = encode_head(value.position, value.at)
        case _ if vector["message"] == "gossip":
            data = encode_gossip(value)
        case _:
            data = encode_gossip_reply(value)
    assert data.hex() == vector["hex"]


@pytest.mark.parametrize("vector", vectors("valid"))
def test_valid_vector_matches_the_schema(vector: dict[str, Any]) -> None:
    if "extension" in vector["name"]:
        pytest.skip("the schema leaves extensions out")
    schema = (FOLDER / "schema.cddl").read_text()
    pycddl.Schema(f"root = {vector['message']}\n{schema}").validate_cbor(
        bytes.fromhex(vector["hex"])
    )


@pytest.mark.parametrize("vector", vectors("invalid"))
def test_invalid_vector_is_refused_with_its_reason(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(vector)
    assert vector["reason"] in str(refused.value)


def test_there_are_as_many_invalid_as_valid() -> None:
    assert len(vectors("invalid")) >= len(vectors("valid"))


def test_committed_files_are_what_the_generator_writes() -> None:
    for name, content in generate_gossip.build().items():
        written = (generate_gossip.PROTOCOLS / name).read_text()
        assert written == generate_gossip.render(content), name
