"""The transaction coordinator of this gateway: which transactional ids there are, and who may ask them what.

It has the ids of the partitions that it leads. They live in `__transaction_state`, each in the partition that
its hash chooses, and are served when that partition is loaded (`gateway.journal.coordinator`). What a request
does to an id is decided by its machine (`gateway.transactions.machine`); here it is written, answered when it
is durable, and followed by the markers of a transaction that ends.

What ids may hold is bounded (`gateway.transactions.room`).
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.cluster.feature_levels import TRANSACTION_VERSION
from gateway.common.clients import NOBODY
from gateway.common.costs import COUNTED, LOADED_TRANSACTION
from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable
from gateway.common.waiting import Waiter
from gateway.common.work import Work
from gateway.journal.coordinator import PartitionedCoordinator
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS
from gateway.transactions.fencing import RECOVERY_SECONDS, Fencing
from gateway.transactions.forgetting import IDLE_MS, Forgetting
from gateway.transactions.initialising import InitProducerId, refusal
from gateway.transactions.internal_topic import TRANSACTIONS
from gateway.transactions.journal import TransactionJournal
from gateway.transactions.machine import TransactionMachine
from gateway.transactions.markers import LAST_PAUSE_SECONDS, Markers, MarkerTarget
from gateway.transactions.metadata import STORED_STATES
from gateway.transactions.outcomes import BUSY, DONE, OTHER_PRODUCER, Answer, Needs, Outcome, Write
from gateway.transactions.room import Room, size_of
from gateway.transactions.served import Transaction
from gateway.transactions.sweep import Sweep
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.journal.group_commit import Pending
    from gateway.transactions.adding import AddPartitions
    from gateway.transactions.ending import EndTxn
    from gateway.transactions.metadata import TopicPartition
    from gateway.transactions.replay import LoadedTransaction

MAX_TIMEOUT_MS: Final = 900_000
"""Longest timeout that a producer may ask for: Kafka's `transaction.max.timeout.ms`."""

UNTIL_FREE_SECONDS: Final = 0.1
"""How long a request that adds waits for the end of the producer's last transaction, before its client is
told to ask again: Kafka's `add.partitions.to.txn.retry.backoff.max.ms`."""

logger = logging.getLogger(__name__)


class Entered:
    """What a request has begun: its answer, and what is to be durable before it is given."""

    __slots__ = ("answer", "pending")

    def __init__(self, answer: Answer, pending: Pending | None = None) -> None:
        self.answer = answer
        self.pending = pending


class Loaded(NamedTuple):
    """What a partition of the topic has."""

    epoch: int
    """The partition's leader epoch, which its coordinator goes by."""
    transactions: dict[str, LoadedTransaction]


