from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pycddl
import pytest

from tests.vectors import generate_wire
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.model import RefusalCode
from zerorag_p2p.wire.advertise import encode_advertise_reply, encode_advertise_request
from zerorag_p2p.wire.codes import decode_codes
from zerorag_p2p.wire.embedding import Encoding
from zerorag_p2p.wire.fetch import FetchResult, encode_fetch, encode_fetch_result
from zerorag_p2p.wire.hello import Hello, encode_hello
from zerorag_p2p.wire.protocols import LIMITS
from zerorag_p2p.wire.query import QueryResult, encode_query, encode_query_result
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

PROTOCOLS = Path(__file__).parents[2] / "protocols"
FOLDERS = ("framing", "hello", "query", "advertise", "fetch")


def vectors(validity: str, *folders: str) -> list[Any]:
    return [
        pytest.param(folder, vector, id=f"{folder}-{vector['message']}-{vector['name']}")
        for folder in folders or FOLDERS
        for vector in json.loads((PROTOCOLS / folder / "vectors" / f"{validity}.json").read_text())
    ]


def decode(vector: dict[str, Any]) -> Any:
    return generate_wire.DECODERS[vector["message"]](bytes.fromhex(vector["hex"]), vector)


@pytest.mark.parametrize(("folder", "vector"), vectors("valid"))
def test_valid_vector_decodes_to_its_value(folder: str, vector: dict[str, Any]) -> None:
    value = generate_wire.describe(decode(vector))
    assert ("unchanged" if value is None else value) == vector["value"], folder


@pytest.mark.parametrize(("folder", "vector"), vectors("valid", "hello", "query", "fetch"))
def test_valid_vector_is_what_its_value_encodes_to(folder: str, vector: dict[str, Any]) -> None:
    if vector["name"] == "extension":
        pytest.skip("unknown keys are ignored, so they cannot come back")
    value = decode(vector)
    match value:
        case Refusal():
            data = encode_refusal(value)
        case Hello():
            data = encode_hello(value)
        case QueryResult():
            floats = vector["name"] == "float32 embedding"
            data = encode_query_result(value, Encoding.FLOAT32 if floats else Encoding.INT8)
        case FetchResult():
            data = encode_fetch_result(value)
        case _:
            data = encode_query(value) if folder == "query" else encode_fetch(value)
    assert data.hex() == vector["hex"]


@pytest.mark.parametrize(("folder", "vector"), vectors("valid", *FOLDERS[1:]))
def test_valid_vector_matches_the_schema(folder: str, vector: dict[str, Any]) -> None:
    if vector["name"] == "extension":
        pytest.skip("the schemas leave extensions out")
    schema = (PROTOCOLS / folder / "schema.cddl").read_text()
    pycddl.Schema(f"root = {vector['message']}\n{schema}").validate_cbor(
        bytes.fromhex(vector["hex"])
    )


@pytest.mark.parametrize(("folder", "vector"), vectors("invalid"))
def test_invalid_vector_is_refused_with_its_reason(folder: str, vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(vector)
    assert vector["reason"] in str(refused.value), folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_there_are_as_many_invalid_as_valid(folder: str) -> None:
    # Framing leaves little to get wrong.
    least = len(vectors("valid", folder)) - (folder == "framing")
    assert len(vectors("invalid", folder)) >= least


def test_committed_files_are_what_the_generator_writes() -> None:
    for name, content in generate_wire.build().items():
        assert (PROTOCOLS / name).read_text() == generate_wire.render(content), name


def test_advertise_messages_encode_to_their_vectors() -> None:
    for parameters in vectors("valid", "advertise"):
        _, vector = parameters.values
        value = decode(vector)
        if vector["message"] == "advertise":
            assert encode_advertise_request(value).hex() == vector["hex"]
        elif vector["message"] == "advertise-reply" and not isinstance(value, Refusal):
            assert encode_advertise_reply(value).hex() == vector["hex"]


def test_codes_estimate_the_score_of_their_vector() -> None:
    for vector in json.loads((PROTOCOLS / "advertise/vectors/codes.json").read_text()):
        sample = generate_wire.sample_vector(vector["dimension"])
        packed = np.frombuffer(bytes.fromhex(vector["code"]), np.uint8)[None]
        factors = np.array([vector["factor"]], dtype=np.float32)
        [row] = decode_codes(packed, factors, dimension=vector["dimension"], bits=vector["bits"])
        assert row @ sample / np.linalg.norm(sample) == pytest.approx(1.0, abs=1e-5)


def test_the_index_states_the_limits() -> None:
    def written(limit: int) -> str:
        return f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"

    index = (PROTOCOLS / "README.md").read_text()
    for protocol, (request, reply) in LIMITS.items():
        [row] = [line for line in index.splitlines() if f"`{protocol}`" in line]
        assert row.endswith(f"| {written(request)} | {written(reply)} |")


def test_the_index_lists_every_refusal_code() -> None:
    index = (PROTOCOLS / "README.md").read_text()
    for code in RefusalCode:
        assert f"| `{code.value}` |" in index


def test_the_index_shows_how_a_refusal_is_encoded() -> None:
    index = (PROTOCOLS / "README.md").read_text()
    _, example, *_ = index.split("is, and can only be,")[1].split("```")
    shown = "".join(line.partition("#")[0] for line in example.splitlines())
    refusal = Refusal(RefusalCode.BUSY, "64 requests are waiting", 30)
    assert bytes.fromhex(shown) == encode_refusal(refusal)
