"""The exception tree.

Two roots matter to callers. A `LocalError` says that we, our user or our configuration did
something wrong; a `RemoteError` says that another peer did. The text of an error is the sentence
its reader sees: it names the cause and, where there is one, the next step.
"""

from __future__ import annotations


class ZeroRagError(Exception):
    """Any error this package raises on purpose."""

    #: Exit code of the command line when this error ends a command.
    exit_code = 1


class LocalError(ZeroRagError):
    """We, our user or our configuration did something wrong."""


class ConfigError(LocalError):
    """A setting is unknown, of the wrong type or out of range."""

    exit_code = 2


class UsageError(LocalError):
    """An argument is missing, malformed or contradicts another."""

    exit_code = 2


class NodeNotRunningError(LocalError):
    """No node answers on the control socket of this home."""

    exit_code = 3


class TokenRejected(LocalError):
    """A request over TCP came without a token that is valid now."""


class ScopeDenied(LocalError):
    """A token does not reach as far as what was asked."""

    exit_code = 4


class TooManyRequests(LocalError):
    """An application asks more of a node than its token allows.

    Attributes:
        retry_after_s: Seconds after which asking again makes sense.
    """

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class PolicyDenied(ZeroRagError):
    """The policy of the owner of a document denied what was asked."""

    exit_code = 4


class NoResultError(ZeroRagError):
    """The query ended well and found nothing."""

    exit_code = 6


class IntegrityError(ZeroRagError):
    """A signature, hash or chain does not verify."""

    exit_code = 7


class KeyFileError(LocalError):
    """A key file is missing, malformed or readable by others."""


class PassphraseNeeded(KeyFileError):
    """A key file is encrypted, and nothing says by which passphrase."""


class WrongPassphrase(KeyFileError):
    """A passphrase does not open a key file."""


class RosterError(IntegrityError):
    """A roster is unsigned, malformed, expired, of another consortium or goes back in version."""


class AttributionError(IntegrityError):
    """A document's attribution or release does not hold.

    Attributes:
        fault: The first thing found wrong, one of `zerorag_p2p.identity.attribution.Fault`, as
            text.
    """

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(f"{fault}: {message}")
        self.fault = fault


class AuditError(LocalError):
    """The audit log cannot be read or written; without it nothing is asked or answered."""


class LibraryError(LocalError):
    """The document library cannot do what was asked."""


class RedactionError(LocalError):
    """A text could not be redacted, so it does not leave."""


class EmbeddingError(LocalError):
    """A text could not be embedded, or a vector is not finite, is zero or has the wrong shape."""


class EmbedderUnavailable(EmbeddingError):
    """The embedding model is missing, is not the expected one, or does not load or answer."""


class RerankerUnavailable(LocalError):
    """The cross-encoder that orders passages is missing, cannot be loaded or does not work."""


class GenerationError(ZeroRagError):
    """The language model's endpoint did not answer, or not with an answer."""


class DecodeError(ZeroRagError):
    """Bytes are malformed, too long, not in deterministic form, or say what is out of range."""


class NetworkError(ZeroRagError):
    """A peer could not be reached, or the connection to it broke."""


class PeerUnreachable(NetworkError):
    """No address of a peer could be dialled before the deadline."""


class RequestTimeout(NetworkError):
    """A peer accepted a request and did not answer before the deadline."""


class ConnectionLost(NetworkError):
    """The connection to a peer ended while a request waited for its reply."""


class RemoteError(ZeroRagError):
    """Another peer broke the protocol."""


class RemoteRefusal(ZeroRagError):
    """Another peer refused a request, with a code and a reason.

    Attributes:
        code: One of `zerorag_p2p.model.RefusalCode`, as text.
        reason: The peer's sentence, bounded in length.
        retry_after_s: Seconds after which asking again makes sense, if the peer said so.
    """

    def __init__(self, code: str, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(f"refused ({code}): {reason}")
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s
