"""The tables of the window, a tab each: which call fills it, and its columns; and of all nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from zerorag_p2p.tui.columns import Column
from zerorag_p2p.tui.query_log import AnsweredQuery, AskedQuery
from zerorag_p2p.tui.source import Json, Source
from zerorag_p2p.wording import counted, milliseconds, moment, short_peer, size, span

_STATE_STYLES: Final[Mapping[str, str]] = {
    "running": "good",
    "connected": "good",
    "alive": "good",
    "frozen": "bad",
    "stopped": "bad",
    "unreachable": "bad",
    "suspect": "bad",
    "dead": "bad",
    "not connected": "dim",
}


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab.

    Attributes:
        load: Asks the node for the rows; None for the tab of queries, which events fill.
        row_id: Tells rows apart.
        sort: Column that rows are ordered by at first, and whether the largest comes `first`.
        empty: Shown while there is no row.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    load: Callable[[Source], Awaitable[Sequence[Json]]] | None
    row_id: Callable[[Any], str]
    sort: str
    descending: bool
    empty: str


def clock_time(at: float) -> str:
    """The time of the day in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def fields(row: Json) -> list[tuple[str, str]]:
    """Every figure of a row with its name; what is in another is named with a dot."""
    found: list[tuple[str, str]] = []
    for name, value in row.items():
        if isinstance(value, dict):
            found.extend((f"{name}.{inner}", text) for inner, text in fields(value))
        else:
            found.append((name, _figure(name, value)))
    return found


def _figure(name: str, value: Any) -> str:
    if value is None:
        return "-"
    is_moment = name in {"at", "since", "last_useful"} or name.endswith(("_at", "_expiry"))
    if is_moment and isinstance(value, int | float):
        return f"{moment(value)} ({value:.3f})"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _value(*names: str) -> Callable[[Json], Any]:
    """The value that `names` lead to, one inside the other; None where there is none."""

    def find(row: Json) -> Any:
        value: Any = row
        for name in names:
            if value is None:
                return None
            value = value.get(name)
        return value

    return find


def _text(*names: str) -> Callable[[Json, float], str]:
    find = _value(*names)

    def show(row: Json, now: float) -> str:
        del now
        value = find(row)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "-" if value is None else str(value)

    return show


def _shown(show: Callable[[Any], str], *names: str) -> Callable[[Json, float], str]:
    find = _value(*names)
    return lambda row, _: "-" if find(row) is None else show(find(row))


def _ago(*names: str) -> Callable[[Json, float], str]:
    find = _value(*names)
    return lambda row, now: "-" if find(row) is None else span(now - find(row))


def _in(*names: str) -> Callable[[Json, float], str]:
    find = _value(*names)
    return lambda row, now: "-" if find(row) is None else span(find(row) - now)


def _negative(*names: str) -> Callable[[Json], Any]:
    """A moment as a sort key: the longer ago, the larger."""
    find = _value(*names)
    return lambda row: None if find(row) is None else -find(row)


def _state_style(row: Json) -> str:
    return _STATE_STYLES.get(row.get("state", ""), "")


def _detector_style(row: Json) -> str:
    return _STATE_STYLES.get(row.get("detector", ""), "")


_ORGANISATION = Column("organisation", 16, _text("organisation"), grows=True)
_PEER = Column("peer", 15, _shown(short_peer, "peer"), sort_key=_value("peer"))


async def _neighbors(source: Source) -> Sequence[Json]:
    return await source.neighbors()


NEIGHBORS: Final = Tab(
    id="neighbors",
    title="Neighbours",
    columns=(
        _ORGANISATION,
        _PEER,
        Column("state", 13, _text("state"), style=_state_style),
        Column("age", 6, _ago("since"), sort_key=_negative("since"), right=True),
        Column("useful", 7, _ago("last_useful"), sort_key=_negative("last_useful"), right=True),
        Column(
            "trip",
            8,
            _shown(milliseconds, "round_trip_ms"),
            sort_key=_value("round_trip_ms"),
            right=True,
        ),
        Column(
            "vectors",
            8,
            _text("advertisement", "vectors"),
            sort_key=_value("advertisement", "vectors"),
            right=True,
        ),
        Column(
            "advert",
            8,
            _shown(size, "advertisement", "bytes"),
            sort_key=_value("advertisement", "bytes"),
            right=True,
            optional=3,
        ),
        Column(
            "sent",
            8,
            _shown(size, "bytes_sent"),
            sort_key=_value("bytes_sent"),
            right=True,
            optional=1,
        ),
        Column(
            "received",
            9,
            _shown(size, "bytes_received"),
            sort_key=_value("bytes_received"),
            right=True,
            optional=2,
        ),
    ),
    load=_neighbors,
    row_id=lambda row: str(row["peer"]),
    sort="age",
    descending=True,
    empty="no neighbours yet",
)


