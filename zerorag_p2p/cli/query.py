"""Commands that ask: `query`, `get` and `verify`."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.config import COUNT_AT_LEAST, AskingConfig
from zerorag_p2p.errors import IntegrityError, NoResultError, PolicyDenied, UsageError, ZeroRagError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home

Json = dict[str, Any]

#: Exit code of an answer that is not whole.
PARTIAL: Final = 5
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

reason_option = click.option(
    "--reason", metavar="TEXT", help="Why, for access in an emergency; the owners' people see it."
)


keep_option = click.option(
    "--keep",
    metavar="COLLECTION",
    help="Keep copies in this collection of ours, as far as their owners allow.",
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
    type=click.Choice(["count", "title", "passage", "whole"]),
    help="How much of each document is wanted.  [default: passage]",
)
@click.option(
    "--at-least",
    type=click.FloatRange(-1, 1),
    help=f"With --view count: how similar a document has to be.  [default: {COUNT_AT_LEAST}]",
)
@reason_option
@click.option(
    "--mark", "marks", multiple=True, help="What the node's rules know it by; repeatable."
)
@click.option("--user", metavar="ID", help="Who asks; others learn a pseudonym, for their audit.")
@click.option("--routing", metavar="NAME", help="How to find peers: paper, or random order.")
@click.option("--stop", metavar="RULE", help="When to stop: budget or settled.")
@click.option(
    "--no-remember", is_flag=True, help="Ask the peers not to keep the query for routing."
)
@click.option("--first", is_flag=True, help="Stop at the first document that is good enough.")
@click.option(
    "--good",
    type=click.FloatRange(-1, 1),
    default=AskingConfig().good_score,
    show_default=True,
    help="With --first: the score that is good enough.",
)
@click.option("--explain", is_flag=True, help="Show every contact and what led to it.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the answer with its proofs in a file, for `zerorag verify`.",
)
@keep_option
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
    at_least: float | None,
    first: bool,
    good: float,
    reason: str | None,
    marks: Sequence[str],
    explain: bool,
    save: Path | None,
    keep: str | None,
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
            k=1 if first and k is None else k,
            budget=budget,
            fanout=fanout,
            timeout_s=timeout,
            purpose=purpose,
            view=view,
            user=user,
            routing=routing,
            stopping=stop,
            remember=False if no_remember else None,
            at_least=at_least,
            first=good if first else None,
            reason=reason,
            marks=marks or None,
            on_progress=lambda event: show(walk_progress(event)),
        )
        kept = None
        if keep is not None and answer["documents"]:
            kept = client.keep_answer(answer["audit"], keep)
    if save is not None:
        # The answer holds the documents themselves: for its owner's eyes, like the library.
        data = json.dumps(answer, indent=2, ensure_ascii=False).encode() + b"\n"
        write_atomic(save, data, mode=0o600)
    if as_json:
        output.print_json(answer if kept is None else {**answer, "kept": kept})
    else:
        print_answer(answer, explain=explain)
        _print_kept(kept)
    finish(answer)


@click.command(
    epilog=example(
        "zerorag get 3f1c9a0d2b6e4f58",
        "zerorag get 3f1c9a0d2b6e4f58 --peer 12D3KooWQ7... --purpose research",
        "zerorag get 3f1c9a0d2b6e4f58... --peer 12D3KooWQ7... --keep guidelines",
    )
)
@click.argument("content_hash")
@click.option("--peer", metavar="PEER", help="Fetch it from this peer if it is not our own.")
@purpose_option
@reason_option
@keep_option
@home_option
@json_option
def get(
    *,
    content_hash: str,
    peer: str | None,
    purpose: str | None,
    reason: str | None,
    keep: str | None,
    home: Home,
    as_json: bool,
) -> None:
    """Show one document, by content hash or a prefix of it."""
    kept = None
    with connect(home) as client:
        if keep is None:
            document = client.get(content_hash, peer=peer, purpose=purpose, reason=reason)
        elif peer is None:
            raise UsageError("a copy is kept of another owner's document: name who has it, --peer")
        else:
            kept = client.keep_document(content_hash, peer, keep, purpose=purpose, reason=reason)
            document = kept.pop("document")
    if as_json:
        output.print_json(document if kept is None else {**document, "kept": kept})
    else:
        click.echo(output.printable(document["title"]))
        click.echo(_provenance(document))
        click.echo(f"content hash {document['content_hash']}")
        for name, value in document["metadata"].items():
            click.echo(f"{output.printable(name)}: {output.printable(value)}")
        click.echo()
        click.echo(output.printable(document["text"].rstrip()))
        _print_kept(kept)
    if kept is not None and not kept["copies"][0]["kept"]:
        raise PolicyDenied(f"no copy was kept: {kept['copies'][0]['reason']}")


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
    signed, and that no owner has taken a document back since, as far as the home knows. Names the
    first fault and exits with 7. Scores are the asker's own computation and nobody signs them.
    """
    from zerorag_p2p.control.saved_answer import verify_saved_answer

    report = verify_saved_answer(answer, roster or home.roster, home.withdrawals)
    if as_json:
        output.print_json(report)
    else:
        for document in report["documents"]:
            click.echo(
                f"{document['outcome']:<12}  {document['content_hash'][:16]}  "
                f"{output.printable(document['owner_organisation'])}{_sent(document)}"
            )
    if report["fault"] is not None:
        raise IntegrityError(f"{report['fault']}: {report['message']}")
    if not as_json:
        documents = output.counted(report["verified"], "document")
        click.echo(
            f"verified: {documents}, consortium {report['consortium']}, "
            f"roster version {report['roster_version']}"
        )


