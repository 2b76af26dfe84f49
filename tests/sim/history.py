"""What the world has seen, and the promises that are checked as it happens.

Kept beside the cluster, by nobody whom a crash could touch: what was published under which address, what each
incarnation ever fsynced, what was acknowledged, what was shown.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from tests.sim.ledger import Ledger
from tests.sim.loop import BrokenPromise
from wireproto.dafka.messages import Record
from wireproto.records.header import BatchHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mesh.protocol.commit import Commit
    from tests.sim.applications import Work
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life
    from tests.sim.transactions import Transaction


class Watcher:
    """A consumer that is parked at a partition of one life: told whenever the high watermark moves."""

    def __init__(self, history: History, life: Life, partition: Partition) -> None:
        self._history = history
        self._life = life
        self._partition = partition
        self._seen = -1
        self._checked: dict[str, int] = {}

    def advanced(self, _partition: Partition | None = None, /) -> None:
        """The high watermark of the partition moved, or the partition failed."""
        partition = self._partition
        if self._life.over:
            return
        self._history.on_advanced(self._life, partition)
        if partition.high_watermark < self._seen:
            raise BrokenPromise(
                f"the high watermark of {partition} went back from {self._seen} to {partition.high_watermark}"
            )
        if partition.high_watermark > self._seen and partition.state is PartitionState.READY:
            self._seen = partition.high_watermark
            for opened in partition.chain.open_segments():
                self._check_durable(opened.segment, opened.writer.committed)

    def _check_durable(self, segment: Any, committed: int) -> None:
        address = segment.address
        if committed <= self._checked.get(address, -1):
            return
        history = self._history
        history.check_durable(segment, committed)
        for sequence in range(self._checked.get(address, -1) + 1, committed + 1):
            history.show(
                (self._partition.topic.name, self._partition.index), history.published[address][sequence]
            )
        self._checked[address] = committed


class History:
    """Of one schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.published: defaultdict[str, dict[int, bytes]] = defaultdict(dict)
        """address -> sequence -> content."""
        self.fsynced: defaultdict[tuple[str, str], int] = defaultdict(lambda: -1)
        """(address, incarnation) -> the highest sequence that it ever had fsynced."""
        self.acknowledged: defaultdict[PartitionName, dict[int, bytes]] = defaultdict(dict)
        """base offset -> name of the batch, of those that a producer with acks=all was told are durable."""
        self.shown: defaultdict[PartitionName, dict[int, bytes]] = defaultdict(dict)
        """base offset -> content, of what was below a high watermark."""

        self.leader_epochs: defaultdict[PartitionName, int] = defaultdict(lambda: -1)
        """The highest leader epoch that clients were told of."""
        self.epoch_lives: dict[int, str] = {}
        """leader epoch -> the life that wrote under it."""
        self.compared: set[tuple[str, str]] = set()
        """(address, incarnation) of closed segments that were compared record by record."""
        self.places: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """address -> base offset -> sequence."""
        self._ledgers: dict[PartitionName, Ledger] = {}

    def ledger(self, partition: PartitionName) -> Ledger:
        """What is in a log for good, record by record."""
        if partition not in self._ledgers:
            plan = self._world.plan
            compacted = self._world.is_compacted(partition)
            self._ledgers[partition] = Ledger(
                partition,
                compacted=compacted,
                keeps_tombstones=plan.keeps_tombstones,
                logged=partial(self._logged, partition),
            )
        return self._ledgers[partition]

    def _logged(
        self, partition: PartitionName, header: BatchHeader, content: bytes
    ) -> Transaction | Work | None:
        self._world.applications.logged(partition, header, content)
        self._world.natives.logged(partition, content)
        return self._world.transaction_of(partition, header, content)

    # as it happens ----------------------------------------------------------------------------------------

    def on_published(self, record: Record) -> None:
        """A writer published a record, or sent it again."""
        if self._world.natives.is_of_one(record):
            self._world.natives.on_published(record)
            return
        known = self.published[record.address]
        content = bytes(record.content)
        if record.sequence not in known:
            known[record.sequence] = content
            self.places[record.address][read_header(content).base_offset] = record.sequence
        elif known[record.sequence] != content:
            raise BrokenPromise(f"sequence {record.sequence} of {record.address} was used for two records")

    def on_fsynced(self, incarnation: str, commit: Commit) -> None:
        """A store's commit is durable."""
        for repair in commit.repairs:
            known = self.published[repair.state.address]
            for sequence, content in enumerate(repair.contents, repair.first):
                if known.get(sequence) != content:
                    raise BrokenPromise(
                        f"a store repaired {sequence} of {repair.state.address} with what was never published"
                    )
        for entry in commit.records:
            if not entry.row:
                continue  # kept as a native record: it counts for nobody
            address = entry.state.address
            self.fsynced[address, incarnation] = max(entry.sequence, self.fsynced[address, incarnation])
            published = self.published.get(address)
            if published is not None and published.get(entry.sequence) != entry.content:
                raise BrokenPromise(
                    f"a store keeps another record as {entry.sequence} of {address} than was published"
                )

    def on_acknowledged(self, log: Partition, name: bytes, offset: int) -> None:
        """A producer with acks=all was told that its batch is durable at this offset."""
        partition = log.topic.name, log.index
        for opened in log.chain.open_segments():
            sequence = self.places[opened.segment.address].get(offset)
            if sequence is not None:
                self.check_durable(opened.segment, sequence)
        known = self.acknowledged[partition].setdefault(offset, name)
        if known != name:
            raise BrokenPromise(f"offset {offset} of {partition} was given to {known!r} and to {name!r}")
        shown = self.shown[partition].get(offset)
        if shown is not None and name not in shown:
            raise BrokenPromise(
                f"{name!r} was acknowledged at offset {offset} of {partition}, which shows another"
            )

    def on_segment(self, key: str, before: bytes | None, after: bytes) -> None:
        """The catalog has a segment, or has it otherwise than before: what may change of it, and when."""
        segment = Segment.unpack(after)
        if segment.last_sequence is not None:
            self.check_durable(segment, segment.last_sequence)
            partition = self._world.partition_of(key)
            if partition is not None and not segment.is_compacted:
                published = self.published[segment.address]
                for sequence in range(segment.last_sequence + 1):
                    self.ledger(partition).add(published[sequence])
        if before is None:
            return
        old = Segment.unpack(before)
        if not old.is_open and (old.start_offset, old.last_sequence) != (
            segment.start_offset,
            segment.last_sequence,
        ):
            raise BrokenPromise(f"{segment.address} was closed, and its end changed")
        for member in set(segment.members) - set(old.members):
            if old.last_sequence is None or self.fsynced[segment.address, member] < old.last_sequence:
                raise BrokenPromise(f"{member} became a member of {segment.address} without the whole of it")

    def check_durable(self, segment: Any, sequence: int) -> None:
        """What is shown or acknowledged was fsynced by w members (some may have been lost since). The w that
        the product has noted counts only where it is higher than what is due.
        """
        needed = max(segment.w, self._world.plan.least_w(len(segment.members)))
        have = sum(self.fsynced[segment.address, member] >= sequence for member in segment.members)
        if have < needed:
            raise BrokenPromise(
                f"sequence {sequence} of {segment.address} counts as durable, and {have} members have fsynced"
                f" it, not {needed}"
            )

    def on_advanced(self, life: Life, log: Partition) -> None:
        """Who waits at a partition is told that something of it may be another."""
        world = self._world
        if log.available and not log.deleted and life in world.current_lives() and life.context.leads(log):
            world.transactions.shown(log)

    def watch(self, life: Life, partition: Partition) -> None:
        """Follow what a life shows of a partition."""
        partition.listeners.add(Watcher(self, life, partition))

    def show(self, partition: PartitionName, content: bytes) -> None:
        """A batch is visible."""
        offset = read_header(content).base_offset
        known = self.shown[partition].setdefault(offset, content)
        if known != content:
            raise BrokenPromise(f"offset {offset} of {partition} was shown with two contents")
        self.ledger(partition).add(content)

    def on_read(
        self,
        partition: PartitionName,
        offset: int,
        batches: Iterable[Any],
        log_start: int,
        began: float,
        *,
        stale: bool,
    ) -> None:
        """A consumer was given these batches for an offset, which it asked for at the time `began`.

        `stale`: by a gateway that was taken for dead.
        """
        ledger = self.ledger(partition)
        if ledger.compacted:
            ledger.check_read(offset, map(bytes, batches), log_start, began, stale=stale)
            return
        for batch in batches:
            content = bytes(batch)
            header = read_header(content)
            known = self.shown[partition].get(header.base_offset)
            if known is not None and known != content:
                raise BrokenPromise(
                    f"offset {header.base_offset} of {partition} was read with another content"
                )
            if offset > header.last_offset:
                raise BrokenPromise(
                    f"offset {offset} of {partition} was asked for, {header.base_offset} came"
                )
            offset = header.last_offset + 1
            self.show(partition, content)
