"""The owner's rules on disk: read at the start, and again whenever their file changes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import trio

from zerorag_p2p.config import MAX_POLICY_BYTES
from zerorag_p2p.embedding.embedder import Embedder
from zerorag_p2p.errors import ConfigError, DecodeError, LocalError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.model import Vector
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.happenings import PolicyChanged
from zerorag_p2p.policy.emergency import GRANTS_LIMIT
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.reading import read_policy
from zerorag_p2p.policy.rules import Policy
from zerorag_p2p.wire.embedding import transmitted

logger = logging.getLogger("zerorag.policy")

_PRIVATE: Final = 0o600

#: What tells a file that was changed: modification time, size and inode.
_Stamp = tuple[int, int, int]


def read_policy_text(home: Home) -> str | None:
    """The file of rules; None where there is none.

    Raises:
        LocalError: It cannot be read.
    """
    try:
        return read_bounded(home.policy, MAX_POLICY_BYTES).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigError(f"{home.policy} is not UTF-8 text") from None


def load_policy(text: str | None, embedder: Embedder) -> Policy:
    """The rules of a file, their example questions embedded.

    Raises:
        ConfigError: The file is malformed.
        EmbeddingError: An example question cannot be embedded.
    """
    if text is None:
        return Policy()

    return read_policy(text).embedded(partial(embed_examples, embedder))


def embed_examples(embedder: Embedder, texts: Sequence[str]) -> Vector:
    """Example questions as a question is embedded that is compared with them, [n, d]."""
    return np.stack([transmitted(embedder.embed_query(item)) for item in texts])


def load_grants(home: Home, guard: Guard) -> None:
    """Take over who has used emergency access.

    Raises:
        LocalError: The file is malformed: nobody knows any more whose time is over.
    """
    try:
        guard.grants.restore(read_bounded(home.emergencies, GRANTS_LIMIT))
    except FileNotFoundError:
        return
    except DecodeError as error:
        raise LocalError(
            f"{home.emergencies} is damaged ({error}); remove it to let every member have "
            "emergency access anew"
        ) from None


def save_grants(home: Home, guard: Guard) -> None:
    """Keep who has used emergency access."""
    write_atomic(home.emergencies, guard.grants.encode(), mode=_PRIVATE)


class PolicyFile:
    """Keeps a guard's rules those of the file in a home.

    A file that is malformed, or gone, leaves the rules in force as they are.

    Args:
        home: Where the file is.
        guard: Whose rules to replace.
        embedder: Embeds example questions.
        clock: Unix seconds.

    Attributes:
        activity: Told of every change, once there is one.
    """

    def __init__(
        self, home: Home, guard: Guard, embedder: Embedder, clock: Callable[[], float]
    ) -> None:
        self._home = home
        self._guard = guard
        self._embedder = embedder
        self._clock = clock
        self._stamp: _Stamp | None = None
        self._digest = ""
        self._loaded_at = 0.0
        self._fault = ""
        self._lock = trio.Lock()
        self.activity: Activity | None = None

    def load(self) -> None:
        """Take the rules of the file, at the start.

        Raises:
            ConfigError: The file is malformed.
            LocalError: The file cannot be read.
            EmbeddingError: An example question cannot be embedded.
        """
        self._stamp = self._look()
        text = read_policy_text(self._home)
        self._take(text, load_policy(text, self._embedder))

    async def change_embedder(
        self, embedder: Embedder, when_ready: Callable[[Callable[[], None]], Awaitable[object]]
    ) -> None:
        """Have example questions embedded by another model from now on.

        Args:
            embedder: The model.
            when_ready: Awaited with what makes the change, to call it.

        Raises:
            EmbeddingError: An example question cannot be embedded; nothing changes.
        """
        async with self._lock:
            policy = await trio.to_thread.run_sync(
                self._guard.policy.embedded, partial(embed_examples, embedder)
            )

            def change() -> None:
                self._guard.policy = policy
                self._embedder = embedder

            await when_ready(change)

    async def watch(self, interval_s: float) -> None:
        """Look for changes of the file until cancelled."""
        while True:
            await trio.sleep(interval_s)
            if self._look() != self._stamp:
                try:
                    await self._reload(gone_is_empty=False)
                except (LocalError, OSError):
                    continue  # it was logged, and the status tells

    async def reload(self) -> dict[str, Any]:
        """Take the rules of the file now, those of no file if there is none; the status.

        Raises:
            ConfigError: The file is malformed; the rules in force stay.
            LocalError: The file cannot be read.
            EmbeddingError: An example question cannot be embedded.
        """
        await self._reload(gone_is_empty=True)
        return self.status()

    async def _reload(self, *, gone_is_empty: bool) -> None:
        async with self._lock:
            self._stamp = self._look()
            try:
                text = read_policy_text(self._home)
                if text is None and self._digest and not gone_is_empty:
                    raise LocalError(
                        f"{self._home.policy} is gone; `zerorag policy reload` does without it"
                    )
                policy = await trio.to_thread.run_sync(load_policy, text, self._embedder)
            except (LocalError, OSError) as error:
                if str(error) != self._fault:
                    logger.error("the policy in force stays as it is: %s", error)
                self._fault = str(error)
                raise
            self._take(text, policy)

    def _take(self, text: str | None, policy: Policy) -> None:
        digest = "" if text is None else hashlib.sha256(text.encode()).hexdigest()
        self._fault = ""
        if digest == self._digest and self._loaded_at:
            return
        self._guard.policy = policy
        self._digest = digest
        self._loaded_at = self._clock()
        logger.info(
            "policy in force: %d rules on documents, %d on questions",
            len(policy.rules),
            len(policy.outbound),
        )
        if self.activity is not None:
            self.activity.tell(
                PolicyChanged(
                    at=self._loaded_at,
                    digest=digest,
                    rules=len(policy.rules),
                    outbound=len(policy.outbound),
                )
            )

    def _look(self) -> _Stamp | None:
        try:
            found = self._home.policy.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def status(self) -> dict[str, Any]:
        """What is in force, ready for JSON: "fault" says why the file is not, or ""."""
        return {
            "file": str(self._home.policy),
            "sha256": self._digest,
            "rules": len(self._guard.policy.rules),
            "outbound": len(self._guard.policy.outbound),
            "loaded_at": self._loaded_at,
            "fault": self._fault,
        }
