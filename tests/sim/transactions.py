"""Transactional producers of the simulated cluster, and a coordinator of which only the decisions are real.

The partitions are the product's; the coordinator here is the worst that a real one may be. It never loses a
decision, as its log would not. But it is followed by another one now and then, under a later epoch and with
numbers of its own, which sends all markers that are not known to be written; the one before goes on sending
for a while, and what either has sent may arrive twice, or seconds later, when the next transaction is open.

A batch that would begin a transaction in a partition is verified by the coordinator in that moment (KIP-890).
Who has given up a batch goes on under a later epoch, as clients do.
"""

from __future__ import annotations

import enum
import random
from collections import Counter, defaultdict
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, cast

from gateway.common.marker import Marker
from tests.sim.clients import NETWORK_SECONDS, REQUEST_SECONDS, RETRY_SECONDS, AppendWaiter
from tests.sim.clients import Producer as Records
from tests.sim.loop import BrokenPromise
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import read_header
from wireproto.records.builder import build_batch
from wireproto.records.header import TRANSACTIONAL_FLAG, BatchHeader

if TYPE_CHECKING:
    from gateway.log.appends import Append, Completion
    from gateway.log.partition import Partition
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life

FIRST_ID = 500
"""Of the transactional producers' ids."""

PATIENCE_SECONDS = 4.0
"""After which a producer gives up a batch, and with it the transaction."""

TIMEOUT_SECONDS = 2.0
"""After which a coordinator aborts the transaction of a producer that is gone."""

GOES_AWAY = 0.1
"""Share of the transactions whose producers are gone before their ends."""

LATE_SECONDS = 3.0
"""How late a marker may arrive."""

GOES_ON_SECONDS = 1.5
"""How long a coordinator that was followed by another one goes on sending."""

COORDINATOR_LIVES_SECONDS = 1.2
"""Until another one follows, on average."""

PASSES = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS})


