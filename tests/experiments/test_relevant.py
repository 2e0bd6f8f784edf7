"""Several right answers to a question, from files as Amazon's to shares by bin."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.cli.main import cli
from zerorag_p2p.experiments.compiling import compilation_told
from zerorag_p2p.experiments.relevant import (
    BINS,
    Shares,
    name_available,
    shares_by_hit,
    shares_by_visits,
)
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.amazon import AmazonElectronics
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.synthetic import synthetic_workload
from zerorag_p2p.workloads.workload import Events, PeerDocuments, QueryEvent, Workload

PEERS = 60  # as many as the smallest scale has
BASE = synthetic_workload(peers=2, seed=1, draws=2)


def random_workload(seed: int, *, peers: int = 30) -> Workload:
    """A question about anything; from none to 150 documents are relevant to it."""
    generator = np.random.default_rng(seed)
    count = len(BASE.documents)
    held = generator.random((peers, count)) < 0.03
    events = [
        QueryEvent(int(generator.integers(peers)), query, int(generator.integers(count)))
        for query in generator.integers(5, size=40).tolist()
    ]
    relevant = [
        np.sort(generator.choice(count, size=size, replace=False)).tolist()
        for size in (0, 3, 20, 70, 150)
    ]
    return replace(
        BASE,
        holdings=PeerDocuments.of(np.flatnonzero(row).tolist() for row in held),
        events=Events.of(events),
        relevant=tuple(map(tuple, relevant)) + ((),) * (len(BASE.queries) - 5),
    )


def available_to(workload: Workload, event: QueryEvent) -> set[int]:
    assert workload.relevant is not None
    others = [held for peer, held in enumerate(workload.holdings) if peer != event.peer]
    remote = set().union(*others) - set(workload.holdings[event.peer])
    return remote & set(workload.relevant[event.query])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_shares_are_what_brute_force_says(seed: int, contacts: int) -> None:
    workload = random_workload(seed)
    visited = np.random.default_rng(seed).integers(-1, 30, size=(40, contacts), dtype=np.int32)
    shares = shares_by_visits(workload, visited)
    vectors, queries = map(transmitted_rows, (workload.vectors, workload.query_vectors))
    assert shares.recall is not None
    for number, event in enumerate(workload.events):
        available = available_to(workload, event)
        assert shares.available[number] == len(available)
        asked = [peer for peer in visited[number].tolist() if peer not in (-1, event.peer)]
        found = set().union(*(workload.holdings[peer] for peer in asked))
        found -= set(workload.holdings[event.peer])
        if not available:
            assert np.isnan(shares.reached[number])
            continue
        assert shares.reached[number] == pytest.approx(len(found & available) / len(available))
        lengths = [most for least, most in BINS if least <= len(available) <= most]
        if not lengths:
            assert np.isnan(shares.recall[number])
            continue
        scores = vectors @ queries[event.query]
        best = sorted(found, key=lambda document: -scores[document])[: lengths[0]]
        share = len(available.intersection(best)) / len(available)
        assert shares.recall[number] == pytest.approx(share)


def test_naming_one_document_estimates_the_share_reached() -> None:
    base, times = random_workload(7), 500
    visited = np.random.default_rng(7).integers(30, size=(40, 12), dtype=np.int32)
    exact = shares_by_visits(base, visited).by_bin()
    columns = (base.events.peers, base.events.queries, base.events.documents)
    asked_often = replace(base, events=Events(*(np.tile(column, times) for column in columns)))
    named = name_available(asked_often, seed=1)
    hit = np.zeros((times, 40), dtype=np.bool_)
    for number, event in enumerate(base.events):
        drawn = named.events.documents[number::40]
        assert set(drawn.tolist()) == (available_to(base, event) or {event.document})
        found = set().union(*(base.holdings[peer] for peer in visited[number].tolist()))
        hit[:, number] = np.isin(drawn, list(found))
    for name, figures in shares_by_hit(named, hit.ravel()).by_bin().items():
        assert figures["questions"] == times * exact[name]["questions"]
        assert figures["reached"] == pytest.approx(exact[name]["reached"], abs=0.02)


def test_the_draw_follows_from_the_seed() -> None:
    workload = random_workload(1)
    assert name_available(workload, 1).events == name_available(workload, 1).events
    assert name_available(workload, 1).events != name_available(workload, 2).events


def test_questions_are_put_in_the_bins_of_the_paper() -> None:
    shares = Shares(
        available=np.array([0, 1, 10, 11, 50, 100, 101], dtype=np.int32),
        reached=np.array([np.nan, 1.0, 0.5, 0.0, 1.0, 0.25, 1.0]),
    )
    assert shares.by_bin() == {
        "1-10": {"questions": 2, "reached": 0.75},
        "11-50": {"questions": 2, "reached": 0.5},
        "51-100": {"questions": 1, "reached": 0.25},
    }
    assert shares.by_bin(first=4)["1-10"] == {"questions": 0}


def write_amazon(folder: Path) -> Path:
    """More reviewers than peers, and categories of 6, 30 and 70 products."""
    generator = np.random.default_rng(5)
    category = np.repeat(np.arange(3), (6, 30, 70))
    centers = generator.normal(size=(3, 768))
    vectors = centers[category] + generator.normal(size=(len(category), 768))
    products, reviews, judgements = [], [], []
    for product, of in enumerate(category.tolist()):
        products.append({"asin": f"B{product}", "title": "It", "categories": [["E", f"c{of}"]]})
    for reviewer in range(PEERS + 10):
        # The first ones search all categories, the last ten only one and are no peers.
        wanted = range(3) if reviewer < PEERS else (reviewer % 3,)
        for of in wanted:
            for product in generator.choice(np.flatnonzero(category == of), 2, replace=False):
                reviews.append({"reviewerID": f"r{reviewer}", "asin": f"B{product}"})
                judgements.append(f"r{reviewer}_{of} 0 B{product} 1\n")
    for name, items in (("reviews_Electronics_5", reviews), ("meta_Electronics", products)):
        text = "".join(f"{json.dumps(item)}\n" for item in items)
        (folder / f"{name}.json").write_text(text)
    (folder / "query_text.txt").write_text("six\nthirty\nseventy\n")
    (folder / "test.qrels").write_text("".join(judgements))
    np.savez(
        folder / "vectors.npz",
        documents=vectors.astype(np.float32),
        document_ids=np.array([f"B{product}" for product in range(len(category))]),
        queries=centers.astype(np.float32),
        query_ids=np.array(["0", "1", "2"]),
    )
    return folder


def run_figure(name: str, folder: Path, results: Path, variants: str) -> Json:
    arguments = ["--workload", folder, "--scale", "smoke", "--results", results, "--json"]
    run = CliRunner().invoke(
        cli, ["experiment", "run", name, "--variants", variants, *map(str, arguments)]
    )
    assert run.exit_code == 0, run.output
    result: Json = json.loads(run.stdout)
    return result


def test_a_query_is_about_its_category(tmp_path: Path) -> None:
    data = AmazonElectronics.load(write_amazon(tmp_path), reviewers=PEERS)
    assert len(data.of_category) == len(data.queries)
    for query, products in zip(data.queries, data.of_category, strict=True):
        (path,) = {data.products[product].topics[0] for product in products}
        assert path == {"six": "E, c0", "thirty": "E, c1", "seventy": "E, c2"}[query]
        assert list(products) == sorted(set(products))
    for (_, query), bought in data.relevant.items():
        assert set(bought) <= set(data.of_category[query])


def test_a_system_that_says_only_what_it_hit_has_the_share_reached(tmp_path: Path) -> None:
    result = run_figure("fig4", write_amazon(tmp_path), tmp_path, "semantic tree")
    (run,) = result["runs"]
    # A reviewer has bought two of the products of each category.
    assert [run["relevant"][bounds.name]["questions"] for bounds in BINS] == [PEERS] * 3
    for bounds in BINS:
        assert 0.0 < run["relevant"][bounds.name]["reached"] < 1.0
        assert "recall" not in run["relevant"][bounds.name]
    compared = CliRunner().invoke(
        cli, ["experiment", "compare", "fig4", "--results", str(tmp_path)], env={"COLUMNS": "80"}
    )
    assert "41.700 to 52.900%" in compared.stdout
    assert "Beside ZeroRAG, figure 4 (section 4.2.2):" in compared.stdout
    assert max(map(len, compared.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_figures_of_amazon_come_from_its_files(tmp_path: Path) -> None:
    folder = write_amazon(tmp_path)
    result = run_figure("fig4", folder, tmp_path, "own-state-first")
    (run,) = result["runs"]
    workload = load_workload(
        Scenario(name="fig4", shows="", workload="amazon", peers=PEERS), folder
    )
    numbers = [len(available_to(workload, event)) for event in workload.events]
    for bounds in BINS:
        figures = run["relevant"][bounds.name]
        # Everything that this small network has fits into a result.
        assert 0.0 < figures["recall"] == figures["reached"] < 1.0
        within = sum(bounds.least <= number <= bounds.most for number in numbers)
        assert figures["questions"] == within == PEERS
    last = run["relevant_last_tenth"]
    assert sum(last[bounds.name]["questions"] for bounds in BINS) == len(workload.events) // 10
    assert (tmp_path / "fig4" / "figure.png").is_file()
    ablated = run_figure("fig7b", folder, tmp_path, "paper, no memory")
    assert set(ablated["variants"]) == {"paper, no memory", "paper, no memory and static"}


def test_compilation_is_told_once() -> None:
    numba = pytest.importorskip("numba")
    inner = numba.njit(lambda number: number + 1)
    outer = numba.njit(lambda number: inner(number) * 2)
    told: list[str] = []
    with compilation_told(lambda: told.append("compiling")):
        assert outer(1) == 4
    with compilation_told(lambda: told.append("again")):
        assert outer(2) == 6
    assert told == ["compiling"]