class TransactionCoordinator(PartitionedCoordinator[Loaded]):
    """All transactional ids of this gateway. `run` is its background work."""

    def __init__(self, cluster: Cluster, target: MarkerTarget) -> None:
        self.transactions: dict[str, Transaction] = {}
        super().__init__(cluster, TRANSACTIONS, "transactional id", self.transactions)
        self.room = Room()
        self.journal = TransactionJournal(cluster, self._lost)
        self.markers = Markers(target, target.exists)
        self.sweep = Sweep(self)
        self.forgetting = Forgetting(self.loaded, partial(self._forget_one, expiration_ms=IDLE_MS))
        self.timed_out = 0
        """Transactions that were aborted because they were open for too long, in this life."""
        self._lost_ends: dict[int, float] = {}
        """Partitions whose producers are to be fenced when they are loaded, and until when, on trio's clock,
        that waits for other partitions."""
        self._fencing: defaultdict[int, trio.Lock] = defaultdict(trio.Lock)
        self._epochs: dict[int, int] = {}
        """The coordinator epoch of each partition that is loaded."""
        self._incomplete: dict[Transaction, None] = {}
        """Their markers are written, and that could not be said in the log yet."""
        self._has_incomplete = Waiter()
        self._limit = LogLimit(logger)

    async def run(self) -> None:
        """Load what there is, and serve transactional ids until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.journal.run)
            nursery.start_soon(self.sweep.run)
            nursery.start_soon(self.markers.run)
            nursery.start_soon(self._complete_again)
            await self._serve(nursery)

    # where ids are served ----------------------------------------------------------------------------------

    async def _load(self, index: int) -> Loaded:
        # The epoch as it is before anything is read: a later one may have written some of it by the end.
        assert self._topic is not None
        epoch = self._topic.partitions[index].leader_epoch
        if index in self._lost_ends:
            async with self._fencing[index]:  # a later load of it may have begun
                await self._fence(index)
        return Loaded(epoch, await self.journal.load(index))

    async def _fence(self, index: int) -> None:
        """Have the ids of a partition fenced, if that was not done meanwhile."""
        deadline = self._lost_ends.get(index)
        if deadline is None:
            return
        found = await self.journal.load(index)
        await Fencing(self._cluster, self.journal).fence(index, found, deadline)
        if self._lost_ends.get(index) == deadline:  # else another loss has followed
            del self._lost_ends[index]

    def lost_end(self, index: int) -> None:
        """The end of this partition of the topic is about to be given up: what is known of its ids is not
        all that there was.
        """
        self._lost_ends[index] = trio.current_time() + RECOVERY_SECONDS
        self._load_anew(index)

    async def _loaded(self, index: int, found: Loaded, is_old: Callable[[], bool]) -> None:
        topic, work = self._topic, Work()
        assert topic is not None
        made: list[Transaction] = []
        for transactional_id, (metadata, offset) in found.transactions.items():
            await work.before(LOADED_TRANSACTION + COUNTED * len(metadata.partitions))
            machine = TransactionMachine(metadata, server_version=self._server_version)
            made.append(
                Transaction(
                    self, transactional_id, topic.partitions[index], machine, found.epoch, number=offset + 1
                )
            )
        if is_old():
            for one in made:
                one.unload()
            return
        self._epochs[index] = found.epoch
        # All at once: an id that is there counts as served.
        for one in made:
            self.transactions[one.transactional_id] = one
            metadata = found.transactions[one.transactional_id].metadata
            if metadata.is_prepared:
                one.begin_to_end(metadata)

    def _forget(self, index: int | None = None) -> None:
        if index is None:
            self._lost_ends.clear()
        for one in [one for one in self.transactions.values() if index in {None, one.partition.index}]:
            del self.transactions[one.transactional_id]
            one.unload()

    # requests ----------------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, request: InitProducerId, client: str = NOBODY
    ) -> Answer:
        """InitProducerId: what to answer, once it is durable. Raises KafkaError as `check_served`, and if it
        could not be written, or there is no room for another id.
        """
        error = refusal(request, MAX_TIMEOUT_MS)
        if error is not ErrorCode.NONE:
            return Answer(error)
        if self._cluster.topics.get(TRANSACTIONS.name) is None:
            await self.find(transactional_id)
        if transactional_id not in self.transactions:
            has_room = partial(self.room.has_room, transactional_id, client)
            if not has_room():
                await self.forgetting.make_room(client, self._now_ms(), has_room)
        new_producer_id: int | None = None
        while True:
            one = self._one(transactional_id, client)
            keeps_id = self._keeps_id(one, request)
            outcome = one.machine.init_producer_id(
                request, self._now_ms(), new_producer_id, keeps_id=keeps_id
            )
            if isinstance(outcome, Needs):
                self._give_up_if_new(one)
                new_producer_id = await self._cluster.allocate_producer_id(transactional_id)
                continue
            if isinstance(outcome, Write) and outcome.answer.error is ErrorCode.NONE:
                one.becomes_of(client)
            return await self.answer(self._enter(one, outcome))

    def _keeps_id(self, one: Transaction, request: InitProducerId) -> bool:
        """Whether a producer goes on with the producer id that there is. Not if that was given to somebody
        else, as after a lost secret: nothing could be written with it. One that is anybody's stays only with
        the producer that has it: a new one gets one that is bound to the transactional id.
        """
        owners, known = self._cluster.producer_id_owners, one.machine.metadata
        if known is None:
            return True
        is_good = owners.is_of if request.names_producer else owners.is_bound_to
        return is_good(known.producer_id, one.transactional_id)

    def begin_to_add(self, transactional_id: str, request: AddPartitions, client: str = NOBODY) -> Entered:
        """AddPartitionsToTxn and AddOffsetsToTxn, as far as `answer` waits for the log. Raises KafkaError as
        `init_producer_id`.
        """
        self.check_served(transactional_id)
        one = self.transactions.get(transactional_id)
        if one is None:
            return Entered(OTHER_PRODUCER)
        outcome = one.machine.add_partitions(request, self._now_ms())
        if isinstance(outcome, Write):
            one.belongs_to(client)  # it is the id's producer that asks
            self._check_room(one, outcome)
        return self._enter(one, outcome)

    async def add(
        self,
        transactional_id: str,
        request: AddPartitions,
        client: str = NOBODY,
        entered: Entered | None = None,
    ) -> Answer:
        """As `begin_to_add`, and wait for the log; and for the end of the id's last transaction, a moment:
        then the answer is CONCURRENT_TRANSACTIONS. `entered` if it is begun.
        """
        deadline = trio.current_time() + UNTIL_FREE_SECONDS
        while True:
            if entered is None:
                entered = self.begin_to_add(transactional_id, request, client)
            answer = await self.answer(entered)
            if answer != BUSY or not await self.until_one_is_free((transactional_id,), deadline):
                return answer
            entered = None

    async def until_one_is_free(self, transactional_ids: Iterable[str], deadline: float) -> bool:
        """Return when nothing is on its way for one of these ids, and its transaction has not to end; False:
        none is at `deadline` (trio's clock).
        """
        ones = [self.transactions.get(transactional_id) for transactional_id in transactional_ids]
        busy = [one for one in ones if one is not None and one.is_busy]
        if len(busy) < len(ones):
            return True
        changed = trio.Event()
        for one in busy:
            one.wait_with(changed)
        try:
            with trio.move_on_at(deadline):
                await changed.wait()
                return True
        finally:
            for one in busy:
                one.wait_no_more(changed)
        return False

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether partitions are in a producer's transaction. Raises KafkaError as `check_served`."""
        self.check_served(transactional_id)
        one = self.transactions.get(transactional_id)
        machine = TransactionMachine() if one is None else one.machine
        return machine.verify_partitions(producer_id, producer_epoch, partitions)

    async def end(self, transactional_id: str, request: EndTxn, client: str = NOBODY) -> Answer:
        """EndTxn: what to answer, once it is durable; the markers follow. Raises KafkaError as
        `check_served`, and if it could not be written.
        """
        new_producer_id: int | None = None
        while True:
            self.check_served(transactional_id)
            one = self.transactions.get(transactional_id)
            if one is None:
                return OTHER_PRODUCER
            outcome = one.machine.end(request, self._now_ms(), new_producer_id)
            if isinstance(outcome, Needs):
                new_producer_id = await self._cluster.allocate_producer_id(transactional_id)
                continue
            if isinstance(outcome, Write):
                one.belongs_to(client)  # its partitions may have been added by other gateways
            return await self.answer(self._enter(one, outcome))

    async def answer(self, entered: Entered) -> Answer:
        """What to answer, once what was begun is durable. Raises KafkaError if it could not be written, or
        takes too long: it may take effect then all the same.
        """
        if entered.pending is not None:
            await self.journal.durable(entered.pending)
        return entered.answer

    def find_one(self, transactional_id: str) -> Transaction | None:
        """The id, or None: nothing is known of it. Raises KafkaError as `check_served`."""
        self.check_served(transactional_id)
        one = self.transactions.get(transactional_id)
        return None if one is None or one.machine.metadata is None else one

    def partitions_of(self, transactional_id: str) -> int:
        """How many partitions the transaction of an id has: what a change of it costs goes by that."""
        one = self.transactions.get(transactional_id)
        return 0 if one is None or one.machine.metadata is None else len(one.machine.metadata.partitions)

    def states(self) -> dict[tuple[str, ...], int]:
        """How many ids are in which state."""
        counted = Counter(
            one.machine.metadata.state for one in self.transactions.values() if one.machine.metadata
        )
        return {(state.label,): counted[state] for state in sorted(STORED_STATES)}

    def _one(self, transactional_id: str, client: str) -> Transaction:
        """The id, made if it is new. Raises KafkaError as `check_served`, and if there is no room."""
        self.check_served(transactional_id)
        one = self.transactions.get(transactional_id)
        if one is not None:
            return one
        self.room.check(transactional_id, client, size_of(transactional_id, None))
        assert self._topic is not None
        index = self._partition_of(transactional_id)
        machine = TransactionMachine(server_version=self._server_version)
        partition = self._topic.partitions[index]
        return Transaction(self, transactional_id, partition, machine, self._epochs[index], client)

    def _check_room(self, one: Transaction, write: Write) -> None:
        """Raises KafkaError: there is none for what is to be written."""
        growth = size_of(one.transactional_id, write.metadata) - size_of(
            one.transactional_id, one.machine.metadata
        )
        try:
            self.room.check(one.transactional_id, one.client, growth)
        except KafkaError:
            one.machine.failed()
            raise

    def _enter(self, one: Transaction, outcome: Outcome) -> Entered:
        """Have what was decided written. Raises KafkaError if it cannot be."""
        assert not isinstance(outcome, Needs), "what is needed was given"
        if isinstance(outcome, Answer):
            self._give_up_if_new(one)
            return Entered(outcome)
        try:
            pending = self.journal.enter(
                one.partition.index, one.transactional_id, outcome.metadata, one, one.client
            )
        except KafkaError:
            one.machine.failed()
            self._give_up_if_new(one)
            raise
        self.transactions[one.transactional_id] = one
        return Entered(outcome.answer, pending)

    def _give_up_if_new(self, one: Transaction) -> None:
        """One that was made for a request that changes nothing."""
        if self.transactions.get(one.transactional_id) is not one:
            one.unload()

    def _server_version(self) -> int:
        """The protocol by which this gateway aborts what its producer did not end."""
        return self._cluster.features.level(TRANSACTION_VERSION)

    def _now_ms(self) -> int:
        return self._cluster.context.now_ms()

    # what happens by itself --------------------------------------------------------------------------------

    def loaded(self) -> list[Transaction]:
        """Every id that is served now."""
        return list(self.transactions.values())

    async def time_out(self, one: Transaction) -> None:
        """Abort its transaction, if that has been open for too long. What cannot be written now can be at the
        next look.
        """
        outcome: Outcome = one.machine.time_out(self._now_ms())
        try:
            if isinstance(outcome, Needs):
                new_producer_id = await self._cluster.allocate_producer_id(one.transactional_id)
                outcome = one.machine.time_out(self._now_ms(), new_producer_id)
            if outcome == DONE or not self._is_served(one):
                return
            self._enter(one, outcome)
        except KafkaError as error:
            self._limit.warning(
                "transactional id %s: its transaction is open for too long and cannot be aborted now: %s",
                printable(one.transactional_id),
                error,
            )
            return
        self.timed_out += 1
        self._limit.info(
            "transactional id %s: its transaction is aborted, since it was open for longer than its timeout",
            printable(one.transactional_id),
        )

    async def abort_after_loss(self, one: Transaction, accepted_ms: int | None = None) -> bool:
        """Abort its transaction, if that was open at this time, ms since 1970, or whenever it began: it has
        lost a part since. False: something else is on its way, or it cannot be written now; to be tried
        again, with what is served then.
        """
        deadline = trio.current_time() + WRITE_TIMEOUT_SECONDS
        while self._is_served(one) and one.machine.pending is not None:
            if not await self.until_one_is_free((one.transactional_id,), deadline):
                return False
        metadata = one.machine.metadata
        if not self._is_served(one) or metadata is None:
            return False
        if accepted_ms is not None and metadata.start_ms > accepted_ms:
            return True
        try:
            outcome = one.machine.abort(self._now_ms())
            if outcome == DONE:
                return True  # none is open
            if isinstance(outcome, Needs):
                new_producer_id = await self._cluster.allocate_producer_id(one.transactional_id)
                outcome = one.machine.abort(self._now_ms(), new_producer_id)
                if outcome == DONE or not self._is_served(one):
                    return False
            await self.answer(self._enter(one, outcome))
        except KafkaError as error:
            self._limit.warning(
                "transactional id %s: its transaction has lost a part with what was given up, and cannot be "
                "aborted yet: %s",
                printable(one.transactional_id),
                error,
            )
            return False
        logger.warning(
            "transactional id %s: its transaction has lost a part with what was given up, and is aborted",
            printable(one.transactional_id),
        )
        return True

    def _is_served(self, one: Transaction) -> bool:
        """It was not loaded anew meanwhile, nor forgotten."""
        return self.transactions.get(one.transactional_id) is one

    async def _forget_one(self, one: Transaction, expiration_ms: int) -> None:
        """As `expire`; it is forgotten on return, if it can be."""
        entered = self.expire(one, expiration_ms)
        if entered is not None:
            with suppress(KafkaError):
                await self.answer(entered)

    def expire(self, one: Transaction, expiration_ms: int) -> Entered | None:
        """Forget an id that nobody has used for so long. What cannot be written now can be the next time."""
        if self.transactions.get(one.transactional_id) is not one:
            return None
        outcome = one.machine.expire(self._now_ms(), expiration_ms)
        if isinstance(outcome, Write):
            try:
                return self._enter(one, outcome)
            except KafkaError as error:
                self._limit.warning(
                    "transactional id %s cannot be forgotten now: %s", printable(one.transactional_id), error
                )
        return None

    # what ids need (Home) ----------------------------------------------------------------------------------

    def prepared(self, transaction: Transaction) -> None:
        """See `gateway.transactions.served.Home`."""
        if transaction.ending is not None:
            self.markers.begin(transaction.ending)

    def marked(self, transaction: Transaction) -> None:
        """See `gateway.transactions.served.Home`."""
        self._complete(transaction)

    def not_complete(self, transaction: Transaction) -> None:
        """See `gateway.transactions.served.Home`."""
        self._incomplete[transaction] = None
        self._has_incomplete.wake()

    def unloaded(self, transaction: Transaction) -> None:
        """See `gateway.transactions.served.Home`."""
        self._incomplete.pop(transaction, None)
        if transaction.ending is not None:
            self.markers.forget(transaction.ending)

    def unused(self, transaction: Transaction) -> None:
        """See `gateway.transactions.served.Home`."""
        if self.transactions.get(transaction.transactional_id) is transaction:
            del self.transactions[transaction.transactional_id]
        transaction.unload()

    def _complete(self, one: Transaction) -> bool:
        """Say in the log that a transaction is complete; False: that cannot be written yet."""
        write = one.machine.complete(self._now_ms())
        if write is None:
            return True  # it is on its way
        try:
            self._enter(one, write)
        except KafkaError as error:
            self._limit.warning(
                "transactional id %s: that its transaction is complete cannot be written yet: %s",
                printable(one.transactional_id),
                error,
            )
            self.not_complete(one)
            return False
        return True

    async def _complete_again(self) -> None:
        """Once more for those that could not be written, for ever; in each round one of a client's where a
        partition takes nothing of that client now.
        """
        while True:
            if not self._incomplete:
                await self._has_incomplete.wait()
            await trio.sleep(LAST_PAUSE_SECONDS)
            work, full = Work(), set[tuple[int, str]]()
            for one in list(self._incomplete):
                await work.before(COUNTED)
                lane = one.partition.index, one.client
                if one not in self._incomplete or lane in full:
                    continue
                del self._incomplete[one]
                if not self._complete(one):
                    full.add(lane)
