import math

import pytest
import trio
import trio.testing

from zerorag_p2p.errors import ConnectionLost, RemoteError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import Handler, ProtocolLimits
from zerorag_p2p.node.request_streams import Answerer, Asker
from zerorag_p2p.node.turns import Turn
from zerorag_p2p.wire.framing import MAX_REQUEST_ID, FrameReader, encode_frame

PEER = PeerId("peer")


class Pipe:
    """A `ByteStream` over two channels, with a list of what was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.to_us, self._incoming = trio.open_memory_channel[bytes](math.inf)
        self.aborted = trio.Event()
        self.finished = False

    async def receive(self) -> bytes:
        try:
            return await self._incoming.receive()
        except trio.EndOfChannel:
            return b""

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(data)

    async def finish(self) -> None:
        self.finished = True

    async def abort(self) -> None:
        self.aborted.set()

    def frames(self) -> list[tuple[int, bytes]]:
        reader = FrameReader(1 << 20)
        reader.feed(b"".join(self.sent))
        return list(reader.frames())


def asker(**changes: float) -> Asker:
    settings = {"max_pending": 8, "idle_s": 60.0, **changes}
    return Asker(1_000, max_pending=int(settings["max_pending"]), idle_s=settings["idle_s"])


async def test_ids_wrap_and_skip_those_in_use(autojump_clock: object) -> None:
    ours, pipe = asker(), Pipe()
    ours._next_id = MAX_REQUEST_ID
    replies: list[bytes] = []

    async def ask(name: bytes) -> None:
        replies.append(await ours.ask(name))

    async def opened() -> Pipe:
        return pipe

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.run, opened)
        for name in (b"a", b"b"):
            nursery.start_soon(ask, name)
            await trio.testing.wait_all_tasks_blocked()
        ours._next_id = MAX_REQUEST_ID
        nursery.start_soon(ask, b"c")
        await trio.testing.wait_all_tasks_blocked()
        assert pipe.frames() == [(MAX_REQUEST_ID, b"a"), (0, b"b"), (1, b"c")]
        for request_id, payload in reversed(pipe.frames()):
            await pipe.to_us.send(encode_frame(request_id, payload.upper()))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert sorted(replies) == [b"A", b"B", b"C"]
    assert pipe.aborted.is_set()


async def test_waiting_requests_are_written_at_once_and_abandoned_ones_not_at_all(
    autojump_clock: object,
) -> None:
    ours, pipe = asker(), Pipe()
    go = trio.Event()

    async def opened() -> Pipe:
        await go.wait()
        return pipe

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.run, opened)
        with trio.move_on_after(1):
            await ours.ask(b"abandoned")
        for name in (b"1", b"2", b"3"):
            nursery.start_soon(ours.ask, name)
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(pipe.sent) == 1
        assert {payload for _, payload in pipe.frames()} == {b"1", b"2", b"3"}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [ConnectionLost, RemoteError])
async def test_stream_that_cannot_be_opened(error: type[Exception]) -> None:
    ours = asker(max_pending=1)

    async def refused() -> Pipe:
        await trio.testing.wait_all_tasks_blocked()
        raise error("the reason")

    async def ask() -> None:
        with pytest.raises(error, match="the reason"):
            await ours.ask(b"")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.run, refused)
        for _ in range(3):  # one waits for its reply, the others for a place
            nursery.start_soon(ask)
    assert ours.spent


async def test_replies_nobody_asked_for_are_dropped(autojump_clock: object) -> None:
    ours, pipe = asker(), Pipe()

    async def opened() -> Pipe:
        return pipe

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.run, opened)
        await pipe.to_us.send(encode_frame(77, b"unasked") + encode_frame(0, b"early"))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1) as scope:
            await ours.ask(b"")
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()


async def test_retires_when_idle_but_never_while_in_use(autojump_clock: object) -> None:
    ours, pipe = asker(idle_s=10), Pipe()

    async def opened() -> Pipe:
        return pipe

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.run, opened)
        nursery.start_soon(ours.ask, b"slow")
        await trio.sleep(100)
        assert not ours.spent
        await pipe.to_us.send(encode_frame(0, b""))
        await trio.sleep(9)
        assert not ours.spent
        await trio.sleep(12)
        assert ours.spent
        assert pipe.aborted.is_set()


async def answer(pipe: Pipe, handler: Handler, max_requests: int = 8) -> object:
    limits = ProtocolLimits(request_bytes=100, reply_bytes=100)
    slots = trio.Semaphore(max_requests)
    violation = await Answerer(pipe, PEER, handler, limits, slots=slots, turn=Turn()).run()
    assert slots.value == max_requests  # another stream may want them
    return violation


async def echo(_: PeerId, payload: bytes) -> bytes:
    await trio.lowlevel.checkpoint()
    return payload


async def test_answers_what_came_before_the_end() -> None:
    pipe = Pipe()
    for request_id in range(20):
        await pipe.to_us.send(encode_frame(request_id, b"%d" % request_id))
    pipe.to_us.close()
    assert await answer(pipe, echo, max_requests=3) is None
    assert sorted(pipe.frames()) == [(number, b"%d" % number) for number in range(20)]
    assert pipe.finished


async def test_framing_violation_is_reported_and_drops_the_stream() -> None:
    pipe = Pipe()
    await pipe.to_us.send(b"\xff\xff\xff\xff")
    assert "4294967291 bytes" in str(await answer(pipe, echo))
    assert pipe.aborted.is_set()
    assert not pipe.finished


async def test_log_of_a_failing_handler_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: PeerId, payload: bytes) -> bytes:
        raise ValueError(payload.decode())

    pipe = Pipe()
    await pipe.to_us.send(encode_frame(1, b"a patient's name"))
    assert await answer(pipe, fail) is None
    assert pipe.aborted.is_set()
    assert not pipe.sent
    assert "ValueError" in caplog.text
    assert "patient" not in caplog.text


async def test_between_two_requests_of_one_peer_another_has_its_turn() -> None:
    """However many requests a peer sent at once, on however many streams."""
    began: list[str] = []
    flooded = [Pipe() for _ in range(3)]
    quiet = Pipe()
    turn = Turn()  # the network has one for each peer
    other_turn = Turn()

    async def note(peer: PeerId, payload: bytes) -> bytes:
        del payload
        began.append(peer)
        return b"reply"

    async def serve(pipe: Pipe, peer: str, turn: Turn) -> None:
        limits = ProtocolLimits(request_bytes=100, reply_bytes=100)
        slots = trio.Semaphore(64)
        await Answerer(pipe, PeerId(peer), note, limits, slots=slots, turn=turn).run()

    async with trio.open_nursery() as nursery:
        for pipe in flooded:
            frames = b"".join(encode_frame(number, b"flood") for number in range(64))
            await pipe.to_us.send(frames)
            nursery.start_soon(serve, pipe, "flooding", turn)
        nursery.start_soon(serve, quiet, "quiet", other_turn)
        questions = b"".join(encode_frame(number, b"a question") for number in range(20))
        await quiet.to_us.send(questions)
        for pipe in (*flooded, quiet):
            pipe.to_us.close()
    assert began.count("flooding") == 3 * 64
    assert began.count("quiet") == 20
    last = len(began) - 1 - began[::-1].index("quiet")
    assert began[: last + 1].count("flooding") <= 20 + 3
