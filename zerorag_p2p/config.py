"""Every default and limit, each with its source.

The source of a figure is one of: paper (arXiv 2611.07928, with the section), measured (by this
project), or guess. Settings a user may change are fields of `NodeConfig`, read from `config.toml`;
the constants below them are protocol limits that every peer shares (protocols/README.md).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import tomllib
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from zerorag_p2p.errors import ConfigError

_Settings = TypeVar("_Settings")

# Limits of the wire protocol. A peer that exceeds one is refused.

MAX_DIMENSION: Final = 4096
MAX_K: Final = 100
MAX_BUDGET: Final = 10_000
MAX_FANOUT: Final = 64
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
MAX_AUTHORITIES: Final = 16
MAX_ROLES: Final = 16
MAX_REDACTIONS: Final = 32

#: The largest integer on the wire: every language's numbers hold it exactly.
MAX_INTEGER: Final = (1 << 53) - 1

#: Bytes of the longest signed peer record, join request and release.
RECORD_LIMIT: Final = 4 << 10
JOIN_REQUEST_LIMIT: Final = 8 << 10
HAND_OVER_LIMIT: Final = 1 << 10
RELEASE_LIMIT: Final = 8 << 10

#: Lifetimes of what a consortium's authority signs, unless it says otherwise. Guesses: a quarter
#: without an authority is more likely a mistake than a plan; memberships follow yearly contracts.
ROSTER_LIFETIME_S: Final = 90 * 86_400
ROSTER_GRACE_S: Final = 14 * 86_400
MEMBERSHIP_LIFETIME_S: Final = 366 * 86_400

#: The longest that a request may ask to be waited for, and that a refusal may ask to wait.
MAX_DEADLINE_MS: Final = 3_600_000
MAX_RETRY_AFTER_S: Final = 86_400

#: Bytes of the longest payload of a request and of a reply, a protocol.
HELLO_LIMIT: Final = 16 << 10
QUERY_LIMIT: Final = 64 << 10
QUERY_RESULT_LIMIT: Final = 3 << 20
ADVERTISE_REQUEST_LIMIT: Final = 1 << 10
ADVERTISEMENT_LIMIT: Final = 5 << 20
FETCH_LIMIT: Final = 16 << 10
FETCH_RESULT_LIMIT: Final = 36 << 20
GOSSIP_LIMIT: Final = 1 << 20
GOSSIP_REPLY_LIMIT: Final = 5 << 20

#: Most items of each kind that one gossip message carries, and bytes of the longest. Guesses: a
#: message with every list full still fits `GOSSIP_LIMIT`.
MAX_GOSSIP_ENTRIES: Final = 64
MAX_GOSSIP_AGE: Final = 65_535
MAX_GOSSIP_RECORDS: Final = 32
MAX_GOSSIP_UPDATES: Final = 64
MAX_GOSSIP_ADVERTISEMENTS: Final = 32
MAX_GOSSIP_WITHDRAWALS: Final = 32
MAX_WITHDRAWN: Final = 32
WITHDRAWAL_LIMIT: Final = 2 << 10
#: Most withdrawals in one reply to a peer that lacks some: the reply fits `GOSSIP_LIMIT`.
MAX_PULLED_WITHDRAWALS: Final = 256
#: Withdrawals that a peer holds, of one owner and of all. Guesses: of one owner 131,072 documents
#: or 4,096 collections; 32 MiB of all.
MAX_OWNER_WITHDRAWALS: Final = 4_096
MAX_HELD_WITHDRAWALS: Final = 16_384
#: How long a withdrawal is remembered where the terms that it ends had no end. Guess: no home comes
#: back from a longer absence with copies nobody knows of.
WITHDRAWAL_LIFETIME_S: Final = 10 * 366 * 86_400
AUDIT_HEAD_LIMIT: Final = 512
#: All advertisements of a gossip message together; a larger one is fetched from its owner.
GOSSIP_ADVERTISEMENT_BYTES: Final = 256 << 10
#: Advertisements that an asker may name as known: all that it may hold, or did not keep.
MAX_KNOWN_ADVERTISEMENTS: Final = 16_384

# Limits of a node's own network. Peers need not share them.

MAX_STREAMS_PER_PROTOCOL: Final = 4  # guess; an honest peer opens one, two while it reconnects
MAX_UNNEGOTIATED_STREAMS: Final = 16  # guess; streams of a peer that have not named a protocol
MAX_INBOUND_PER_PEER: Final = 2  # guess; the second replaces one that died unnoticed
MAX_HANDSHAKES: Final = 64  # guess; beyond it the oldest unfinished handshake is dropped
MAX_REMEMBERED_WARNINGS: Final = 4_096  # guess; reasons that are not logged a second time
STREAM_WINDOW_BYTES: Final = 1 << 20  # guess; 20 MB/s at 50 ms round trip
CONNECTION_BUFFER_BYTES: Final = 16 << 20  # guess; unread bytes of every stream of a connection
WRITE_TIMEOUT_S: Final = 10.0  # guess; a peer that takes no byte for so long is gone
IDLE_PING_S: Final = 300.0  # measured: pings every 30 s kept half a core busy at 500 connections
DIAL_STAGGER_S: Final = 0.25  # RFC 8305, section 8: connection attempt delay
KEEPALIVE_IDLE_S: Final = 60  # guess; then a silent connection is probed by the kernel
KEEPALIVE_INTERVAL_S: Final = 15  # guess
KEEPALIVE_PROBES: Final = 4  # guess; a peer without power is noticed after two minutes


# Limits of the library of documents.

#: Vectors of a collection up to which comparing with every one is fast enough. Measured
#: (benchmarks/vectors.py): at 10,000 either way takes 0.7 ms (384 dimensions) or 1.4 ms (768).
LIBRARY_EXACT_LIMIT: Final = 10_000
#: Share of a graph's vectors that may change before it is built or saved anew. Guess.
LIBRARY_GRAPH_DRIFT: Final = 0.05
MAX_SOURCE_FILE_BYTES: Final = 4 << 30  # guess; a file of records is read record by record
MAX_WHOLE_FILE_BYTES: Final = 64 << 20  # guess; of a file that has to be in memory to be read
MAX_RECORD_BYTES: Final = 16 << 20  # guess; of the text of one record
TEXT_BLOCK_CHARACTERS: Final = 2 << 20  # guess; a longer plain text becomes several records
MAX_PDF_PAGES: Final = 10_000  # guess
MAX_OUTLINE_MARKS: Final = 10_000  # guess; pages and headings of a record that are remembered
MAX_SOURCE_PARTS: Final = 10_000  # guess; 2.5 million tokens with the built-in model
MAX_TITLE_BYTES: Final = 1_024  # guess
MAX_METADATA_ITEMS: Final = 64  # guess
MAX_METADATA_BYTES: Final = 4_096  # guess; of one value
MAX_BAD_RECORDS: Final = 100  # guess; of a file that are named; a mostly bad one is then given up
MAX_LINE_BYTES: Final = 64 << 20  # guess; of JSON Lines, a document inside a FHIR resource included
MAX_FHIR_DEPTH: Final = 4  # guess; of bundles inside of bundles
LIBRARY_BATCH_RECORDS: Final = 64  # guess; records embedded and committed together
LIBRARY_BATCH_CHARACTERS: Final = 1 << 20  # guess; and of all their texts, unless one is longer
LIBRARY_LOAD_DOCUMENTS: Final = 4_096  # guess; read into memory together when a library is opened
LIBRARY_EMBED_PASSAGES: Final = 64  # guess; passages embedded between two signs of progress
PASSAGE_TOKENS: Final = 256  # guess; what the built-in model reads. A longer passage dilutes a fact
PASSAGE_OVERLAP_SHARE: Final = 1 / 8  # guess; of a passage, repeated from the one before it
WATCH_INTERVAL_S: Final = 30.0  # guess; how often a watched folder is looked at
MIN_WATCH_INTERVAL_S: Final = 1.0
MAX_WATCH_INTERVAL_S: Final = 86_400.0
MAX_SEARCHED_WORDS: Final = 64  # guess; of a question, by which documents are looked up
RERANKED_PASSAGES: Final = 50  # guess; what a cross-encoder reads in seconds
FUSED_DOCUMENTS: Final = 50  # of either ranking. Measured (docs/retrieval.md): 10 does as well
MAX_WATCHES: Final = 100  # guess
MAX_WATCHED_FILES: Final = 1_000_000  # guess; of one folder

SUMMARY_REST_S: Final = 60.0  # guess; a summary that is advertised is not made anew before

# Limits of the audit log.

AUDIT_ENTRY_LIMIT: Final = 512 << 10  # guess; 100 documents with the longest and most names
MAX_AUDIT_DOCUMENTS: Final = MAX_K  # of one entry
MAX_AUDIT_COLLECTIONS: Final = 32  # guess; of one entry
MAX_AUDIT_TEXT_BYTES: Final = 4_096  # guess; of a question whose text is kept
MAX_AUDIT_PAGE: Final = 1_000  # guess; entries that are read at once
MAX_AUDIT_FAULTS: Final = 100  # guess; named by one verification
AUDIT_SEGMENT_BYTES: Final = 4 << 20  # guess; a file is begun every day, and beyond this size
AUDIT_COMMIT_S: Final = 20.0  # guess; a disk that takes longer to sync counts as failed
AUDIT_RETRY_S: Final = 1.0  # guess; how often a log that could not be written is tried again
AUDIT_RETRY_AFTER_S: Final = 10  # guess; what a peer is told that asks meanwhile
REFUSAL_HELD_S: Final = 0.5  # guess; how late a peer is refused that comes back before it should
AUDIT_HEADS_LIMIT: Final = 16 << 20  # two heads for each member of the largest roster

#: Limits of the local interface (control/, client/). Guesses: a person waits no longer than half
#: a minute on a silent process, and a progress report that nobody reads may be dropped.
CONTROL_CONNECT_S: Final = 5.0
CONTROL_SILENCE_S: Final = 30.0
CONTROL_HEARTBEAT_S: Final = 5.0
CONTROL_DRAIN_S: Final = 2.0
CONTROL_PROGRESS_EVENTS: Final = 1024
#: Limits of the listener for applications. Guesses: a roster is the longest body, and an honest
#: client sends its request at once.
API_BODY_LIMIT: Final = MAX_ROSTER_BYTES + (1 << 10)
API_BODY_S: Final = 10.0
API_HANDSHAKE_S: Final = 10.0
API_HEAD_S: Final = 5.0  # until a request's head is there, and between two requests
API_ADDRESSES: Final = 1_024  # whose failed attempts are counted; the quietest is forgotten
MAX_TOKENS: Final = 256
MAX_TOKEN_LIFETIME_S: Final = 10 * 366 * 86_400
TOKENS_FILE_LIMIT: Final = 256 << 10
KEPT_ANSWERS: Final = 16  # whose documents can still be kept; guess
KEPT_REFUSALS: Final = 200  # shown to the operator; the oldest go first

#: Limits of the owner's rules (policy/). Guesses: more than anybody reads through.
MAX_POLICY_BYTES: Final = 1 << 20
MAX_POLICY_RULES: Final = 256
MAX_POLICY_ITEMS: Final = 1_000  # of one list of a rule
MAX_TOPICS: Final = 32  # example questions of one list
MAX_TOPIC_BYTES: Final = 2_048
MAX_EMERGENCY_GRANTS: Final = 10_000
KEPT_EMERGENCIES: Final = 200  # accesses shown to the operator; the oldest go first
#: Questions that fetches are judged by. Guesses: a fetch follows its question at once, and 4,096
#: embeddings of 768 dimensions take 13 MB.
QUESTION_JUDGED_S: Final = 300.0
JUDGED_QUESTIONS: Final = 4_096
JUDGED_QUESTIONS_PER_PEER: Final = 16
#: How similar a document has to be to a question to be counted, unless the asker says. Guess.
COUNT_AT_LEAST: Final = 0.4

#: Scores that come without their embedding are rounded down to multiples of this: exact ones give
#: the embedding away in as many answers as it has dimensions. Guess; it makes that take more.
WITHHELD_SCORE_STEP: Final = 0.05

#: What a paused node tells those that ask it. Guess: an operator seldom pauses for less.
PAUSE_RETRY_AFTER_S: Final = 60
#: How long before something runs out it is warned of.
EXPIRY_WARNING_S: Final = 30 * 86_400
#: How long a rotated key stays a member beside the new one. Guess: a fortnight covers a holiday.
ROTATION_OVERLAP_S: Final = 14 * 86_400
#: How long after its approval a rotated key is taken into use, so that all have the roster with it.
#: Measured: gossip takes ten rounds of five seconds (tests/testnet/test_revocation.py).
ROTATION_SETTLE_S: Final = 600

# Limits of what a language model's endpoint may answer.

MAX_ANSWER_CHARS: Final = 100_000  # guess; the longest answer that anybody reads
MAX_COMPLETION_BYTES: Final = 8 << 20  # guess; pieces of a few characters come in 300 bytes each
MAX_EVENT_BYTES: Final = 1 << 20  # guess; of one piece

#: Limits of the terminal window (tui/). Guesses: what a person still looks through.
TOP_QUERIES: Final = 500
TOP_STEPS: Final = 1_000  # of one query
TOP_REFRESH_S: Final = 1.0  # how often figures are asked of the node
TOP_REDRAW_S: Final = 0.25  # how often events that came in are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingConfig:
    """How queries find their way. Each function is chosen by name (docs/routing.md).

    Attributes:
        routing: Preset that names the functions below: "complete", or "paper", the published
            algorithm.
        start: "own-state-first" or "paper" (from the neighbours, unscored).
        evidence: How the evidence of a referral becomes a frontier score.
        referral: Whom a peer refers to: the "best-peers" by any evidence, or for each of the
            "best-documents" advertised a peer that has it.
        order: Who is asked next: the "best-peer", or who has most of the "wanted-documents".
        neighbor_choice: Which peer becomes the new neighbour.
        exploration: Who is asked when the frontier runs dry: "roster" or "none".
        stopping: "budget", or stop when the evidence says that nothing better is left: "settled"
            by best scores, "nothing-wanted" document by document.
        referral_limit: Most referrals of a peer that is asked; with "best-documents", documents.
        memory_referral_limit: Most referrals by query memory that come on top of these documents;
            without a value none.
        sketch_limit: Most advertisements of other peers than neighbours that are kept; without a
            value none with "paper", 200 with "complete".
        sketch_bytes: Most bytes of these advertisements.
        sketch_near_share: Share of these that are of the peers nearest by content; the others are
            of peers drawn at random.
        margin: Standard errors by which advertised scores are taken to be off at most.
        advertisement_form: What of a library is advertised: "documents" while they are few enough,
            and else clusters of them, always "centroids" of clusters, or "none" of it.
        advertisement_min_cluster: Fewest documents of a cluster with "centroids".
        fanout: Most requests in flight at a time; without a value 1 with "paper", 4 with
            "complete".
        patience: Contacts in a row that have to bring nothing before evidence stops a walk; without
            a value 3 with "paper", 1 with "complete".
    """

    routing: str = "complete"
    start: str | None = None
    evidence: str | None = None
    referral: str | None = None
    order: str | None = None
    neighbor_choice: str | None = None
    exploration: str | None = None
    stopping: str | None = None
    k: int = 5  # paper, section 4.3
    contact_budget: int = 50  # paper, section 4.1.2
    fanout: int | None = None
    referral_limit: int = 10  # guess; the paper gives no r
    memory_referral_limit: int | None = None
    sketch_limit: int | None = None
    sketch_bytes: int = 16 << 20  # guess; 1,000 peers of 40 vectors of 768 dimensions
    sketch_near_share: float = 0.5  # measured (docs/routing.md)
    margin: float = 1.25  # measured (docs/routing.md)
    initial_neighbors: int = 5  # guess; the paper says "several random peers"
    neighbor_limit: int = 50  # paper, section 4.5 (50 to 75)
    memory_limit: int = 1_000  # paper, section 4.5
    memory_lifetime_s: float = 30 * 86_400.0  # guess; the paper's memory ends by size only
    advertisement_limit: int = 30  # guess; equals the paper's documents a peer
    advertisement_lifetime_s: float = 86_400.0  # guess; an owner that is gone is forgotten then
    advertisement_bits: int = 4  # measured: 0.1 point of recall@5 lost, 8x smaller
    advertisement_form: str = "documents"
    advertisement_min_cluster: int = 5  # measured (docs/privacy.md)
    patience: int | None = None

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> RoutingConfig:
        """Read the settings of a `[routing]` table.

        Raises:
            ConfigError: As `NodeConfig.from_toml`.
        """
        config = read_settings(NodeConfig, {"routing": table})
        _check_ranges(config)
        return config.routing


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
    connection_idle_s: float = 900.0  # guess; a connection that carried no stream is closed
    max_connections: int = 512  # measured: 500 hosts fit one process
    max_requests_per_peer: int = 64  # guess; of each protocol; more wait in the peer's socket
    advertisement_refresh_s: float = 60.0  # guess; an unchanged one costs a few bytes
    maintenance_interval_s: float = 5.0  # guess; how often lost neighbours are looked for
    save_interval_s: float = 60.0  # guess; routing state lost at most by a crash
    departed_after_s: float = 300.0  # guess; an unreachable neighbour is dropped after this


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """How peers find each other and notice that one is gone (docs/membership.md).

    Attributes:
        view_size: Peers in the view, c in Jelasity et al. (ACM TOCS 25(3), 2007).
        healer: Oldest entries that a merge may drop first, H.
        swapper: Entries just sent that a merge may drop next, S; H + S is at most c / 2.
        peer_selection: Whom a round exchanges views with: the "oldest" entry or a "random" one.
        exchange_interval_s: Seconds between two rounds of view exchange.
        join_parallel: Peers asked at once while the view is empty.
        round_attempts: Peers a round may try until one answers.
        reconnect_interval_s: How often one peer that was lost is tried again.
        lost_limit: Lost peers that are remembered for that.
        answered_limit: Peers that answered lately, to fall back on when one of the view does not.
        roster_timeout_s: How long a newer roster is waited for, and until it is asked for again.
        ping_interval_s: Seconds between two pings.
        ping_timeout_s: How long an answer to a ping or an exchange is waited for.
        indirect_pings: Helpers asked to ping a peer that did not answer.
        suspicion_multiplier: A suspect has this many ping intervals, times log10 of the number of
            members, to show that it is alive.
        retransmit_multiplier: A rumour is passed on this many times log10 of the number of members.
        rumour_limit: Rumours of one kind that wait to be passed on.
        health_limit: Timeouts and ping intervals grow up to this factor while our own messages
            seem to get lost.
        sketch_exchange_bytes: Bytes of advertisements of others that one request is answered with;
            a single one may be longer.
        sketch_pause_s: While they bring nothing new, requests for advertisements of others are
            made less and less often, down to one in this time.
        sketch_declined_limit: Advertisements of others that were not kept and are remembered, so
            that nobody sends them again.
    """

    view_size: int = 24  # measured (docs/membership.md): in-degrees like a random graph's
    healer: int = 1  # measured, with the view size
    swapper: int = 11  # measured, with the view size
    peer_selection: str = "oldest"  # guess; the oldest entry is the likeliest to be dead
    exchange_interval_s: float = 5.0  # guess; 15 kB a minute, most of it peer records
    join_parallel: int = 4  # guess
    round_attempts: int = 3  # guess
    reconnect_interval_s: float = 30.0  # Serf: ReconnectInterval
    lost_limit: int = 128  # guess
    answered_limit: int = 8  # guess
    roster_timeout_s: float = 30.0  # guess; a roster has up to 4 MiB
    ping_interval_s: float = 5.0  # memberlist, DefaultWANConfig: ProbeInterval
    ping_timeout_s: float = 3.0  # memberlist, DefaultWANConfig: ProbeTimeout
    indirect_pings: int = 3  # memberlist: IndirectChecks
    suspicion_multiplier: float = 6.0  # memberlist, DefaultWANConfig: SuspicionMult
    retransmit_multiplier: int = 4  # memberlist: RetransmitMult
    rumour_limit: int = 4_096  # guess
    health_limit: int = 8  # memberlist: AwarenessMaxMultiplier
    sketch_exchange_bytes: int = 64 << 10  # guess; five owners of 30 vectors of 768 dimensions
    sketch_pause_s: float = 640.0  # guess; seven times twice the interval of a round
    sketch_declined_limit: int = 1_024  # guess; 4 kB of each request at most


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """What one peer may ask of this node; 0 sets no limit (docs/operating.md).

    Attributes:
        requests_per_minute: Queries, fetches and requests for advertisements; as many may come at
            once after a quiet minute.
        gossip_per_minute: Gossip requests, likewise.
        bytes_per_minute: Payload bytes of all of these and of the answers, likewise.
        repeated_queries: Near-identical queries within `window_s`; more lock out the peer's.
        repeat_similarity: Cosine from which on two queries are near-identical.
        unreturned_fetches: Documents fetched within `window_s` that no query of the peer was
            answered with; more lock its fetches out.
        window_s: Time in which these two are counted.
        lockout_s: How long a peer is locked out.
        peers: Peers whose requests are counted; the one that was quiet for longest is forgotten.
    """

    requests_per_minute: int = 1_200  # measured: 2% of what a node can answer (docs/operating.md)
    gossip_per_minute: int = 1_200  # guess; a peer of ten thousand members sends some dozens
    bytes_per_minute: int = 256 << 20  # guess; seven of the longest replies to a fetch
    repeated_queries: int = 60  # guess; SHRINE's operators choose theirs
    repeat_similarity: float = 0.99  # guess; int8 rounding leaves 0.9999, another wording 0.9
    unreturned_fetches: int = 120  # guess; documents that a person fetches by their hash are fewer
    window_s: float = 600.0  # guess
    lockout_s: float = 600.0  # guess
    peers: int = 512  # guess; 25 MB of embeddings at most with 768 dimensions


#: For testnets and measurements, where machines ask the same questions all day.
NO_LIMITS: Final = LimitsConfig(
    requests_per_minute=0,
    gossip_per_minute=0,
    bytes_per_minute=0,
    repeated_queries=0,
    unreturned_fetches=0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingConfig:
    """Which embedder turns text into vectors (docs/models.md).

    Attributes:
        embedder: "sentence-transformers", "endpoint", "precomputed" or "hashing" (tests only).
        model: A folder, or a name in the local cache; "builtin" is the packaged MiniLM model. With
            "endpoint" its name there.
        sha256: Expected SHA-256 of the model's weights; checked before loading.
        allow_download: Whether the model hub may be asked.
        vectors: File of precomputed vectors (.npz), for "precomputed".

    All others are of "endpoint":
        base_url: Where `/embeddings` is, "http://127.0.0.1:8080/v1" for instance.
        revision: Which weights it runs, their SHA-256 for instance; part of the fingerprint, as are
            `dimension`, `pooling` and `prefix`.
        dimension: Components of its vectors; with "hashing", too, which has 256 by default.
        pooling: How the model makes one vector of those of the tokens.
        prefix: Put before every text.
        key_file: File of the key, readable by its owner only.
        key_environment: Name of the environment variable that holds the key.
        ca_file: Certificates to trust instead of the usual ones, in PEM.
        allow_http: Whether texts may go unencrypted to another machine.
        connect_timeout_s: For the connection.
        silence_timeout_s: For the next piece of an answer.
        timeout_s: For the vectors of one request, retries included.
        retries: How often a request is repeated that failed before its answer began.
        batch_texts: Most texts of one request.
        passage_bytes: Longest passage; the model's tokens cannot be counted here.
    """

    embedder: str = "sentence-transformers"
    model: str = "builtin"
    sha256: str = ""
    allow_download: bool = False
    vectors: str = ""
    base_url: str = ""
    revision: str = ""
    dimension: int = 0
    pooling: str = "mean"
    prefix: str = ""
    key_file: str = ""
    key_environment: str = ""
    ca_file: str = ""
    allow_http: bool = False
    connect_timeout_s: float = 5.0  # guess
    silence_timeout_s: float = 30.0  # guess; a batch on a machine without a GPU
    timeout_s: float = 60.0  # guess
    retries: int = 2  # guess
    batch_texts: int = 32  # guess; what many servers take at most
    passage_bytes: int = 1_000  # guess; some 250 tokens, as PASSAGE_TOKENS

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> EmbeddingConfig:
        """Read the settings of an `[embedding]` table.

        Raises:
            ConfigError: As `NodeConfig.from_toml`.
        """
        config = read_settings(NodeConfig, {"embedding": table})
        _check_ranges(config)
        return config.embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionConfig:
    """What is removed from texts before they leave (docs/redaction.md).

    Attributes:
        engine: What finds identifiers: "builtin", or "module:function", which returns a
            `redaction.spans.Redactor`.
        default: Rules for collections that are not named; "identifiers" for all of the engine.
        collections: Rules by name of collection.
        withhold_embeddings: Collections whose embeddings do not leave.
    """

    engine: str = "builtin"
    default: tuple[str, ...] = ()
    collections: dict[str, tuple[str, ...]] = field(default_factory=dict)
    withhold_embeddings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """What the audit log holds, and how often its head is signed.

    Attributes:
        query_text: Whether the texts of questions asked here are kept, beside their keyed hashes.
        head_interval_s: Seconds within which new entries are covered by a signed head.
    """

    query_text: bool = False
    head_interval_s: float = 5.0  # guess; a round of gossip, which gives the head to others


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """Where applications reach the local interface over TCP (docs/applications.md).

    Attributes:
        listen: Address and port, "127.0.0.1:8420" for instance; without a value nowhere.
        certificate: PEM file of the certificate and its chain; a path relative to the home. Needed
            beyond the loopback interface.
        key: PEM file of the certificate's private key.
        hosts: Names under which a reverse proxy asks for a listener on loopback.
        requests_per_minute: Of one token; as many may come at once after a quiet minute.
        concurrent_requests: Of one token.
        failures_per_minute: Requests of one address that are logged and answered as without a
            valid token; more are refused unlogged.
    """

    listen: str = ""
    certificate: str = ""
    key: str = ""
    hosts: tuple[str, ...] = ()
    requests_per_minute: int = 600  # guess; ten people who ask a question a second
    concurrent_requests: int = 16  # guess; four times what one query has in flight
    failures_per_minute: int = 10  # guess; more than an operator who pastes the wrong token

    def address(self) -> tuple[str, int]:
        """Host and port to listen on.

        Raises:
            ConfigError: `listen` is not an IP address, or "localhost", and a port.
        """
        host, _, port = self.listen.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        try:
            address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
            number = int(port)
        except ValueError:
            number = -1
        if not 0 <= number <= 65_535:
            raise ConfigError(
                f"setting 'api.listen' has to be an IP address and a port, '127.0.0.1:8420' for "
                f"instance, got {self.listen!r}"
            )
        return str(address), number

    def on_loopback(self) -> bool:
        """Whether only this machine can reach the listener."""
        return ipaddress.ip_address(self.address()[0]).is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingConfig:
    """How a question is answered from documents (docs/asking.md).

    Attributes:
        good_score: Score from which on a document is taken to answer a question.
        diversity: How much the likeness of two passages counts against the second; 0 for nothing.
        keep_s: How long an answer may be used again; 0 for never.
        keep_answers: Answers that are kept at most.
        keep_bytes: Bytes of their documents at most.
        same_question: Cosine from which on two questions share their sources.
        words: Whether our own documents are searched by words, too (docs/retrieval.md).
        reranker: Folder of a cross-encoder that orders the passages; "" for none.
    """

    good_score: float = 0.7  # measured (docs/asking.md)
    diversity: float = 0.5  # measured (docs/asking.md)
    keep_s: float = 600.0  # guess; owners cannot take back what is kept, except by a withdrawal
    keep_answers: int = 256  # guess
    keep_bytes: int = 32 << 20  # guess
    same_question: float = 0.86  # measured (docs/asking.md)
    words: bool = True  # measured (docs/retrieval.md)
    reranker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """The language model that writes answers; none without `base_url` (docs/asking.md).

    Attributes:
        base_url: Where `/chat/completions` is, "http://127.0.0.1:8000/v1" for instance.
        model: Its name there.
        key_file: File of the key, readable by its owner only.
        key_environment: Name of the environment variable that holds the key.
        ca_file: Certificates to trust instead of the usual ones, in PEM.
        allow_http: Whether passages may go unencrypted to another machine.
        connect_timeout_s: For the connection.
        silence_timeout_s: For the next piece of an answer.
        timeout_s: For the whole answer, retries included.
        retries: How often a request is repeated that failed before its answer began.
        max_tokens: Longest answer, in the model's tokens.
        passage_chars: Characters of a passage that are sent at most.
    """

    base_url: str = ""
    model: str = ""
    key_file: str = ""
    key_environment: str = ""
    ca_file: str = ""
    allow_http: bool = False
    connect_timeout_s: float = 5.0  # guess
    silence_timeout_s: float = 30.0  # guess; a large model reads a long prompt first
    timeout_s: float = 120.0  # guess
    retries: int = 2  # guess
    max_tokens: int = 600  # guess; some 400 words
    passage_chars: int = 4_000  # guess; some 1,000 tokens, more than embedding models read


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The whole of `config.toml`."""

    organisation: str = ""
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    membership: MembershipConfig = field(default_factory=MembershipConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    audit: AuditConfig = field(default_factory=AuditConfig)
    redaction: RedactionConfig = field(default_factory=RedactionConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    asking: AskingConfig = field(default_factory=AskingConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    api: ApiConfig = field(default_factory=ApiConfig)

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
        config = read_settings(cls, table)
        _check_ranges(config)
        return config


def read_settings(cls: type[_Settings], table: dict[str, Any], where: str = "") -> _Settings:
    """Make a dataclass of settings from a TOML table, whose keys are the names of its fields.

    Args:
        cls: The dataclass; fields may be dataclasses themselves.
        table: The table.
        where: What the names of settings begin with in messages.

    Raises:
        ConfigError: A setting is unknown or of the wrong type.
        TypeError: A field without a default has no value.
    """
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
        return read_settings(typing.cast("type[Any]", hint), value, f"{name}.")
    if typing.get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"setting {name!r} has to be a table")
        _, item = typing.get_args(hint)
        return {key: _convert(item, each, f"{name}.{key}") for key, each in value.items()}
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
    "routing.fanout": (1, MAX_FANOUT),
    "routing.referral_limit": (1, MAX_REFERRALS),
    "routing.neighbor_limit": (1, 1_000),
    "routing.memory_limit": (0, 100_000),
    "routing.memory_lifetime_s": (0, 10 * 365 * 86_400),
    "routing.initial_neighbors": (0, 1_000),
    "routing.advertisement_lifetime_s": (60, 30 * 86_400),
    "routing.advertisement_limit": (0, MAX_ADVERTISED),
    "routing.advertisement_min_cluster": (2, 1_000_000),
    "routing.patience": (0, MAX_BUDGET),
    "routing.memory_referral_limit": (0, MAX_REFERRALS),
    "routing.sketch_limit": (0, MAX_ROSTER_MEMBERS),
    "routing.sketch_bytes": (0, 1 << 40),
    "routing.sketch_near_share": (0, 1),
    "routing.margin": (0, 10),
    "network.dial_timeout_s": (0.05, 300),
    "network.request_timeout_s": (0.05, 300),
    "network.query_timeout_s": (0.05, 3_600),
    "network.close_timeout_s": (0.05, 60),
    "network.clock_tolerance_s": (1, 86_400),
    "network.stream_idle_s": (0.5, 86_400),
    "network.connection_idle_s": (0.5, 86_400),
    "network.max_connections": (1, 10_000),
    "network.max_requests_per_peer": (1, 10_000),
    "network.advertisement_refresh_s": (1, 86_400),
    "network.maintenance_interval_s": (0.05, 3_600),
    "network.save_interval_s": (0.05, 86_400),
    "network.departed_after_s": (1, 86_400),
    "membership.view_size": (4, 2 * MAX_GOSSIP_ENTRIES),
    "membership.healer": (0, MAX_GOSSIP_ENTRIES),
    "membership.swapper": (0, MAX_GOSSIP_ENTRIES),
    "membership.exchange_interval_s": (0.05, 3_600),
    "membership.join_parallel": (1, 64),
    "membership.round_attempts": (1, 64),
    "membership.reconnect_interval_s": (0.05, 86_400),
    "membership.lost_limit": (1, 10_000),
    "membership.answered_limit": (1, 1_000),
    "membership.roster_timeout_s": (0.05, 3_600),
    "membership.ping_interval_s": (0.05, 3_600),
    "membership.ping_timeout_s": (0.05, 300),
    "membership.indirect_pings": (0, 64),
    "membership.suspicion_multiplier": (1, 1_000),
    "membership.retransmit_multiplier": (1, 100),
    "membership.rumour_limit": (64, 100_000),
    "membership.health_limit": (1, 100),
    "membership.sketch_exchange_bytes": (1, GOSSIP_ADVERTISEMENT_BYTES),
    "membership.sketch_pause_s": (0.05, 86_400),
    "membership.sketch_declined_limit": (0, 4_096),
    "audit.head_interval_s": (0.05, 3_600),
    "limits.requests_per_minute": (0, 1_000_000),
    "limits.gossip_per_minute": (0, 1_000_000),
    "limits.bytes_per_minute": (0, 1 << 40),
    "limits.repeated_queries": (0, 1_000_000),
    "limits.repeat_similarity": (0, 1),
    "limits.unreturned_fetches": (0, 1_000_000),
    "limits.window_s": (1, 86_400),
    "limits.lockout_s": (1, MAX_RETRY_AFTER_S),
    "limits.peers": (1, MAX_ROSTER_MEMBERS),
    "embedding.dimension": (0, MAX_DIMENSION),
    "embedding.connect_timeout_s": (0.05, 300),
    "embedding.silence_timeout_s": (0.05, 3_600),
    "embedding.timeout_s": (0.05, 3_600),
    "embedding.retries": (0, 10),
    "embedding.batch_texts": (1, 1_024),
    "embedding.passage_bytes": (100, 100_000),
    "asking.good_score": (-1, 1),
    "asking.diversity": (0, 1),
    "asking.keep_s": (0, 86_400),
    "asking.keep_answers": (0, 100_000),
    "asking.keep_bytes": (0, 1 << 34),
    "asking.same_question": (0, 1),
    "generation.connect_timeout_s": (0.05, 300),
    "generation.silence_timeout_s": (0.05, 3_600),
    "generation.timeout_s": (0.05, 3_600),
    "generation.retries": (0, 10),
    "generation.max_tokens": (1, 100_000),
    "generation.passage_chars": (100, 1_000_000),
    "api.requests_per_minute": (1, 1_000_000),
    "api.concurrent_requests": (1, 1_000),
    "api.failures_per_minute": (1, 1_000_000),
}

_CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "routing.advertisement_bits": (1, 2, 4, 32),
    "routing.advertisement_form": ("documents", "centroids", "none"),
    "embedding.embedder": ("sentence-transformers", "endpoint", "precomputed", "hashing"),
    "membership.peer_selection": ("oldest", "random"),
}


