"""One instance of a program that works exactly once, as clients of Kafka do it (`TransactionManager`).

It begins with InitProducerId, which ends whatever an earlier one of its name has left open, and with its
group's offset. Clients of both protocols are here: the older ones add partitions before they write, keep
their epoch, and ask for another one when they have given up a batch; the newer ones have another epoch in
each transaction. Requests are lost, doubled and late, as far as their protocol can bear it: the older one
cannot tell a late EndTxn, or a late commit of offsets, from one of the next transaction.
"""

from __future__ import annotations

import math
import random
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from tests.sim import asking
from tests.sim.applications import Program, Work, leads, source_of
from tests.sim.asking import ADD_VERSION, OFFSET_FETCH_VERSION, VERSIONS
from tests.sim.clients import NETWORK_SECONDS, REQUEST_SECONDS, RETRY_SECONDS
from tests.sim.clients import Producer as Records
from tests.sim.loop import BrokenPromise
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.records.builder import build_batch
from wireproto.records.header import TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from tests.sim.applications import Applications
    from tests.sim.clients import PartitionName
    from tests.sim.gateway_node import Life

PATIENT_TIMEOUT_MS = 900_000
HASTY_TIMEOUT_MS = 1_500

PATIENCE_SECONDS = 3.0
"""After which a batch is given up, and with it the transaction."""


class Habits(NamedTuple):
    """How programs work, and how their requests fare."""

    impatient: float
    """Share of the batches that are given up when there was no answer once."""
    thinks: float
    """Share of the steps before which an instance does something else for a while: longer than its
    transaction may take, if that times out soon.
    """
    late: float
    doubled: float
    """Shares of requests, of those that may be late."""
    late_seconds: float
    """How late a request may arrive."""


USUAL = Habits(impatient=0.4, thinks=0.25, late=0.06, doubled=0.1, late_seconds=3.0)
HURRIED = Habits(impatient=1.0, thinks=0.1, late=0.4, doubled=0.2, late_seconds=0.3)
"""Batches are given up at once, and come when their transaction is being ended."""

TAKES_EFFECT_SECONDS = 10.0
"""How long an InitProducerId may wait for its effect that was told to try again."""

COMMITS = 0.75
"""Share of the transactions that are not aborted for nothing."""

STOPS_IN_THE_MIDDLE = 0.5
"""Share of the instances that are followed by another one and are gone then; the others go on."""

PASSES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


