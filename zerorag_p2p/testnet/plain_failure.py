"""What fails inside nurseries, told as if there were none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def failing_plainly() -> Iterator[None]:
    """Raise an exception as it is, where nurseries have put it alone into groups.

    A testnet is entered like a file, and its nurseries are nobody's business: who catches a
    `UsageError` around it, or fails an assertion within, is to see that. Several failures at once
    stay a group.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is group:
            raise
        raise error from error.__cause__