class State(enum.Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction:
    """One. It is `complete` when all of its partitions have its marker."""

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.marker_epoch = epoch
        self.state = State.OPEN
        self.partitions: dict[PartitionName, None] = {}
        self.ended: defaultdict[int, set[PartitionName]] = defaultdict(set)
        """Coordinator epoch -> the partitions of which that coordinator knows that they have the marker."""
        self.complete = False
        self.acknowledged: dict[PartitionName, dict[int, bytes]] = {}
        """Base offset -> content, of what its producer was told is durable."""

    def __repr__(self) -> str:
        return f"<transaction of {self.producer_id}, epoch {self.epoch}, {self.state.value}>"


class Transactions:
    """All of one schedule."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = random.Random(f"transactions {world.plan.seed}")
        self.coordinator_epoch = 1
        self.producers = [TransactionalProducer(self, n) for n in range(world.plan.transactions)]
        self._by_batch: dict[tuple[PartitionName, int, int, int], Transaction] = {}
        self._numbers = count(1)
        self._number_of: dict[Transaction, int] = {}
        """Those of the present coordinator."""
        self._pending: dict[Transaction, None] = {}
        """Decided and not complete."""
        self._sent: Counter[tuple[Transaction, PartitionName, int]] = Counter()
        """How often a marker was sent under a coordinator epoch."""
        self._stable: defaultdict[PartitionName, int] = defaultdict(lambda: -1)
        """The highest last stable offset that was shown."""

    def begin(self) -> None:
        """Begin to write."""
        for producer in self.producers:
            producer.begin()
        if self.producers:
            self.world.loop.after(COORDINATOR_LIVES_SECONDS, self._another_coordinator)

    # what the checks ask ------------------------------------------------------------------------------------

    def of(self, partition: PartitionName, header: BatchHeader) -> Transaction | None:
        """Whose part a batch is; None: of no transaction."""
        if not header.is_transactional or header.is_control:
            return None
        return self._by_batch[partition, header.producer_id, header.producer_epoch, header.base_sequence]

    def named(self, partition: PartitionName, transaction: Transaction, sequence: int) -> None:
        """A batch with this sequence is going to be sent."""
        self._by_batch[partition, transaction.producer_id, transaction.epoch, sequence] = transaction

    def missing(self) -> str:
        """Why not everything is decided, and ended, yet."""
        if self._pending:
            return f"{len(self._pending)} transactions have not all markers, {next(iter(self._pending))!r}"
        for producer in self.producers:
            if producer.transaction is not None:
                return f"{producer.transaction!r} is not over"
        for life in self.world.current_lives():
            for log in life.partitions():
                if life.context.leads(log) and log.last_stable_offset != log.high_watermark:
                    return (
                        f"the last stable offset of {log} is {log.last_stable_offset} of {log.high_watermark}"
                    )
        return ""

    def check(self) -> None:
        """No last stable offset is past an open transaction. Raises BrokenPromise."""
        for life in self.world.current_lives() if self.producers else ():
            for log in life.partitions() if life.serving else ():
                if log.available and life.context.leads(log):
                    self._check(log)

    def shown(self, log: Partition) -> None:
        """The last stable offset may be another one: consumers are told. Raises BrokenPromise."""
        name = log.topic.name, log.index
        if log.last_stable_offset < self._stable[name]:
            raise BrokenPromise(
                f"the last stable offset of {log} is {log.last_stable_offset}, {self._stable[name]} was shown"
            )
        self._stable[name] = log.last_stable_offset

    def _check(self, log: Partition) -> None:
        name = log.topic.name, log.index
        self.shown(log)
        if log.last_stable_offset > log.high_watermark:
            raise BrokenPromise(f"the last stable offset of {log} is {log.last_stable_offset}")
        for producer in self.producers:
            transaction = producer.transaction
            if transaction is not None and transaction.state is State.OPEN:
                first = min(transaction.acknowledged.get(name, {}), default=None)
                stable = log.last_stable_offset
                if first is not None and max(first, log.log_start_offset) < stable:
                    raise BrokenPromise(f"{transaction!r} is open at {first} of {log}, {stable} is stable")

    # deciding -----------------------------------------------------------------------------------------------

    def verify(self, transaction: Transaction, partition: PartitionName) -> bool:
        """Whether the transaction is open, and has the partition."""
        return transaction.state is State.OPEN and partition in transaction.partitions

    def decide(self, transaction: Transaction, state: State, *, fences: bool = False) -> None:
        """It is decided, durably; its markers are sent. `fences`: under an epoch that its producer does not
        have.
        """
        assert transaction.state is State.OPEN
        transaction.state = state
        transaction.marker_epoch = transaction.epoch + fences
        self.world.reached[f"transactions {state.value}"] += 1
        self._pending[transaction] = None
        self._end(transaction)

    def _end(self, transaction: Transaction) -> None:
        """Send the markers that are not known to be written."""
        self._number_of[transaction] = number = next(self._numbers)
        self._complete_if_all(transaction)
        for partition in transaction.partitions:
            if partition not in transaction.ended[self.coordinator_epoch]:
                self._send(transaction, partition, self.coordinator_epoch, number)

    def _another_coordinator(self) -> None:
        """It has loaded all decisions, and nothing of what became of the markers."""
        if self.world.working:
            pause = COORDINATOR_LIVES_SECONDS * self.random.uniform(0.2, 1.8)
            self.world.loop.after(pause, self._another_coordinator)
        self.world.reached["coordinators that followed another one"] += 1
        self.coordinator_epoch += 1
        self._numbers = count(1)
        for transaction in tuple(self._pending):
            self._end(transaction)

    # markers ------------------------------------------------------------------------------------------------

    def _send(
        self, transaction: Transaction, partition: PartitionName, epoch: int, number: int, until: float = 0.0
    ) -> None:
        """Have a marker written, under this coordinator epoch, until it is."""
        world = self.world
        is_mine = epoch == self.coordinator_epoch and self._number_of.get(transaction) == number
        if is_mine:
            until = world.loop.now + GOES_ON_SECONDS  # as long as it does not know better
        elif world.loop.now >= until or not world.working:
            return
        if partition in transaction.ended[epoch]:
            return
        life = world.gateway_of(None, partition)
        log = None if life is None or not life.answers else life.partition(*partition)
        if life is None or log is None:
            if partition[0] in world.deleted_topics:
                self._ended(transaction, partition, epoch)
            else:
                world.loop.after(RETRY_SECONDS, self._send, transaction, partition, epoch, number, until)
            return
        marker = Marker(
            transaction.producer_id,
            transaction.marker_epoch,
            epoch,
            transaction.state is State.COMMITTED,
            number,
        )
        sent = transaction, partition, epoch
        self._sent[sent] += 1
        world.loop.after(REQUEST_SECONDS, self._not_answered, self._sent[sent], *sent, number, until)
        arrive = partial(self._arrive, transaction, partition, marker, life, log.leader_epoch, until)
        bad = world.working
        world.loop.after(self._delay() if bad else NETWORK_SECONDS, arrive, True)
        if bad and self.random.random() < 0.3:
            world.loop.after(self.random.uniform(0.0, LATE_SECONDS), arrive, False)
        if bad and self.random.random() < 0.1:  # nobody has heard the answer: once more
            world.loop.after(RETRY_SECONDS, self._send, transaction, partition, epoch, number, until)

    def _not_answered(
        self,
        times: int,
        transaction: Transaction,
        partition: PartitionName,
        epoch: int,
        number: int,
        until: float,
    ) -> None:
        """Send it again, unless that was done meanwhile."""
        if self._sent[transaction, partition, epoch] == times:
            self._send(transaction, partition, epoch, number, until)

    def _delay(self) -> float:
        if self.random.random() < 0.2:
            return self.random.uniform(0.0, LATE_SECONDS / 2)
        return NETWORK_SECONDS

    def _arrive(
        self,
        transaction: Transaction,
        partition: PartitionName,
        marker: Marker,
        life: Life,
        leader_epoch: int,
        until: float,
        answered: bool,
    ) -> None:
        """A marker is at a gateway, perhaps long after it was sent."""
        log = life.partition(*partition) if life.answers else None
        again = partial(self._send, transaction, partition, marker.coordinator_epoch, marker.number, until)
        if log is None:
            if answered:
                self.world.loop.after(RETRY_SECONDS, again)
            return
        self.world.asked.batch_came(partition, b"%d" % log.next_offset)
        opened = self._open_in(log, partition, transaction.producer_id)
        try:
            append = log.append_marker(marker, life.broker.context.now_ms(), leader_epoch)
        except KafkaError as error:
            self._refused(transaction, marker, error, again if answered else None)
            return
        # It may be open yet to a gateway that has led the partition before, and does not know better.
        is_another = opened not in {None, transaction} and transaction.complete
        if is_another and self._open_in(log, partition, transaction.producer_id) is None:
            raise BrokenPromise(f"a marker of {transaction!r}, which is complete, ended {opened!r} in {log}")

        def done(append: Append) -> None:
            if append.error is ErrorCode.NONE:
                self._ended(transaction, partition, marker.coordinator_epoch)
            elif answered:
                self.world.loop.after(RETRY_SECONDS, again)

        if append.done:
            done(append)
        else:
            append.wait_with(cast("Completion", AppendWaiter(append, done)))

    def _open_in(self, log: Partition, name: PartitionName, producer_id: int) -> Transaction | None:
        """The producer's transaction that is open there; None: none is."""
        found = log.producers.state.find(producer_id)
        if found is None or not found.has_open:
            return None
        return self._by_batch[name, producer_id, found.epoch, found.batches[-1].first_sequence]

    def _refused(
        self, transaction: Transaction, marker: Marker, error: KafkaError, again: partial[None] | None
    ) -> None:
        if error.code in PASSES:
            if again is not None:
                self.world.loop.after(RETRY_SECONDS, again)
            return
        self.world.reached[f"markers refused: {error.code.name}"] += 1
        if marker.coordinator_epoch == self.coordinator_epoch and not transaction.complete:
            raise BrokenPromise(f"the marker of {transaction!r} is refused for good: {error}")

    def _ended(self, transaction: Transaction, partition: PartitionName, epoch: int) -> None:
        """A marker is written, or its topic is gone: the coordinator that has sent it knows."""
        transaction.ended[epoch].add(partition)
        if epoch == self.coordinator_epoch:
            self._complete_if_all(transaction)

    def _complete_if_all(self, transaction: Transaction) -> None:
        ended = transaction.ended[self.coordinator_epoch]
        if not transaction.complete and ended.issuperset(transaction.partitions):
            transaction.complete = True
            self._pending.pop(transaction, None)


class _Batch:
    """One on its way."""

    def __init__(self, content: bytes, sequence: int, made: float) -> None:
        self.content = content
        self.sequence = sequence
        self.made = made
        self.attempt = 0


class TransactionalProducer:
    """One, which writes transaction after transaction to partitions of its own choice; one batch of each
    partition is on its way at a time.
    """

    def __init__(self, transactions: Transactions, number: int) -> None:
        self.transaction: Transaction | None = None
        self._all = transactions
        self._world = transactions.world
        self._random = random.Random(f"transactional {transactions.world.plan.seed} {number}")
        self._id = FIRST_ID + number
        self._epoch = 0
        self._sequences: dict[PartitionName, int] = {}
        self._left: dict[PartitionName, int] = {}
        """Batches that are still to be written."""
        self._on_way: dict[PartitionName, _Batch] = {}
        self._made = 0
        self._gave_up = False
        self._gone = False
        """It ends nothing any more: its transaction times out."""
        self._records: dict[PartitionName, Records] = {}

    def begin(self) -> None:
        """Begin the next transaction a little later, as long as the world works."""
        pause = self._world.plan.pace * self._random.uniform(0.5, 4.0)
        self._world.loop.after(pause, self._begin)

    def _partitions(self) -> list[PartitionName]:
        plan, deleted = self._world.plan, self._world.deleted_topics
        names = [
            (f"topic-{topic}", index)
            for topic in range(plan.topics)
            for index in range(plan.partitions)
            if f"topic-{topic}" not in deleted
        ]
        return self._random.sample(names, self._random.randint(1, len(names))) if names else []

    def _begin(self) -> None:
        if not self._world.working:
            return
        wanted = self._partitions()
        if not wanted:
            return
        transaction = self.transaction = Transaction(self._id, self._epoch)
        self._gave_up = False
        self._left = {partition: self._random.choice((0, 1, 1, 2, 4)) for partition in wanted}
        transaction.partitions = dict.fromkeys(wanted)
        self._gone = self._random.random() < GOES_AWAY
        if self._gone:
            self._world.loop.after(TIMEOUT_SECONDS, self._time_out, transaction)
        for partition in wanted:
            self._write_next(partition)
        self._end_if_done(transaction)

    def _time_out(self, transaction: Transaction) -> None:
        """The producer is gone in the middle of it; the next one of its name comes when that is over."""
        if transaction is not self.transaction or transaction.state is not State.OPEN:
            return
        self._world.reached["transactions that timed out"] += 1
        self._on_way.clear()
        self._left.clear()
        self._gave_up, self._gone = True, False
        self._all.decide(transaction, State.ABORTED, fences=True)
        self._epoch += 1
        self._await(transaction)

    # batches ------------------------------------------------------------------------------------------------

    def _write_next(self, partition: PartitionName) -> None:
        transaction = self.transaction
        assert transaction is not None
        if not self._left.get(partition):
            return
        self._left[partition] -= 1
        self._made += 1
        records = self._records.setdefault(partition, Records(self._world, self._id, partition, self._id, -1))
        name = b"<T%d %s-%d %d>" % (self._id, partition[0].encode(), partition[1], self._made)
        fields = records._records(name, self._random.choice((1, 2)))
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(fields)
        content = build_batch(
            fields,
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_FLAG,
        )
        self._all.named(partition, transaction, sequence)
        batch = self._on_way[partition] = _Batch(content, sequence, self._world.loop.now)
        self._send(transaction, partition, batch)

    def _send(self, transaction: Transaction, partition: PartitionName, batch: _Batch) -> None:
        if self._on_way.get(partition) is not batch:
            return
        if self._world.loop.now - batch.made > PATIENCE_SECONDS and self._world.working:
            del self._on_way[partition]
            self._left.clear()
            self._gave_up = True
            self._end_if_done(transaction)
            return
        batch.attempt += 1
        life = self._world.gateway_of(None, partition)
        self._world.loop.after(
            NETWORK_SECONDS, self._arrive, transaction, partition, batch, batch.attempt, life
        )
        self._world.loop.after(
            REQUEST_SECONDS, self._answered, transaction, partition, batch, batch.attempt, None
        )

    def _arrive(
        self,
        transaction: Transaction,
        partition: PartitionName,
        batch: _Batch,
        attempt: int,
        life: Life | None,
    ) -> None:
        log = None if life is None or not life.answers else life.partition(*partition)
        answer = partial(self._answer, transaction, partition, batch, attempt)
        if life is None or log is None:
            if partition[0] in self._world.deleted_topics:
                self._lost_topic(transaction, partition)
            else:
                answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        view = memoryview(bytearray(batch.content))
        header = read_header(view)
        known = log.producers.state.find(self._id)
        begins = known is None or not known.has_open
        if begins and log.available and not self._all.verify(transaction, partition):
            answer(ErrorCode.INVALID_TXN_STATE)
            return
        name = _text_of(batch.content)
        self._world.asked.batch_came(partition, name)
        try:
            append = log.append(header, view, -1, life.broker.context.now_ms())
        except KafkaError as error:
            answer(error.code)
            return

        def done(append: Append) -> None:
            if life.answers and append.error is ErrorCode.NONE:
                self._world.history.on_acknowledged(log, name, append.base_offset)
                self._world.asked.batch_acknowledged(partition, name, append.base_offset)
                transaction.acknowledged.setdefault(partition, {})[append.base_offset] = batch.content
            if life.answers:
                answer(append.error)

        if append.done:
            done(append)
        else:
            append.wait_with(cast("Completion", AppendWaiter(append, done)))

    def _answer(
        self,
        transaction: Transaction,
        partition: PartitionName,
        batch: _Batch,
        attempt: int,
        error: ErrorCode,
    ) -> None:
        if self._world.working and self._random.random() < self._world.plan.lost:
            return
        self._world.loop.after(NETWORK_SECONDS, self._answered, transaction, partition, batch, attempt, error)

    def _answered(
        self,
        transaction: Transaction,
        partition: PartitionName,
        batch: _Batch,
        attempt: int,
        error: ErrorCode | None,
    ) -> None:
        if self._on_way.get(partition) is not batch or attempt != batch.attempt:
            return
        if error is ErrorCode.NONE:
            del self._on_way[partition]
            self._world.reached["transactional batches acknowledged"] += 1
            if self._random.random() < 0.1:
                self._world.loop.after(
                    self._random.uniform(0.01, 2.0), self._come_again, transaction, partition, batch
                )
            self._write_next(partition)
            self._end_if_done(transaction)
        elif error is None or error in PASSES:
            self._world.loop.after(RETRY_SECONDS, self._send, transaction, partition, batch)
        else:
            raise BrokenPromise(f"a batch of {transaction!r} for {partition} is refused: {error.name}")

    def _come_again(self, transaction: Transaction, partition: PartitionName, batch: _Batch) -> None:
        """A request that was answered long ago arrives once more: nothing of it is appended."""
        life = self._world.leader_of(partition)
        log = None if life is None or not life.serving else life.partition(*partition)
        if life is None or log is None or not log.available:
            return
        known = log.producers.state.find(self._id)
        if (known is None or not known.has_open) and not self._all.verify(transaction, partition):
            return
        view = memoryview(bytearray(batch.content))
        end = log.next_offset
        try:
            log.append(read_header(view), view, -1, life.broker.context.now_ms())
        except KafkaError:
            return
        if log.next_offset != end:
            raise BrokenPromise(f"a batch of {transaction!r} came to {log} twice")

    def _lost_topic(self, transaction: Transaction, partition: PartitionName) -> None:
        if self._on_way.pop(partition, None) is not None:
            self._left.clear()
            self._gave_up = True
            self._end_if_done(transaction)

    # the end ------------------------------------------------------------------------------------------------

    def _end_if_done(self, transaction: Transaction) -> None:
        if transaction is not self.transaction or transaction.state is not State.OPEN:
            return
        if self._on_way or any(self._left.values()) or self._gone:
            return
        commits = not self._gave_up and self._random.random() < 0.6
        self._all.decide(transaction, State.COMMITTED if commits else State.ABORTED)
        self._await(transaction)

    def _await(self, transaction: Transaction) -> None:
        """Nothing new before all markers are written, as the coordinator would have it."""
        if not transaction.complete:
            self._world.loop.after(NETWORK_SECONDS * 5, self._await, transaction)
            return
        self.transaction = None
        if self._gave_up:
            self._epoch += 1
            self._sequences.clear()
        self.begin()


def _text_of(content: bytes) -> bytes:
    """What names a batch: it is in each of its records."""
    begin = content.index(b"<T")
    return content[begin : content.index(b">", begin) + 1]
