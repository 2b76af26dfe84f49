"""Recovery of partitions when a gateway life begins ("A start" in docs/architecture.md).

0. The stores are asked whether they know more than the catalog (`gateway.log.recovery.verification`).
1. SEAL goes to the members of every open segment; n-w+1 of them decide where it ends.
2. Members that have less copy it from those that have it, until w have the end.
3. A catalog transaction closes what was decided (an empty segment leaves the chain, and its address is
   deleted), one for all partitions that are there at the same moment. CLOSE is repeated to members once
   no other partition waits for its recovery.
4. The idempotence state is what the last segment's announcement held plus that segment's rows.

So a start reads neither the log nor anything that grows with it. Until 4 is done a partition takes no
produces and answers no latest offset; what lies below the end of its last closed segment is served.

Each partition does this on its own (`gateway.log.recovery.one_partition`): one whose stores are not there
waits, says for whom, and holds up nobody; a start goes on without it.

Thousands take seconds, and clients are served meanwhile. Those that a client asks for need not wait for the
others: they have small rounds of their own beside the large ones. What the stores have not confirmed yet (0)
is not shown to anybody.

Rule: when catalog and stores disagree, nothing is mended by guessing. A segment whose announcement was
confirmed and that no member knows any more, an end below what was shown, a last segment that no store holds:
the partition fails with the reason, and stays so. Its closed segments are still served, as far as the stores
have them: the catalog is right about them, and each batch is checked. Of a catalog that the stores refute (0)
nothing is served at all. A store that is only slow, or away, decides nothing: it is asked again.
"""

import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import trio

from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition, PartitionState
from gateway.log.recovery.endings import Endings
from gateway.log.recovery.ends import Inconsistent
from gateway.log.recovery.one_partition import AskedInVain, PartitionRecovery
from gateway.log.recovery.store_waits import AGAIN_SECONDS, Superseded
from gateway.log.recovery.verification import CatalogRefuted, CatalogUnverified, Verification
from mesh.reader import NotServed
from wireproto.kafka.errors import KafkaError
from wireproto.records.batch import InvalidBatch

if TYPE_CHECKING:
    from gateway.log.context import LogContext

PARTITIONS_AT_ONCE = 256
"""Partitions that are recovered in one round: their stores are asked about all of them together."""

ROUNDS_AT_ONCE = 4
"""Rounds in which some partition does not wait for a store yet."""

ASKED_AT_ONCE = 64
"""Partitions in a round of those that clients have asked for: fewer are sooner done."""

PARTITIONS_A_TURN = 64
"""Partitions that go on in one turn of the loop once their stores have answered, all of them in one message:
clients of other partitions wait meanwhile. Their ends are in the catalog with one commit, too."""

REBUILDS_AT_ONCE = 16
"""Partitions whose idempotence state is read at the same time, beyond the first rows of each."""

FIRST_ANSWER_SECONDS = 0.2
"""How long a round waits for the first store's answer. After that its partitions wait, each for itself; most
need not, if it has come."""

ENDS_TOLD_SECONDS = 10.0
"""How long the telling of ends waits for other partitions' recovery."""

WAITING_LOGGED_SECONDS = 5.0
"""How often it is said for which stores partitions wait."""

NAMED_PARTITIONS = 5
"""Partitions that are named then."""

NEXT_STEP = (
    "the store is not the one that it was: put back its data, or start once with --accept-loss to go on with"
    " what is there"
)

UNREADABLE = "its last segment cannot be read back"

_FAILURES = (
    AskedInVain,
    CatalogRefuted,
    CatalogUnverified,
    Inconsistent,
    NotServed,
    KafkaError,
    InvalidBatch,
    ValueError,
    KeyError,
)
"""How an attempt may end."""

logger = logging.getLogger(__name__)


