"""Consumers that read what is committed, as clients do: what is given, without what is listed as aborted."""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING

import trio

from tests.sim.loop import BrokenPromise
from tests.sim.transactions import State
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.control import read_marker
from wireproto.records.header import BatchHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.log.partition import Partition
    from gateway.log.tail_cache import Batch
    from gateway.log.transactions.aborted_reading import Aborted
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life

BYTES = 1500
"""Of one Fetch."""


class CommittedReads:
    """Reads through one gateway life. What a client would show is compared with what was decided."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._world: World = life.world
        self._random = life.world.transactions.random

    async def run(self) -> None:
        """Read random places, for ever."""
        while True:
            await trio.sleep(0.03 + 0.1 * self._random.random())
            logs = [log for log in self._life.partitions() if log.last_stable_offset > log.log_start_offset]
            if logs:
                log = self._random.choice(logs)
                offset = self._random.randrange(log.log_start_offset, log.last_stable_offset + 1)
                await self._read(log, offset)

    async def all(self) -> None:
        """Read everything once. Raises KafkaError: not now."""
        for log in self._life.partitions():
            if not self._life.context.leads(log) or log.deleted:
                continue
            offset = log.log_start_offset
            while offset < log.last_stable_offset:
                read = await log.read_committed(offset, BYTES)
                self._judge(log, offset, *read)
                offset = read_header(read[0][-1]).last_offset + 1

    async def _read(self, log: Partition, offset: int) -> None:
        if log.check_fetch_offset(offset, committed=True) is not ErrorCode.NONE:
            return
        batches = log.read_hot(offset, BYTES, whole=True, committed=True)
        aborted = None if batches is None else log.known_aborted(offset, batches)
        if batches is None or aborted is None or self._random.random() < 0.4:
            try:
                with trio.move_on_after(20):
                    self._judge(log, offset, *await log.read_committed(offset, BYTES))
                    self._world.reached["committed ranges read from stores"] += 1
            except KafkaError:
                self._world.reached["committed reads refused"] += 1
            return
        self._judge(log, offset, batches, aborted)
        self._world.reached["committed ranges read from memory"] += 1

    def _judge(self, log: Partition, offset: int, batches: Sequence[Batch], aborted: Aborted) -> None:
        """Raises BrokenPromise."""
        if log.deleted:
            return
        name = log.topic.name, log.index
        if len(set(aborted)) < len(aborted):
            raise BrokenPromise(f"an aborted transaction of {log} comes twice: {aborted}")
        for header, batch, is_shown in as_a_client_reads(batches, aborted):
            if not header.count:
                continue  # compaction has taken all of it
            transaction = self._world.transaction_of(name, header, bytes(batch))
            where = f"offset {header.base_offset} of {log}, read from {offset}"
            if transaction is None:
                if not is_shown:
                    raise BrokenPromise(f"{where}: no transaction, and it counts as aborted")
            elif transaction.state is State.OPEN:
                raise BrokenPromise(f"{where}: of {transaction!r}")
            elif is_shown != (transaction.state is State.COMMITTED):
                raise BrokenPromise(f"{where}: of {transaction!r}, {'shown' if is_shown else 'not shown'}")


def as_a_client_reads(batches: Sequence[Batch], aborted: Aborted) -> list[tuple[BatchHeader, Batch, bool]]:
    """Each batch of records, and whether a client shows it (``CompletedFetch.nextFetchedRecord``). What is
    listed comes in any order: clients sort it.
    """
    listed, being_aborted = deque(sorted(aborted, key=itemgetter(1))), set[int]()
    found = []
    for batch in batches:
        header = read_header(batch)
        while listed and listed[0][1] <= header.last_offset:
            being_aborted.add(listed.popleft()[0])
        if header.is_control:
            if not read_marker(bytes(batch)).is_commit:
                being_aborted.discard(header.producer_id)
            continue
        found.append((header, batch, not (header.is_transactional and header.producer_id in being_aborted)))
    return found
