"""Frames: how requests and replies share one stream (protocols/framing).

A frame is a 4-byte big-endian length of what follows it, a 4-byte big-endian request id, and the
payload. A reply carries the id of its request; replies come in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from zerorag_p2p.errors import DecodeError

_HEADER: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")
_ID_BYTES: Final = 4

MAX_REQUEST_ID: Final = 0xFFFF_FFFF


def encode_frame(request_id: int, payload: bytes) -> bytes:
    """Put `payload` into a frame; `request_id` is 0 to `MAX_REQUEST_ID`."""
    return _HEADER.pack(_ID_BYTES + len(payload), request_id) + payload


class FrameReader:
    """Cuts the bytes of a stream into frames, however they arrive.

    Feed what was read, then take every frame that is complete before feeding more: the buffer
    then never holds more than one incomplete frame and one piece. No memory is set aside for a
    length that is only claimed.
    """

    def __init__(self, limit_payload_bytes: int) -> None:
        self._longest = _ID_BYTES + limit_payload_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes read from the stream."""
        self._buffer += data

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Take the complete frames, as request ids and payloads.

        Raises:
            DecodeError: The next frame claims to be longer than the limit, or too short to hold
                a request id. The stream cannot be read further.
        """
        buffer = self._buffer
        while len(buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer)
            if length > self._longest:
                limit = self._longest - _ID_BYTES
                raise DecodeError(
                    f"a frame claims {length - _ID_BYTES} bytes of payload, the limit is {limit}"
                )
            if length < _ID_BYTES:
                raise DecodeError(f"a frame of {length} bytes is too short for a request id")
            end = _LENGTH.size + length
            if len(buffer) < end:
                return
            _, request_id = _HEADER.unpack_from(buffer)
            with memoryview(buffer) as view:
                payload = bytes(view[_HEADER.size : end])
            # Cheap: a bytearray moves its start instead of its contents.
            del buffer[:end]
            yield request_id, payload
