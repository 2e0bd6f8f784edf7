"""Writes the vectors of protocols/{peer-record,roster,attribution} and the sample roster in keys/.

    python tests/vectors/generate_identity.py

The output depends on nothing but this file and the code. Vectors of a published version stay as
they are: a run that changes one shows a breaking change.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from zerorag_p2p import cbor
from zerorag_p2p.identity import cose
from zerorag_p2p.identity.attribution import (
    open_custody,
    open_statement,
    sign_custody,
    sign_statement,
    verify_chain,
)
from zerorag_p2p.identity.enrolment import (
    approve,
    change_authorities,
    create_roster,
    open_join_request,
    renew,
    revoke,
    sign_hand_over,
    sign_join_request,
)
from zerorag_p2p.identity.envelope import Domain, seal, signing_input
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import open_record, sign_record
from zerorag_p2p.identity.release import open_release, sign_release
from zerorag_p2p.identity.roster import Roster, open_roster, sign_roster
from zerorag_p2p.model import ContentHash, Fingerprint, Purpose, SharingTerms, View

ROOT = Path(__file__).parents[2]

# Sample keys, known to everybody. Never use them.
ALICE, BOB, CAROL, DAVE = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3, 4))
NOW = 1_800_000_000
MINILM = Fingerprint("all-MiniLM-L6-v2", "53aa51172d142c89", 384)
MPNET = Fingerprint("all-mpnet-base-v2", "78c0197b6159d92c", 768)

# Made by python-cwt 3.3.0 (COSE.encode with Alice's key, the protected header {1: -8, 4: peer id}
# and the external data b"zerorag/statement/1"), so that COSE here is not only tested by itself.
CWT_STATEMENT = bytes.fromhex(
    "d284582ca201270458260024080112208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f"
    "6f5ca0590133a8656f776e65727834313244334b6f6f574b3939566f56784e4537587a79427758457a573778684b"
    "37477076383572394633563366794b53554b504835657465726d73a364636f7079f46772657368617265f4687075"
    "72706f73657380696973737565642d61741a6b49d2006a636f6c6c656374696f6e6a67756964656c696e65736a63"
    "6f6e736f727469756d7773616d706c652d303132333435363738396162636465666b66696e6765727072696e7458"
    "2044863b03e9909b7100e05b02526909a346fd7455183f6619e0fe6198c89981e06c636f6e74656e742d68617368"
    "5820ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f736e656d62656464696e672d68"
    "6173685820aa580156f36e357b5bfb0dcd869a026c7b0a244e7b01cba17d5da1dc1e7039cd584095df3fbcb4abea"
    "ab4c40e719f55ee79c3d63e168e9e2bc4235bb7aeae67027af949acae4cb870350f25b35e54825fb430ee5c07ebc"
    "29b1743ec53705483bfa08"
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


STATEMENT: dict[str, Any] = {
    "content_hash": ContentHash(digest("content")),
    "embedding_hash": digest("embedding"),
    "fingerprint": digest("fingerprint"),
    "collection": "guidelines",
    "terms": SharingTerms(),
    "consortium": "sample-0123456789abcdef",
    "now": NOW,
}
COPY_TERMS = SharingTerms(copy=True)
RESHARE_TERMS = SharingTerms(copy=True, reshare=True)


def build() -> dict[str, Any]:
    """The content of every file, by its path under the project's root; bytes or JSON."""
    files: dict[str, Any] = {}
    for folder, valid, invalid in (
        ("peer-record", peer_record_valid(), peer_record_invalid()),
        ("roster", roster_valid(), roster_invalid()),
        ("attribution", attribution_valid(), attribution_invalid()),
    ):
        files[f"protocols/{folder}/vectors/valid.json"] = valid
        files[f"protocols/{folder}/vectors/invalid.json"] = invalid
    sample = sample_roster()
    files["keys/sample-roster.cbor"] = sample
    files["keys/sample-roster.json"] = open_roster(sample).to_json()
    return files