class Instance:
    """One, from its InitProducerId on. `last`: it makes one transaction, when all is healed."""

    def __init__(self, program: Program, *, last: bool = False) -> None:
        self.over = trio.Event()
        self.scope = trio.CancelScope()
        self.initialised = float("inf")
        """When it was told that it is the one."""
        self._program = program
        self._all: Applications = program.all
        self._world = program.all.world
        self._random = random.Random(f"{program.name} {self._world.plan.seed} {len(self._all.works)}")
        self._versions = VERSIONS[program.version]
        self._habits = HURRIED if self._world.plan.hurried else USUAL
        self._last = last
        self._id = self._epoch = -1
        self._position = 0
        self._sequences: dict[PartitionName, int] = {}
        self._batches = 0
        self._is_over = False
        """Another one has taken its place, or its transaction took too long."""
        self._gave_up = False

    async def run(self) -> None:
        """Work until it is over."""
        self._all.running += 1
        try:
            with self.scope:
                await self._run()
        finally:
            self._all.running -= 1
            self.over.set()

    async def _run(self) -> None:
        await self._initialise()
        if not self._is_over:
            await self._begin_at_the_offset()
        while not self._is_over and (self._world.working or self._last):
            await self._transact()
            if self._last:
                return
            await trio.sleep(self._world.plan.pace * self._random.uniform(0.2, 3.0))

    # requests -----------------------------------------------------------------------------------------------

    async def _ask(
        self, to: PartitionName, version: int, request: Any, *, may_be_late: bool = False
    ) -> Any | None:
        """The answer of who leads the partition, with that one; None: there is none in time."""
        world = self._world
        if world.working and may_be_late:
            draw = self._random.random()
            if draw < self._habits.late + self._habits.doubled:
                late = self._random.uniform(0.05, self._habits.late_seconds)
                world.loop.after(late, self._come_late, to, version, request)
            if draw < self._habits.late:
                await trio.sleep(REQUEST_SECONDS)
                return None
        await trio.sleep(NETWORK_SECONDS)
        life = world.gateway_of(None, to)
        if life is None or not life.answers:
            await trio.sleep(RETRY_SECONDS)
            return None
        answers: list[Any] = []
        over = trio.Event()
        life.nursery.start_soon(self._carry_out, life, version, request, answers, over)
        with trio.move_on_after(REQUEST_SECONDS):
            await over.wait()
        lost = world.working and self._random.random() < world.plan.lost
        return (life, answers[0]) if answers and not lost else None

    async def _carry_out(
        self, life: Life, version: int, request: Any, answers: list[Any], over: trio.Event
    ) -> None:
        effect = math.inf
        try:
            answer = await asking.ask(life, version, request)
            if life.answers:
                answers.append(answer)
            takes_long = _error_of(answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            effect = self._world.loop.now + (TAKES_EFFECT_SECONDS if takes_long else 0.0)
        finally:
            if request.API_KEY == ApiKey.INIT_PRODUCER_ID:
                # Of a life that died in the middle the log may have it.
                self._program.fenced_until(min(effect, self._world.loop.now + TAKES_EFFECT_SECONDS))
        over.set()

    def _come_late(self, to: PartitionName, version: int, request: Any) -> None:
        """Nobody waits for the answer any more."""
        life = self._world.gateway_of(None, to)
        if life is not None and life.answers:
            self._world.reached["requests that came late"] += 1
            life.nursery.start_soon(self._carry_out, life, version, request, [], trio.Event())

    async def _persist(
        self, to: PartitionName, version: int, request: Any, *, may_be_late: bool = False
    ) -> tuple[ErrorCode, Any]:
        """The first answer that does not pass."""
        while True:
            answer = await self._ask(to, version, request, may_be_late=may_be_late)
            if answer is not None:
                error = ErrorCode(_error_of(answer[1]))
                if error not in PASSES:
                    return error, answer[1]
            await trio.sleep(RETRY_SECONDS)

    def _ends_with(self, error: ErrorCode, what: str) -> None:
        """It was told what ends a producer. Raises BrokenPromise: and it is the only one."""
        self._world.reached[f"instances ended: {error.name}"] += 1
        program = self._program
        if not program.is_hasty and program.may_fence_until <= self.initialised:
            raise BrokenPromise(f"{program.name} is told {error.name} for {what}, and nobody else came")
        self._is_over = True

    # the beginning ------------------------------------------------------------------------------------------

    async def _initialise(self, producer_id: int = -1, epoch: int = -1) -> None:
        program = self._program
        timeout_ms = HASTY_TIMEOUT_MS if program.is_hasty else PATIENT_TIMEOUT_MS
        request = asking.init(program.name, timeout_ms, producer_id, epoch)
        error, answer = await self._persist(program.coordinator(), self._versions.init, request)
        if error is not ErrorCode.NONE:
            self._ends_with(error, "InitProducerId")
            return
        self._begin_epoch(answer.producer_id, answer.producer_epoch)
        self.initialised = min(self.initialised, self._world.loop.now)

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._id, self._epoch):
            self._sequences.clear()
        self._id, self._epoch = producer_id, epoch
        self._all.given(producer_id, epoch, self)
        self._program.given(producer_id, epoch)

    async def _begin_at_the_offset(self) -> None:
        self._position = await self.look_until_known()

    async def look_until_known(self) -> int:
        """What the group has committed, stable."""
        while True:
            offset = await self.look(stable=True)
            if offset is not None:
                return offset
            await trio.sleep(RETRY_SECONDS)

    async def look(self, *, stable: bool) -> int | None:
        """What the group has committed; None: that is not known now."""
        program = self._program
        seen, answered = program.seen, program.answered if stable else 0
        place = program.group_coordinator()
        request = asking.fetch_offset(program.group, source_of(program), stable=stable)
        answer = await self._ask(place, OFFSET_FETCH_VERSION, request)
        if answer is None or answer[1].error_code:
            return None
        life, ((found,),) = answer[0], [topic.partitions for topic in answer[1].topics]
        if found.error_code:
            self._world.reached["unstable offsets"] += 1
            return None
        if not leads(life, self._world, place):
            return None
        offset: int = max(0, found.committed_offset)
        program.looked(offset, seen, answered)
        return offset

    # a transaction ------------------------------------------------------------------------------------------

    async def _transact(self) -> None:
        partitions = self._partitions()
        if not partitions:
            self._is_over = True
            return
        count = self._random.choice((1, 1, 2, 3, 5))
        work = self._all.begin_work(self._program, self._position, self._position + count)
        self._gave_up = False
        to = {number: self._random.choice(partitions) for number in range(work.first, work.end)}
        if self._program.version == 1 and not await self._add(sorted(set(to.values()))):
            return
        async with trio.open_nursery() as nursery:
            for partition in sorted(set(to.values())):
                numbers = [number for number, place in to.items() if place == partition]
                nursery.start_soon(self._write_all, work, partition, numbers)
        if not self._is_over and not self._gave_up:
            await self._commit_offsets(work)
        await self._think()
        if not self._is_over:
            commits = not self._gave_up and (self._last or self._random.random() < COMMITS)
            await self._end(work, commit=commits)

    def _partitions(self) -> list[PartitionName]:
        plan, deleted = self._world.plan, self._world.deleted_topics
        names = [
            (f"topic-{topic}", index)
            for topic in range(plan.topics)
            for index in range(plan.partitions)
            if f"topic-{topic}" not in deleted
        ]
        return self._random.sample(names, self._random.randint(1, len(names))) if names else []

    async def _think(self) -> None:
        if self._world.working and self._random.random() < self._habits.thinks:
            await trio.sleep(self._random.uniform(0.0, 2.5 if self._program.is_hasty else 0.6))

    async def _add(self, partitions: list[PartitionName]) -> bool:
        """As the older protocol has it; whether they are part of the transaction now."""
        program = self._program
        request = asking.add_partitions(program.name, self._id, self._epoch, partitions)
        error, _ = await self._persist(program.coordinator(), ADD_VERSION, request)
        if error is ErrorCode.NONE:
            return True
        is_gone = any(topic in self._world.deleted_topics for topic, _ in partitions)
        if not is_gone or error not in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        ):
            self._ends_with(error, "AddPartitionsToTxn")
        return False

    async def _write_all(self, work: Work, partition: PartitionName, numbers: list[int]) -> None:
        for number in numbers:
            await self._think()
            if self._is_over or self._gave_up:
                return
            await self._write(work, partition, number)

    async def _write(self, work: Work, partition: PartitionName, number: int) -> None:
        world = self._world
        self._batches += 1
        name = work.tag + b"%d %d %s>" % (self._batches, number, self._program.name.encode())
        records = Records(world, self._id, partition, self._id, -1)._records(
            name, self._random.choice((1, 2))
        )
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(records)
        content = build_batch(
            records,
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_FLAG,
        )
        world.asked.batch_came(partition, name)
        made = world.loop.now
        patience = 0.0 if self._random.random() < self._habits.impatient else PATIENCE_SECONDS
        while not self._is_over:
            sent = world.loop.now
            request = asking.produce(self._program.name, partition, content)
            answer = await self._ask(partition, self._versions.produce, request, may_be_late=True)
            if answer is not None:
                ((result,),) = [topic.partition_responses for topic in answer[1].responses]
                error = ErrorCode(result.error_code)
                if error is ErrorCode.NONE:
                    self._acknowledged(answer[0], work, partition, name, result.base_offset, sent)
                    return
                if partition[0] in world.deleted_topics and error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._gave_up = True
                    return
                if error not in PASSES:
                    self._ends_with(error, f"Produce of {work!r}")
                    return
            is_late = answer is None or world.loop.now - made > PATIENCE_SECONDS
            if is_late and world.loop.now - made > patience and world.working:
                world.reached["batches given up"] += 1
                self._gave_up = True
                return
            await trio.sleep(RETRY_SECONDS)

    def _acknowledged(
        self, life: Life, work: Work, partition: PartitionName, name: bytes, offset: int, sent: float
    ) -> None:
        latest = self._program.latest
        if latest > (self._id, self._epoch) and self._program.latest_since < sent:
            raise BrokenPromise(f"a batch of {work!r} was taken, and {latest} had been given before")
        log = life.partition(*partition)
        if log is not None and life.answers:
            self._world.history.on_acknowledged(log, name, offset)
            self._world.asked.batch_acknowledged(partition, name, offset)
            work.acknowledged[partition] = min(offset, work.acknowledged.get(partition, offset))
        self._world.reached["transactional batches acknowledged"] += 1

    async def _commit_offsets(self, work: Work) -> None:
        program, world = self._program, self._world
        if program.version == 1:
            request = asking.add_offsets(program.name, self._id, self._epoch, program.group)
            error, _ = await self._persist(program.coordinator(), ADD_VERSION, request)
            if error is not ErrorCode.NONE:
                self._ends_with(error, "AddOffsetsToTxn")
                return
        request = asking.commit_offsets(
            program.name,
            program.group,
            self._id,
            self._epoch,
            {source_of(program): work.end},
            (work.tag + b">").decode(),
        )
        made = world.loop.now
        while True:
            answer = await self._ask(
                program.group_coordinator(),
                self._versions.commit_offsets,
                request,
                may_be_late=program.version > 1,
            )
            if answer is not None:
                ((result,),) = [topic.partitions for topic in answer[1].topics]
                error = ErrorCode(result.error_code)
                if error is ErrorCode.NONE:
                    world.reached["offsets committed in transactions"] += 1
                    return
                if error not in PASSES:
                    self._ends_with(error, "TxnOffsetCommit")
                    return
            if world.loop.now - made > PATIENCE_SECONDS and world.working:
                self._gave_up = True
                return
            await trio.sleep(RETRY_SECONDS)

    async def _end(self, work: Work, *, commit: bool) -> None:
        program = self._program
        work.wants_commit = commit
        request = asking.end(program.name, self._id, self._epoch, commit=commit)
        error, answer = await self._persist(
            program.coordinator(), self._versions.end, request, may_be_late=program.version > 1
        )
        if error is not ErrorCode.NONE:
            self._ends_with(error, f"EndTxn of {work!r}")
            return
        if commit:
            work.committed()
            self._position = work.end
            program.answered = max(program.answered, work.end)
        if program.version > 1:
            self._begin_epoch(answer.producer_id, answer.producer_epoch)
        elif self._gave_up:
            await self._initialise(self._id, self._epoch)


