import pytest

from zerorag_p2p.errors import DecodeError
from zerorag_p2p.wire.framing import MAX_REQUEST_ID, FrameReader, encode_frame

FRAMES = [(0, b""), (7, b"hello"), (MAX_REQUEST_ID, bytes(1024))]
STREAM = b"".join(encode_frame(request_id, payload) for request_id, payload in FRAMES)


def test_layout() -> None:
    assert encode_frame(7, b"hi") == bytes.fromhex("00000006 00000007") + b"hi"


def test_whole() -> None:
    reader = FrameReader(1024)
    reader.feed(STREAM)
    assert list(reader.frames()) == FRAMES
    assert list(reader.frames()) == []


def test_byte_by_byte() -> None:
    reader = FrameReader(1024)
    found = []
    for value in STREAM:
        reader.feed(bytes([value]))
        found += reader.frames()
    assert found == FRAMES


def test_trailing_bytes_wait_for_the_rest() -> None:
    reader = FrameReader(1024)
    reader.feed(STREAM + STREAM[:3])
    assert list(reader.frames()) == FRAMES
    reader.feed(STREAM[3:])
    assert list(reader.frames()) == FRAMES


def test_frames_not_taken_are_kept() -> None:
    reader = FrameReader(1024)
    reader.feed(STREAM)
    assert next(reader.frames()) == FRAMES[0]
    assert list(reader.frames()) == FRAMES[1:]


@pytest.mark.parametrize("claim", ["00000405", "ffffffff"])
def test_a_claim_above_the_limit_is_refused_by_its_length_alone(claim: str) -> None:
    reader = FrameReader(1024)
    reader.feed(bytes.fromhex(claim))
    with pytest.raises(DecodeError, match="the limit is 1024"):
        next(reader.frames())


def test_frames_before_a_bad_one_are_delivered() -> None:
    reader = FrameReader(1024)
    reader.feed(STREAM + bytes.fromhex("ffffffff"))
    frames = reader.frames()
    assert [next(frames) for _ in FRAMES] == FRAMES
    with pytest.raises(DecodeError):
        next(frames)


def test_too_short_for_a_request_id() -> None:
    reader = FrameReader(1024)
    reader.feed(bytes.fromhex("00000003"))
    with pytest.raises(DecodeError, match="too short"):
        next(reader.frames())