def render(content: Any) -> bytes:
    if isinstance(content, bytes):
        return content
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def flip(data: bytes, position: int = -1) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


# Peer records


def peer_record_valid() -> list[dict[str, Any]]:
    def vector(name: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "hex": data.hex(), "value": open_record(data).to_json()}

    extended = cbor.encode({"addresses": [], "sequence": 1, "x-note": "ignored"})
    several = ["/dns4/node.example.org/tcp/4001", "/ip6/2001:db8::1/tcp/4001"]
    return [
        vector("one address", sign_record(ALICE, ["/ip4/192.0.2.1/tcp/4001"], NOW)),
        vector("several addresses", sign_record(ALICE, several, NOW + 1)),
        vector("not reachable", sign_record(BOB, [], 0)),
        vector("largest sequence", sign_record(BOB, [], 2**53 - 1)),
        vector("extension", seal(ALICE, Domain.PEER_RECORD, extended)),
    ]


def peer_record_invalid() -> list[dict[str, Any]]:
    def sealed(**fields: Any) -> bytes:
        return seal(
            ALICE, Domain.PEER_RECORD, cbor.encode({"addresses": [], "sequence": 1} | fields)
        )

    good = sign_record(ALICE, ["/ip4/192.0.2.1/tcp/4001"], NOW)
    parts = cbor.decode(good, limit=4096)
    many = [f"/ip4/192.0.2.{number}/tcp/4001" for number in range(9)]
    unordered = bytes.fromhex("a2") + cbor.encode("addresses") + cbor.encode([])
    unordered += cbor.encode("sequence") + cbor.encode(1)
    repeated = bytes.fromhex("a3") + (cbor.encode("sequence") + cbor.encode(1)) * 2
    repeated += cbor.encode("addresses") + cbor.encode([])
    cases = {
        "altered signature": (flip(good, good.index(parts["signature"])), "signature is not"),
        "altered payload": (flip(good, good.index(b"192.0.2.1")), "signature is not"),
        "signed by another": (cbor.encode(parts | {"signer": BOB.peer_id}), "signature is not"),
        "signed as a join request": (
            seal(ALICE, Domain.JOIN_REQUEST, parts["payload"]),
            "signature is not",
        ),
        "bare signature": (
            cbor.encode(parts | {"signature": ALICE.sign(parts["payload"])}),
            "signature is not",
        ),
        "short signature": (
            cbor.encode(parts | {"signature": parts["signature"][:63]}),
            "not 64 to 64 bytes",
        ),
        "no signature": (
            cbor.encode({key: parts[key] for key in ("payload", "signer")}),
            "'signature' is missing",
        ),
        "signer not a peer id": (cbor.encode(parts | {"signer": "alice"}), "not an Ed25519 peer"),
        "trailing byte": (good + b"\0", "CBOR"),
        "cut short": (good[:-1], "malformed CBOR"),
        "not a map": (cbor.encode([]), "expected a map"),
        "unknown key": (sealed(note="refused"), "unknown keys"),
        "keys out of order": (seal(ALICE, Domain.PEER_RECORD, unordered), "deterministic"),
        "key twice": (seal(ALICE, Domain.PEER_RECORD, repeated), "malformed CBOR"),
        "float sequence": (sealed(sequence=1.0), "'sequence' is not an integer"),
        "negative sequence": (sealed(sequence=-1), "'sequence' is not between"),
        "sequence too large": (sealed(sequence=2**53), "'sequence' is not between"),
        "too many addresses": (sealed(addresses=many), "has 9 items"),
        "address twice": (sealed(addresses=[many[0], many[0]]), "twice"),
        "address not a multiaddr": (sealed(addresses=["192.0.2.1:4001"]), "is not of the form"),
        "empty part in an address": (sealed(addresses=["/ip4//tcp/1"]), "is not of the form"),
        "peer id in an address": (sealed(addresses=[f"/p2p/{BOB.peer_id}"]), "has a peer id"),
        "address not ASCII": (sealed(addresses=["/dns4/nöde/tcp/1"]), "printable ASCII"),
    }
    return [
        {"name": name, "hex": data.hex(), "reason": reason}
        for name, (data, reason) in cases.items()
    ]


