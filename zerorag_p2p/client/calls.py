"""Requests to the local interface (docs/cli.md, GET /v1/openapi.json), as values.

Most functions make the request of the `Client` method of their name, which documents the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the local interface."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    content: bytes | None = None

    def arguments(self) -> Json:
        """The arguments of httpx's `request` and `stream`."""
        arguments: Json = {"method": self.method, "url": self.path, "params": self.params}
        if self.body is not None:
            arguments["json"] = self.body
        if self.content is not None:
            arguments["content"] = self.content
            arguments["headers"] = {"content-type": "application/cbor"}
        return arguments


def given(**values: Any) -> Json:
    """The values that are not None: what the caller leaves out, the node decides."""
    return {key: value for key, value in values.items() if value is not None}


def query(
    text: str,
    *,
    k: int | None,
    budget: int | None,
    fanout: int | None,
    timeout_s: float | None,
    purpose: str | None,
    view: str | None,
    user: str | None,
    routing: str | None,
    stopping: str | None,
    remember: bool | None,
    reason: str | None,
    marks: Sequence[str] | None,
    at_least: float | None,
    first: float | None,
) -> Call:
    """See `Client.query`."""
    body = given(
        text=text,
        k=k,
        budget=budget,
        fanout=fanout,
        timeout_s=timeout_s,
        purpose=purpose,
        view=view,
        user=user,
        routing=routing,
        stopping=stopping,
        remember=remember,
        reason=reason,
        marks=None if marks is None else list(marks),
        at_least=at_least,
        first=first,
    )
    return Call("POST", "/v1/query", body=body)


def ask(
    text: str,
    *,
    k: int | None,
    budget: int | None,
    timeout_s: float | None,
    purpose: str | None,
    reason: str | None,
    marks: Sequence[str] | None,
    user: str | None,
    scope: str | None,
    remember: bool | None,
    reuse: bool | None,
) -> Call:
    """See `Client.ask`."""
    body = given(
        text=text,
        k=k,
        budget=budget,
        timeout_s=timeout_s,
        purpose=purpose,
        reason=reason,
        marks=None if marks is None else list(marks),
        user=user,
        scope=scope,
        remember=remember,
        reuse=reuse,
    )
    return Call("POST", "/v1/ask", body=body)


def get(content_hash: str, *, peer: str | None, purpose: str | None, reason: str | None) -> Call:
    """See `Client.get`."""
    params = given(peer=peer, purpose=purpose, reason=reason)
    return Call("GET", f"/v1/documents/{segment(content_hash)}", params=params)


def segment(name: str) -> str:
    """A name as one segment of a path, whatever characters it has."""
    return quote(name, safe="")


def reading(
    *,
    encoding: str | None,
    text_columns: Sequence[str] | None,
    title_column: str | None,
    id_column: str | None,
) -> Json:
    """How documents are read (`Client.add_documents`), as it stands in a body."""
    return given(
        encoding=encoding,
        text_columns=None if text_columns is None else list(text_columns),
        title_column=title_column,
        id_column=id_column,
    )


def add_documents(paths: Sequence[str | Path], collection: str, reading: Json) -> Call:
    """See `Client.add_documents`."""
    # The node runs in another folder, so a path has to say where it starts.
    absolute = [str(Path(path).absolute()) for path in paths]
    body = {"paths": absolute, "collection": collection, **reading}
    return Call("POST", "/v1/documents", body=body)


def watch_folder(
    folder: str | Path, collection: str, interval_s: float | None, reading: Json
) -> Call:
    """See `Client.watch_folder`."""
    body = {
        "folder": str(Path(folder).absolute()),
        "collection": collection,
        **given(interval_s=interval_s),
        **reading,
    }
    return Call("POST", "/v1/watches", body=body)


def unwatch_folder(folder: str | Path, collection: str | None) -> Call:
    """See `Client.unwatch_folder`."""
    params = {"folder": str(Path(folder).absolute()), **given(collection=collection)}
    return Call("DELETE", "/v1/watches", params=params)


