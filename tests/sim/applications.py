"""Programs of the simulated cluster that read, transform and write exactly once, and what becomes of that.

All of transactions is the product's here: the coordinator with its log and its sweep, verification, the
markers, offsets within transactions. Each program has a transactional id and a group. In a transaction it
takes the next few numbers, writes each of them to some partition, and commits the number after them as its
group's offset. Its instances crash at any moment, or another one comes while one is still at work (a zombie).

Judged is what the logs have. The first marker behind a part of a transaction decides what becomes of the
whole, and then (`Work.decide`):

* all other parts have the same end, and no part of another transaction has it as well;
* none is committed whose producer has not asked for that, and none aborted whose commit was answered;
* what a group has committed is the end of a committed transaction: at once, and never of an earlier one than
  before; a reader that wants it stable sees a commit that was answered;
* in the end the committed transactions have each number once, without a gap, up to the group's offset.
"""

from __future__ import annotations

import random
import re
from bisect import bisect, insort
from collections import defaultdict
from typing import TYPE_CHECKING

from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.journal.internal_topic import partition_for
from gateway.journal.loading import load_partition
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.replay import Replay
from tests.sim.loop import BrokenPromise
from tests.sim.plan import INPUTS
from tests.sim.transactions import State
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.control import read_marker
from wireproto.records.header import BatchHeader

if TYPE_CHECKING:
    from tests.sim.application import Instance
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life

COORDINATOR_PARTITIONS = 2
"""Of each of the topics that coordinators write to."""

FIRST_PRODUCER_ID = 10_000

_TAG = re.compile(rb"<X(\d+) ")


class Work:
    """One transaction: the numbers from `first` up to, and without, `end`."""

    def __init__(self, program: Program, number: int, first: int, end: int) -> None:
        self.program = program
        self.number = number
        self.first = first
        self.end = end
        self.state = State.OPEN
        """As far as it is seen in a log."""
        self.wants_commit = False
        """Its producer has asked for that."""
        self.commit_answered = False
        self.acknowledged: dict[PartitionName, int] = {}
        """The first offset that its producer was told of."""

    def __repr__(self) -> str:
        asked = ", its commit was asked for" if self.wants_commit else ""
        return f"<transaction {self.number} of {self.program.name}, {self.state.value}{asked}>"

    @property
    def tag(self) -> bytes:
        """Whatever belongs to it bears this."""
        return b"<X%d " % self.number

    def decide(self, *, is_commit: bool, where: str) -> None:
        """Something says how it has ended. Raises BrokenPromise."""
        said = State.COMMITTED if is_commit else State.ABORTED
        if self.state is not State.OPEN and self.state is not said:
            raise BrokenPromise(f"{self!r} is {said.value} {where}")
        if is_commit and not self.wants_commit:
            raise BrokenPromise(f"{self!r} is committed {where}")
        if not is_commit and self.commit_answered:
            raise BrokenPromise(f"{self!r} is aborted {where}, and its commit was answered")
        if self.state is State.OPEN:
            self.program.all.world.reached[f"transactions {said.value}"] += 1
        self.state = said

    def committed(self) -> None:
        """The coordinator says so."""
        self.commit_answered = True
        if self.state is State.ABORTED:
            raise BrokenPromise(f"the commit of {self!r} is answered")