def _check_ranges(config: NodeConfig) -> None:
    for name, (low, high) in _RANGES.items():
        table, key = name.split(".")
        value = getattr(getattr(config, table), key)
        if value is not None and not low <= value <= high:
            raise ConfigError(f"setting {name!r} has to be from {low:g} to {high:g}, got {value}")
    for name, allowed in _CHOICES.items():
        table, key = name.split(".")
        value = getattr(getattr(config, table), key)
        if value not in allowed:
            choices = ", ".join(repr(item) for item in allowed)
            raise ConfigError(f"setting {name!r} has to be one of {choices}, got {value!r}")
    membership = config.membership
    if membership.healer + membership.swapper > membership.view_size // 2:
        raise ConfigError(
            f"settings 'membership.healer' and 'membership.swapper' add up to "
            f"{membership.healer + membership.swapper}, more than half the view, "
            f"{membership.view_size // 2}: lower one or raise 'membership.view_size'"
        )
    _check_api(config.api)


def _check_api(api: ApiConfig) -> None:
    if bool(api.certificate) != bool(api.key):
        raise ConfigError("settings 'api.certificate' and 'api.key' go together: set both")
    if api.listen and not api.on_loopback() and not api.certificate:
        raise ConfigError(
            f"setting 'api.listen' is {api.listen!r}, which other machines can reach: tokens and "
            "answers need TLS there; set 'api.certificate' and 'api.key', or listen on 127.0.0.1"
        )
