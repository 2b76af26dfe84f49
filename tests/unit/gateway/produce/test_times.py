"""Records with timestamps out of bounds are named, and nobody waits long for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import trio

from gateway.produce import times
from gateway.produce.times import (
    MAX_LOOKED_THROUGH_AT_ONCE_BYTES,
    MAX_RECORDS_AT_ONCE,
    name_in_slices,
    name_now,
)
from wireproto.records.builder import build_batch
from wireproto.records.header import read_header
from wireproto.records.iteration import iter_times
from wireproto.records.signing import sign

NOW_MS: Final = 1_700_000_000_000
BOUNDS: Final = (0, NOW_MS)


def large(count: int) -> memoryview:
    """As many of the smallest records, all of the time NOW_MS."""
    header = read_header(build_batch([(None, None, [], NOW_MS)]))
    body = b"\x0c\0\0\0\x01\x01\0" * count
    return memoryview(sign(header._replace(count=count, last_offset_delta=count - 1), body))


def test_a_large_batch_lets_others_have_their_turns_and_ends_with_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a thread it kept the interpreter from the loop, for seconds, and could not be ended."""
    looked_at = 0

    def counted(*args: Any) -> Iterator[tuple[int, int]]:
        nonlocal looked_at
        for one in iter_times(*args):
            looked_at += 1
            yield one

    monkeypatch.setattr(times, "iter_times", counted)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(name_in_slices, large(100_000), BOUNDS, 10, "a")
            while not looked_at:
                await trio.lowlevel.checkpoint()
            for _ in range(5):
                before = looked_at
                await trio.lowlevel.checkpoint()
                assert looked_at - before <= 2 * MAX_RECORDS_AT_ONCE
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert looked_at < 100_000


def test_one_client_with_many_leaves_a_place_for_others() -> None:
    async def main() -> None:
        done: list[str] = []

        async def name(client: str, count: int) -> None:
            await name_in_slices(large(count), BOUNDS, 10, client)
            done.append(client)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(name, "greedy", 50_000)
            nursery.start_soon(name, "other", 300)
        assert done.index("other") < 2

    trio.run(main)


def test_what_lies_behind_a_timestamp_is_not_looked_at() -> None:
    """A record may have tens of thousands of headers."""
    headers: Any = [("", None)] * 10_000
    batch = memoryview(build_batch([(b"k", b"v", headers, NOW_MS + n) for n in range(3)]))
    assert len(batch) < MAX_LOOKED_THROUGH_AT_ONCE_BYTES
    assert [place for place, _ in name_now(batch, BOUNDS, 10)] == [1, 2]
    assert [place for place, _ in name_now(batch, BOUNDS, 1)] == [1]