# Rosters


def join_request(identity: Identity, organisation: str, host: str) -> bytes:
    return sign_join_request(
        identity,
        organisation=organisation,
        addresses=[f"/dns4/{host}/tcp/4001"],
        fingerprints=[MINILM],
        now=NOW,
    )


def taking_over() -> bytes:
    """Dave asks to take the place of Bob, who agreed."""
    return sign_join_request(
        DAVE,
        organisation="North Hospital",
        addresses=[],
        fingerprints=[MINILM],
        now=NOW,
        hand_over=hand_over(DAVE),
    )


def hand_over(new: Identity) -> bytes:
    consortium = founded().consortium
    return sign_hand_over(BOB, new.peer_id, consortium=consortium, now=NOW)


def founded(threshold: int = 1, *authorities: Identity) -> Roster:
    peers = [identity.peer_id for identity in authorities or (ALICE,)]
    return create_roster("sample", peers, fingerprints=[MINILM], now=NOW, threshold=threshold)


def with_members() -> Roster:
    """Version 4: Bob and Carol joined, Carol was revoked."""
    roster = founded()
    for identity, organisation, host in (
        (BOB, "North Hospital", "north.example.org"),
        (CAROL, "South Hospital", "south.example.org"),
    ):
        request = open_join_request(join_request(identity, organisation, host))
        roster = approve(
            roster, request, roles=["hospital"], not_after=NOW + 366 * 86_400, now=NOW + 60
        )
    return revoke(roster, CAROL.peer_id, "key lost with a laptop", NOW + 3_600)


def sample_roster() -> bytes:
    """A roster with one authority, one member, one former member, one migration under way."""
    return sign_roster(renew(with_members(), NOW + 7_200, fingerprints_next=[MPNET]), ALICE)


def roster_valid() -> list[dict[str, Any]]:
    def vector(name: str, data: bytes, message: str = "roster") -> dict[str, Any]:
        opened = open_roster(data) if message == "roster" else open_join_request(data)
        return {"name": name, "message": message, "hex": data.hex(), "value": opened.to_json()}

    handed_over = change_authorities(founded(), [BOB.peer_id], 1, NOW + 60)
    extended = cbor.encode(founded().to_json() | {"x-note": "ignored"})
    return [
        vector("founded", sign_roster(founded(), ALICE)),
        vector("members, a former member, a next embedding", sample_roster()),
        vector("two of three", sign_roster(founded(2, ALICE, BOB, CAROL), BOB, CAROL)),
        vector("handed over, signed by both sides", sign_roster(handed_over, ALICE, BOB)),
        vector("extension", signed(extended, ALICE)),
        vector(
            "join request", join_request(BOB, "North Hospital", "north.example.org"), "join-request"
        ),
        vector("join request in the place of another key", taking_over(), "join-request"),
    ]


def signed(payload: bytes, *identities: Identity) -> bytes:
    """Sign any bytes as a roster, well-formed or not."""
    signatures = [
        {
            "signer": identity.peer_id,
            "signature": identity.sign(signing_input(Domain.ROSTER, payload)),
        }
        for identity in identities
    ]
    return cbor.encode({"roster": payload, "signatures": signatures})