class Program:
    """One transactional id, with the group of its offsets."""

    def __init__(self, all_of_them: Applications, number: int) -> None:
        self.all = all_of_them
        self.name = f"program-{number}"
        self.group = f"group-{number}"
        level = all_of_them.world.plan.transaction_version
        self.version = 2 if level > 1 and number % 2 == 0 else 1
        """The `transaction.version` of its client."""
        self.is_hasty = number % 4 > 1
        """Its transactions time out soon."""
        self.latest = (-1, -1)
        """The highest producer id and epoch that one of its instances was given, and since when."""
        self.latest_since = 0.0
        self.may_fence_until = 0.0
        """When the last InitProducerId took effect, as far as is known: whoever was initialised before that
        may be fenced."""
        self.seen = 0
        """The highest offset that its group was seen to have committed."""
        self.answered = 0
        """The end of the last transaction whose commit was answered."""

    def coordinator(self) -> PartitionName:
        return TRANSACTION_TOPIC, partition_for(self.name, COORDINATOR_PARTITIONS)

    def group_coordinator(self) -> PartitionName:
        return OFFSETS_TOPIC, partition_for(self.group, COORDINATOR_PARTITIONS)

    def given(self, producer_id: int, epoch: int) -> None:
        """An instance goes on with these."""
        if (producer_id, epoch) > self.latest:
            self.latest, self.latest_since = (producer_id, epoch), self.all.world.loop.now

    def fenced_until(self, when: float) -> None:
        """An InitProducerId has taken effect, or will have by then."""
        self.may_fence_until = max(self.may_fence_until, when)

    def looked(self, offset: int, seen: int, answered: int) -> None:
        """The group has committed this, as told to one who asked when `seen` was known, and `answered` if it
        wants it stable. Raises BrokenPromise.
        """
        if offset < max(seen, answered):
            raise BrokenPromise(f"{self.group} has {offset} behind {max(seen, answered)}")
        if offset > 0:
            ends = [work for work in self.all.works if work.program is self and work.end == offset]
            wanted = [work for work in ends if work.wants_commit and work.state is not State.ABORTED]
            if not wanted:
                raise BrokenPromise(f"{self.group} has {offset}, which nobody has committed: {ends}")
        self.seen = max(self.seen, offset)

    def judge(self) -> None:
        """What was committed is each number once. Raises BrokenPromise."""
        works = [w for w in self.all.works if w.program is self and w.state is State.COMMITTED]
        end = 0
        for work in sorted(works, key=lambda work: work.first):
            if work.first != end:
                raise BrokenPromise(f"{work!r} goes from {work.first} on, and {end} is next")
            end = work.end
        if self.seen != end:
            raise BrokenPromise(f"{self.group} has {self.seen}, and what is committed goes to {end}")
        lost = [w for w in self.all.works if w.commit_answered and w.state is not State.COMMITTED]
        if lost:
            raise BrokenPromise(f"the commit of {lost[0]!r} was answered")