def share(
    collection: str,
    *,
    members: Sequence[str] | None,
    purposes: Sequence[str] | None,
    view: str | None,
    advertise: bool | None,
    copy: bool | None,
    reshare: bool | None,
    expires_at: int | None,
) -> Call:
    """See `Client.share`."""
    body = given(
        members=None if members is None else list(members),
        purposes=None if purposes is None else list(purposes),
        view=view,
        advertise=advertise,
        copy=copy,
        reshare=reshare,
        expires_at=expires_at,
    )
    return Call("POST", f"/v1/collections/{segment(collection)}/share", body=body)


def unshare(collection: str) -> Call:
    """See `Client.unshare`."""
    return Call("POST", f"/v1/collections/{segment(collection)}/unshare")


def keep_answer(audit: str, collection: str) -> Call:
    """See `Client.keep_answer`."""
    body = {"audit": audit, "collection": collection}
    return Call("POST", "/v1/copies/answer", body=body)


def keep_document(
    content_hash: str, peer: str, collection: str, *, purpose: str | None, reason: str | None
) -> Call:
    """See `Client.keep_document`."""
    body = given(
        content_hash=content_hash,
        peer=peer,
        collection=collection,
        purpose=purpose,
        reason=reason,
    )
    return Call("POST", "/v1/copies/document", body=body)


def withdraw(name: str, *, collection: str | None) -> Call:
    """See `Client.withdraw`."""
    return Call("POST", "/v1/withdrawals", body=given(name=name, collection=collection))


def restore(name: str, *, collection: str | None) -> Call:
    """See `Client.restore`."""
    params = given(collection=collection)
    return Call("DELETE", f"/v1/withdrawals/{segment(name)}", params=params)


def remove_document(name: str, *, collection: str | None) -> Call:
    """See `Client.remove_document`."""
    params = given(collection=collection)
    return Call("DELETE", f"/v1/documents/{segment(name)}", params=params)


def create_token(label: str, *, scope: str, lifetime_s: int | None) -> Call:
    """See `Client.create_token`."""
    body = given(label=label, scope=scope, lifetime_s=lifetime_s)
    return Call("POST", "/v1/tokens", body=body)


def rotate_token(label: str, *, overlap_s: int) -> Call:
    """See `Client.rotate_token`."""
    return Call("POST", f"/v1/tokens/{segment(label)}/rotate", body={"overlap_s": overlap_s})


def revoke_token(label: str) -> Call:
    """See `Client.revoke_token`."""
    return Call("DELETE", f"/v1/tokens/{segment(label)}")


def pseudonym(user: str, *, application: str) -> Call:
    """See `Client.pseudonym`."""
    return Call("POST", "/v1/pseudonym", body={"user": user, "application": application})


def check_policy(
    peer: str,
    *,
    purpose: str | None,
    collection: str | None,
    document: str | None,
    query: str | None,
    view: str | None,
    reason: str | None,
) -> Call:
    """See `Client.check_policy`."""
    body = given(
        peer=peer,
        purpose=purpose,
        collection=collection,
        document=document,
        query=query,
        view=view,
        reason=reason,
    )
    return Call("POST", "/v1/policy/check", body=body)


def audit(path: str, **params: Any) -> Call:
    """See `Client.audit`."""
    texts = {key: str(value) for key, value in given(**params).items()}
    return Call("GET", f"/v1/audit{path}", params=texts)


def purge_audit(before: float) -> Call:
    """See `Client.purge_audit`."""
    return Call("POST", "/v1/audit/purge", body={"before": before})


def lint_policy(text: str) -> Call:
    """See `Client.lint_policy`."""
    return Call("POST", "/v1/policy/lint", body={"text": text})


def rearm(peer: str | None) -> Call:
    """See `Client.rearm`."""
    return Call("POST", "/v1/policy/rearm", body=given(peer=peer))
