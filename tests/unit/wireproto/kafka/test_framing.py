"""Frames out of a byte stream: however the bytes arrive, the same frames come out."""

import tracemalloc
from collections.abc import Iterable
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.framing import (
    BIG_FRAME_BYTES,
    INITIAL_RECEIVE_BYTES,
    MAX_RECEIVE_BYTES,
    FrameReader,
)

MAX = 1024 * 1024
SIZES_THAT_MATTER = [
    0,
    1,
    4,
    INITIAL_RECEIVE_BYTES - 4,
    INITIAL_RECEIVE_BYTES,
    BIG_FRAME_BYTES - 1,
    BIG_FRAME_BYTES,
    BIG_FRAME_BYTES + 1,
    MAX_RECEIVE_BYTES - 4,
    MAX_RECEIVE_BYTES,
    3 * MAX_RECEIVE_BYTES,
]


PATTERN = b"".join(pack(">I", number) for number in range(3 * MAX_RECEIVE_BYTES // 4 + 8))


def body_of(size: int, seed: int = 1) -> bytes:
    """Bytes in which no two places look alike."""
    assert seed + size <= len(PATTERN)
    return PATTERN[seed : seed + size]


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def receive(reader: FrameReader, data: bytes) -> list[memoryview]:
    """As a connection does it: receive what fits, take all frames, again."""
    frames = []
    while data:
        buffer = reader.buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        reader.received(count)
        data = data[count:]
        while (frame := reader.next_frame()) is not None:
            frames.append(frame)
    return frames


def receive_in(reader: FrameReader, pieces: Iterable[bytes]) -> list[bytes]:
    return [bytes(frame) for piece in pieces for frame in receive(reader, piece)]


@pytest.mark.parametrize("size", SIZES_THAT_MATTER)
def test_one_frame_of_every_size_that_matters(size: int) -> None:
    body = body_of(size)
    assert receive_in(FrameReader(MAX), [framed(body)]) == [body]


@pytest.mark.parametrize("size", SIZES_THAT_MATTER[:8])
def test_byte_by_byte_gives_the_same_as_whole(size: int) -> None:
    bodies = [body_of(size, 1), body_of(3, 2), body_of(size, 3)]
    stream = b"".join(map(framed, bodies))
    assert receive_in(FrameReader(MAX), [stream]) == bodies
    assert receive_in(FrameReader(MAX), (stream[i : i + 1] for i in range(len(stream)))) == bodies


@given(
    sizes=st.lists(st.one_of(st.integers(0, 200), st.sampled_from(SIZES_THAT_MATTER)), max_size=8),
    cuts=st.lists(st.one_of(st.integers(1, 20), st.integers(1, 100_000)), max_size=20),
)
def test_any_pieces_give_the_same_frames(sizes: list[int], cuts: list[int]) -> None:
    bodies = [body_of(size, seed) for seed, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))
    pieces: list[bytes] = []
    while stream:
        cut = cuts.pop() if cuts else len(stream)
        pieces.append(stream[:cut])
        stream = stream[cut:]
    reader = FrameReader(MAX)
    assert receive_in(reader, pieces) == bodies
    assert reader.pending_bytes == 0


def test_nothing_received_is_no_frame() -> None:
    assert FrameReader(MAX).next_frame() is None


def test_frames_are_writable_and_share_no_memory() -> None:
    first, second = receive(FrameReader(MAX), framed(b"aaaa") + framed(b"bbbb"))
    big_one, big_two = receive(FrameReader(MAX), 2 * framed(b"c" * 2 * MAX_RECEIVE_BYTES))
    first[:] = b"wxyz"
    big_one[:4] = b"wxyz"
    assert bytes(second) == b"bbbb"
    assert bytes(big_two[:4]) == b"cccc"


def test_a_frame_survives_what_is_received_after_it() -> None:
    reader = FrameReader(MAX)
    (frame,) = receive(reader, framed(b"kept"))
    receive(reader, framed(b"x" * 5000) * 5)
    assert bytes(frame) == b"kept"


def test_a_big_frame_is_received_into_a_buffer_of_exactly_its_rest() -> None:
    reader = FrameReader(MAX)
    size = 190_000
    assert receive(reader, framed(body_of(size))[:104]) == []
    assert reader.pending_bytes == size
    assert reader.wants_allocation() == size
    assert len(reader.buffer()) == size - 100  # 100 bytes of the body are here already
    assert reader.wants_allocation() == 0
    assert reader.pending_bytes == size
    (frame,) = receive(reader, framed(body_of(size))[104:])
    assert isinstance(frame.obj, bytearray)
    assert len(frame.obj) == size  # the frame's memory holds nothing else
    assert (reader.pending_bytes, reader.wants_allocation()) == (0, 0)


def test_a_small_frame_wants_no_allocation() -> None:
    reader = FrameReader(MAX)
    receive(reader, framed(body_of(BIG_FRAME_BYTES - 1))[:50])
    assert reader.pending_bytes == BIG_FRAME_BYTES - 1
    assert reader.wants_allocation() == 0


def test_nothing_big_is_allocated_before_the_caller_asks_for_the_buffer() -> None:
    reader = FrameReader(100 * MAX)
    receive(reader, pack(">i", 50 * MAX))
    tracemalloc.start()
    try:
        assert reader.next_frame() is None
        assert reader.wants_allocation() == 50 * MAX
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (pack(">i", -1), "size -1 "),
        (pack(">i", -(2**31)), "size -2147483648 "),
        (pack(">i", MAX + 1), f"size {MAX + 1} "),
        (pack(">i", 2**31 - 1), "size 2147483647 "),
        (b"GET / HTTP/1.1\r\n", "size 1195725856 "),
        (b"\x16\x03\x01\x02\x00\x01\x00", "it speaks TLS, and this listener does not"),  # a TLS hello
    ],
)
def test_a_bad_size_is_refused_and_nothing_allocated_for_it(start: bytes, why: str) -> None:
    reader = FrameReader(MAX)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest, match=why):
            receive(reader, start)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    with pytest.raises(MalformedRequest, match=why):
        reader.next_frame()


