"""Setting up a home: its folder, key and settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from zerorag_p2p.config import NodeConfig
from zerorag_p2p.errors import LocalError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.files import create_identity, load_peer_id

_PRIVATE_FOLDER: Final = 0o700

_HEADING: Final = """\
# Settings of this node. A line that begins with "# " shows a default; remove the sign and the blank
# to change it. Where no value is given, another setting decides. docs/cli.md tells more.
"""


def init_home(
    home: Home, *, organisation: str = "", listen: Sequence[str] = (), embedder: str | None = None
) -> PeerId:
    """Create a key and a file of settings; the new peer id.

    Args:
        home: Where. Its folder is created, for its owner only.
        organisation: Name of the organisation that runs the node.
        listen: Multiaddrs to listen on; the default is a free port of the loopback interface.
        embedder: Which embedder; the default is the configuration's.

    Raises:
        LocalError: There is a key or a file of settings already.
        ConfigError: A value cannot be used.
    """
    chosen: dict[str, object] = {}
    if organisation:
        chosen["organisation"] = organisation
    if listen:
        chosen["network.listen"] = tuple(listen)
    if embedder is not None:
        chosen["embedding.embedder"] = embedder
    text = config_text(chosen)
    NodeConfig.from_toml(text)
    for path in (home.key, home.config):
        if path.exists():
            raise LocalError(
                f"{path} exists already and nothing is overwritten; choose another --home"
            )
    home.root.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    home.root.chmod(_PRIVATE_FOLDER)
    identity = create_identity(home.key)
    write_atomic(home.config, text.encode())
    return identity.peer_id


def own_peer_id(home: Home) -> PeerId:
    """The peer id of the key in `home`."""
    home.require()
    return load_peer_id(home.key)


def config_text(chosen: dict[str, object]) -> str:
    """A file of settings: `chosen` by their dotted names, every other one commented out."""
    return "\n".join([_HEADING, *_lines(NodeConfig(), chosen)]) + "\n"


def _lines(config: NodeConfig, chosen: dict[str, object]) -> Iterator[str]:
    tables: list[tuple[str, Any]] = []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            tables.append((item.name, value))
        else:
            yield _setting(item.name, chosen.get(item.name), value)
    for name, table in tables:
        yield f"\n[{name}]"
        for item in dataclasses.fields(table):
            default = getattr(table, item.name)
            yield _setting(item.name, chosen.get(f"{name}.{item.name}"), default)


def _setting(name: str, chosen: object, default: object) -> str:
    if chosen is not None:
        return f"{name} = {_toml(chosen)}"
    return f"# {name} =" if default is None else f"# {name} = {_toml(default)}"


def _toml(value: object) -> str:
    """A value in TOML; texts, lists, numbers and booleans are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