def _error_of(answer: Any) -> int:
    """Of an answer of the coordinator: its first error, if any."""
    topics = getattr(answer, "results_by_topic_v3_and_below", None)
    if topics is None:
        return int(getattr(answer, "error_code", 0) or 0)
    errors = [one.partition_error_code for topic in topics for one in topic.results_by_partition]
    return next((error for error in errors if error), 0)


async def run_program(program: Program) -> None:
    """Its instances, one after the other, or side by side."""
    world, chance = program.all.world, program.all.random
    program.all.running += 1
    while world.working:
        instance = Instance(program)
        world.nursery.start_soon(instance.run)
        with trio.move_on_after(chance.uniform(0.3, 4.0)):
            await instance.over.wait()
        if not instance.over.is_set() and chance.random() < STOPS_IN_THE_MIDDLE:
            instance.scope.cancel()
            world.reached["instances that crashed"] += 1
            if program.is_hasty and chance.random() < 0.5:
                await trio.sleep(chance.uniform(1.0, 3.0))
        elif not instance.over.is_set():
            world.reached["instances beside another one"] += 1
    await Instance(program, last=True).run()
    await Instance(program).look_until_known()
    program.all.running -= 1


async def look_at(program: Program) -> None:
    """Somebody else asks for the group's offset now and then."""
    world = program.all.world
    looks = Instance(program)
    while world.working:
        await trio.sleep(program.all.random.uniform(0.01, 0.2))
        await looks.look(stable=program.all.random.random() < 0.5)


def start_programs(all_of_them: Applications) -> None:
    """Begin to work."""
    world = all_of_them.world
    for program in all_of_them.programs:
        for begin in (partial(run_program, program), partial(look_at, program)):
            world.nursery.start_soon(begin)
