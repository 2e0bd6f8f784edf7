"""A query drawn step by step: whom it asked, led by what evidence, what came back, why it ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from zerorag_p2p.tui.query_log import AnsweredQuery, AskedQuery, Step
from zerorag_p2p.tui.source import Json
from zerorag_p2p.wording import counted, milliseconds, printable, short_peer, size

_BAR_CELLS: Final = 10
_GOOD: Final = "green"
_BAD: Final = "red"
_DIM: Final = "dim"


def draw(query: AskedQuery | AnsweredQuery) -> list[Text]:
    """The lines of a query's walk; of one answered for another peer, what is known of it."""
    if isinstance(query, AnsweredQuery):
        return _draw_answered(query.event)
    lines = [*_heading(query), Text()]
    number = 0
    for step in query.steps:
        if step.is_fetch:
            lines.extend(_fetch(step))
        else:
            number += 1
            lines.extend(_contact(number, step))
    if query.hidden_steps:
        lines.append(Text(f" ⋮ {counted(query.hidden_steps, 'more contact')}", _DIM))
    lines.extend(_ending(query))
    return lines


def _draw_answered(event: Json) -> list[Text]:
    return [
        Text(f"A query of {_who(event)}", "bold"),
        Text("Its text was not sent: a peer that is asked gets an embedding.", _DIM),
        Text(),
        Text(f"{_date(event['at'])}, k {event['k']}, purpose {event['purpose']}"),
        Text(
            f"answered with {counted(event['documents'], 'document')} and "
            f"{counted(event['referrals'], 'referral')}"
        ),
        Text("remembered for routing" if event["remembered"] else "not to be remembered"),
    ]


def _heading(query: AskedQuery) -> list[Text]:
    started = query.started
    if started is None:
        return [Text("A query that began before this window opened", "bold")]
    return [
        *(Text(line, "bold") for line in printable(started["text"]).splitlines()),
        Text(
            f"{_date(query.at)}, audit {query.query}, k {started['k']}, "
            f"budget {started['budget']}, fan-out {started['fanout']}, {started['purpose']}",
            _DIM,
        ),
    ]


def _contact(number: int, step: Step) -> list[Text]:
    started = step.started
    first = Text.assemble((f"{number:>3} ", "bold"), f"{_who(started)}")
    led = Text.assemble("  ├ ", (f"led by {started['evidence']}", ""))
    if started["score"] is not None:
        led.append(f" {started['score']:.3f} ")
        led.append(_bar(started["score"]), "blue")
    return [first, led, _outcome(step)]


def _outcome(step: Step) -> Text:
    if step.ended is None:
        return Text("  └ waiting for the answer", "yellow")
    contact = step.ended["contact"]
    took = milliseconds(contact["milliseconds"])
    if contact["outcome"] != "answered":
        reason = printable(contact["reason"]).replace("\n", " ")
        return Text(
            f"  └ ✗ {contact['outcome']} after {took}{': ' if reason else ''}{reason}", _BAD
        )
    referrals = counted(contact["referrals"], "referral")
    text = Text.assemble(
        "  └ ", ("✓", _GOOD), f" {took}: {counted(contact['documents'], 'document')}"
    )
    if contact["improved"]:
        text.append(" (better)", _GOOD)
    text.append(f", {referrals}")
    if contact["new_candidates"]:
        text.append(f" ({contact['new_candidates']} new)")
    if step.ended["best"] is not None:
        text.append(f"; {step.ended['found']} held, best {step.ended['best']:.3f}", _DIM)
    return text


def _fetch(step: Step) -> list[Text]:
    started, ended = step.started, step.ended
    asked = counted(started["documents"], "text")
    text = Text.assemble(("  ⇣ ", "bold"), f"{asked} from {_who(started)}: ")
    if ended is None:
        text.append("waiting", "yellow")
        return [text]
    whole = ended["verified"] == ended["documents"]
    text.append(
        f"{ended['verified']} verified in {milliseconds(ended['milliseconds'])}",
        _GOOD if whole else _BAD,
    )
    if ended["reason"]:
        text.append(f"; {printable(ended['reason'])}".replace("\n", " "), _BAD)
    return [text]


def _ending(query: AskedQuery) -> list[Text]:
    ended = query.ended
    if ended is None:
        return [Text(), Text(" ● running", "yellow")]
    return [
        Text(),
        Text.assemble((" ■ ", "bold"), (f"stopped: {printable(ended['stopped'])}", "bold")),
        Text(
            f"   {counted(ended['documents'], 'document')}, "
            f"{counted(ended['contacts'], 'contact')}, "
            f"{size(ended['bytes_sent'])} sent, {size(ended['bytes_received'])} received, "
            f"{milliseconds(ended['milliseconds'])}"
            f"{'' if ended['complete'] else '; not complete'}"
        ),
    ]


def _bar(score: float) -> str:
    filled = round(max(min(score, 1.0), 0.0) * _BAR_CELLS)
    return "━" * filled + "╌" * (_BAR_CELLS - filled)


def _who(event: Json) -> str:
    name = printable(event["organisation"]).replace("\n", " ")
    return f"{name} ({short_peer(printable(event['peer']))})"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
