"""AOL-IA: queries that people asked a search engine in 2006, and the pages they clicked.

The data (MacAvaney et al., ECIR 2022) is not part of this package. A folder of it holds, each plain
or as .gz, what ir-datasets keeps for its data set aol-ia:

    docs.jsonl     {"doc_id", "title", "text", "url", ...} a line: the pages as the Internet Archive
                   has them, the files of downloaded_docs one after the other
    queries.tsv    query id, tab, query
    qrels          query id, user id, page id and 1, between blanks or tabs: a click
    vectors.npz    see `workloads.vectors_file`, rows named by page ids and query ids

As in section 4.1.1 of the ZeroRAG paper, peers are the users with the most queries, a peer holds
the pages that it clicked, and every click is a question for that page, in random order. Clicks on
pages that the Archive does not have are passed over before users are counted. The paper counts
428,157 pages and 2,594,705 queries and does not say how they were selected from the log, which has
more of both.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import Content
from zerorag_p2p.workloads.lines import find_file, read_lines, read_records
from zerorag_p2p.workloads.pubmedqa import FINGERPRINT
from zerorag_p2p.workloads.vectors_file import Vectors
from zerorag_p2p.workloads.workload import Events, PeerDocuments, Workload, WorkloadDocument

#: Characters of a title or text that are read. Guess; the model reads the first 384 tokens.
MAX_CHARACTERS: Final = 20_000


@dataclass(frozen=True)
class AolIa:
    """The users with the most queries, and all that they asked and clicked.

    Attributes:
        users: Their ids, from the one with the most queries.
        page_ids: Ids of the pages that they clicked, in the order of the first clicks.
        pages: These pages; their text is title, text and address, as the paper embeds them.
        query_ids: Ids of what they asked, in the order of the first clicks.
        queries: These queries.
        clicks: int32 [n, 3], user, query and page of every click, in the order of the log.
    """

    users: list[str]
    page_ids: list[str]
    pages: list[Content]
    query_ids: list[str]
    queries: list[str]
    clicks: NDArray[np.int32]

    @classmethod
    def load(cls, folder: Path, *, users: int) -> AolIa:
        """Read the texts of a folder, as far as the `users` users with the most queries need them.

        Raises:
            UsageError: A file is missing or malformed, or there are fewer users.
        """
        page_file = find_file(folder, "docs.jsonl")
        query_file = find_file(folder, "queries.tsv")
        click_file = find_file(folder, "qrels")
        known = {record.text("doc_id") for record in read_records(page_file)}
        counts = Counter(user for user, _, page in _read_clicks(click_file) if page in known)
        if len(counts) < users:
            raise UsageError(
                f"{click_file}: {len(counts)} users clicked a page of {page_file.name}, fewer than "
                f"{users}; ask for fewer peers"
            )
        chosen = {user: number for number, (user, _) in enumerate(counts.most_common(users))}
        queries: dict[str, int] = {}
        pages: dict[str, int] = {}
        clicks = array("i")
        for user, query, page in _read_clicks(click_file):
            if user in chosen and page in known:
                clicks.append(chosen[user])
                clicks.append(queries.setdefault(query, len(queries)))
                clicks.append(pages.setdefault(page, len(pages)))
        contents = _read_pages(page_file, pages)
        texts = _read_queries(query_file, queries)
        return cls(
            users=list(chosen),
            page_ids=list(pages),
            pages=[contents[page] for page in pages],
            query_ids=list(queries),
            queries=[texts[query] for query in queries],
            clicks=np.array(clicks, np.int32).reshape(-1, 3),
        )


def aol_workload(data: AolIa, vectors: Vectors, *, seed: int) -> Workload:
    """The paper's workload: users hold what they clicked, and search for it.

    Args:
        data: The users.
        vectors: Of their pages and queries.
        seed: Decides the order of the questions.
    """
    users, queries, pages = np.random.default_rng(seed).permutation(data.clicks).T
    held = np.unique(data.clicks[:, ::2], axis=0)
    starts = np.searchsorted(held[:, 0], np.arange(len(data.users) + 1))
    first = np.unique(data.clicks[:, 1], return_index=True)[1]
    return Workload(
        name="aol-ia",
        fingerprint=FINGERPRINT,
        documents=tuple(map(WorkloadDocument, data.pages)),
        vectors=vectors.documents,
        queries=tuple(data.queries),
        query_vectors=vectors.queries,
        answers=tuple(data.clicks[first, 2].tolist()),
        holdings=PeerDocuments(starts, np.ascontiguousarray(held[:, 1])),
        events=Events(*map(np.ascontiguousarray, (users, queries, pages))),
    )


def _read_clicks(path: Path) -> Iterator[tuple[str, str, str]]:
    """User, query and page of every click."""
    for line in read_lines(path):
        match line.text.split():
            case [query, user, page, "1"]:
                yield user, query, page
            case _:
                line.fail("it is not a query id, a user id, a page id and 1")


def _read_pages(path: Path, wanted: Collection[str]) -> dict[str, Content]:
    pages: dict[str, Content] = {}
    for record in read_records(path):
        page = record.text("doc_id")
        if page in wanted and page not in pages:
            title, text, url = (
                record.text(key, "")[:MAX_CHARACTERS] for key in ("title", "text", "url")
            )
            pages[page] = Content(title or url, "\n\n".join(filter(None, (title, text, url))))
    return pages


def _read_queries(path: Path, wanted: Collection[str]) -> dict[str, str]:
    queries = {}
    for line in read_lines(path):
        query, tab, text = line.text.partition("\t")
        if not tab:
            line.fail("it is not a query id, a tab and a query")
        if query in wanted:
            queries[query] = text
    for query in wanted:
        if query not in queries:
            raise UsageError(f"{path} lacks the query {query!r}, which qrels names")
    return queries
