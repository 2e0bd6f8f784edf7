"""A client for trio and asyncio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from types import TracebackType
from typing import Any

from zerorag_p2p.client import calls
from zerorag_p2p.client.calls import Call, Json
from zerorag_p2p.client.connection import (
    ASIDE,
    Connection,
    OnEvent,
    OnProgress,
    take_in,
    value_in,
    value_of,
)
from zerorag_p2p.home import Home


class AsyncClient(Connection):
    """A running node, for trio and asyncio: `async with AsyncClient() as client`.

    The arguments and the methods are those of `Client`, which documents them.
    """

    def __init__(
        self,
        where: Home | Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: Path | str | None = None,
    ) -> None:
        super().__init__(where, url=url, token=token, ca=ca)
        self._http = self._open_async()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def status(self) -> Json:
        """See `Client.status`."""
        return await self._json(Call("GET", "/v1/status"))

    async def peers(self) -> list[Json]:
        """See `Client.peers`."""
        return await self._list("/v1/peers", "peers")

    async def neighbors(self) -> list[Json]:
        """See `Client.neighbors`."""
        return await self._list("/v1/neighbors", "neighbors")

    async def memory(self) -> Json:
        """See `Client.memory`."""
        return await self._json(Call("GET", "/v1/memory"))

    async def refusals(self) -> list[Json]:
        """See `Client.refusals`."""
        return await self._list("/v1/refusals", "refusals")

    async def events(self, on_event: OnEvent) -> Json:
        """See `Client.events`."""
        return await self._stream(Call("GET", "/v1/events"), on_event, hidden={"alive"})

    async def query(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        view: str | None = None,
        user: str | None = None,
        routing: str | None = None,
        stopping: str | None = None,
        remember: bool | None = None,
        reason: str | None = None,
        marks: Sequence[str] | None = None,
        at_least: float | None = None,
        first: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.query`."""
        call = calls.query(
            text,
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
            marks=marks,
            at_least=at_least,
            first=first,
        )
        return await self._stream(call, on_progress)

    async def ask(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        reason: str | None = None,
        marks: Sequence[str] | None = None,
        user: str | None = None,
        scope: str | None = None,
        remember: bool | None = None,
        reuse: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.ask`."""
        call = calls.ask(
            text,
            k=k,
            budget=budget,
            timeout_s=timeout_s,
            purpose=purpose,
            reason=reason,
            marks=marks,
            user=user,
            scope=scope,
            remember=remember,
            reuse=reuse,
        )
        return await self._stream(call, on_progress)

    async def get(
        self,
        content_hash: str,
        *,
        peer: str | None = None,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """See `Client.get`."""
        return await self._json(calls.get(content_hash, peer=peer, purpose=purpose, reason=reason))

    async def collections(self) -> list[Json]:
        """See `Client.collections`."""
        return await self._list("/v1/collections", "collections")

    async def documents(self, collection: str | None = None) -> list[Json]:
        """See `Client.documents`."""
        return await self._list("/v1/documents", "documents", calls.given(collection=collection))

    async def add_documents(
        self,
        paths: Sequence[str | Path],
        collection: str,
        *,
        encoding: str | None = None,
        text_columns: Sequence[str] | None = None,
        title_column: str | None = None,
        id_column: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.add_documents`."""
        reading = calls.reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return await self._stream(calls.add_documents(paths, collection, reading), on_progress)

    async def watch_folder(
        self,
        folder: str | Path,
        collection: str,
        *,
        interval_s: float | None = None,
        encoding: str | None = None,
        text_columns: Sequence[str] | None = None,
        title_column: str | None = None,
        id_column: str | None = None,
    ) -> Json:
        """See `Client.watch_folder`."""
        reading = calls.reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return await self._json(calls.watch_folder(folder, collection, interval_s, reading))

    async def unwatch_folder(self, folder: str | Path, *, collection: str | None = None) -> Json:
        """See `Client.unwatch_folder`."""
        return await self._json(calls.unwatch_folder(folder, collection))

    async def watches(self) -> list[Json]:
        """See `Client.watches`."""
        return await self._list("/v1/watches", "watches")

    async def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.remove_document`."""
        return await self._json(calls.remove_document(name, collection=collection))

    async def keep_answer(self, audit: str, collection: str) -> Json:
        """See `Client.keep_answer`."""
        return await self._json(calls.keep_answer(audit, collection))

    async def keep_document(
        self,
        content_hash: str,
        peer: str,
        collection: str,
        *,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """See `Client.keep_document`."""
        call = calls.keep_document(content_hash, peer, collection, purpose=purpose, reason=reason)
        return await self._json(call)

    async def withdraw(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.withdraw`."""
        return await self._json(calls.withdraw(name, collection=collection))

    async def restore(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.restore`."""
        return await self._json(calls.restore(name, collection=collection))

    async def withdrawals(self) -> list[Json]:
        """See `Client.withdrawals`."""
        return await self._list("/v1/withdrawals", "withdrawals")

    async def share(
        self,
        collection: str,
        *,
        members: Sequence[str] | None = None,
        purposes: Sequence[str] | None = None,
        view: str | None = None,
        advertise: bool | None = None,
        copy: bool | None = None,
        reshare: bool | None = None,
        expires_at: int | None = None,
    ) -> Json:
        """See `Client.share`."""
        call = calls.share(
            collection,
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=copy,
            reshare=reshare,
            expires_at=expires_at,
        )
        return await self._json(call)

    async def unshare(self, collection: str) -> Json:
        """See `Client.unshare`."""
        return await self._json(calls.unshare(collection))

    async def audit(
        self,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """See `Client.audit`."""
        call = calls.audit(
            "",
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
            limit=limit,
        )
        return await self._stream(call, None)

    async def audit_page(
        self,
        after: int,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
    ) -> Json:
        """See `Client.audit_page`."""
        call = calls.audit(
            "/page",
            after=after,
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
        )
        return await self._stream(call, None)

    async def verify_audit(self) -> Json:
        """See `Client.verify_audit`."""
        return await self._stream(calls.audit("/verify"), None)

    async def disclosures(self, document: str) -> Json:
        """See `Client.disclosures`."""
        return await self._stream(calls.audit(f"/disclosures/{calls.segment(document)}"), None)

    async def purge_audit(self, before: float) -> Json:
        """See `Client.purge_audit`."""
        return await self._json(calls.purge_audit(before))

    async def pause(self, reason: str = "") -> Json:
        """See `Client.pause`."""
        return await self._json(Call("POST", "/v1/pause", body={"reason": reason}))

    async def resume(self) -> Json:
        """See `Client.resume`."""
        return await self._json(Call("POST", "/v1/resume"))

    async def begin_migration(self, embedding: Mapping[str, Any]) -> Json:
        """See `Client.begin_migration`."""
        return await self._json(Call("POST", "/v1/migration", body={"embedding": dict(embedding)}))

    async def finish_migration(self) -> Json:
        """See `Client.finish_migration`."""
        return await self._json(Call("POST", "/v1/migration/finish"))

    async def cancel_migration(self) -> Json:
        """See `Client.cancel_migration`."""
        return await self._json(Call("POST", "/v1/migration/cancel"))

    async def import_roster(self, data: bytes) -> Json:
        """See `Client.import_roster`."""
        return await self._json(Call("POST", "/v1/roster", content=data))

    async def tokens(self) -> list[Json]:
        """See `Client.tokens`."""
        return await self._list("/v1/tokens", "tokens")

    async def create_token(self, label: str, *, scope: str, lifetime_s: int | None = None) -> Json:
        """See `Client.create_token`."""
        return await self._json(calls.create_token(label, scope=scope, lifetime_s=lifetime_s))

    async def rotate_token(self, label: str, *, overlap_s: int = 0) -> Json:
        """See `Client.rotate_token`."""
        return await self._json(calls.rotate_token(label, overlap_s=overlap_s))

    async def revoke_token(self, label: str) -> Json:
        """See `Client.revoke_token`."""
        return await self._json(calls.revoke_token(label))

    async def pseudonym(self, user: str, *, application: str = "") -> Json:
        """See `Client.pseudonym`."""
        return await self._json(calls.pseudonym(user, application=application))

    async def policy(self) -> Json:
        """See `Client.policy`."""
        return await self._json(Call("GET", "/v1/policy"))

    async def check_policy(
        self,
        peer: str,
        *,
        purpose: str | None = None,
        collection: str | None = None,
        document: str | None = None,
        query: str | None = None,
        view: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """See `Client.check_policy`."""
        call = calls.check_policy(
            peer,
            purpose=purpose,
            collection=collection,
            document=document,
            query=query,
            view=view,
            reason=reason,
        )
        return await self._json(call)

    async def lint_policy(self, text: str) -> Json:
        """See `Client.lint_policy`."""
        return await self._json(calls.lint_policy(text))

    async def reload_policy(self) -> Json:
        """See `Client.reload_policy`."""
        return await self._json(Call("POST", "/v1/policy/reload"))

    async def emergencies(self) -> Json:
        """See `Client.emergencies`."""
        return await self._json(Call("GET", "/v1/policy/emergencies"))

    async def rearm(self, peer: str | None = None) -> Json:
        """See `Client.rearm`."""
        return await self._json(calls.rearm(peer))

    async def shutdown(self) -> Json:
        """See `Client.shutdown`."""
        return await self._json(Call("POST", "/v1/shutdown"))

    async def _json(self, call: Call) -> Json:
        with self._explaining():
            value: Json = value_of(await self._http.request(**call.arguments()))
        return value

    async def _list(
        self, path: str, key: str, params: Mapping[str, str] | None = None
    ) -> list[Json]:
        items: list[Json] = (await self._json(Call("GET", path, params=params or {})))[key]
        return items

    async def _stream(self, call: Call, on_event: OnEvent | None, hidden: Set[str] = ASIDE) -> Json:
        with self._explaining():
            async with self._http.stream(**call.arguments()) as response:
                if response.is_error:
                    await response.aread()
                    value_of(response)
                final = None
                async for line in response.aiter_lines():
                    final = take_in(line, on_event, hidden)
        if final is None:
            raise self._ended()
        return value_in(final)