def test_frames_before_a_bad_size_are_handed_out() -> None:
    reader = FrameReader(MAX)
    data = framed(b"good") + pack(">i", -1)
    reader.buffer()[: len(data)] = data
    reader.received(len(data))
    frame = reader.next_frame()
    assert frame is not None
    assert bytes(frame) == b"good"
    with pytest.raises(MalformedRequest):
        reader.next_frame()


def test_the_limit_may_change_between_frames() -> None:
    reader = FrameReader(10)
    assert receive_in(reader, [framed(b"a" * 10)]) == [b"a" * 10]
    reader.max_frame_bytes = 20
    assert receive_in(reader, [framed(b"a" * 20)]) == [b"a" * 20]
    reader.max_frame_bytes = 19
    with pytest.raises(MalformedRequest):
        receive(reader, framed(b"a" * 20))


def test_the_receive_buffer_grows_for_a_busy_connection_and_is_bounded() -> None:
    reader = FrameReader(MAX)
    assert len(reader.buffer()) == INITIAL_RECEIVE_BYTES
    stream = framed(b"x" * 100) * 5000
    largest = 0
    while stream:
        buffer = reader.buffer()
        largest = max(largest, len(buffer))
        count = min(len(buffer), len(stream))
        buffer[:count] = stream[:count]
        reader.received(count)
        stream = stream[count:]
        while reader.next_frame() is not None:
            pass
    assert MAX_RECEIVE_BYTES - 104 < largest <= MAX_RECEIVE_BYTES


def test_receiving_without_taking_frames_is_a_bug_of_the_caller() -> None:
    reader = FrameReader(MAX)
    held = 0
    while held < MAX_RECEIVE_BYTES:
        room = len(reader.buffer())
        reader.received(room)
        held += room
    with pytest.raises(RuntimeError, match="take the frames"):
        reader.buffer()
