"""The file of a home that tells which embedding model it went over to, or goes over to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.errors import ConfigError, LocalError
from zerorag_p2p.files import read_bounded, write_atomic

_FILE_LIMIT: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChange:
    """A change of the embedding model; it holds as long as `config.toml` says what it said then.

    Attributes:
        configured: What `config.toml` said.
        used: The model in use.
        other: The other one while there are two: the next, or once it has `arrived` the old one.
        arrived: Whether the next model is in use.
    """

    configured: EmbeddingConfig
    used: EmbeddingConfig
    other: EmbeddingConfig | None
    arrived: bool


def write_model_change(path: Path, change: ModelChange) -> None:
    """Keep a change for the next start."""
    write_atomic(path, (json.dumps(asdict(change), indent=1) + "\n").encode(), mode=0o600)


def read_model_change(path: Path) -> ModelChange | None:
    """The change that is kept at `path`, if there is one.

    Raises:
        LocalError: The file is damaged.
    """
    try:
        value: dict[str, Any] = json.loads(read_bounded(path, _FILE_LIMIT))
        other = value["other"]
        return ModelChange(
            configured=EmbeddingConfig.from_table(value["configured"]),
            used=EmbeddingConfig.from_table(value["used"]),
            other=None if other is None else EmbeddingConfig.from_table(other),
            arrived=bool(value["arrived"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise LocalError(
            f"{path} is damaged ({error}): set the model that is to be used in config.toml, and "
            "remove the file"
        ) from None
