"""What a home keeps and whom its node speaks to, for whoever has to approve of it."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.config import MAX_ROSTER_BYTES, EmbeddingConfig, NodeConfig
from zerorag_p2p.files import read_bounded
from zerorag_p2p.home import Home
from zerorag_p2p.identity.roster import open_roster
from zerorag_p2p.node.files import load_peer_id

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept under a name in the home; a folder's name ends with a slash."""

    name: str
    holds: str
    secret: bool = False


_KEPT: Final = (
    _Kept("config.toml", "settings"),
    _Kept("policy.toml", "the owner's rules"),
    _Kept("identity.key", "the private key of the node", secret=True),
    _Kept("identity.next.key", "the key that is to take its place", secret=True),
    _Kept("identity.previous.key", "the key that it took the place of", secret=True),
    _Kept("authority.key", "an authority's private key", secret=True),
    _Kept("roster.cbor", "the signed roster: members, organisations, addresses"),
    _Kept("library/", "documents: texts, embeddings, statements, copies", secret=True),
    _Kept("state.cbor", "peers, their advertisements, remembered questions", secret=True),
    _Kept("withdrawals.cbor", "what owners took back"),
    _Kept("audit/", "the audit log and its signed heads", secret=True),
    _Kept("audit.key", "the secret that the log hashes questions with", secret=True),
    _Kept("users.key", "the secret of the pseudonyms of users", secret=True),
    _Kept("pseudonym.key", "the secret of the pseudonyms of questions", secret=True),
    _Kept("tokens.json", "tokens of applications, as hashes", secret=True),
    _Kept("emergencies.cbor", "since when members used emergency access", secret=True),
    _Kept("model.json", "the embedding model that was or is gone over to", secret=True),
    _Kept("pause.json", "why nobody is answered, while the node is paused", secret=True),
    _Kept("node.lock", "nothing; locked while the home is changed"),
    _Kept("node.sock", "nothing; the socket of the local interface", secret=True),
)

_HOME: Final = _Kept("./", "all of the following", secret=True)

#: Others than the owner may do nothing with a secret.
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def files(home: Home) -> list[Json]:
    """Everything in the home: "path", "holds", "secret", "mode", "bytes" and "fault", if any.

    What is not ours is listed, too.
    """
    known = {kept.name.rstrip("/"): kept for kept in _KEPT}
    rows = [_file(home.root, _HOME)]
    rows += [_file(path, known.get(path.name)) for path in sorted(home.root.iterdir())]
    return rows


def _file(path: Path, kept: _Kept | None) -> Json:
    mode = stat.S_IMODE(path.lstat().st_mode)
    folder = path.is_dir()
    fault = ""
    if kept is None:
        fault = "no file of ours"
    elif kept.secret and mode & _OTHERS:
        fault = f"others may read or change it: chmod {'700' if folder else '600'}"
    name = path.name if kept is None else kept.name.rstrip("/")
    return {
        "path": name + ("/" if folder else ""),
        "holds": "" if kept is None else kept.holds,
        "secret": kept is not None and kept.secret,
        "mode": f"{mode:04o}",
        "bytes": _size(path),
        "fault": fault,
    }


def connections(home: Home) -> list[Json]:
    """Every connection the node takes or makes as it is configured.

    Each is "direction" (in or out), "with", "where", "protects" (what keeps others out) and "when".
    """
    config = home.load_config()
    rows = [
        _row("in", "members", address, "Noise, then the roster", "while the node runs")
        for address in config.network.listen
    ]
    rows.append(
        _row("in", "this machine's owner", "node.sock", "file mode 0600", "while the node runs")
    )
    if config.api.listen:
        protects = "tokens over TLS" if config.api.certificate else "tokens, on loopback"
        rows.append(_row("in", "applications", config.api.listen, protects, "while the node runs"))
    rows += [
        _row("out", "a bootstrap peer", address, "Noise, then the roster", "to find others")
        for address in config.network.bootstrap
    ]
    rows += _members(home)
    rows += _services(config, home.embedding(config))
    return rows


def _members(home: Home) -> list[Json]:
    if not home.roster.exists():
        return []
    own = load_peer_id(home.key)
    roster = open_roster(read_bounded(home.roster, MAX_ROSTER_BYTES))
    return [
        _row(
            "out",
            member.organisation,
            ", ".join(member.addresses) or "where its signed record says",
            "Noise, then the roster",
            "gossip, questions, fetches",
        )
        for member in roster.members
        if member.peer != own
    ]


def _services(config: NodeConfig, embedding: EmbeddingConfig) -> list[Json]:
    rows = []
    if config.generation.base_url:
        where = config.generation.base_url
        rows.append(_row("out", "a language model", where, _protects(where), "`zerorag ask`"))
    if embedding.embedder == "endpoint":
        where = embedding.base_url
        when = "documents are added, questions asked"
        rows.append(_row("out", "an embedding model", where, _protects(where), when))
    if embedding.allow_download:
        rows.append(
            _row("out", "the model hub", "huggingface.co", "TLS", "the model is not here yet")
        )
    return rows


def _protects(base_url: str) -> str:
    return "TLS" if base_url.startswith("https:") else "nothing, plain HTTP"


def _row(direction: str, party: str, where: str, protects: str, when: str) -> Json:
    return {
        "direction": direction,
        "with": party,
        "where": where,
        "protects": protects,
        "when": when,
    }


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(_size(item) for item in path.iterdir())
    return path.lstat().st_size
