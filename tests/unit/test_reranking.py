import sys
from pathlib import Path
from typing import Any

import pytest

from zerorag_p2p.embedding import reranking
from zerorag_p2p.embedding.reranking import CrossEncoder
from zerorag_p2p.errors import RerankerUnavailable

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "apixaban", "fever", "stops", "is", "a"]


def write_model(folder: Path, labels: int = 1) -> Path:
    """A cross-encoder of a few hundred numbers, drawn at random."""
    transformers: Any = pytest.importorskip("transformers")
    torch: Any = pytest.importorskip("torch")
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        num_labels=labels,
        initializer_range=1.0,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizerFast(
        vocab_file=str(folder / "vocab.txt"), model_max_length=32
    ).save_pretrained(folder)
    return folder


def blank(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without_a_model_is_told_of_at_once(tmp_path: Path, missing: str) -> None:
    folder = blank(tmp_path / "model")
    CrossEncoder(folder)
    (folder / missing).unlink()
    with pytest.raises(RerankerUnavailable, match=rf"{missing} is missing.*asking\.reranker"):
        CrossEncoder(folder)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RerankerUnavailable, match=r"pip install 'zerorag-p2p\[embed\]'"):
        CrossEncoder(blank(tmp_path / "model")).scores("a", ["b"])


class Numbers:
    """A model that gives what it was made with."""

    def __init__(self, numbers: object) -> None:
        self.numbers = numbers

    def predict(self, _: object, **__: object) -> object:
        if isinstance(self.numbers, Exception):
            raise self.numbers
        return self.numbers


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([0.5], "no cross-encoder for ranking"),
        ([[0.1, 0.9], [0.2, 0.8]], "no cross-encoder for ranking"),
        ([0.5, float("nan")], "no cross-encoder for ranking"),
        (RuntimeError("out of memory"), "failed: out of memory"),
    ],
)
def test_what_is_no_number_a_passage_orders_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: object, reason: str
) -> None:
    monkeypatch.setattr(reranking, "_load", lambda _: Numbers(numbers))
    with pytest.raises(RerankerUnavailable, match=reason):
        CrossEncoder(blank(tmp_path / "model")).scores("question", ["one", "two"])


@pytest.mark.slow
def test_a_model_scores_every_passage_by_itself(tmp_path: Path) -> None:
    encoder = CrossEncoder(write_model(tmp_path / "model"))
    texts = ["apixaban stops", "fever is a fever", "a" + " apixaban" * 500]
    together = encoder.scores("is apixaban a fever", texts)
    assert len(set(together)) == 3
    alone = [encoder.scores("is apixaban a fever", [text])[0] for text in texts]
    assert together == pytest.approx(alone, abs=1e-5)
    assert encoder.scores("fever stops", texts) != pytest.approx(together, abs=1e-6)
    with pytest.raises(RerankerUnavailable, match="no cross-encoder for ranking"):
        CrossEncoder(write_model(tmp_path / "three", labels=3)).scores("a", texts)


@pytest.mark.slow
def test_weights_that_are_none_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(RerankerUnavailable, match="cannot be loaded"):
        CrossEncoder(folder).scores("a", ["b"])