def roster_invalid() -> list[dict[str, Any]]:
    base = with_members().to_json()

    def altered(**fields: Any) -> bytes:
        return signed(cbor.encode(base | fields), ALICE)

    good = sign_roster(with_members(), ALICE)
    parts = cbor.decode(good, limit=1 << 16)
    member, former = base["members"][0], base["former"][0]
    by_id = sorted((ALICE, BOB), key=lambda identity: identity.peer_id)
    request = {
        "organisation": "North Hospital",
        "addresses": [],
        "fingerprints": [MINILM.to_map()],
        "created-at": NOW,
    }

    def asked(**fields: Any) -> bytes:
        return seal(BOB, Domain.JOIN_REQUEST, cbor.encode(request | fields))

    rosters = {
        "unsigned": (signed(parts["roster"]), "signed by 0 of its 1 authorities"),
        "signed by a member only": (signed(parts["roster"], BOB), "signed by 0 of its 1"),
        "one of two": (sign_roster(founded(2, ALICE, BOB), BOB), "signed by 1 of its 2"),
        "same signature twice": (
            signed(cbor.encode(founded(2, ALICE, BOB).to_json()), BOB, BOB),
            "each once",
        ),
        "signatures out of order": (signed(parts["roster"], *reversed(by_id)), "in the order"),
        "altered signature": (flip(good), "does not verify"),
        "altered roster": (flip(good, good.index(b"North")), "does not verify"),
        "an altered signature among good ones": (
            flip(sign_roster(founded(1, ALICE, BOB), ALICE, BOB)),
            "does not verify",
        ),
        "signed as a peer record": (
            cbor.encode(
                {
                    "roster": parts["roster"],
                    "signatures": [
                        {
                            "signer": ALICE.peer_id,
                            "signature": ALICE.sign(
                                signing_input(Domain.PEER_RECORD, parts["roster"])
                            ),
                        }
                    ],
                }
            ),
            "does not verify",
        ),
        "version 0": (altered(version=0), "'version' is not between"),
        "threshold above the authorities": (altered(threshold=2), "2 of 1 authorities"),
        "no authority": (altered(authorities=[]), "'authorities' has 0 items"),
        "authorities out of order": (
            altered(authorities=[identity.peer_id for identity in reversed(by_id)]),
            "authorities are not in the order",
        ),
        "member twice": (altered(members=[member, member]), "members are not in the order"),
        "member and former member": (
            altered(former=[former | {"peer": member["peer"]}]),
            "both member and former",
        ),
        "authority is a former member": (
            altered(former=[former | {"peer": ALICE.peer_id}]),
            "is a former member",
        ),
        "membership ends before it begins": (
            altered(members=[member | {"not-after": member["not-before"]}]),
            "ends before it begins",
        ),
        "control character in a name": (
            altered(members=[member | {"organisation": "North\x1b[2J"}]),
            "cannot be printed",
        ),
        "expires before it is issued": (altered(**{"expires-at": NOW}), "expires before"),
        "no embedding": (altered(**{"fingerprints-current": []}), "has 0 items"),
        "unknown key": (altered(note="refused"), "unknown keys"),
        "unknown key in a member": (altered(members=[member | {"note": ""}]), "unknown keys"),
    }
    requests = {
        "join request signed as a roster": (
            seal(BOB, Domain.ROSTER, cbor.encode(request)),
            "signature is not",
        ),
        "join request without an embedding": (asked(fingerprints=[]), "has 0 items"),
        "join request without an organisation": (asked(organisation=""), "not 1 to 128 bytes"),
        "hand-over to another key": (asked(**{"hand-over": hand_over(DAVE)}), "is used by"),
        "hand-over of a key to itself": (
            asked(**{"hand-over": hand_over(BOB)}),
            "hands over to itself",
        ),
        "altered hand-over": (asked(**{"hand-over": flip(hand_over(BOB))}), "signature is not"),
        "join request as a hand-over": (
            asked(**{"hand-over": seal(DAVE, Domain.JOIN_REQUEST, cbor.encode(request))}),
            "signature is not",
        ),
    }
    return [
        {"name": name, "message": message, "hex": data.hex(), "reason": reason}
        for message, cases in (("roster", rosters), ("join-request", requests))
        for name, (data, reason) in cases.items()
    ]


