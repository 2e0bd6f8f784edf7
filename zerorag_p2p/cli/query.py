"""Commands that ask: `query`, `get` and `verify`."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.errors import IntegrityError, NoResultError, PolicyDenied, ZeroRagError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home

Json = dict[str, Any]

_PARTIAL: Final = 5
_PASSAGE_LINES: Final = 3
_PASSAGE_MARGIN: Final = "   | "
_UNKNOWN: Final = "unknown organisation"

#: Characters of a line of a passage, margin included, however wide or narrow the terminal is.
_LONGEST_LINE: Final = 93
_SHORTEST_LINE: Final = 40

_PURPOSES: Final = (
    "treatment, emergency, research, payment, operations, public-health or patient-request"
)

purpose_option = click.option(
    "--purpose", metavar="PURPOSE", help=f"What for: {_PURPOSES}.  [default: treatment]"
)


@click.command(
    epilog=example(
        'zerorag query "dose of metformin in renal failure" -k 3',
        'zerorag query "sepsis in children" --budget 20 --explain',
        'zerorag query "sepsis in children" --json --save answer.json',
    )
)
@click.argument("text")
@click.option("-k", type=click.IntRange(min=1), help="How many documents.")
@click.option("--budget", type=click.IntRange(min=1), help="How many peers to ask at most.")
@click.option("--fanout", type=click.IntRange(min=1), help="How many peers to ask at once.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time for everything.")
@purpose_option
@click.option(
    "--view",
    type=click.Choice(["title", "passage", "whole"]),
    help="How much of each document is wanted.  [default: passage]",
)
@click.option("--user", metavar="PSEUDONYM", help="Who asks, for the audit of both sides.")
@click.option("--routing", metavar="NAME", help="How to find peers: paper, or random order.")
@click.option("--stop", metavar="RULE", help="When to stop: budget or settled.")
@click.option(
    "--no-remember", is_flag=True, help="Ask the peers not to keep the query for routing."
)
@click.option("--explain", is_flag=True, help="Show every contact and what led to it.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the answer with its proofs in a file, for `zerorag verify`.",
)
@home_option
@json_option
def query(
    *,
    text: str,
    k: int | None,
    budget: int | None,
    fanout: int | None,
    timeout: float | None,
    purpose: str | None,
    view: str | None,
    user: str | None,
    routing: str | None,
    stop: str | None,
    no_remember: bool,
    explain: bool,
    save: Path | None,
    home: Home,
    as_json: bool,
) -> None:
    """Ask the consortium a question.

    The running node embeds the TEXT, walks from peer to peer and fetches the best documents from
    their owners. Every document's signatures are verified before it is shown.

    Exit codes: 0 a whole answer; 4 the owners' policies denied it; 5 a partial answer; 6 no
    document; 7 nothing but documents whose proofs do not hold.
    """
    with connect(home) as client, output.progress_line(not as_json) as show:
        answer = client.query(
            text,
            k=k,
            budget=budget,
            fanout=fanout,
            timeout_s=timeout,
            purpose=purpose,
            view=view,
            user=user,
            routing=routing,
            stopping=stop,
            remember=False if no_remember else None,
            on_progress=lambda event: show(_progress(event)),
        )
    if save is not None:
        # The answer holds the documents themselves: for its owner's eyes, like the library.
        data = json.dumps(answer, indent=2, ensure_ascii=False).encode() + b"\n"
        write_atomic(save, data, mode=0o600)
    if as_json:
        output.print_json(answer)
    else:
        print_answer(answer, explain=explain)
    _finish(answer)


@click.command(
    epilog=example(
        "zerorag get 3f1c9a0d2b6e4f58",
        "zerorag get 3f1c9a0d2b6e4f58 --peer 12D3KooWQ7... --purpose research",
    )
)
@click.argument("content_hash")
@click.option("--peer", metavar="PEER", help="Fetch it from this peer if it is not our own.")
@purpose_option
@home_option
@json_option
def get(
    content_hash: str, peer: str | None, purpose: str | None, home: Home, as_json: bool
) -> None:
    """Show one document, by content hash or a prefix of it."""
    with connect(home) as client:
        document = client.get(content_hash, peer=peer, purpose=purpose)
    if as_json:
        output.print_json(document)
    else:
        click.echo(output.printable(document["title"]))
        click.echo(_provenance(document))
        click.echo(f"content hash {document['content_hash']}\n")
        click.echo(output.printable(document["text"].rstrip()))


@click.command(
    epilog=example(
        "zerorag verify answer.json",
        "zerorag verify answer.json --roster roster.cbor --json",
    )
)
@click.argument("answer", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--roster",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Roster to judge by, one you trust.  [default: that of the home]",
)
@home_option
@json_option
def verify(answer: Path, roster: Path | None, home: Home, as_json: bool) -> None:
    """Verify a saved ANSWER, offline.

    Checks of every document that the owner signed exactly this text, that the sender released it
    to the asker, that both belong to the consortium, and that what the answer shows is what was
    signed. Names the first fault and exits with 7. Scores are the asker's own computation and
    nobody signs them.
    """
    from zerorag_p2p.control.saved_answer import verify_saved_answer

    report = verify_saved_answer(answer, roster or home.roster)
    if as_json:
        output.print_json(report)
    else:
        for document in report["documents"]:
            click.echo(
                f"{document['outcome']:<12}  {document['content_hash'][:16]}  "
                f"{output.printable(document['owner_organisation'])}"
            )
    if report["fault"] is not None:
        raise IntegrityError(f"{report['fault']}: {report['message']}")
    if not as_json:
        documents = output.counted(report["verified"], "document")
        click.echo(
            f"verified: {documents}, consortium {report['consortium']}, "
            f"roster version {report['roster_version']}"
        )


def _progress(event: Json) -> str:
    best = "" if event.get("best") is None else f", best {event['best']:.2f}"
    return (
        f"asked {event['contacted']} of at most {event['budget']} peers, "
        f"{event['found']} documents{best}: {event['event']} {event['organisation']}"
    )


def print_answer(answer: Json, *, explain: bool) -> None:
    """Print an answer for people; with `explain` every contact and what led to it."""
    width = min(max(output.console().width, _SHORTEST_LINE), _LONGEST_LINE)
    for number, document in enumerate(answer["documents"], start=1):
        _print_document(number, document, width)
    for document in answer["rejected"]:
        holder = _peer_name(document["holder"])
        click.echo(f"rejected   {holder}: {output.printable(document['fault'])}")
    if explain:
        _print_walk(answer["contacts"])
        click.echo()
    click.echo(_summary(answer))
    for contact in answer["contacts"]:
        if contact["outcome"] != "answered":
            reason = f": {output.printable(contact['reason'])}" if contact["reason"] else ""
            click.echo(f"{contact['outcome']:<11} {_peer_name(contact)}{reason}")


def _print_document(number: int, document: Json, width: int) -> None:
    heading = output.printable(document["title"]) or "(no title)"
    if document["parts"] > 1:
        heading += f" (part {document['part'] + 1} of {document['parts']})"
    click.echo(f"{number}. {document['score']:.3f}  {heading}")
    score = "" if document["score_verified"] else ", score as the owner says"
    click.echo(f"   {_provenance(document)}{score}")
    passage = output.printable(" ".join(document["text"].split()))
    for line in textwrap.wrap(
        passage,
        width=width,
        initial_indent=_PASSAGE_MARGIN,
        subsequent_indent=_PASSAGE_MARGIN,
        max_lines=_PASSAGE_LINES,
        placeholder=" …",
    ):
        click.echo(line)
    click.echo()


def _provenance(document: Json) -> str:
    parts = [_peer_name(document["owner"])]
    if document["holder"] != document["owner"]:
        parts.append(f"held by {_peer_name(document['holder'])}")
    if document["collection"]:
        parts.append(f"collection {output.printable(document['collection'])}")
    if document["status"] == "verified":
        parts.append("attribution verified")
    else:
        parts.append(f"{document['status']}: {output.printable(document['fault'])}")
    return ", ".join(parts)


def _summary(answer: Json) -> str:
    contacts = answer["contacts"]
    outcomes = Counter(contact["outcome"] for contact in contacts)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    asked = f"asked {output.counted(len(contacts), 'peer')} of at most {answer['budget']}"
    if counts:
        asked += f" ({counts})"
    organisations = {document["owner"]["organisation"] for document in answer["documents"]}
    partial = "" if answer["complete"] else "; the answer is partial"
    return (
        f"{output.counted(len(answer['documents']), 'document')} of "
        f"{output.counted(len(organisations), 'organisation')}; {asked}; "
        f"{output.size(answer['bytes_sent'])} sent, "
        f"{output.size(answer['bytes_received'])} received in "
        f"{answer['milliseconds'] / 1000:.2f} s; stopped: {answer['stopped']}{partial}"
    )


def _print_walk(contacts: list[Json]) -> None:
    output.print_table(
        (
            *("#", "organisation", "peer", "led by", "score", "outcome"),
            *("docs", "better", "refs", "new", "ms"),
        ),
        [
            (
                number,
                contact["organisation"] or _UNKNOWN,
                output.short_peer(contact["peer"]),
                contact["evidence"],
                "-" if contact["score"] is None else f"{contact['score']:.3f}",
                contact["outcome"],
                contact["documents"],
                "yes" if contact["improved"] else "",
                contact["referrals"],
                contact["new_candidates"],
                f"{contact['milliseconds']:.0f}",
            )
            for number, contact in enumerate(contacts, start=1)
        ],
        optional=("new", "refs", "better", "peer"),
    )


def _peer_name(value: Json) -> str:
    """Organisation and short peer id of anything that has both."""
    organisation = output.printable(value["organisation"]) or _UNKNOWN
    return f"{organisation} ({output.short_peer(value['peer'])})"


def _finish(answer: Json) -> None:
    """Leave with the exit code that fits the answer."""
    documents = answer["documents"]
    statuses = {document["status"] for document in documents}
    if not documents:
        raise _why_nothing(answer)
    if statuses == {"denied"}:
        raise PolicyDenied("the owners denied every document found; the answer says why")
    if statuses == {"rejected"}:
        raise IntegrityError("no proof of any document found holds; the answer names the faults")
    if not answer["complete"] or statuses != {"verified"}:
        click.get_current_context().exit(_PARTIAL)


def _why_nothing(answer: Json) -> ZeroRagError:
    contacts = answer["contacts"]
    if answer["rejected"]:
        return IntegrityError("no proof of any document found holds; the answer names the faults")
    if not contacts:
        return NoResultError("there was no peer to ask; `zerorag peers` shows who is missing")
    if all(contact["code"] == "denied" for contact in contacts):
        return PolicyDenied("every peer that was asked denied the query; the answer says why")
    if not any(contact["outcome"] == "answered" for contact in contacts):
        return NoResultError("no peer that was asked answered; the answer says why")
    return NoResultError("no peer that was asked has a document for this purpose of use")
