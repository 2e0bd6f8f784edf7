"""Scenarios: what happens to a network of peers while it is asked questions, in TOML.

    name = "churn"
    shows = "Half of the peers crash at the midpoint and are replaced one by one."
    workload = "pubmedqa"        # or another of `WORKLOADS`
    peers = 5000

    [routing]                    # any setting of the section of the same name in config.toml
    start = "paper"

    [network]                    # see `NetworkModel`
    latency_ms = 20

    [[timeline]]                 # in order; `at` and `until` are shares of the questions asked
    at = 0.5
    action = "crash"             # crash, replace, introduce, partition or heal
    share = 0.5

`workloads.plan` turns a scenario and a workload into steps that name peers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, TypeAlias

from zerorag_p2p.config import RoutingConfig, read_settings
from zerorag_p2p.errors import ConfigError
from zerorag_p2p.workloads.interests import DOCUMENTS_PER_PEER

#: What a scenario's `workload` may name (`workloads.source`).
WORKLOADS: Final = ("pubmedqa", "synthetic", "consortium", "folder", "aol-ia", "amazon")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkModel:
    """What carries the messages, and how fast a network notices that a peer is gone.

    Attributes:
        latency_ms: Least time that a message takes.
        jitter_ms: Mean of the exponentially distributed time that a message takes beyond it.
        loss: Share of the messages that are lost; the request then times out.
        timeout_s: How long a querier waits for a reply.
        queries_per_s: Questions that the whole network asks a second, at random moments. With 0
            each waits for the one before it to end, as in the paper.
        detection_s: Time from a crash until every peer has dropped the one that crashed.
        refresh_s: Most time until a neighbour sees a changed advertisement.
        clock_skew_s: Every clock is off by a random amount up to this one.
    """

    latency_ms: float = 20.0
    jitter_ms: float = 5.0
    loss: float = 0.0
    timeout_s: float = 1.0
    queries_per_s: float = 50.0
    detection_s: float = 10.0
    refresh_s: float = 60.0
    clock_skew_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A share of the peers crashes at once."""

    at: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """New peers take the places of those that crashed, one by one from `at` to `until`.

    A newcomer has the documents and the questions of the one it replaces, an identity of its own
    and no routing state.
    """

    at: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduce:
    """A topic that nobody held appears at some owners.

    Its documents are taken out of the workload beforehand, with the questions about them. From
    `at` on a share of the questions is about the topic, each asked by a random peer, which keeps
    what it fetches as the owner's terms allow.

    Attributes:
        owners: Peers that hold all documents of the topic at first.
        documents: Number of documents that a topic has to have; one of those topics is drawn.
        questions: Share of the questions that are about the topic from then on.
    """

    at: float
    owners: int
    documents: int = 10
    questions: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The peers fall into groups that cannot reach each other."""

    at: float
    groups: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """Every peer can reach every other again."""

    at: float


TimelineEntry: TypeAlias = Crash | Replace | Introduce | Partition | Heal

_ACTIONS: Final[Mapping[str, type[TimelineEntry]]] = {
    "crash": Crash,
    "replace": Replace,
    "introduce": Introduce,
    "partition": Partition,
    "heal": Heal,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run of a network, but for the data.

    Attributes:
        name: Also the name of its file.
        shows: What a run shows, in a sentence.
        workload: One of `WORKLOADS`.
        peers: Number of peers.
        draws: Documents that a peer draws, and questions that it asks (`workloads.interests`).
        seed: Everything random follows from it.
        stop_at_target: Whether a query ends once a peer that holds the document asked for has
            answered, as in the paper's runs. No real querier can know that.
        batch: Number of questions that reported averages are taken over.
        rounds: Whether the contacts of a query go out in rounds of `routing.fanout`, each after
            all replies to the one before, as in the paper's table 5; otherwise the next goes out
            as soon as a reply is in.
        routing: The routing algorithm and its limits.
        network: What carries the messages.
        timeline: What happens, in order.
    """

    name: str
    shows: str
    workload: str = "synthetic"
    peers: int = 500
    draws: int = DOCUMENTS_PER_PEER
    seed: int = 1
    stop_at_target: bool = True
    batch: int = 1_000
    rounds: bool = False
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    network: NetworkModel = field(default_factory=NetworkModel)
    timeline: tuple[TimelineEntry, ...] = ()


