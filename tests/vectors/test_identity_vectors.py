from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cbor2
import pycddl
import pytest

from tests.vectors import generate_identity
from zerorag_p2p.errors import ZeroRagError
from zerorag_p2p.identity.attribution import open_custody, open_statement, verify_chain
from zerorag_p2p.identity.enrolment import open_join_request
from zerorag_p2p.identity.records import open_record
from zerorag_p2p.identity.release import open_release
from zerorag_p2p.identity.roster import open_roster

PROTOCOLS = Path(__file__).parents[2] / "protocols"
OPENERS = {
    "peer-record": open_record,
    "roster": open_roster,
    "join-request": open_join_request,
    "statement": open_statement,
    "custody": open_custody,
    "release": open_release,
}


def vectors(validity: str) -> list[Any]:
    return [
        pytest.param(folder, vector, id=f"{folder}-{vector['name']}".replace(" ", "-"))
        for folder in ("peer-record", "roster", "attribution")
        for vector in json.loads((PROTOCOLS / folder / "vectors" / f"{validity}.json").read_text())
    ]


def decode(folder: str, vector: dict[str, Any]) -> Any:
    if "links" in vector:
        return verify_chain([bytes.fromhex(link) for link in vector["links"]])
    return OPENERS[vector.get("message", folder)](bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize(("folder", "vector"), vectors("valid"))
def test_valid_vector_decodes_to_its_value(folder: str, vector: dict[str, Any]) -> None:
    assert decode(folder, vector).to_json() == vector["value"]


# pycddl cannot check a pattern of keys, so the schemas leave extensions out.
@pytest.mark.parametrize(
    ("folder", "vector"), [item for item in vectors("valid") if "extension" not in str(item.id)]
)
def test_valid_vector_matches_the_schema(folder: str, vector: dict[str, Any]) -> None:
    text = (PROTOCOLS / folder / "schema.cddl").read_text()
    for message in vector.get("links") or [vector["hex"]]:
        data = bytes.fromhex(message)
        pycddl.Schema(text).validate_cbor(data)
        # What a COSE message wraps; the payloads of the others are part of their schema.
        if folder == "attribution":
            protected, _, payload, _ = cbor2.loads(data).value
            kind = "custody" if b"custodian" in payload else vector["message"]
            rule = "statement" if kind == "chain" else kind
            for name, part in (("protected-header", protected), (rule, payload)):
                pycddl.Schema(f"root = {name}\n{text}").validate_cbor(part)


@pytest.mark.parametrize(("folder", "vector"), vectors("invalid"))
def test_invalid_vector_is_refused_with_its_reason(folder: str, vector: dict[str, Any]) -> None:
    with pytest.raises(ZeroRagError) as refused:
        decode(folder, vector)
    assert vector["reason"] in str(refused.value)


def test_committed_files_are_what_the_generator_writes() -> None:
    for name, content in generate_identity.build().items():
        assert (PROTOCOLS.parent / name).read_bytes() == generate_identity.render(content), name


def test_our_cose_is_the_other_implementations_byte_for_byte() -> None:
    ours = generate_identity.sign_statement(generate_identity.ALICE, **generate_identity.STATEMENT)
    assert ours == generate_identity.CWT_STATEMENT


def test_the_sample_roster_still_opens() -> None:
    roster = open_roster((PROTOCOLS.parent / "keys" / "sample-roster.cbor").read_bytes())
    assert (len(roster.members), len(roster.former)) == (1, 1)
