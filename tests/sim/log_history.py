"""What clients asked of each partition's log, and were told: judged as one history when a schedule is over.

Times are numbers that go up with each event, so that no two are the same. What is asked and answered in one
turn of the loop has one moment, and an append has the time from when its batch came to a gateway first until
a gateway has told its producer that it is durable.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from gateway.catalog import keys
from gateway.leadership.records import slot_number, unpack_slot
from gateway.leadership.slots import slot_of
from tests.linearizable.search import NEVER, Operation, judge
from tests.sim.log_model import Append, Log, MoveStart, is_read, log_model
from tests.sim.loop import BrokenPromise

if TYPE_CHECKING:
    from gateway.catalog.mirror import Plan
    from gateway.log.partition import Partition
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life
    from tests.sim.ledger import Ledger

NO_SLOT = -1
"""Of a gateway that is alone: it loses everything at once."""


class LogHistory:
    """Of one schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = count(1)
        self._operations: defaultdict[PartitionName, list[Operation]] = defaultdict(list)
        self._came: dict[tuple[PartitionName, bytes], int] = {}
        """A batch by its name -> when it came to a gateway first."""
        self._acknowledged: dict[tuple[PartitionName, bytes], tuple[int, int]] = {}
        """A batch by its name -> when it was acknowledged first, with its offset."""
        self._lost: dict[tuple[Life | str, int], tuple[int, float]] = {}
        """(life, slot) -> when the slot was another life's, also in seconds of the world's time."""

    def now(self) -> int:
        return next(self._clock)

    # who leads --------------------------------------------------------------------------------------------

    def on_transaction(self, plan: Plan) -> None:
        """A transaction of the catalog is about to count."""
        entries = self._world.catalog_file.entries
        for key, entry in plan.entries.items():
            if key.startswith(keys.SLOTS) and entry is not None:
                before, slot = entries.get(key), slot_number(key.removeprefix(keys.SLOTS))
                if before is not None:
                    self._lose(unpack_slot(before.value).life, slot)
                self._lost.pop((unpack_slot(entry.value).life, slot), None)
            elif key.startswith(keys.PARTITIONS) and entry is not None:
                self._on_record(key, entry.value)

    def _on_record(self, key: str, value: bytes) -> None:
        start = keys.unpack(value)["log_start"]
        before = self._world.catalog_file.entries.get(key)
        if start > (0 if before is None else keys.unpack(before.value)["log_start"]):
            topic_id, index = key.removeprefix(keys.PARTITIONS).split("/")
            partition = self._world.topic_names[topic_id], int(index)
            self._add(partition, "the catalog", self.now(), NEVER, MoveStart(start), None)

    def deposed(self, life: Life) -> None:
        """Where one gateway leads everything: another one does from now on."""
        self._lose(life, NO_SLOT)

    def _lose(self, life: Life | str, slot: int) -> None:
        self._lost.setdefault((life, slot), (self.now(), self._world.loop.now))

    def led_until(self, life: Life, log: Partition) -> tuple[int, float] | None:
        """When this life lost the partition, also in seconds; None while it leads it."""
        name, slot = (life.life_name, slot_of(log.topic.id, log.index)) if life.gateway else (life, NO_SLOT)
        return self._lost.get((name, slot))

    # what is asked and answered ---------------------------------------------------------------------------

    def batch_came(self, partition: PartitionName, name: bytes) -> None:
        """A batch is at a gateway."""
        self._came.setdefault((partition, name), self.now())

    def batch_acknowledged(self, partition: PartitionName, name: bytes, offset: int) -> None:
        """A gateway says that a batch is durable on w members."""
        self._acknowledged.setdefault((partition, name), (self.now(), offset))

    def answered(self, life: Life, log: Partition, asked: Any, answer: Any, invoked: int = 0) -> None:
        """This life has answered. `invoked`: when it was asked, if that was not now."""
        now = self.now()
        invoked = invoked or now
        lost = self.led_until(life, log)
        if lost is not None:
            moment, seconds = lost
            late = self._world.loop.now - seconds
            if late > self._world.stale_seconds(life):
                raise BrokenPromise(
                    f"life {life.number} answers {asked} of {log}, which it lost {late:.3f} s ago"
                )
            self._world.reached["answers of who has led the partition before"] += 1
            invoked = min(invoked, moment)
        who = f"life {life.number}"
        self._add((log.topic.name, log.index), who, invoked, now, asked, answer)

    def _add(
        self, partition: PartitionName, who: str, invoked: int, returned: float, asked: Any, answer: Any
    ) -> None:
        self._operations[partition].append(Operation(who, invoked, returned, asked, answer))

    # the judgement ----------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Raises BrokenPromise: some partition's log is not one thing after the other."""
        for partition in sorted({*self._operations, *(partition for partition, _ in self._came)}):
            if partition[0] not in self._world.deleted_topics:
                self._judge(partition)

    def _judge(self, partition: PartitionName) -> None:
        appends = self._appends(partition)
        entries = [operation.asked for operation in appends]
        told = judge([*self._operations[partition], *appends], log_model(entries), Log(0), is_read=is_read)
        if not told.is_good:
            raise BrokenPromise(f"the log of {partition} is {told}")
        self._world.reached["operations of logs judged together"] += len(told.order)

    def _appends(self, partition: PartitionName) -> list[Operation]:
        """Of the batches that are in the log for good. Raises BrokenPromise: one that was acknowledged is
        not, or elsewhere.
        """
        ledger = self._world.history.ledger(partition)
        found = []
        places = set()
        for base, end in pairwise([*sorted(ledger.bases), max(ledger.records, default=-1) + 1]):
            name = _name(ledger, base)
            places.add((name, base))
            when, offset = self._acknowledged.get((partition, name), (NEVER, -1))
            asked = Append(base, end, ledger.records[base].epoch)
            # One that was sent again without a producer id may be there twice: one of them is promised.
            returned = when if offset == base else NEVER
            found.append(Operation(name, self._came.get((partition, name), 0), returned, asked, None))
        for (log, name), (_, offset) in self._acknowledged.items():
            if log == partition and (name, offset) not in places:
                raise BrokenPromise(f"{name!r} was acknowledged at offset {offset} of {partition}: not there")
        return found


def _name(ledger: Ledger, offset: int) -> bytes:
    """Of the batch that a record came in; what no producer of the world has named is one for itself."""
    record = ledger.records[offset]
    value = None if ledger.compacted else record.value
    return dict(record.headers).get("name") or value or b"%d" % offset
