"""Verification of a saved answer, offline: the proofs in it, and that it shows what they prove."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, ValidationError

from zerorag_p2p.config import MAX_ROSTER_BYTES, NetworkConfig
from zerorag_p2p.errors import AttributionError, DecodeError, RosterError, UsageError
from zerorag_p2p.files import read_bounded
from zerorag_p2p.identity.attribution import Fault, Statement, verify_chain
from zerorag_p2p.identity.roster import Roster, open_roster
from zerorag_p2p.identity.verification import Verified, check_chain, verify_document
from zerorag_p2p.model import ContentHash, PeerId, decode_content
from zerorag_p2p.node.reports import DocumentStatus
from zerorag_p2p.node.withdrawals import read_withdrawals

#: More than the largest answer: 100 documents of 1 MiB, each as text and as base64.
_MAX_ANSWER_BYTES: Final = 512 << 20

#: Faults of an answer as a whole; those of a document's proofs are `Fault`.
SHOWS_SOMETHING_ELSE: Final = "shows-something-else"
SHOWS_WITHOUT_PROOF: Final = "shows-without-proof"


class _Name(BaseModel):
    model_config = ConfigDict(strict=True)

    peer: str
    organisation: str


class _OtherHolder(BaseModel):
    model_config = ConfigDict(strict=True)

    owner: _Name
    holder: _Name
    collection: str
    attribution: list[Base64Bytes]


class _Document(BaseModel):
    model_config = ConfigDict(strict=True)

    content_hash: str
    status: str
    score: float = Field(ge=-1.0 - 1e-6, le=1.0 + 1e-6)
    owner: _Name
    holder: _Name
    collection: str
    title: str
    text: str
    part: int
    parts: int
    issued_at: int | None
    redaction: list[str] = []
    content: Base64Bytes
    attribution: list[Base64Bytes]
    release: Base64Bytes
    others: list[_OtherHolder] = []


class _Source(BaseModel):
    model_config = ConfigDict(strict=True)

    content_hash: str
    owner: _Name
    holder: _Name


class _Passage(BaseModel):
    model_config = ConfigDict(strict=True)

    number: int
    title: str
    text: str
    sources: list[_Source] = Field(min_length=1)


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True)

    consortium: str
    asker: _Name
    audit: str
    purpose: str
    documents: list[_Document]
    rejected: list[_Document]
    passages: list[_Passage] = []


def verify_saved_answer(
    answer_path: Path, roster_path: Path, withdrawals_path: Path
) -> dict[str, Any]:
    """Verify every document of a saved answer that claims to be verified.

    Times are judged at the present: terms of an owner that have ended since are a fault, and so is
    what the owner has taken back since.

    Args:
        answer_path: The file of the answer.
        roster_path: The roster to judge by.
        withdrawals_path: What owners took back, as a node knows it; there need not be such a file.

    Returns:
        A report, ready for JSON: "verified" (how many documents), "fault" and "message" (the
        first fault, or None), "consortium", "roster_version", "withdrawals" (how many are known)
        and "documents" up to the fault, each verified one with its chain and what was sent of it.

    Raises:
        LocalError: The file of withdrawals is damaged.
        UsageError: The file is not a saved answer, or there is no roster to judge by.
        RosterError: The roster is malformed, unsigned or of another consortium.
    """
    answer = _read_answer(answer_path)
    roster = _read_roster(roster_path)
    if answer.consortium != roster.consortium:
        raise RosterError(
            f"the answer is of consortium {answer.consortium}, the roster of "
            f"{roster.consortium}; name the right one with --roster"
        )
    now = time.time()
    withdrawals = read_withdrawals(withdrawals_path, now)
    report: dict[str, Any] = {
        "verified": 0,
        "fault": None,
        "message": None,
        "consortium": roster.consortium,
        "roster_version": roster.version,
        "withdrawals": len(withdrawals),
        "documents": [],
    }
    for document in (*answer.documents, *answer.rejected):
        entry: dict[str, Any] = {
            "content_hash": document.content_hash,
            "outcome": document.status,
            "owner": document.owner.peer,
            "owner_organisation": document.owner.organisation,
        }
        report["documents"].append(entry)
        try:
            verified = _check(document, answer, roster, withdrawals.covers, now)
        except AttributionError as error:
            entry["outcome"] = "faulty"
            report["fault"] = error.fault
            report["message"] = (
                f"document {document.content_hash[:16]}: "
                f"{str(error).removeprefix(f'{error.fault}: ')}"
            )
            break
        if verified is not None:
            report["verified"] += 1
            entry |= _evidence(verified)
    if report["fault"] is None:
        try:
            _check_passages(answer)
        except AttributionError as error:
            report["fault"] = error.fault
            report["message"] = str(error).removeprefix(f"{error.fault}: ")
    return report


def _read_answer(path: Path) -> _Answer:
    try:
        return _Answer.model_validate_json(read_bounded(path, _MAX_ANSWER_BYTES))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(
            f"{path} is not an answer saved by `zerorag query --save` or `ask`: {where}: "
            f"{first['msg']}"
        ) from None


def _read_roster(path: Path) -> Roster:
    if not path.exists():
        raise UsageError(f"there is no roster at {path} to judge by; name one with --roster")
    return open_roster(read_bounded(path, MAX_ROSTER_BYTES))


def _evidence(verified: Verified) -> dict[str, Any]:
    """Who vouches for what of a verified document."""
    return {
        "complete": verified.complete,
        "owner_standing": verified.owner_standing.value,
        **verified.chain.to_json(),
        "release": verified.release.to_json(),
    }


def _check(
    document: _Document,
    answer: _Answer,
    roster: Roster,
    withdrawn: Callable[[Statement], bool],
    now: float,
) -> Verified | None:
    """Hold what the answer shows of a document against what was signed; None if that is nothing."""
    if document.status != DocumentStatus.VERIFIED:
        if document.title or document.text or document.content:
            raise AttributionError(
                SHOWS_WITHOUT_PROOF, f"it is {document.status}, but a text is shown for it"
            )
        return None
    verified = verify_document(
        document.attribution,
        document.release or None,
        document.content,
        roster=roster,
        now=now,
        clock_tolerance_s=NetworkConfig().clock_tolerance_s,
        content_hash=ContentHash(document.content_hash),
        sender=PeerId(document.holder.peer),
        receiver=PeerId(answer.asker.peer),
        withdrawn=withdrawn,
    )
    for what, shown, signed in _shown_and_signed(document, answer, roster, verified):
        if shown != signed:
            raise AttributionError(
                SHOWS_SOMETHING_ELSE, f"the {what} shown is {shown!r:.80}, signed is {signed!r:.80}"
            )
    for other in document.others:
        _check_other(document, other, roster, withdrawn, now)
    return verified


def _check_other(
    document: _Document,
    other: _OtherHolder,
    roster: Roster,
    withdrawn: Callable[[Statement], bool],
    now: float,
) -> None:
    """Hold what is shown of a further holder of the same content against what was signed."""
    try:
        chain = verify_chain(other.attribution)
    except DecodeError as error:
        raise AttributionError(Fault.MALFORMED, str(error)) from None
    check_chain(
        chain,
        roster,
        now=now,
        clock_tolerance_s=NetworkConfig().clock_tolerance_s,
        content_hash=ContentHash(document.content_hash),
        holder=PeerId(other.holder.peer),
        withdrawn=withdrawn,
    )
    shown = (other.owner.peer, other.collection)
    signed = (chain.statement.owner, chain.statement.collection)
    if shown != signed or not all(_named(name, roster) for name in (other.owner, other.holder)):
        raise AttributionError(
            SHOWS_SOMETHING_ELSE, f"the further holder shown is not {other.holder.peer}"
        )


def _named(name: _Name, roster: Roster) -> bool:
    """Whether a peer is shown under its organisation."""
    peer = PeerId(name.peer)
    entry = roster.member(peer) or roster.former_member(peer)
    return entry is not None and entry.organisation == name.organisation


def _check_passages(answer: _Answer) -> None:
    """Hold the passages that an answer cites against its documents, which verify."""
    verified = {
        (document.content_hash, document.holder.peer): document
        for document in answer.documents
        if document.status == DocumentStatus.VERIFIED
    }
    for passage in answer.passages:
        for source in passage.sources:
            document = verified.get((source.content_hash, source.holder.peer))
            if document is None:
                raise AttributionError(
                    SHOWS_WITHOUT_PROOF, f"passage {passage.number} has a source without proof"
                )
            if (source.owner, source.holder) != (document.owner, document.holder):
                raise AttributionError(
                    SHOWS_SOMETHING_ELSE, f"passage {passage.number} names another owner"
                )
        first = passage.sources[0]
        best = verified[first.content_hash, first.holder.peer]
        if (passage.title, passage.text) != (best.title, best.text):
            raise AttributionError(
                SHOWS_SOMETHING_ELSE, f"passage {passage.number} is not what its document says"
            )


def _shown_and_signed(
    document: _Document, answer: _Answer, roster: Roster, verified: Verified
) -> list[tuple[str, object, object]]:
    try:
        content = decode_content(document.content)
    except DecodeError as error:
        raise AttributionError(Fault.MALFORMED, str(error)) from None
    statement, release = verified.chain.statement, verified.release
    holder = roster.member(release.sender) or roster.former_member(release.sender)
    return [
        ("title", document.title, content.title),
        ("text", document.text, content.text),
        ("part", document.part, content.part),
        ("number of parts", document.parts, content.parts),
        ("owner", document.owner.peer, statement.owner),
        ("owner's organisation", document.owner.organisation, verified.owner_organisation),
        ("holder's organisation", document.holder.organisation, holder and holder.organisation),
        ("collection", document.collection, statement.collection),
        ("date", document.issued_at, statement.issued_at),
        ("redaction", tuple(document.redaction), release.redaction),
        ("purpose", answer.purpose, release.purpose),
        ("audit reference", answer.audit, release.audit),
    ]
