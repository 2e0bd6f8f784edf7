"""The command that answers: `ask`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.cli.query import (
    PARTIAL,
    finish,
    peer_name,
    print_document,
    purpose_option,
    reason_option,
    sending_lines,
    walk_progress,
    walk_summary,
)
from zerorag_p2p.errors import NoResultError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home

Json = dict[str, Any]


@click.command(
    epilog=example(
        'zerorag ask "How soon before surgery is apixaban stopped?"',
        'zerorag ask "How soon before surgery is apixaban stopped?" --local',
        'zerorag ask "sepsis in children: which antibiotic first?" --json --save answer.json',
    )
)
@click.argument("question")
@click.option("-k", type=click.IntRange(min=1), help="How many passages at most.")
@click.option("--budget", type=click.IntRange(min=1), help="How many peers to ask at most.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time for the search.")
@click.option("--local", is_flag=True, help="Ask nobody: our own documents only.")
@click.option("--network", is_flag=True, help="Ask others, whatever our own documents say.")
@purpose_option
@reason_option
@click.option(
    "--mark", "marks", multiple=True, help="What the node's rules know it by; repeatable."
)
@click.option("--user", metavar="ID", help="Who asks; others learn a pseudonym, for their audit.")
@click.option(
    "--no-remember", is_flag=True, help="Ask the peers not to keep the question for routing."
)
@click.option("--no-cache", is_flag=True, help="Search anew, and do not keep what is found.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the answer with its proofs in a file, for `zerorag verify`.",
)
@home_option
@json_option
def ask(
    *,
    question: str,
    k: int | None,
    budget: int | None,
    timeout: float | None,
    local: bool,
    network: bool,
    purpose: str | None,
    reason: str | None,
    marks: Sequence[str],
    user: str | None,
    no_remember: bool,
    no_cache: bool,
    save: Path | None,
    home: Home,
    as_json: bool,
) -> None:
    """Have a QUESTION answered from documents.

    Our own documents come first; unless one of them answers, the consortium is asked. The language
    model that the settings name writes an answer, whose citations are checked. Without one, or if
    it fails, the passages are shown.

    Exit codes: 0 a whole answer; 4 the owners' policies denied it; 5 a partial answer, or the
    language model failed; 6 no document; 7 nothing but documents whose proofs do not hold.
    """
    if local and network:
        raise click.UsageError("choose one of --local and --network")
    scope = "local" if local else "network" if network else None
    shown: list[str] = []
    with connect(home) as client, ExitStack() as progress:
        show = progress.enter_context(output.progress_line(not as_json))

        def on_progress(event: Json) -> None:
            match event["event"]:
                case "sources":
                    show("the sources are found; the answer is being written")
                case "text":
                    progress.close()
                    shown.append(event["text"])
                    if not as_json:
                        click.echo(output.printable(event["text"]), nl=False)
                case _:
                    show(walk_progress(event))

        report = client.ask(
            question,
            k=k,
            budget=budget,
            timeout_s=timeout,
            purpose=purpose,
            reason=reason,
            marks=marks or None,
            user=user,
            scope=scope,
            remember=False if no_remember else None,
            reuse=False if no_cache else None,
            on_progress=on_progress,
        )
    if save is not None:
        # The answer holds the documents themselves: for its owner's eyes, like the library.
        data = json.dumps(report, indent=2, ensure_ascii=False).encode() + b"\n"
        write_atomic(save, data, mode=0o600)
    if as_json:
        output.print_json(report)
    else:
        _print_report(report, "".join(shown))
    _finish(report)


def _print_report(report: Json, shown: str) -> None:
    """Print what follows the text of the answer, which `shown` of it is printed already."""
    answer = report["answer"]
    if answer is None:
        _print_passages(report)
        if not report["model"]:
            click.echo("no language model is configured (docs/asking.md): the passages answer")
    else:
        if answer["text"] != shown:  # Pieces were dropped while nobody read.
            click.echo(f"\n\n{output.printable(answer['text'])}", nl=False)
        click.echo("\n")
        _print_sources(report)
        for line in _doubts(answer):
            click.echo(line)
    for line in sending_lines(report):
        click.echo(line)
    click.echo(_search(report))
    if report["fault"] is not None:
        click.echo(f"the answer is not whole: {output.printable(report['fault'])}", err=True)


def _print_passages(report: Json) -> None:
    documents = {
        (document["content_hash"], document["holder"]["peer"]): document
        for document in report["documents"]
    }
    for passage in report["passages"]:
        first, *others = passage["sources"]
        print_document(passage["number"], documents[first["content_hash"], first["holder"]["peer"]])
        for other in others:
            click.echo(f"   the same text: {peer_name(other['owner'])}")


def _print_sources(report: Json) -> None:
    cited = {citation["number"] for citation in report["answer"]["citations"]}
    output.print_table(
        ("#", "cited", "score", "title", "owner", "collection", "attribution"),
        [
            (
                passage["number"],
                "yes" if passage["number"] in cited else "",
                f"{source['score']:.3f}",
                passage["title"] or "(no title)",
                peer_name(source["owner"]),
                source["collection"],
                source["status"],
            )
            for passage in report["passages"]
            for source in passage["sources"]
        ],
        optional=("collection",),
    )
    click.echo()


def _doubts(answer: Json) -> list[str]:
    """What is to be said against an answer, a line each."""
    lines = [
        f"doubtful    [{citation['number']}] has {citation['support']:.0%} of the words of: "
        f"{output.printable(citation['sentence'])}"
        for citation in answer["citations"]
        if not citation["supported"]
    ]
    if answer["removed"]:
        numbers = ", ".join(str(number) for number in dict.fromkeys(answer["removed"]))
        lines.append(f"removed     citations of passages that do not exist: {numbers}")
    if answer["uncited"]:
        lines.append(f"uncited     sentences that cite nothing: {answer['uncited']}")
    return lines


def _search(report: Json) -> str:
    """How the sources were found, as a line."""
    reused = report["reused"]
    if reused is not None:
        what = "answered" if reused["what"] == "answer" else "found"
        return (
            f"nobody was asked: {what} {output.duration(reused['age_s'])} ago for "
            f"{output.printable(reused['question'])!r} (similarity {reused['similarity']:.2f}); "
            "--no-cache searches anew"
        )
    if report["budget"]:
        return walk_summary(report)
    return f"nobody was asked: {report['stopped']}"


def _finish(report: Json) -> None:
    """Leave with the exit code that fits the answer."""
    if not report["documents"] and not report["budget"]:
        raise NoResultError("our own library has nothing; --network asks the consortium")
    finish(report)
    if report["fault"] is not None:
        click.get_current_context().exit(PARTIAL)
