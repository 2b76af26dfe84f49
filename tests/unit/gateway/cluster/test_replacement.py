"""A store takes another one's place: nothing counts on it before it has it, and nothing is left behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.cluster.replacement import LOOK_AGAIN_SECONDS, Replacement
from gateway.cluster.stores import Stores
from gateway.log.segment import Segment
from tests.unit.gateway.log.fake_log import FakeLog, batch

OLD, OTHER, NEW = "old", "other", "new"


async def write_closed(log: FakeLog, segments: int) -> None:
    """Closed segments of one batch each."""
    for _ in range(segments):
        await log.write(batch())
        for store in (OLD, OTHER):
            log.acknowledge(store=store)
        log.context.opener.end(log.partition)
        await wait_all_tasks_blocked()


def members(log: FakeLog) -> list[set[str]]:
    """Of each segment, as the catalog has them."""
    return [set(Segment.unpack(entry.value).members) for entry in log.context.catalog.range(keys.SEGMENTS)]


def test_a_segment_counts_on_the_new_store_when_that_has_it() -> None:
    async def main() -> None:
        log = FakeLog(stores=(OLD, OTHER))
        topics: Any = SimpleNamespace(by_id=log.broker.topics.by_id, all=lambda: [log.topic])
        order = keys.replacing_key(OLD)
        copied: list[tuple[str, str]] = []

        async def copy(member: str, address: str, *_: Any, **__: Any) -> bool:
            """The second one cannot be had at first."""
            copied.append((member, address))
            await trio.sleep(0.1)
            return copied.count((member, address)) > 1 or address != second.address

        async with log.running(), trio.open_nursery() as nursery:
            await write_closed(log, 3)
            second = log.partition.chain.closed[1]
            log.context.copier.copy = copy  # type: ignore[method-assign]
            await log.catalog.transact([], {order: keys.pack({"new": NEW})})
            known = Stores.always(log.catalog, [OLD, OTHER, NEW])
            replacement = Replacement(log.context, known, topics)
            nursery.start_soon(replacement.run)
            await trio.sleep(0.05)
            assert {member for member, _ in copied} == {NEW}
            assert members(log) == [{OLD, OTHER}] * 3, "nobody has confirmed a copy yet"
            await trio.sleep(LOOK_AGAIN_SECONDS / 2)
            assert members(log) == [{NEW, OTHER}, {OLD, OTHER}, {NEW, OTHER}]
            assert log.context.catalog.get(order) is not None
            await trio.sleep(2 * LOOK_AGAIN_SECONDS)
            assert members(log) == [{NEW, OTHER}] * 3
            assert [set(segment.members) for segment in log.partition.chain.closed] == members(log)
            assert log.context.catalog.get(order) is None
            assert copied.count((NEW, second.address)) == 2
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