# Attribution


def attribution_valid() -> list[dict[str, Any]]:
    openers = {"statement": open_statement, "custody": open_custody, "release": open_release}

    def vector(name: str, message: str, data: bytes, **more: str) -> dict[str, Any]:
        value = openers[message](data).to_json()
        return {"name": name, **more, "message": message, "hex": data.hex(), "value": value}

    def chain(name: str, links: list[bytes]) -> dict[str, Any]:
        value = verify_chain(links).to_json()
        return {
            "name": name,
            "message": "chain",
            "links": [link.hex() for link in links],
            "value": value,
        }

    terms = SharingTerms(True, True, (Purpose.TREAT, Purpose.HRESCH), NOW + 86_400)
    statement = sign_statement(ALICE, **STATEMENT | {"terms": RESHARE_TERMS})
    custody = sign_custody(BOB, statement, NOW + 60)
    return [
        vector(
            "statement by another implementation",
            "statement",
            CWT_STATEMENT,
            comment="made by python-cwt 3.3.0 from the secret key 0101...01",
        ),
        vector("terms", "statement", sign_statement(ALICE, **STATEMENT | {"terms": terms})),
        vector("custody", "custody", custody),
        chain("owner only", [CWT_STATEMENT]),
        chain("two custodians", [statement, custody, sign_custody(CAROL, custody, NOW + 120)]),
        vector("the whole document", "release", release(ALICE)),
        vector(
            "redacted passage",
            "release",
            release(BOB, view=View.PASSAGE, redaction=["names", "dates"], content=b"con[...]"),
        ),
    ]


def release(identity: Identity, **fields: Any) -> bytes:
    values: dict[str, Any] = {
        "content": b"content",
        "content_hash": STATEMENT["content_hash"],
        "view": View.WHOLE,
        "receiver": DAVE.peer_id,
        "purpose": Purpose.TREAT,
        "audit": "case-17",
        "now": NOW + 180,
    } | fields
    return sign_release(identity, values.pop("content"), **values)


