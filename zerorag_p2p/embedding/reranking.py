"""A cross-encoder: it reads a question and a passage together and says how well the one answers.

It is of the sentence-transformers library, from a folder, and runs on this machine. The library is
imported when the first passages are judged.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from zerorag_p2p.embedding.sentence_transformers import import_library
from zerorag_p2p.errors import RerankerUnavailable

_FILES: Final = ("config.json", "model.safetensors")
_INSTALL: Final = "pip install 'zerorag-p2p[embed]'"


class CrossEncoder:
    """A cross-encoder in a folder, loaded when it is first used. Threads take turns.

    Args:
        folder: Holds the model as sentence-transformers saves it, its weights as safetensors.

    Raises:
        RerankerUnavailable: The folder does not hold a model.
    """

    def __init__(self, folder: Path) -> None:
        for name in _FILES:
            if not (folder / name).is_file():
                raise RerankerUnavailable(
                    f"{folder} is no cross-encoder: {name} is missing; set 'asking.reranker' to "
                    "the folder of one, or to ''"
                )
        self._folder = folder
        self._model: Any = None
        self._lock = threading.Lock()

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each of `texts` answers a question: the higher the better.

        What is longer than the model reads is cut.

        Raises:
            RerankerUnavailable: The model cannot be loaded, or does not give a number for a text.
        """
        with self._lock:
            if self._model is None:
                self._model = _load(self._folder)
            try:
                found = self._model.predict(
                    [(question, text) for text in texts], show_progress_bar=False
                )
            except Exception as error:  # the boundary to a library that documents no exceptions
                raise RerankerUnavailable(
                    f"the cross-encoder in {self._folder} failed: {error}"
                ) from error
        values = np.asarray(found, dtype=np.float64)
        if values.shape != (len(texts),) or not np.isfinite(values).all():
            raise RerankerUnavailable(
                f"the model in {self._folder} does not give one finite number for a question and a "
                "passage: it is no cross-encoder for ranking"
            )
        return [float(value) for value in values]


def _load(folder: Path) -> Any:
    try:
        library = import_library(offline=True)
    except ImportError as error:
        raise RerankerUnavailable(
            f"a cross-encoder needs sentence-transformers ({error}); run {_INSTALL}"
        ) from None
    try:
        return library.CrossEncoder(
            str(folder),
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # the boundary to a library that documents no exceptions
        raise RerankerUnavailable(
            f"the cross-encoder in {folder} cannot be loaded: {error}"
        ) from error
