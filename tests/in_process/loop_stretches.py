"""The longest stretches of the event loop, API by API, with the worst requests that the limits let in.

    python -m tests.in_process.loop_stretches [API key ...]

prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import gc
import logging
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
import trio

from gateway.common.handlers import Api
from gateway.common.turns import Turns
from gateway.common.work import Work
from gateway.front import connection
from gateway.front.limits import MAX_OTHER_REQUEST_BYTES
from gateway.front.registry import load_apis
from tests.in_process.in_process import running
from tests.in_process.step_watch import StepWatch
from tests.in_process.worst_requests import Shape, frame
from wireproto.kafka.primitives import MAX_ARRAY_ELEMENTS

TOPICS = 200
"""Topics of one partition each: `t0`, `t1`, ..."""

PARTITIONS = 2_000
"""Partitions of the topic `t`."""

ANSWER_SECONDS = 60

CREATE_TOPICS = 19

LONGEST_SECONDS: Final = 0.05
"""Of one stretch, in the loop's own processor time."""

TRIES: Final = 4
"""The shortest of so many tells what a request takes."""

MANY = MAX_ARRAY_ELEMENTS - 1


def _different(number: int) -> str:
    return f"{number:x}"


def _alike(_number: int) -> str:
    return "t"


def _known(number: int) -> str:
    return f"t{number}"


DIFFERENT = tuple(Shape(outer, 0, _different) for outer in (MANY, 49_000, 19_000, 9_900))
"""So many different names: the most that an array may have; then as many as APIs have bounds of their own."""

NESTED = tuple(Shape(1, inner, _alike) for inner in (MANY, 49_000))
"""So many partitions of one topic, most of which it does not have."""

ALL_THERE = Shape(TOPICS, 1, _known)
"""All topics that there are."""


@dataclass(frozen=True)
class Stretch:
    """What one request did to the loop. Seconds of processor time; `charged` in seconds too."""

    api: str
    version: int
    shape: Shape
    request_bytes: int
    outcome: str
    longest: float
    where: str
    total: float
    charged: float

    def row(self) -> str:
        return (
            f"| {self.api} {self.version} | {self.shape} | {self.request_bytes:,} | {self.outcome} "
            f"| {self.longest * 1e3:.1f} | {self.total * 1e3:.0f} | {self.charged * 1e3:.0f} |"
        )


HEADING = """\
| API, version | elements | bytes | outcome | longest stretch, ms | in all, ms | charged, ms |
|---|---|---|---|---|---|---|"""


class Scene:
    """A gateway with topics in this process, and a client of it in a thread."""

    def __init__(self, port: int, watch: StepWatch, works: list[Work]) -> None:
        self.watch = watch
        self._port = port
        self._works = works

    async def ask(self, data: bytes) -> str:
        """Send bytes on a connection of their own: what became of them, in a word or the answer's size."""
        return await trio.to_thread.run_sync(_ask, self._port, data)

    async def stretch(self, api: Api, version: int, shape: Shape) -> Stretch | None:
        """None: there can be no such request."""
        data = await trio.to_thread.run_sync(frame, api.key, version, shape)
        if len(data) > MAX_OTHER_REQUEST_BYTES:
            return None
        self._works.clear()
        self.watch.forget()
        outcome = await self.ask(data)
        await self.ask(NOTHING)  # when this is answered, the other connection has ended
        watch = self.watch
        charged = sum(work.charged for work in self._works) / 1e9
        return Stretch(
            api.name, version, shape, len(data), outcome, watch.longest, watch.where, watch.total, charged
        )


NOTHING = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""An ApiVersions request."""


@asynccontextmanager
async def scene(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    topics: int = TOPICS,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Scene]:
    """A gateway with the topic `t` and so many others; `configs` are those of `t`.

    The collector is off meanwhile: its passes come when they like, and are measured elsewhere."""
    works: list[Work] = []

    def work(turns: Turns) -> Work:
        works.append(Work(turns))
        return works[-1]

    monkeypatch.setattr(connection, "Work", work)
    async with running(data, monkeypatch) as (_, port):
        watch = StepWatch()
        made = Scene(port, watch, works)
        await made.ask(_create("t", PARTITIONS, configs))
        for number in range(topics):
            await made.ask(_create(f"t{number}", 1))
        trio.lowlevel.add_instrument(watch)
        gc.disable()
        try:
            yield made
        finally:
            gc.enable()


async def stretches(made: Scene, api: Api, version: int) -> list[Stretch]:
    """The worst requests that this API takes: the largest that it answers, and those that it refuses."""
    found = []
    gc.collect()
    for shapes in (DIFFERENT, NESTED, (ALL_THERE,)) if _has_arrays(api, version) else ((ALL_THERE,),):
        for shape in shapes:
            one = await shortest_of_some(made, api, version, shape)
            if one is not None:
                found.append(one)
                if one.outcome != "closed":
                    break
    return found


async def shortest_of_some(made: Scene, api: Api, version: int, shape: Shape) -> Stretch | None:
    """Again if it took too long: page faults, cold caches or other work of the machine may have been in the
    way.
    """
    best = await made.stretch(api, version, shape)
    for _ in range(TRIES - 1):
        if best is None or best.longest < LONGEST_SECONDS:
            break
        again = await made.stretch(api, version, shape)
        assert again is not None
        best = min(best, again, key=lambda one: one.longest)
    return best


def _has_arrays(api: Api, version: int) -> bool:
    return len({frame(api.key, version, Shape(outer, 0, _alike)) for outer in (1, 2)}) == 2


def _create(name: str, partitions: int, configs: Mapping[str, str] = MappingProxyType({})) -> bytes:
    topic = struct.pack(f">h{len(name)}sihii", len(name), name.encode(), partitions, -1, 0, len(configs))
    for text in (text for config in configs.items() for text in config):
        topic += struct.pack(f">h{len(text)}s", len(text), text.encode())
    body = struct.pack(">hhih4s", CREATE_TOPICS, 4, 1, 4, b"test")
    body += struct.pack(">i", 1) + topic + struct.pack(">i?", 30_000, False)
    return struct.pack(">i", len(body)) + body


def _ask(port: int, data: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as sock:
        try:
            sock.sendall(data)
            size = struct.unpack(">i", _exactly(sock, 4))[0]
            _exactly(sock, size)
        except ConnectionError:
            return "closed"
    return f"{size:,} bytes"


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(min(1 << 20, size - len(data)))
        if not piece:
            raise ConnectionError
        data += piece
    return bytes(data)


async def _table(keys: set[int]) -> None:
    monkeypatch = pytest.MonkeyPatch()
    print(HEADING)
    with tempfile.TemporaryDirectory() as data:
        async with scene(Path(data), monkeypatch) as made:
            for api in load_apis().all():
                if keys and api.key not in keys:
                    continue
                found = []
                for version in sorted({api.min_version, api.max_version}):
                    found += await stretches(made, api, version)
                worst = max(found, key=lambda one: one.longest)
                print(worst.row(), flush=True)
                print(f"    {worst.where}", file=sys.stderr, flush=True)
    monkeypatch.undo()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    trio.run(partial(_table, set(map(int, sys.argv[1:]))))
