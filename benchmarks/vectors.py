"""Where a graph overtakes exact search: the measurement behind LIBRARY_EXACT_LIMIT.

OPENBLAS_NUM_THREADS=1 python benchmarks/vectors.py
"""

import json
import time

import numpy as np

from zerorag_p2p.library.vectors import VectorIndex, build_graph
from zerorag_p2p.model import Vector

QUERIES = 200
K = 5


def random_rows(generator: np.random.Generator, count: int, dimension: int) -> Vector:
    rows: Vector = generator.standard_normal((count, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def search_us(index: VectorIndex, queries: Vector) -> float:
    started = time.perf_counter()
    for query in queries:
        index.search(query, K)
    return (time.perf_counter() - started) / len(queries) * 1e6


def main() -> None:
    generator = np.random.default_rng(0)
    for dimension in (384, 768):
        queries = random_rows(generator, QUERIES, dimension)
        for count in (1_000, 2_000, 5_000, 10_000, 20_000):
            index = VectorIndex(dimension, exact_limit=0)
            index.add(list(range(count)), random_rows(generator, count, dimension))
            exact = search_us(index, queries)
            started = time.perf_counter()
            index.adopt(build_graph(*index.snapshot()))
            build = time.perf_counter() - started
            graph = search_us(index, queries)
            figures = {
                "exact_us": round(exact),
                "graph_us": round(graph),
                "build_s": round(build, 1),
            }
            print(json.dumps({"benchmark": "vectors", "d": dimension, "n": count, **figures}))


if __name__ == "__main__":
    main()
