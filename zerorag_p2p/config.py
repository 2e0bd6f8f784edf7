"""Every default and limit, each with its source.

The source of a figure is one of: paper (arXiv 2611.07928, with the section), measured (by this
project), or guess. Settings a user may change are fields of `NodeConfig`, read from `config.toml`;
the constants below them are protocol limits that every peer shares (protocols/README.md).
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Final

from zerorag_p2p.errors import ConfigError

# Limits of the wire protocol. A peer that exceeds one is refused.

MAX_DIMENSION: Final = 4096
MAX_K: Final = 100
MAX_BUDGET: Final = 10_000
MAX_REFERRALS: Final = 32
MAX_HAVE: Final = 256
MAX_ADDRESSES: Final = 8
MAX_ADDRESS_BYTES: Final = 256
MAX_NAME_BYTES: Final = 128
MAX_REASON_BYTES: Final = 512
MAX_FINGERPRINTS: Final = 4
MAX_PROTOCOLS: Final = 16
MAX_ADVERTISED: Final = 1024
MAX_STATEMENT_BYTES: Final = 2048
MAX_CHAIN_LINKS: Final = 8
MAX_FETCH_DOCUMENTS: Final = 32
MAX_CONTENT_BYTES: Final = 1 << 20
MAX_ROSTER_BYTES: Final = 4 << 20
MAX_ROSTER_MEMBERS: Final = 10_000

#: Bytes of the longest payload of a request and of a reply, a protocol.
HELLO_LIMIT: Final = 16 << 10
QUERY_LIMIT: Final = 64 << 10
QUERY_RESULT_LIMIT: Final = 3 << 20
ADVERTISE_REQUEST_LIMIT: Final = 1 << 10
ADVERTISEMENT_LIMIT: Final = 5 << 20
FETCH_LIMIT: Final = 16 << 10
FETCH_RESULT_LIMIT: Final = 36 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingConfig:
    """How queries find their way. Each function is chosen by name (docs/routing.md).

    Attributes:
        routing: Preset that names the five functions below; "paper" is the published algorithm.
        start: "own-state-first" or "paper" (from the neighbours, unscored).
        evidence: How the evidence of a referral becomes a frontier score.
        neighbor_choice: Which peer becomes the new neighbour.
        exploration: Who is asked when the frontier runs dry: "roster" or "none".
        stopping: "budget", or "settled" (stop when the evidence says that nothing better is left).
    """

    routing: str = "paper"
    start: str | None = None
    evidence: str | None = None
    neighbor_choice: str | None = None
    exploration: str | None = None
    stopping: str | None = None
    k: int = 5  # paper, section 4.3
    contact_budget: int = 50  # paper, section 4.1.2
    fanout: int = 1  # paper, section 3.3
    referral_limit: int = 10  # guess; the paper gives no r
    neighbor_limit: int = 50  # paper, section 4.5 (50 to 75)
    memory_limit: int = 1_000  # paper, section 4.5
    memory_lifetime_s: float = 30 * 86_400.0  # guess; the paper's memory ends by size only
    advertisement_limit: int = 30  # guess; equals the paper's documents a peer
    advertisement_bits: int = 4  # measured: 0.1 point of recall@5 lost, 8x smaller
    patience: int = 3  # guess; contacts without a change before "settled" stops


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Addresses and deadlines."""

    listen: tuple[str, ...] = ("/ip4/127.0.0.1/tcp/0",)
    announce: tuple[str, ...] = ()
    bootstrap: tuple[str, ...] = ()
    dial_timeout_s: float = 5.0  # measured: 13 ms on loopback; a WAN needs a few round trips
    request_timeout_s: float = 10.0  # guess
    query_timeout_s: float = 30.0  # guess; a whole query, every contact included
    close_timeout_s: float = 3.0  # measured: a close into a full buffer hangs without it
    clock_tolerance_s: float = 120.0  # guess; beyond it a peer is refused
    stream_idle_s: float = 300.0  # guess
    max_connections: int = 512  # measured: 500 hosts fit one process
    max_requests_per_peer: int = 64  # guess; more wait in the peer's socket
    advertisement_refresh_s: float = 600.0  # guess
    departed_after_s: float = 300.0  # guess; an unreachable neighbour is dropped after this


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingConfig:
    """Which embedder turns text into vectors.

    Attributes:
        embedder: "sentence-transformers", "precomputed" or "hashing" (tests only).
        model: A folder, or a name in the local cache; "builtin" is the packaged MiniLM model.
        sha256: Expected SHA-256 of the model's weights; checked before loading.
        allow_download: Whether the model hub may be asked.
        vectors: File of precomputed vectors (.npz), for "precomputed".
    """

    embedder: str = "sentence-transformers"
    model: str = "builtin"
    sha256: str = ""
    allow_download: bool = False
    vectors: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The whole of `config.toml`."""

    organisation: str = ""
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)

    @classmethod
    def from_toml(cls, text: str) -> NodeConfig:
        """Read a configuration.

        Raises:
            ConfigError: The text is not TOML, or a setting is unknown, of the wrong type or out
                of range.
        """
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"config.toml is not valid TOML: {error}") from None
        config: NodeConfig = _build(cls, table, "")
        _check_ranges(config)
        return config


def _build(cls: type[Any], table: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{where}{key}"
        if key not in hints:
            known = ", ".join(sorted(hints))
            raise ConfigError(f"unknown setting {name!r}; known here: {known}")
        values[key] = _convert(hints[key], value, name)
    return cls(**values)


def _convert(hint: Any, value: Any, name: str) -> Any:
    if isinstance(hint, types.UnionType):  # str | None: a file cannot say None
        hint = next(item for item in typing.get_args(hint) if item is not types.NoneType)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise ConfigError(f"setting {name!r} has to be a table")
        return _build(typing.cast("type[Any]", hint), value, f"{name}.")
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"setting {name!r} has to be a list of texts")
        return tuple(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(f"setting {name!r} has to be of type {hint.__name__}, got {value!r}")
    return value


_RANGES: Final[dict[str, tuple[float, float]]] = {
    "routing.k": (1, MAX_K),
    "routing.contact_budget": (1, MAX_BUDGET),
    "routing.fanout": (1, 64),
    "routing.referral_limit": (1, MAX_REFERRALS),
    "routing.neighbor_limit": (1, 1_000),
    "routing.memory_limit": (0, 100_000),
    "routing.memory_lifetime_s": (0, 10 * 365 * 86_400),
    "routing.advertisement_limit": (0, MAX_ADVERTISED),
    "routing.patience": (1, MAX_BUDGET),
    "network.dial_timeout_s": (0.05, 300),
    "network.request_timeout_s": (0.05, 300),
    "network.query_timeout_s": (0.05, 3_600),
    "network.close_timeout_s": (0.05, 60),
    "network.clock_tolerance_s": (1, 86_400),
    "network.stream_idle_s": (0.5, 86_400),
    "network.max_connections": (1, 10_000),
    "network.max_requests_per_peer": (1, 10_000),
    "network.advertisement_refresh_s": (1, 86_400),
    "network.departed_after_s": (1, 86_400),
}

_CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "routing.advertisement_bits": (1, 2, 4, 32),
    "embedding.embedder": ("sentence-transformers", "precomputed", "hashing"),
}


def _check_ranges(config: NodeConfig) -> None:
    for name, (low, high) in _RANGES.items():
        table, key = name.split(".")
        value = getattr(getattr(config, table), key)
        if not low <= value <= high:
            raise ConfigError(f"setting {name!r} has to be from {low:g} to {high:g}, got {value}")
    for name, allowed in _CHOICES.items():
        table, key = name.split(".")
        value = getattr(getattr(config, table), key)
        if value not in allowed:
            choices = ", ".join(repr(item) for item in allowed)
            raise ConfigError(f"setting {name!r} has to be one of {choices}, got {value!r}")