def _asker(row: AskedQuery | AnsweredQuery, now: float) -> str:
    del now
    return "here" if isinstance(row, AskedQuery) else str(row.event["organisation"])


def _question(row: AskedQuery | AnsweredQuery, now: float) -> str:
    del now
    if isinstance(row, AnsweredQuery):
        return f"(k {row.event['k']}, {row.event['purpose']})"
    return "(asked before this window opened)" if row.started is None else row.started["text"]


def _contacts(row: AskedQuery | AnsweredQuery) -> int | None:
    return row.contacts if isinstance(row, AskedQuery) else None


def _documents(row: AskedQuery | AnsweredQuery) -> int:
    if isinstance(row, AnsweredQuery):
        return int(row.event["documents"])
    last = row.last_contact
    return 0 if last is None else int(last["found"])


def _best(row: AskedQuery | AnsweredQuery) -> float | None:
    last = row.last_contact if isinstance(row, AskedQuery) else None
    return None if last is None else last["best"]


def _duration(row: AskedQuery | AnsweredQuery) -> float | None:
    if isinstance(row, AnsweredQuery) or row.ended is None:
        return None
    return float(row.ended["milliseconds"])


def _end(row: AskedQuery | AnsweredQuery, now: float) -> str:
    del now
    if isinstance(row, AnsweredQuery):
        return f"answered, {counted(row.event['referrals'], 'referral')}"
    return "running" if row.ended is None else str(row.ended["stopped"])


def _end_style(row: AskedQuery | AnsweredQuery) -> str:
    if isinstance(row, AnsweredQuery):
        return "dim"
    return "good" if row.ended is None else ""


def _at(row: AskedQuery | AnsweredQuery) -> float:
    return row.at if isinstance(row, AskedQuery) else float(row.event["at"])


QUERIES: Final = Tab(
    id="queries",
    title="Queries",
    columns=(
        Column(
            "time",
            8,
            lambda row, _: clock_time(_at(row)),
            sort_key=lambda row: (_at(row), row.number),
        ),
        Column("from", 9, _asker),
        Column("query", 22, _question, grows=True),
        Column(
            "asked",
            6,
            lambda row, _: "-" if _contacts(row) is None else str(_contacts(row)),
            sort_key=_contacts,
            right=True,
        ),
        Column("docs", 5, lambda row, _: str(_documents(row)), sort_key=_documents, right=True),
        Column(
            "best",
            5,
            lambda row, _: "-" if _best(row) is None else f"{_best(row):.2f}",
            sort_key=_best,
            right=True,
            optional=2,
        ),
        Column(
            "took",
            7,
            lambda row, _: milliseconds(_duration(row)),
            sort_key=_duration,
            right=True,
            optional=1,
        ),
        Column("end", 16, _end, grows=True, style=_end_style),
    ),
    load=None,
    row_id=lambda row: str(row.number),
    sort="time",
    descending=True,
    empty="no query since this window opened",
)


async def _peers(source: Source) -> Sequence[Json]:
    return await source.peers()


def _skew(row: Json, now: float) -> str:
    del now
    return f"{row['session']['clock_skew_s']:+.1f} s" if row["session"] else "-"


MEMBERS: Final = Tab(
    id="members",
    title="Members",
    columns=(
        _ORGANISATION,
        _PEER,
        Column("standing", 10, _text("standing")),
        Column("state", 13, _text("state"), style=_state_style),
        Column("detector", 9, _text("detector"), style=_detector_style),
        Column("view", 5, _text("view_age"), sort_key=_value("view_age"), right=True),
        Column("nbr", 4, _text("neighbor"), optional=1),
        Column(
            "clock",
            9,
            _skew,
            sort_key=_value("session", "clock_skew_s"),
            right=True,
            optional=2,
        ),
        Column(
            "roster",
            6,
            _text("session", "roster_version"),
            sort_key=_value("session", "roster_version"),
            right=True,
            optional=4,
        ),
        Column("software", 18, _text("session", "software"), optional=5),
        Column("last error", 14, _text("last_error"), grows=True, optional=3),
    ),
    load=_peers,
    row_id=lambda row: str(row["peer"]),
    sort="organisation",
    descending=False,
    empty="the roster has no other member",
)


async def _queriers(source: Source) -> Sequence[Json]:
    queriers: Sequence[Json] = (await source.memory())["queriers"]
    return queriers