class Recovery:
    """Recovers partitions: all of them at the start of a life, single ones when they lose their segment.

    With `accept_loss` the stores are believed where the catalog says that there was more.
    """

    def __init__(self, context: "LogContext", *, accept_loss: bool = False) -> None:
        self._context = context
        self._accept_loss = accept_loss
        self._waiting_to_begin: dict[Partition, None] = {}
        self._asked: OrderedDict[Partition, None] = OrderedDict()
        """Of these, those that clients have asked for, the latest first."""
        self._again: dict[Partition, None] = {}
        self._attempts: dict[Partition, PartitionRecovery] = {}
        """The attempts that are under way."""
        self._given_up: dict[Partition, frozenset[str]] = {}
        """Stores that an operator has given up, for partitions that waited for them."""
        self._work = trio.Event()
        self._work_asked = trio.Event()
        self._work_again = trio.Event()
        self._settled = trio.Event()
        self._rounds = trio.Semaphore(ROUNDS_AT_ONCE)
        self._round_of_asked = trio.Semaphore(1)
        self._turns = trio.CapacityLimiter(PARTITIONS_A_TURN)
        self._endings = Endings(context)
        self._told_ends = 0.0
        """When members were last told of ends."""
        self._rebuilds = trio.CapacityLimiter(REBUILDS_AT_ONCE)
        context.on_recovery(self._recover_again, self._recover_first)

    @property
    def waiting(self) -> dict[Partition, tuple[str, ...]]:
        """The partitions that wait for stores, and for which."""
        return {p: attempt.waiting_for for p, attempt in self._attempts.items() if attempt.waiting_for}

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The stores that partitions wait for."""
        return tuple(sorted({store for stores in self.waiting.values() for store in stores}))

    def give_up(self, partitions: Iterable[Partition], stores: Collection[str]) -> None:
        """These stores will never answer again: partitions that wait for them go on without, with what is
        left. Only until they serve.
        """
        for partition in partitions:
            self._given_up[partition] = frozenset(stores)
            if partition in self._attempts:
                self._attempts[partition].give_up(stores)

    async def recover(self, partitions: Sequence[Partition], *, new: bool = False) -> None:
        """Bring partitions to READY (or FAILED, with the reason), or to where they wait for stores that are
        not there: those are recovered in the background. `run` does it. What another gateway leads is left
        alone.

        `new`: the topic was just made, so no store can know of it, and none is asked.
        """
        wanted = self._wanted(partitions)
        if new:
            for partition in wanted:
                self._new_attempt(partition, accept_loss=False).load()
                if partition.fence.revision == 0 and not partition.chain.segments():
                    partition.begin_serving(ProducerState())
            # Others may have led it already, if this gateway has slept since.
            self._begin(self._wanted(wanted))
            return
        started = trio.current_time()
        self._begin(wanted)
        for partition in wanted:
            while self._is_under_way(partition):
                await self._settled.wait()
        if wanted:
            ready = sum(partition.state is PartitionState.READY for partition in wanted)
            took = trio.current_time() - started
            logger.info("%d of %d partitions recovered in %.2f s", ready, len(wanted), took)

    def begin(self, partitions: Iterable[Partition]) -> None:
        """As `recover`, without waiting for anything."""
        self._begin(self._wanted(partitions))

    def _wanted(self, partitions: Iterable[Partition]) -> list[Partition]:
        return [one for one in partitions if one.state is not PartitionState.READY and self._is_ours(one)]

    def _is_ours(self, partition: Partition) -> bool:
        """Whether there is such a partition, and this gateway leads it."""
        return not partition.deleted and self._context.leads(partition)

    def _is_under_way(self, partition: Partition) -> bool:
        attempt = self._attempts.get(partition)
        return partition in self._waiting_to_begin or (attempt is not None and not attempt.waiting_for)

    def _begin(self, partitions: Sequence[Partition]) -> None:
        self._waiting_to_begin |= dict.fromkeys(partitions)
        self._work.set()

    def _recover_again(self, partition: Partition) -> None:
        """A partition has lost its segment."""
        self._again[partition] = None
        self._work_again.set()

    def _recover_first(self, partition: Partition) -> None:
        """A client has asked for a partition: it need not wait for those that nobody has asked for."""
        if partition in self._waiting_to_begin:
            self._asked[partition] = None
            self._asked.move_to_end(partition, last=False)
            self._work_asked.set()

    @property
    def is_behind(self) -> bool:
        """Whether partitions wait until others are recovered."""
        return bool(self._waiting_to_begin)

    def recover_soon(self, partitions: Iterable[Partition]) -> None:
        """A client has asked what there is of these: it may ask for one of them next."""
        asked = [p for p in partitions if p in self._waiting_to_begin]
        if asked:
            self._asked |= dict.fromkeys(asked)
            self._work_asked.set()

    def _settle(self) -> None:
        self._settled.set()
        self._settled = trio.Event()

    async def run(self) -> None:
        """Recover what is to be recovered, for ever."""
        self._told_ends = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_who_waits)
            nursery.start_soon(self._recover_asked, nursery)
            nursery.start_soon(self._begin_again)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                while self._waiting_to_begin:
                    await self._begin_round(self._waiting_to_begin, PARTITIONS_AT_ONCE, self._rounds, nursery)

    async def _recover_asked(self, nursery: trio.Nursery) -> None:
        """Recover what clients have asked for, beside the others, for ever."""
        while True:
            await self._work_asked.wait()
            self._work_asked = trio.Event()
            while self._asked:
                await self._begin_round(self._asked, ASKED_AT_ONCE, self._round_of_asked, nursery)

    async def _begin_round(
        self, waiting: Iterable[Partition], count: int, slots: trio.Semaphore, nursery: trio.Nursery
    ) -> None:
        """Begin to recover the first ones of those that wait, once there is a slot for them."""
        await slots.acquire()
        # What a partition has put into the catalog under its epoch counts for the next one.
        await self._context.epoch_counter.settled()
        attempts: list[PartitionRecovery] = []
        for partition in list(islice(waiting, count)):
            del self._waiting_to_begin[partition]
            self._asked.pop(partition, None)
            if not self._is_ours(partition):
                continue
            # One that is being recovered already has begun with what the catalog said before.
            if partition not in self._attempts:
                attempts.append(self._attempt(partition))
        nursery.start_soon(self._recover_round, attempts, slots)

    async def _begin_again(self) -> None:
        """Begin once more with those that were served, or could not be recovered, for ever: before those that
        nobody has asked for.
        """
        while True:
            await self._work_again.wait()
            self._work_again = trio.Event()
            await trio.sleep(AGAIN_SECONDS)
            again, self._again = self._again, {}
            partitions = [p for p in again if p.state is not PartitionState.READY and not p.deleted]
            self._begin(partitions)
            self.recover_soon(partitions)

    def _attempt(self, partition: Partition) -> PartitionRecovery:
        attempt = self._new_attempt(partition, accept_loss=self._accept_loss)
        attempt.give_up(self._given_up.get(partition, ()))
        self._attempts[partition] = attempt
        return attempt

    def _new_attempt(self, partition: Partition, *, accept_loss: bool) -> PartitionRecovery:
        return PartitionRecovery(
            self._context,
            partition,
            accept_loss=accept_loss,
            settled=self._settle,
            endings=self._endings,
        )

    async def _recover_round(self, attempts: Sequence[PartitionRecovery], slots: trio.Semaphore) -> None:
        """Recover these partitions, each at its own pace; the next ones may have the slot once none of them
        works.
        """
        for attempt in attempts:
            attempt.load()
        verification = Verification(
            self._context.reader,
            self._context.stores,
            {attempt.partition: attempt.asked() for attempt in attempts},
        )

        answered = trio.Event()

        def told() -> None:
            answered.set()
            for attempt in attempts:
                attempt.progressed()

        async with trio.open_nursery() as asking:
            asking.start_soon(verification.run, told)
            async with trio.open_nursery() as nursery:
                if attempts:
                    with trio.move_on_after(FIRST_ANSWER_SECONDS):
                        await answered.wait()
                for attempt in attempts:
                    nursery.start_soon(self._recover_one, attempt, verification)
                while any(self._is_under_way(attempt.partition) for attempt in attempts):
                    await self._settled.wait()
                slots.release()
                self._tell_ends()
            asking.cancel_scope.cancel()

    async def _recover_one(self, attempt: PartitionRecovery, verification: Verification) -> None:
        """A failure is the partition's own."""
        partition = attempt.partition
        try:
            await attempt.verify(verification)
            await attempt.close(self._turns)
            attempt.set_ends()
            producers = await attempt.read_producers(self._rebuilds)
            attempt.say_what_is_open(producers)
            partition.begin_serving(producers)
            self._given_up.pop(partition, None)
        except Superseded:
            pass
        except _FAILURES as error:
            if not attempt.is_old:
                self._failed(attempt, verification, error)
        finally:
            self._attempts.pop(partition, None)
            if attempt.is_old:
                self.begin([partition])
            self._settle()
            self._tell_ends()

    def _tell_ends(self) -> None:
        """Tell members of the ends that were agreed on; for a while other partitions come first."""
        now = trio.current_time()
        if self._is_idle or now >= self._told_ends + ENDS_TOLD_SECONDS:
            self._told_ends = now
            self._context.closer.tell_those_left()

    @property
    def _is_idle(self) -> bool:
        rounds = self._rounds.value + self._round_of_asked.value
        return not self._waiting_to_begin and rounds == ROUNDS_AT_ONCE + 1

    def _failed(self, attempt: PartitionRecovery, verification: Verification, error: Exception) -> None:
        """An attempt did not come to its end."""
        partition = attempt.partition
        match error:
            case AskedInVain():
                self._recover_again(partition)
            case CatalogRefuted():
                self._say(partition, "serves nothing", str(error))
                partition.withhold(str(error))
                self._context.epoch_counter.heard(verification.highest_epoch)
            case CatalogUnverified():
                self._fail(attempt, str(error))
            case Inconsistent():
                self._fail(attempt, f"{error}; {NEXT_STEP}")
            case _:
                self._fail(attempt, f"{UNREADABLE}: {error}; {NEXT_STEP}")

    @staticmethod
    def _fail(attempt: PartitionRecovery, reason: str) -> None:
        Recovery._say(attempt.partition, "serves no produces", reason)
        attempt.show()
        attempt.partition.fail(reason)

    @staticmethod
    def _say(partition: Partition, what: str, reason: str) -> None:
        logger.error("partition %s-%d %s: %s", partition.topic.name, partition.index, what, reason)

    async def _say_who_waits(self) -> None:
        """Say, now and then, for which stores how many partitions wait; and tell of ends meanwhile."""
        while True:
            await trio.sleep(WAITING_LOGGED_SECONDS)
            self._tell_ends()
            waiting = self.waiting
            if waiting:
                names = [f"{p.topic.name}-{p.index}" for p in islice(waiting, NAMED_PARTITIONS)]
                if len(waiting) > len(names):
                    names.append(f"and {len(waiting) - len(names)} others")
                logger.warning(
                    "recovery of %s waits for the stores %s: start them, or see what they log",
                    ", ".join(names),
                    ", ".join(map(self._context.stores.name, self.waiting_for)),
                )
