"""The audit log as JSON, for the local interface and for commands without a node.

Everything here blocks: it reads files.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from zerorag_p2p.audit.events import KINDS, PolicyInForce
from zerorag_p2p.audit.log import Purge
from zerorag_p2p.audit.reading import LogReader, Selection
from zerorag_p2p.config import MAX_AUDIT_PAGE
from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import CONTENT_HASH_DIGITS

Json = dict[str, Any]

_FEWEST_DIGITS = 8


def make_selection(
    *,
    since: float | None,
    peer: str | None,
    kind: str | None,
    document: str | None,
    reference: str | None,
) -> Selection:
    """A selection from what people type; None does not matter.

    Raises:
        UsageError: There is no such kind, or what should be a content hash is none.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(f"{kind!r} is no kind of entry; choose one of {', '.join(KINDS)}")
    if document is not None:
        document = _digits(document)
    return Selection(since=since, peer=peer, kind=kind, document=document, reference=reference)


def newest(folder: Path, selection: Selection, limit: int) -> Json:
    """The last entries that are selected, oldest first."""
    if not 1 <= limit <= MAX_AUDIT_PAGE:
        raise UsageError(
            f"at most {MAX_AUDIT_PAGE} entries are listed at once; `zerorag audit export` gives all"
        )
    reader = LogReader(folder)
    return {"entries": reader.newest(selection, limit), "faults": reader.faults}


def page(folder: Path, after: int, selection: Selection) -> Json:
    """Selected entries after a number; "after" says where to go on, and is the same at the end."""
    reader = LogReader(folder)
    entries, reached = reader.page(after, selection)
    return {"entries": entries, "after": reached, "faults": reader.faults}


def disclosures(folder: Path, document: str) -> Json:
    """Who was given what of a document, oldest first."""
    reader = LogReader(folder)
    return {"disclosures": reader.disclosures(_digits(document)), "faults": reader.faults}


def sharing_changed(collection: Json) -> PolicyInForce:
    """The entry of a collection that is shared in another way, or no more.

    Args:
        collection: As `control.documents` describes it.
    """
    sharing = collection["sharing"]
    data = json.dumps(sharing, sort_keys=True).encode()
    return PolicyInForce(
        source=f"sharing of {collection['name']}",
        digest=hashlib.sha256(data).hexdigest(),
        reason="not shared" if sharing is None else _describe(sharing),
    )


def _describe(sharing: Json) -> str:
    members = f"{len(sharing['members'])} members" if sharing["members"] else "every member"
    parts = [
        f"with {members} for {', '.join(sharing['purposes']) or 'any purpose'}",
        f"up to the view {sharing['view']}",
        "advertised" if sharing["advertise"] else "not advertised",
    ]
    if sharing["terms"]["copy"]:
        parts.append("to be reshared" if sharing["terms"]["reshare"] else "to be copied")
    return ", ".join(parts)


def purged(purge: Purge) -> Json:
    """What was removed."""
    return {"removed": purge.entries, "up_to": purge.up_to}


def _digits(text: str) -> str:
    digits = text.lower()
    if not _FEWEST_DIGITS <= len(digits) <= CONTENT_HASH_DIGITS or set(digits) - set(
        "0123456789abcdef"
    ):
        raise UsageError(
            f"{text!r} is no content hash: give {_FEWEST_DIGITS} to {CONTENT_HASH_DIGITS} "
            "hexadecimal digits"
        )
    return digits