def _sent(document: Json) -> str:
    """Through whose hands a verified document came, and how much of it was sent."""
    if "release" not in document:
        return ""
    release = document["release"]
    parts = [f"kept by {output.short_peer(item['custodian'])}" for item in document["custodians"]]
    if release["redaction"]:
        parts.append(f"redacted by {', '.join(map(output.printable, release['redaction']))}")
    elif not document["complete"]:
        parts.append(f"{release['view']} only")
    return "".join(f", {part}" for part in parts)


def _print_kept(kept: Json | None) -> None:
    """What became of the documents that were to be kept."""
    if kept is None:
        return
    for copy in kept["copies"]:
        name = copy["content_hash"][:16]
        if not copy["kept"]:
            click.echo(f"not kept    {name}: {output.printable(copy['reason'])}")
            continue
        reason = f"; {output.printable(copy['reason'])}" if copy["reason"] else ""
        click.echo(f"kept        {name} in {output.printable(kept['collection'])}{reason}")


def walk_progress(event: Json) -> str:
    """How far a walk is, as a line."""
    best = "" if event.get("best") is None else f", best {event['best']:.2f}"
    return (
        f"asked {event['contacted']} of at most {event['budget']} peers, "
        f"{event['found']} documents{best}: {event['event']} {event['organisation']}"
    )


def print_answer(answer: Json, *, explain: bool) -> None:
    """Print an answer for people; with `explain` every contact and what led to it."""
    for number, document in enumerate(answer["documents"], start=1):
        print_document(number, document)
    for document in answer["rejected"]:
        holder = peer_name(document["holder"])
        click.echo(f"rejected   {holder}: {output.printable(document['fault'])}")
    if answer["count"] is not None:
        _print_counts(answer)
    if explain:
        _print_walk(answer["contacts"])
        click.echo()
    for line in sending_lines(answer):
        click.echo(line)
    click.echo(walk_summary(answer))
    for contact in answer["contacts"]:
        if contact["outcome"] != "answered":
            reason = f": {output.printable(contact['reason'])}" if contact["reason"] else ""
            click.echo(f"{contact['outcome']:<11} {peer_name(contact)}{reason}")


def _print_counts(answer: Json) -> None:
    """How many documents match at each peer; a document that several hold counts at each."""
    output.print_table(
        ("organisation", "peer", "matching documents"),
        [
            (contact["organisation"] or _UNKNOWN, contact["peer"], contact["count"])
            for contact in answer["contacts"]
            if contact["count"]
        ],
    )
    click.echo(f"{output.counted(answer['count'], 'matching document')}\n")


def sending_lines(answer: Json) -> list[str]:
    """What our own rules did to the question, a line each."""
    lines = []
    if answer["removed"]:
        lines.append(
            f"sent as     {output.printable(answer['sent'])} "
            f"(redacted: {', '.join(answer['removed'])})"
        )
    if answer["withheld"]:
        names = ", ".join(peer_name(member) for member in answer["withheld"])
        lines.append(f"not asked   {names}: by the rules {', '.join(answer['outbound'])}")
    return lines


def print_document(number: int, document: Json) -> None:
    """Print a document for people, the beginning of its text included."""
    width = min(max(output.console().width, _SHORTEST_LINE), _LONGEST_LINE)
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
    parts = [peer_name(document["owner"])]
    if document["holder"] != document["owner"]:
        parts.append(f"held by {peer_name(document['holder'])}")
    if document["collection"]:
        parts.append(f"collection {output.printable(document['collection'])}")
    if document["status"] == "verified":
        parts.append("attribution verified")
        if document["redaction"]:
            rules = ", ".join(output.printable(rule) for rule in document["redaction"])
            parts.append(f"redacted by: {rules}")
    else:
        parts.append(f"{document['status']}: {output.printable(document['fault'])}")
    return ", ".join(parts)


def walk_summary(answer: Json) -> str:
    """What a walk brought and what it took, as a line."""
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


def peer_name(value: Json) -> str:
    """Organisation and short peer id of anything that has both."""
    organisation = output.printable(value["organisation"]) or _UNKNOWN
    return f"{organisation} ({output.short_peer(value['peer'])})"


def finish(answer: Json) -> None:
    """Leave with the exit code that fits the answer."""
    documents = answer["documents"]
    statuses = {document["status"] for document in documents}
    if answer["count"] is not None and any(
        contact["outcome"] == "answered" for contact in answer["contacts"]
    ):
        if not answer["complete"]:
            click.get_current_context().exit(PARTIAL)
        return
    if not documents:
        raise _why_nothing(answer)
    if statuses == {"denied"}:
        raise PolicyDenied("the owners denied every document found; the answer says why")
    if statuses == {"rejected"}:
        raise IntegrityError("no proof of any document found holds; the answer names the faults")
    if not answer["complete"] or statuses != {"verified"}:
        click.get_current_context().exit(PARTIAL)


def _why_nothing(answer: Json) -> ZeroRagError:
    contacts = answer["contacts"]
    if answer["rejected"]:
        return IntegrityError("no proof of any document found holds; the answer names the faults")
    if not contacts and answer["withheld"]:
        return PolicyDenied(
            "the rules of this node let nobody be asked; `zerorag policy show` lists them"
        )
    if not contacts:
        return NoResultError("there was no peer to ask; `zerorag peers` shows who is missing")
    if all(contact["code"] == "denied" for contact in contacts):
        return PolicyDenied("every peer that was asked denied the query; the answer says why")
    if not any(contact["outcome"] == "answered" for contact in contacts):
        return NoResultError("no peer that was asked answered; the answer says why")
    return NoResultError("no peer that was asked has a document for this purpose of use")