class Applications:
    """All programs of one schedule."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = random.Random(f"applications {world.plan.seed}")
        self.works: list[Work] = []
        self.running = 0
        """Tasks that are not over."""
        self.programs = [Program(self, number) for number in range(world.plan.applications)]
        self._given: dict[tuple[int, int], Instance] = {}
        self._ends: defaultdict[PartitionName, Ends] = defaultdict(Ends)
        self._looked: set[str] = set()
        """Programs whose groups were looked at when all was healed."""

    def begin_work(self, program: Program, first: int, end: int) -> Work:
        work = Work(program, len(self.works), first, end)
        self.works.append(work)
        return work

    def given(self, producer_id: int, epoch: int, instance: Instance) -> None:
        """A coordinator gives this out. Raises BrokenPromise: two have it."""
        if self._given.setdefault((producer_id, epoch), instance) is not instance:
            raise BrokenPromise(f"two instances have producer id {producer_id} with epoch {epoch}")

    # what logs say ------------------------------------------------------------------------------------------

    def of(self, content: bytes) -> Work | None:
        """Whose part a batch is; None: of none of these."""
        found = _TAG.search(content)
        return None if found is None else self.works[int(found[1])]

    def logged(self, partition: PartitionName, header: BatchHeader, content: bytes) -> None:
        """A batch is in a log for good. Raises BrokenPromise."""
        if header.is_control:
            marker = read_marker(content)
            self._ends[partition].marker(header, is_commit=marker.is_commit, partition=partition)
        elif header.is_transactional and (work := self.of(content)) is not None:
            self._ends[partition].part(header, work, partition)

    # checks -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """No last stable offset is past an open transaction. Raises BrokenPromise."""
        for life in self.world.current_lives() if self.programs else ():
            for log in life.partitions() if life.serving else ():
                if not log.available or not life.context.leads(log):
                    continue
                for work in self.works:
                    first = work.acknowledged.get((log.topic.name, log.index))
                    if work.state is not State.OPEN or first is None:
                        continue
                    if max(first, log.log_start_offset) < log.last_stable_offset:
                        raise BrokenPromise(
                            f"{work!r} is open at {first} of {log}, {log.last_stable_offset} is stable"
                        )

    def missing(self) -> str:
        """Why not everything is over yet."""
        if not self.programs:
            return ""
        if self.running:
            return f"{self.running} instances are at work"
        for life in self.world.current_lives():
            coordinator = life.broker.transactions
            if coordinator.partitions_loading:
                return f"{coordinator.partitions_loading} partitions of {TRANSACTION_TOPIC} are not loaded"
            for one in coordinator.loaded():
                metadata = one.machine.metadata
                if one.machine.pending is not None or metadata is None or not metadata.is_at_rest:
                    return f"{one.transactional_id} is {metadata and metadata.state.label}"
        return ""

    async def audit(self) -> None:
        """What a restart would find is what is known. Raises BrokenPromise, KafkaError: not now."""
        for life in self.world.current_lives():
            topic, known = life.broker.topics.get(TRANSACTION_TOPIC), life.broker.transactions
            for partition in topic.partitions if topic is not None else ():
                if not life.context.leads(partition):
                    continue
                replay = Replay(partition.index)
                await load_partition(partition, replay)
                logged = {name: found.metadata for name, found in replay.transactions.items()}
                served = {
                    one.transactional_id: one.machine.metadata
                    for one in known.loaded()
                    if one.partition.index == partition.index
                }
                if not known.has_loaded(partition.index):
                    raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "its leader has changed")
                if logged != served:
                    raise BrokenPromise(f"{partition} has {logged}, and its coordinator {served}")
        for program in self.programs:
            program.judge()
        self.world.reached["transactions of programs"] += len(self.works)


class Ends:
    """Which marker ends what in one partition, in whatever order that is learned."""

    def __init__(self) -> None:
        self._markers: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        """Producer id -> offsets of its markers, ascending, and whether they commit."""
        self._parts: defaultdict[int, list[tuple[int, int, Work]]] = defaultdict(list)
        """Producer id -> offsets of its batches, ascending, with the numbers of their transactions."""

    def marker(self, header: BatchHeader, *, is_commit: bool, partition: PartitionName) -> None:
        markers, offset = self._markers[header.producer_id], header.base_offset
        insort(markers, (offset, is_commit))
        place = bisect(markers, (offset, is_commit))
        before = markers[place - 2][0] if place > 1 else -1
        for at, _, work in self._parts[header.producer_id]:
            if before < at < offset:
                work.decide(is_commit=is_commit, where=f"by the marker at {offset} of {partition}, at {at}")

    def part(self, header: BatchHeader, work: Work, partition: PartitionName) -> None:
        offset = header.base_offset
        insort(self._parts[header.producer_id], (offset, work.number, work))
        markers = self._markers[header.producer_id]
        place = bisect(markers, (offset, False))
        if place < len(markers):
            at, is_commit = markers[place]
            work.decide(is_commit=is_commit, where=f"by the marker at {at} of {partition}, at {offset}")


def source_of(_program: Program) -> PartitionName:
    """What a program reads; nothing is there, it is about the offset."""
    return INPUTS, 0


def leads(life: Life, world: World, partition: PartitionName) -> bool:
    """Whether what this life says of a partition counts."""
    return world.leader_of(partition) is life and not life.zombie