MEMORY: Final = Tab(
    id="memory",
    title="Memory",
    columns=(
        _ORGANISATION,
        _PEER,
        Column("queries", 8, _text("queries"), sort_key=_value("queries"), right=True),
        Column("asked", 8, _ago("asked_at"), sort_key=_negative("asked_at"), right=True),
        Column("next expiry", 12, _in("first_expiry"), sort_key=_value("first_expiry"), right=True),
        Column("last expiry", 12, _in("last_expiry"), sort_key=_value("last_expiry"), right=True),
    ),
    load=_queriers,
    row_id=lambda row: str(row["peer"]),
    sort="queries",
    descending=True,
    empty="no query of another peer is remembered",
)


async def _collections(source: Source) -> Sequence[Json]:
    return await source.collections()


def _shared_with(row: Json, now: float) -> str:
    del now
    sharing = row["sharing"]
    if sharing is None:
        return "nobody"
    members = sharing["members"]
    return counted(len(members), "member") if members else "every member"


def _purposes(row: Json, now: float) -> str:
    del now
    sharing = row["sharing"]
    if sharing is None:
        return "-"
    return ", ".join(sharing["purposes"]) or "any"


DOCUMENTS: Final = Tab(
    id="documents",
    title="Documents",
    columns=(
        Column("collection", 16, _text("name"), grows=True),
        Column("sources", 8, _text("sources"), sort_key=_value("sources"), right=True),
        Column("documents", 10, _text("documents"), sort_key=_value("documents"), right=True),
        Column("shared with", 13, _shared_with),
        Column("purposes", 14, _purposes),
        Column("view", 8, _text("sharing", "view"), optional=1),
        Column("advertised", 11, _text("sharing", "advertise"), optional=2),
        Column("copies", 6, _text("sharing", "terms", "copy"), optional=3),
    ),
    load=_collections,
    row_id=lambda row: str(row["name"]),
    sort="collection",
    descending=False,
    empty="no document was added yet",
)


async def _refusals(source: Source) -> Sequence[Json]:
    return await source.refusals()


REFUSALS: Final = Tab(
    id="refusals",
    title="Refusals",
    columns=(
        Column("time", 8, _shown(clock_time, "at"), sort_key=_value("at")),
        Column("by", 4, _text("by")),
        Column("organisation", 14, _text("organisation"), grows=True),
        Column("peer", 15, _shown(short_peer, "peer"), sort_key=_value("peer"), optional=1),
        Column("request", 9, _text("request")),
        Column("code", 14, _text("code")),
        Column("reason", 20, _text("reason"), grows=True),
    ),
    load=_refusals,
    row_id=lambda row: f"{row['at']} {row['peer']} {row['document']}",
    sort="time",
    descending=True,
    empty="nothing was refused since the node started",
)


def _natural(row: Json) -> list[int | str]:
    """A node's name as a sort key: p2 comes before p10."""
    parts = re.split(r"(\d+)", str(row["name"]))
    return [int(part) if part.isdecimal() else part for part in parts]


def _condition(row: Json, now: float) -> str:
    """The state of a node; of one that runs rather what is special about it in a testnet."""
    del now
    done = [] if row.get("watchable", True) else ["no home"]
    if row.get("misbehaving"):
        done.append(row["misbehaving"])
    if row.get("clock_skew_s"):
        done.append(f"clock {row['clock_skew_s']:+g} s")
    state = row.get("state", "-")
    return ", ".join(done if done and state == "running" else [state, *done])


def _condition_style(row: Json) -> str:
    return "bad" if row.get("misbehaving") or row.get("clock_skew_s") else _state_style(row)


#: Columns of the table of all nodes.
NODE_COLUMNS: Final = (
    Column("node", 8, _text("name"), sort_key=_natural, grows=True),
    Column("organisation", 14, _text("organisation"), grows=True),
    Column("state", 14, _condition, style=_condition_style),
    Column("docs", 5, _text("documents"), sort_key=_value("documents"), right=True),
    Column("nbrs", 5, _text("neighbors"), sort_key=_value("neighbors"), right=True),
    Column("conns", 6, _text("connections"), sort_key=_value("connections"), right=True),
    Column(
        "memory", 7, _text("remembered_queries"), sort_key=_value("remembered_queries"), right=True
    ),
    Column("answered", 9, _text("answered"), sort_key=_value("answered"), right=True),
)

TABS: Final = (NEIGHBORS, QUERIES, MEMBERS, MEMORY, DOCUMENTS, REFUSALS)
