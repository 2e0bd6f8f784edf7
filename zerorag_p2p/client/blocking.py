"""A client for plain synchronous code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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


class BlockingConnection(Connection):
    """A connection for plain synchronous code. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        where: Home | Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: Path | str | None = None,
    ) -> None:
        super().__init__(where, url=url, token=token, ca=ca)
        self._http = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _json(self, call: Call) -> Json:
        with self._explaining():
            value: Json = value_of(self._http.request(**call.arguments()))
        return value


class Client(BlockingConnection):
    """A running node, for plain synchronous code. Use it as a context manager, or `close` it.

    Args:
        where: The node's home or its socket; by default the home that `zerorag` uses.
        url: Instead of it, where the node listens for applications, "https://node.example:8420";
            by default ZERORAG_URL of the environment.
        token: The application's token; by default that in the file named by ZERORAG_TOKEN_FILE.
        ca: PEM file of the authorities that a certificate is judged by; by default the file named
            by ZERORAG_CA_FILE, or those of the machine.

    Every method raises `NodeNotRunningError` when no node answers.
    """

    def status(self) -> Json:
        """How the node is: identity, consortium, roster, neighbours, memory, documents."""
        return self._json(Call("GET", "/v1/status"))

    def peers(self) -> list[Json]:
        """Every member of the roster and what the node knows of it."""
        return self._list("/v1/peers", "peers")

    def neighbors(self) -> list[Json]:
        """The node's neighbours and their advertisements."""
        return self._list("/v1/neighbors", "neighbors")

    def memory(self) -> Json:
        """Whose queries the node remembers for routing; neither texts nor embeddings."""
        return self._json(Call("GET", "/v1/memory"))

    def refusals(self) -> list[Json]:
        """The last refusals, the node's own and those of other peers, oldest first."""
        return self._list("/v1/refusals", "refusals")

    def events(self, on_event: OnEvent) -> Json:
        """Tell `on_event` what happens in the node from now on; returns when the node ends.

        The first event is "watching". An event "lost" tells how many were dropped because they were
        not read in time.
        """
        return self._stream(Call("GET", "/v1/events"), on_event, hidden={"alive"})

    def query(
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
        """Ask the consortium; the answer with its evidence and its counts.

        Args:
            text: The question.
            k: How many documents.
            budget: How many peers may be asked at most.
            fanout: How many of them at once.
            timeout_s: Seconds for everything.
            purpose: Purpose of use, "treatment" or "TREAT" for instance.
            view: How much of each document is wanted: "count", "title", "passage" or "whole".
            user: The person who asks; others learn a pseudonym, the same every time.
            routing: "complete", "paper", or "random" for members in random order.
            stopping: "budget" or "settled".
            remember: Whether the peers asked may remember the query to route later ones.
            reason: Why emergency access is asked for; the owners' people see it.
            marks: What the node's own rules on questions know this one by.
            at_least: With the view "count": how similar a document has to be to be counted.
            first: Score of a document that is enough: the search ends with it.
            on_progress: Called as contacts begin and end; with a "found" event for every hit that
                is among the best so far, and with a "document" event as its text is delivered.

        What is None has the default of the node's configuration.
        """
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
        return self._stream(call, on_progress)

    def query_events(self, text: str, **settings: Any) -> Iterator[Json]:
        """Ask as `query` does, and yield every event as it happens; the last one is the "answer".

            for event in client.query_events("sepsis in children", k=3):
                if event["event"] in ("found", "document"):
                    print(event["document"]["score"], event["document"]["title"])

        Args:
            text: The question.
            settings: As for `query`.
        """
        call = Call("POST", "/v1/query", body=calls.given(text=text, **settings))
        with self._explaining(), self._http.stream(**call.arguments()) as response:
            if response.is_error:
                response.read()
                value_of(response)
            final = None
            for line in response.iter_lines():
                passed: list[Json] = []
                final = take_in(line, passed.append, ASIDE)
                yield from passed
        if final is None:
            raise self._ended()
        yield {"event": final["event"], final["event"]: value_in(final)}

    def ask(
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
        """Have a question answered from documents; the answer, its passages and their proofs.

        Args:
            text: The question.
            k: How many passages at most.
            budget: How many peers may be asked at most.
            timeout_s: Seconds for the search; writing the answer has a deadline of its own.
            purpose: Purpose of use, "treatment" or "TREAT" for instance.
            reason: Why emergency access is asked for; the owners' people see it.
            marks: What the node's own rules on questions know this one by.
            user: The person who asks; others learn a pseudonym, the same every time.
            scope: "local" for the node's own documents only, "network" for those of others only;
                by default others are asked unless a document of the node answers.
            remember: Whether the peers asked may remember the question to route later ones.
            reuse: Whether what was found before may be used.
            on_progress: Called as the search goes on, with a "sources" event once the passages are
                chosen, and with "text" events as the answer is written.

        What is None has the default of the node's configuration.
        """
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
        return self._stream(call, on_progress)

    def get(
        self,
        content_hash: str,
        *,
        peer: str | None = None,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """A document by content hash or prefix: our own, else fetched from `peer`."""
        return self._json(calls.get(content_hash, peer=peer, purpose=purpose, reason=reason))

    def collections(self) -> list[Json]:
        """The node's own collections and how they are shared."""
        return self._list("/v1/collections", "collections")

    def documents(self, collection: str | None = None) -> list[Json]:
        """The sources in the node's own library, of one collection or of all."""
        return self._list("/v1/documents", "documents", calls.given(collection=collection))

    def add_documents(
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
        """Add files and folders of this machine; what became of each file.

        Args:
            paths: Of the files and folders.
            collection: Where they go; made if there is none of this name.
            encoding: Of text files, instead of a detected one.
            text_columns: Columns of tables that make up the text, instead of detected ones.
            title_column: Column of tables with the title.
            id_column: Column of tables that names a row.
            on_progress: Called with a "file" event for every file, and with "progress" events.
        """
        reading = calls.reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return self._stream(calls.add_documents(paths, collection, reading), on_progress)

    def watch_folder(
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
        """Let a collection follow the files of a folder of this machine.

        Args:
            folder: The folder.
            collection: What follows it; made if there is none of this name.
            interval_s: Seconds between two looks at it.
            encoding: As for `add_documents`, like what follows.
            text_columns: Likewise.
            title_column: Likewise.
            id_column: Likewise.
        """
        reading = calls.reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return self._json(calls.watch_folder(folder, collection, interval_s, reading))

    def unwatch_folder(self, folder: str | Path, *, collection: str | None = None) -> Json:
        """Follow a folder no more, for one collection or for all; its documents stay."""
        return self._json(calls.unwatch_folder(folder, collection))

    def watches(self) -> list[Json]:
        """The folders that are watched, and what the last look at each found."""
        return self._list("/v1/watches", "watches")

    def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """Remove a source from the library, by name."""
        return self._json(calls.remove_document(name, collection=collection))

    def keep_answer(self, audit: str, collection: str) -> Json:
        """Keep copies of the documents of one of the last answers, as far as their owners allow.

        Args:
            audit: The answer's audit reference.
            collection: Ours that the copies go to; made, and not shared, if there is none.
        """
        return self._json(calls.keep_answer(audit, collection))

    def keep_document(
        self,
        content_hash: str,
        peer: str,
        collection: str,
        *,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """Fetch a document from `peer` and keep a copy of it, if its owner allows."""
        call = calls.keep_document(content_hash, peer, collection, purpose=purpose, reason=reason)
        return self._json(call)

    def withdraw(self, name: str, *, collection: str | None = None) -> Json:
        """Take documents of ours back; every member is told to delete its copies."""
        return self._json(calls.withdraw(name, collection=collection))

    def restore(self, name: str, *, collection: str | None = None) -> Json:
        """Let others see withdrawn documents again."""
        return self._json(calls.restore(name, collection=collection))

    def withdrawals(self) -> list[Json]:
        """What owners took back, we among them, as far as the node knows."""
        return self._list("/v1/withdrawals", "withdrawals")

    def share(
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
        """Share a collection: with every member, for every purpose, unless narrowed down.

        Args:
            collection: Its name.
            members: Peer ids that may see it, instead of every member.
            purposes: Purposes of use it may serve, instead of any.
            view: The most that may be shown: "count", "title", "passage" or "whole".
            advertise: Whether the whole consortium may learn that the documents exist.
            copy: Whether a receiver may keep a copy.
            reshare: Whether a receiver may pass its copy on.
            expires_at: When all of this ends, for copies too, unix seconds.
        """
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
        return self._json(call)

    def unshare(self, collection: str) -> Json:
        """Stop sharing a collection."""
        return self._json(calls.unshare(collection))

    def audit(
        self,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """The last entries of the audit log, oldest first; "faults" names what cannot be read.

        Args:
            since: Unix seconds from which on.
            peer: Counterpart: a peer id, or a part of an organisation's name.
            kind: Kind of entry, "fetch-answered" for instance.
            document: First digits of a content hash, at least 8.
            reference: The reference of a query, which both sides recorded.
            limit: How many at most; by default 100.
        """
        call = calls.audit(
            "",
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
            limit=limit,
        )
        return self._stream(call, None)

    def audit_page(
        self,
        after: int,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
    ) -> Json:
        """Entries of the audit log after number `after`, selected as by `audit`.

        Go on with the "after" of the answer, until it does not change any more.
        """
        call = calls.audit(
            "/page",
            after=after,
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
        )
        return self._stream(call, None)

    def verify_audit(self) -> Json:
        """Whether the audit log is whole; "faults" names what is not."""
        return self._stream(calls.audit("/verify"), None)

    def disclosures(self, document: str) -> Json:
        """Who was given what of a document of ours, by the first digits of its content hash."""
        return self._stream(calls.audit(f"/disclosures/{calls.segment(document)}"), None)

    def purge_audit(self, before: float) -> Json:
        """Remove the files of the audit log whose entries are all older than `before`."""
        return self._json(calls.purge_audit(before))

    def pause(self, reason: str = "") -> Json:
        """Let the node answer nobody, until `resume`; every peer that asks sees the reason."""
        return self._json(Call("POST", "/v1/pause", body={"reason": reason}))

    def resume(self) -> Json:
        """Let the node answer again."""
        return self._json(Call("POST", "/v1/resume"))

    def begin_migration(self, embedding: Mapping[str, Any]) -> Json:
        """Go over to another embedding model; how far that is, as "migration" in the status.

        Args:
            embedding: Settings of the model, as in the table `[embedding]`.
        """
        return self._json(Call("POST", "/v1/migration", body={"embedding": dict(embedding)}))

    def finish_migration(self) -> Json:
        """Delete the vectors of the old embedding model, once the next one is in use."""
        return self._json(Call("POST", "/v1/migration/finish"))

    def cancel_migration(self) -> Json:
        """Stay with the embedding model in use."""
        return self._json(Call("POST", "/v1/migration/cancel"))

    def import_roster(self, data: bytes) -> Json:
        """Give the node a newer signed roster."""
        return self._json(Call("POST", "/v1/roster", content=data))

    def tokens(self) -> list[Json]:
        """The tokens of applications that are valid, without what would let somebody use them."""
        return self._list("/v1/tokens", "tokens")

    def create_token(self, label: str, *, scope: str, lifetime_s: int | None = None) -> Json:
        """Make a token for an application; "token" in what is returned is not shown again.

        Args:
            label: The application.
            scope: "query", "read-only" or "admin".
            lifetime_s: How long it is valid, without end by default.
        """
        return self._json(calls.create_token(label, scope=scope, lifetime_s=lifetime_s))

    def rotate_token(self, label: str, *, overlap_s: int = 0) -> Json:
        """Make a new token in the place of one, which counts for another `overlap_s`."""
        return self._json(calls.rotate_token(label, overlap_s=overlap_s))

    def revoke_token(self, label: str) -> Json:
        """End the tokens of an application, and what is under way with them."""
        return self._json(calls.revoke_token(label))

    def pseudonym(self, user: str, *, application: str = "") -> Json:
        """Under which name others know a user of an application, or, without one, itself."""
        return self._json(calls.pseudonym(user, application=application))

    def policy(self) -> Json:
        """The rules in force, on documents and on questions."""
        return self._json(Call("GET", "/v1/policy"))

    def check_policy(
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
        """Decide for trial what a member would be let see, by what decides live.

        Args:
            peer: A peer id or an organisation.
            purpose: Purpose of use.
            collection: A collection of ours; by default all.
            document: First digits of the content hash of a document of ours, instead.
            query: The question, if one is to be judged.
            view: How much of a document is wanted.
            reason: Why emergency access is asked for.
        """
        call = calls.check_policy(
            peer,
            purpose=purpose,
            collection=collection,
            document=document,
            query=query,
            view=view,
            reason=reason,
        )
        return self._json(call)

    def lint_policy(self, text: str) -> Json:
        """What looks wrong about the text of rules that are not in force yet."""
        return self._json(calls.lint_policy(text))

    def reload_policy(self) -> Json:
        """Let the node take the rules of its file now."""
        return self._json(Call("POST", "/v1/policy/reload"))

    def emergencies(self) -> Json:
        """Who has used emergency access since when, and the last accesses."""
        return self._json(Call("GET", "/v1/policy/emergencies"))

    def rearm(self, peer: str | None = None) -> Json:
        """Let a member, or everybody, have emergency access anew."""
        return self._json(calls.rearm(peer))

    def shutdown(self) -> Json:
        """Ask the node to end; it answers before it does."""
        return self._json(Call("POST", "/v1/shutdown"))

    def _list(self, path: str, key: str, params: Mapping[str, str] | None = None) -> list[Json]:
        items: list[Json] = self._json(Call("GET", path, params=params or {}))[key]
        return items

    def _stream(self, call: Call, on_event: OnEvent | None, hidden: Set[str] = ASIDE) -> Json:
        with self._explaining(), self._http.stream(**call.arguments()) as response:
            if response.is_error:
                response.read()
                value_of(response)
            final = None
            for line in response.iter_lines():
                final = take_in(line, on_event, hidden)
        if final is None:
            raise self._ended()
        return value_in(final)
