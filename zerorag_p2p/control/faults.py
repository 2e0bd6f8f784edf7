"""Errors on their way out of a node: as JSON for the caller, without contents in the log."""

from __future__ import annotations

import logging
import traceback
from typing import Any, Final

from zerorag_p2p.errors import (
    AttributionError,
    ConfigError,
    DecodeError,
    IntegrityError,
    LocalError,
    NetworkError,
    NoResultError,
    PolicyDenied,
    RemoteError,
    RemoteRefusal,
    RequestTimeout,
    ScopeDenied,
    TokenRejected,
    TooManyRequests,
    UsageError,
    ZeroRagError,
)

logger = logging.getLogger("zerorag.control")

# The first class that fits decides.
_STATUS: Final[tuple[tuple[type[ZeroRagError], int], ...]] = (
    (UsageError, 400),
    (ConfigError, 400),
    (DecodeError, 400),
    (TokenRejected, 401),
    (ScopeDenied, 403),
    (TooManyRequests, 429),
    (PolicyDenied, 403),
    (RemoteRefusal, 403),
    (NoResultError, 404),
    (IntegrityError, 422),
    (RequestTimeout, 504),
    (NetworkError, 502),
    (RemoteError, 502),
    (LocalError, 409),
)


def http_status(error: ZeroRagError) -> int:
    """The HTTP status that goes with an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def to_json(error: ZeroRagError) -> dict[str, Any]:
    """What a client needs to raise the same error again."""
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error),
        "exit_code": error.exit_code,
    }
    match error:
        case AttributionError():
            described["fault"] = error.fault
        case RemoteRefusal():
            described["code"] = error.code
            described["reason"] = error.reason
            described["retry_after_s"] = error.retry_after_s
        case TooManyRequests():
            described["retry_after_s"] = error.retry_after_s
    return described


def report_defect(error: Exception) -> dict[str, Any]:
    """Log an error that nobody foresaw, and describe it to the caller.

    The log gets the error's type and the lines of code it passed, not its message: that may quote
    a question or a document.
    """
    lines = "".join(traceback.format_tb(error.__traceback__))
    logger.error("a request failed with %s\n%s", type(error).__name__, lines.rstrip())
    return {
        "type": "InternalError",
        "message": f"the node failed with {type(error).__name__}; its log has the details",
        "exit_code": ZeroRagError.exit_code,
    }
