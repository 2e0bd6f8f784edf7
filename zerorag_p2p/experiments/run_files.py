"""Runs that are over, each a file, so that a command that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from zerorag_p2p import __version__
from zerorag_p2p.experiments.experiment import Variant
from zerorag_p2p.files import write_atomic
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.results import Json


@dataclass(frozen=True, slots=True)
class RunKey:
    """What a run follows from; runs of equal keys have the same result.

    Attributes:
        variant: The variant, its scenario with the seed.
        world: What runs it.
        data: Names and sizes of the files behind the workload.
    """

    variant: Variant
    world: str
    data: Mapping[str, int]

    def to_json(self) -> Json:
        """The key with the version of the package."""
        return {
            "variant": self.variant.name,
            "scenario": _settings(replace(self.variant.scenario, shows="")),
            "runs_on": (
                self.world if self.variant.baseline is None else _settings(self.variant.baseline)
            ),
            "data": dict(self.data),
            "version": __version__,
        }

    def digest(self) -> str:
        """Twelve hexadecimal digits, different for every key."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def file_stem(self) -> str:
        """A name for files, different for every key."""
        name = re.sub(r"[^a-z0-9]+", "-", self.variant.name.lower()).strip("-")
        return f"{name}-seed-{self.variant.scenario.seed}-{self.digest()}"


def _settings(value: object) -> object:
    """What JSON knows of a value, of a dataclass its fields that do not have their defaults.

    So a setting that a later version adds leaves the keys of older runs as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        chosen = {
            item.name: _settings(getattr(value, item.name))
            for item in fields(value)
            if getattr(value, item.name) != _default(item)
        }
        return {"is": type(value).__name__, **chosen}
    if isinstance(value, Mapping):
        return {str(key): _settings(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_settings(item) for item in value]
    return value


def _default(item: Field[object]) -> object:
    return item.default if item.default_factory is MISSING else item.default_factory()


def data_files(folder: Path | None) -> dict[str, int]:
    """Names and sizes of the files in a folder of data."""
    if folder is None or not folder.is_dir():
        return {}
    files = sorted(item for item in folder.iterdir() if item.is_file())
    return {item.name: item.stat().st_size for item in files}


#: Runs of results that were replaced since.
_EARLIER: Final = "earlier.json"


class RunFiles:
    """A folder with a JSON file for every run, and an .npz file of its outcomes where wanted.

    Args:
        folder: The folder; it is made when the first run is kept.
        earlier: Runs of a stored result, taken where there is no file.
    """

    def __init__(self, folder: Path, earlier: Iterable[Json] = ()) -> None:
        self._folder = folder
        kept = [*self._read_earlier(), *earlier]
        self._earlier = {run["key"]: run for run in kept if isinstance(run.get("key"), str)}

    def retain(self) -> None:
        """Store the earlier runs, so that they outlive the result that they are part of."""
        if self._earlier:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(list(self._earlier.values()))
            write_atomic(self._folder / _EARLIER, text.encode())

    def _read_earlier(self) -> list[Json]:
        try:
            kept = json.loads((self._folder / _EARLIER).read_bytes())
        except (OSError, ValueError):
            return []
        return [run for run in kept if isinstance(run, dict)] if isinstance(kept, list) else []

    def find(self, key: RunKey, *, outcomes: bool = False) -> Json | None:
        """The result of a run that was kept; with `outcomes` only if these were kept, too.

        A file that is damaged counts as absent.
        """
        if outcomes and not self._path(key, "npz").is_file():
            return None
        result = self._read(key)
        if result is None:
            return self._earlier.get(key.digest())
        return {"key": key.digest(), **result}

    def _read(self, key: RunKey) -> Json | None:
        try:
            kept = json.loads(self._path(key, "json").read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(kept, dict) or kept.get("key") != key.to_json():
            return None
        result: Json = kept["result"]
        return result

    def keep(self, key: RunKey, result: Json, outcomes: OutcomeTable | None = None) -> None:
        """Store a run, its outcomes first: what has a JSON file is whole."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if outcomes is not None:
            write_atomic(self._path(key, "npz"), _encode_outcomes(outcomes))
        text = json.dumps({"key": key.to_json(), "result": result})
        write_atomic(self._path(key, "json"), text.encode())

    def _path(self, key: RunKey, kind: str) -> Path:
        return self._folder / f"{key.file_stem()}.{kind}"


def _encode_outcomes(table: OutcomeTable) -> bytes:
    columns = {item.name: getattr(table, item.name) for item in fields(table)}
    measured = {name: column for name, column in columns.items() if column is not None}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **measured)
    return buffer.getvalue()
