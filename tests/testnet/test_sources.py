"""What the nodes of a testnet hold, by the source that a user names."""

from pathlib import Path

import pytest

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.errors import UsageError
from zerorag_p2p.testnet.live import LiveTestnet
from zerorag_p2p.testnet.sources import Source, open_source
from zerorag_p2p.testnet.testnet import Testnet

HASHING = EmbeddingConfig(embedder="hashing")
PUBMEDQA = Path(__file__).parents[3] / "shared" / "data" / "pubmedqa"

TEXTS = {
    "alteplase.txt": "Alteplase is given within hours of a stroke.",
    "gout.txt": "Gout and diet.",
    "insulin.txt": "Insulin pens are kept in the refrigerator.",
    "metformin.txt": "Metformin is stopped when the kidneys fail.",
    "morphine.txt": "Morphine at night.",
}


async def asks_each_other(source: Source) -> None:
    """Nodes of a source answer the source's own questions."""
    async with Testnet(source.workload, organisations=source.organisations).running() as testnet:
        report = await LiveTestnet(testnet, source.embed).query(None, None)
    assert report.query in source.workload.queries
    assert report.documents
    assert {contact.outcome for contact in report.contacts} == {"answered"}


async def test_the_files_of_a_flat_folder_are_dealt_out(
    tmp_path: Path, autojump_clock: object
) -> None:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    source = open_source(str(tmp_path), peers=2, seed=1, embedding=HASHING)
    workload = source.workload
    assert source.organisations == ("Hospital 0", "Hospital 1")
    dealt = [
        {workload.documents[number].content.text for number in held} for held in workload.holdings
    ]
    texts = list(TEXTS.values())
    assert dealt == [set(texts[0::2]), set(texts[1::2])]

    async with Testnet(workload, organisations=source.organisations).running() as testnet:
        live = LiveTestnet(testnet, source.embed)
        report = await live.query("p0", "When is metformin stopped?", k=1)
        assert report.documents[0].owner is not None
        assert report.documents[0].owner.organisation == "Hospital 1"
        with pytest.raises(UsageError, match="documents of a folder come without questions"):
            await live.query(None, None)


def test_a_folder_without_files_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no documents that can be read"):
        open_source(str(tmp_path), peers=2, seed=1, embedding=HASHING)


async def test_synthetic_nodes_ask_and_answer(autojump_clock: object) -> None:
    source = open_source("synthetic", peers=6, seed=1, embedding=HASHING)
    assert len(source.workload.holdings) == 6
    assert source.embed is None
    await asks_each_other(source)


@pytest.mark.skipif(not PUBMEDQA.is_dir(), reason=f"needs PubMedQA in {PUBMEDQA}")
async def test_nodes_ask_and_answer_from_pubmedqa(autojump_clock: object) -> None:
    source = open_source("pubmedqa", peers=6, seed=1, embedding=HASHING, pubmedqa=PUBMEDQA)
    assert len(source.workload.holdings) == 6
    await asks_each_other(source)


def test_pubmedqa_has_to_be_somewhere(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="say in which folder"):
        open_source("pubmedqa", peers=6, seed=1, embedding=HASHING)
    with pytest.raises(UsageError, match="does not hold PubMedQA"):
        open_source("pubmedqa", peers=6, seed=1, embedding=HASHING, pubmedqa=tmp_path)
