from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.errors import DecodeError
from zerorag_p2p.wire.framing import MAX_REQUEST_ID, FrameReader, encode_frame

LIMIT = 64


def read(pieces: list[bytes]) -> tuple[list[tuple[int, bytes]], bool]:
    """The frames found, and whether the stream was refused."""
    reader = FrameReader(LIMIT)
    found: list[tuple[int, bytes]] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            found.extend(reader.frames())
    except DecodeError:
        return found, True
    return found, False


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(stream) + 1) for place in places)
    return [stream[a:b] for a, b in zip([0, *ends], [*ends, len(stream)], strict=True)]


@given(
    st.lists(st.tuples(st.integers(0, MAX_REQUEST_ID), st.binary(max_size=LIMIT))),
    st.lists(st.integers(0, 10_000)),
)
def test_frames_come_out_however_the_stream_is_cut(
    frames: list[tuple[int, bytes]], places: list[int]
) -> None:
    stream = b"".join(encode_frame(*frame) for frame in frames)
    assert read(cut(stream, places)) == (frames, False)


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000)))
def test_any_stream_is_judged_alike_however_it_is_cut(stream: bytes, places: list[int]) -> None:
    assert read(cut(stream, places)) == read([stream])
