"""Virtual time: trio's clock jumps to the next deadline whenever every task waits.

An hour of a testnet then takes as long as its work. It is only sound where every wait is trio's:
work in a thread, or at the other end of a socket, counts as idleness, and the clock would jump
past its deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import trio
import trio.testing

from zerorag_p2p.errors import UsageError

# The stubs that libp2p's dependencies bring are older than trio and do not know it.
_active_threads: Callable[[], int] = trio.testing.active_thread_count  # type: ignore[attr-defined]

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


def run_in_virtual_time(
    work: Callable[[*_Arguments], Awaitable[_Result]], *arguments: *_Arguments
) -> _Result:
    """Run an async function as `trio.run` does, on a clock that skips waiting."""
    return trio.run(work, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))


def in_virtual_time() -> bool:
    """Whether the running clock is a virtual one."""
    return isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)


class _ThreadWatch(trio.abc.Instrument):
    """Cancels a scope as soon as a thread works for a task, before the clock can jump."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self.seen = False

    def before_io_wait(self, timeout: float) -> None:
        del timeout
        if _active_threads():
            self.seen = True
            self._scope.cancel()


@contextmanager
def without_threads() -> Iterator[None]:
    """On a virtual clock, end what runs in the context as soon as a thread works for it.

    Raises:
        UsageError: A thread did.
    """
    if not in_virtual_time():
        yield
        return
    scope = trio.CancelScope()
    watch = _ThreadWatch(scope)
    trio.lowlevel.add_instrument(watch)
    try:
        with scope:
            yield
    finally:
        trio.lowlevel.remove_instrument(watch)
    if watch.seen:
        raise UsageError(
            "a thread was started in virtual time, which would jump past the thread's deadlines; "
            "use the real clock"
        )