def attribution_invalid() -> list[dict[str, Any]]:
    aad = Domain.STATEMENT.encode()
    good = sign_statement(ALICE, **STATEMENT)
    payload = cose.verify1(good, aad=aad, limit=2048)[1]
    fields = cbor.decode(payload, limit=2048)
    key_at = good.index(ALICE.public_key)
    empty_map_at = key_at + 32

    def stated(**changes: Any) -> bytes:
        return cose.sign1(ALICE, cbor.encode(fields | changes), aad=aad)

    released = release(ALICE)
    release_fields = cbor.decode(
        cose.verify1(released, aad=Domain.RELEASE.encode(), limit=2048)[1], limit=2048
    )

    def sent(**changes: Any) -> bytes:
        return cose.sign1(ALICE, cbor.encode(release_fields | changes), aad=Domain.RELEASE.encode())

    form = "not a COSE_Sign1 message"
    statements = {
        "altered signature": (flip(good), "signature-invalid"),
        "altered payload": (flip(good, good.index(b"guidelines")), "signature-invalid"),
        "altered key": (flip(good, key_at), "signature-invalid"),
        "no external data": (cose.sign1(ALICE, payload, aad=b""), "signature-invalid"),
        "signed as a release": (
            cose.sign1(ALICE, payload, aad=Domain.RELEASE.encode()),
            "signature-invalid",
        ),
        "signed by another than the owner": (cose.sign1(BOB, payload, aad=aad), "owner-mismatch"),
        "no tag": (good[1:], form),
        "another tag": (b"\xd1" + good[1:], form),
        "another algorithm": (good.replace(b"\xa2\x01\x27", b"\xa2\x01\x26", 1), form),
        "unprotected header not empty": (
            good[:empty_map_at] + b"\xa1\x04\x41\x00" + good[empty_map_at + 1 :],
            form,
        ),
        "detached payload": (good[: empty_map_at + 1] + b"\xf6" + good[-66:], "not a byte string"),
        "payload length not in its shortest form": (
            good.replace(b"\xa0\x59", b"\xa0\x5a\0\0", 1),
            "deterministic",
        ),
        "trailing byte": (good + b"\0", form),
        "payload not CBOR": (cose.sign1(ALICE, b"\xff", aad=aad), "malformed CBOR"),
        "unknown key": (stated(note="refused"), "unknown keys"),
        "short content hash": (stated(**{"content-hash": bytes(31)}), "not 32 to 32 bytes"),
        "no terms": (
            cose.sign1(
                ALICE,
                cbor.encode({key: fields[key] for key in fields if key != "terms"}),
                aad=aad,
            ),
            "'terms' is missing",
        ),
        "unknown purpose": (
            stated(terms={"copy": True, "reshare": True, "purposes": ["FUN"]}),
            "no purpose of use",
        ),
        "terms that expire at null": (
            stated(terms={"copy": True, "reshare": True, "purposes": [], "expires-at": None}),
            "not an integer",
        ),
    }
    releases = {
        "altered release": (flip(released), "signature-invalid"),
        "release by another sender": (sent(sender=BOB.peer_id), "release-by-other-sender"),
        "unknown view": (sent(view="everything"), "no view"),
        "redaction rule twice": (sent(redaction=["names", "names"]), "twice"),
    }

    copyable = sign_statement(ALICE, **STATEMENT | {"terms": COPY_TERMS})
    shareable = sign_statement(ALICE, **STATEMENT | {"terms": RESHARE_TERMS})
    ending = SharingTerms(copy=True, expires_at=NOW + 30)
    custody = sign_custody(BOB, shareable, NOW + 60)
    custody_payload = cose.verify1(custody, aad=Domain.CUSTODY.encode(), limit=2048)[1]
    chains = {
        "no link": ([], "malformed"),
        "too many links": ([shareable] * 9, "malformed"),
        "begins with custody": ([custody], "signature-invalid"),
        "second statement": ([shareable, shareable], "signature-invalid"),
        "custody of another link": (
            [shareable, sign_custody(BOB, good, NOW + 60)],
            "follows another link",
        ),
        "link left out": (
            [shareable, sign_custody(CAROL, custody, NOW + 120)],
            "follows another link",
        ),
        "custody signed by another": (
            [shareable, cose.sign1(CAROL, custody_payload, aad=Domain.CUSTODY.encode())],
            "is signed by",
        ),
        "owner as custodian": (
            [shareable, sign_custody(ALICE, shareable, NOW + 60)],
            "holds the document twice",
        ),
        "custody before the statement": (
            [shareable, sign_custody(BOB, shareable, NOW - 1)],
            "chain-broken",
        ),
        "copy not allowed": ([good, sign_custody(BOB, good, NOW + 60)], "copy-not-allowed"),
        "passing on not allowed": (
            [
                copyable,
                (first := sign_custody(BOB, copyable, NOW + 60)),
                sign_custody(CAROL, first, NOW + 120),
            ],
            "resharing-not-allowed",
        ),
        "copy after the terms ended": (
            [
                (short := sign_statement(ALICE, **STATEMENT | {"terms": ending})),
                sign_custody(BOB, short, NOW + 30),
            ],
            "terms-expired",
        ),
    }
    single = [
        {"name": name, "message": message, "hex": data.hex(), "reason": reason}
        for message, cases in (("statement", statements), ("release", releases))
        for name, (data, reason) in cases.items()
    ]
    return single + [
        {
            "name": name,
            "message": "chain",
            "links": [link.hex() for link in links],
            "reason": reason,
        }
        for name, (links, reason) in chains.items()
    ]


if __name__ == "__main__":
    for name, content in build().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(render(content))
        print(name)
