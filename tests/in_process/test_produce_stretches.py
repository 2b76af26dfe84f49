"""Produce requests that kept the loop for seconds: each is refused or appended in small steps."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.differential.batches import Record, batch
from tests.in_process.loop_stretches import LONGEST_SECONDS, TRIES, Scene, scene
from wireproto.records.snappy import XERIAL_HEADER

PRODUCE: Final = 0
NOW_MS: Final = int(time.time() * 1000)
FUTURE_MS: Final = NOW_MS + 10**10


def _records(count: int, key: bytes | None = None, timestamp: int = NOW_MS) -> list[Record]:
    return [Record(b"", key=key, timestamp=timestamp) for _ in range(count)]


def _false_maxima() -> list[bytes]:
    """In zstd, with a maximum timestamp below the base: 2.9 s."""
    return [batch(_records(10_000), codec="zstd", max_timestamp=-1)] * 500


def _empty_chunks() -> list[bytes]:
    """A million empty chunks of snappy: 2.4 s."""
    chunks = XERIAL_HEADER + b"\0\0\0\1\0" * 200_000
    return [batch([], payload=chunks, attributes=2, count=1, last_offset_delta=0, base_timestamp=NOW_MS)] * 5


def _empty_blocks() -> list[bytes]:
    payload = b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * 330_000 + b"\x01\0\0"
    return [batch([], payload=payload, attributes=4, count=1, last_offset_delta=0, base_timestamp=NOW_MS)] * 5


def _out_of_range() -> list[bytes]:
    """256 records each, with timestamps far in the future: 1.4 s."""
    return [batch(_records(256, timestamp=FUTURE_MS))] * 490


def _small_ones() -> list[bytes]:
    return [batch(_records(32, key=b"k"))] * 10_000


CASES: Final[dict[str, Callable[[], list[bytes]]]] = {
    "false maxima": _false_maxima,
    "empty chunks of snappy": _empty_chunks,
    "empty blocks of zstd": _empty_blocks,
    "timestamps out of range": _out_of_range,
    "small batches": _small_ones,
}


def _produce(topic: str, batches: list[bytes]) -> bytes:
    parts = b"".join(struct.pack(">ii", 0, len(one)) + one for one in batches)
    body = struct.pack(">hhih4s", PRODUCE, 8, 1, 4, b"test") + struct.pack(">hhii", -1, 1, 30_000, 1)
    body += struct.pack(f">h{len(topic)}si", len(topic), topic.encode(), len(batches)) + parts
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("case", CASES)
def test_a_produce_of_very_much_work_is_done_in_small_steps(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _produce("t", CASES[case]())

    async def body(made: Scene) -> None:
        shortest, where = 1e9, ""
        for _ in range(TRIES):
            made.watch.forget()
            assert "bytes" in await made.ask(data)
            if made.watch.longest < shortest:
                shortest, where = made.watch.longest, made.watch.where
            if shortest < LONGEST_SECONDS:
                break
        assert shortest < LONGEST_SECONDS, where

    async def main() -> None:
        with trio.fail_after(120):
            async with scene(tmp_path, monkeypatch, topics=0, configs={"cleanup.policy": "compact"}
                             if case == "small batches" else {}) as made:  # fmt: skip
                await body(made)

    trio.run(main)
