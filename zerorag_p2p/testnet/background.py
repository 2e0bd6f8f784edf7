"""Testnets for the tests of applications: in a thread of their own, or in the test's trio loop."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio

from zerorag_p2p.client import Client, TestnetClient
from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.errors import LocalError
from zerorag_p2p.home import Home, TestnetFolder
from zerorag_p2p.testnet.live import LiveTestnet
from zerorag_p2p.testnet.sources import texts_source
from zerorag_p2p.testnet.testnet import Testnet
from zerorag_p2p.testnet.up import serving

#: Texts by the organisation that owns them.
Documents = Mapping[str, Sequence[str]]

_EMBEDDING: Final = EmbeddingConfig(embedder="hashing")
_START_TIMEOUT_S: Final = 60.0


class BackgroundTestnet:
    """A small testnet that runs in a thread until it is closed.

    Every organisation is a node, reached as any node is: through a client, or by its home.
    """

    def __init__(self, documents: Documents, **settings: Any) -> None:
        """Start it; returns when every node can be asked.

        Args:
            documents: Texts by the organisation that owns them.
            settings: As for `Testnet`.

        Raises:
            ZeroRagError: It cannot start.
        """
        # A path of its own: sockets need short ones, and pytest's are long.
        self._folder = TestnetFolder(Path(tempfile.mkdtemp(prefix="zerorag-")))
        self._source = texts_source(list(documents.items()), _EMBEDDING)
        self._testnet = Testnet(
            self._source.workload, organisations=self._source.organisations, **settings
        )
        self._token: trio.lowlevel.TrioToken | None = None
        self._shutdown: trio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="zerorag testnet", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_TIMEOUT_S):
            raise LocalError(f"the testnet did not start within {_START_TIMEOUT_S:g} s")
        if self._failed():
            self.close()

    def _work(self) -> None:
        try:
            trio.run(self._run)
        except BaseException as error:  # Raised again in the thread that waits.
            self._failure = error
            self._ready.set()

    async def _run(self) -> None:
        self._shutdown = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        async with serving(self._folder, self._testnet, self._source, self._shutdown):
            self._ready.set()
            await self._shutdown.wait()

    def _failed(self) -> bool:
        return self._failure is not None

    def home(self, organisation: str) -> Home:
        """The home of an organisation's node, for whatever takes one."""
        return self._folder.node(self._testnet[organisation].name)

    def node(self, organisation: str) -> Client:
        """A client of an organisation's node; to be closed by the caller."""
        return Client(self.home(organisation))

    def control(self) -> TestnetClient:
        """A client of the testnet itself, to break it with; to be closed by the caller."""
        return TestnetClient(self._folder)

    def close(self) -> None:
        """End it; raises what it failed with, if it did. May be called twice."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._end)
        self._thread.join()
        shutil.rmtree(self._folder.root, ignore_errors=True)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _end(self) -> None:
        assert self._shutdown is not None
        self._shutdown.set()


class TestnetStarter:
    """What the fixture `zerorag_testnet` gives to a test."""

    __test__ = False  # pytest takes a class of this name for tests

    def __init__(self) -> None:
        self._started: list[BackgroundTestnet] = []

    def __call__(self, documents: Documents, **settings: Any) -> BackgroundTestnet:
        """Start a testnet beside a plain test; it ends with the test."""
        testnet = BackgroundTestnet(documents, **settings)
        self._started.append(testnet)
        return testnet

    @asynccontextmanager
    async def running(self, documents: Documents, **settings: Any) -> AsyncIterator[LiveTestnet]:
        """Run a testnet inside an async test on trio, in virtual time if the test has that.

        Args:
            documents: Texts by the organisation that owns them.
            settings: As for `Testnet`.
        """
        source = texts_source(list(documents.items()), _EMBEDDING)
        testnet = Testnet(source.workload, organisations=source.organisations, **settings)
        async with testnet.running():
            yield LiveTestnet(testnet, source.embed)

    def close(self) -> None:
        """End every testnet that was started."""
        while self._started:
            self._started.pop().close()