def parse_scenario(text: str) -> Scenario:
    """Read a scenario from TOML.

    Raises:
        ConfigError: The text is not TOML, or a setting is missing, unknown, of the wrong type or
            out of range.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the scenario is not valid TOML: {error}") from None
    for key in ("name", "shows"):
        if key not in table:
            raise ConfigError(f"the scenario has no {key!r}")
    routing = RoutingConfig.from_table(_table(table.pop("routing", {}), "routing"))
    entries = table.pop("timeline", [])
    if not isinstance(entries, list):
        raise ConfigError("'timeline' has to be a list of tables, each [[timeline]]")
    timeline = tuple(_read_entry(entry) for entry in entries)
    plain = read_settings(Scenario, table)
    scenario = replace(plain, routing=routing, timeline=timeline)
    _check(scenario)
    return scenario


def _read_entry(value: object) -> TimelineEntry:
    table = _table(value, "timeline")
    action = table.pop("action", None)
    if not isinstance(action, str) or action not in _ACTIONS:
        known = ", ".join(_ACTIONS)
        raise ConfigError(f"timeline: action = {action!r} is unknown; known: {known}")
    kind = _ACTIONS[action]
    try:
        return read_settings(kind, table, f"timeline.{action}.")
    except TypeError:  # a field without a default is missing
        names = ", ".join(item.name for item in fields(kind))
        raise ConfigError(f"timeline: {action!r} lacks a setting; it has {names}") from None


def _table(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name!r} has to be a table")
    return dict(value)


def _check(scenario: Scenario) -> None:
    if scenario.workload not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise ConfigError(f"workload = {scenario.workload!r} is unknown; known: {known}")
    network = scenario.network
    positive = {
        "peers": scenario.peers - 1,
        "draws": scenario.draws,
        "batch": scenario.batch,
        "network.timeout_s": network.timeout_s,
    }
    for name, value in positive.items():
        if value <= 0:
            raise ConfigError(f"{name} is too small")
    for item in fields(network):
        if getattr(network, item.name) < 0:
            raise ConfigError(f"network.{item.name} is negative")
    if network.loss >= 1:
        raise ConfigError("network.loss has to be below 1")
    previous = 0.0
    for entry in scenario.timeline:
        _check_entry(entry, scenario.peers)
        if entry.at < previous:
            raise ConfigError("the entries of 'timeline' are not in order of 'at'")
        previous = entry.at


def _check_entry(entry: TimelineEntry, peers: int) -> None:
    action = type(entry).__name__.lower()
    if not 0 <= entry.at <= 1:
        raise ConfigError(f"timeline.{action}.at has to be from 0 to 1")
    match entry:
        case Crash(share=share) if not 0 <= share < 1:
            raise ConfigError("timeline.crash.share has to be from 0 to below 1")
        case Replace(at=at, until=until) if not at <= until <= 1:
            raise ConfigError("timeline.replace.until has to be from 'at' to 1")
        case Introduce(owners=owners) if not 1 <= owners <= peers:
            raise ConfigError(f"timeline.introduce.owners has to be from 1 to {peers}")
        case Introduce(questions=questions) if not 0 < questions < 1:
            raise ConfigError("timeline.introduce.questions has to be between 0 and 1")
        case Introduce(documents=documents) if documents < 1:
            raise ConfigError("timeline.introduce.documents has to be at least 1")
        case Partition(groups=groups) if not 2 <= groups <= peers:
            raise ConfigError(f"timeline.partition.groups has to be from 2 to {peers}")


def list_scenarios() -> list[Scenario]:
    """The scenarios that come with the package, by name."""
    names = sorted(
        item.name for item in _folder().iterdir() if item.name.endswith(".toml") and item.is_file()
    )
    return [parse_scenario((_folder() / name).read_text(encoding="utf-8")) for name in names]


def load_scenario(name: str) -> Scenario:
    """A scenario that comes with the package, by name, or a file ending in .toml.

    Raises:
        ConfigError: There is none of this name, or it is malformed.
    """
    file: Traversable = Path(name) if name.endswith(".toml") else _folder() / f"{name}.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        known = ", ".join(scenario.name for scenario in list_scenarios())
        raise ConfigError(
            f"there is no scenario {name!r}; known: {known}; or give a file that ends in .toml"
        ) from None
    return parse_scenario(text)


def _folder() -> Traversable:
    packaged = resources.files("zerorag_p2p.testnet") / "scenarios"
    if packaged.is_dir():
        return packaged
    return Path(__file__).parents[2] / "testnet" / "scenarios"
