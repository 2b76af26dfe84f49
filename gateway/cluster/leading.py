"""Has a gateway lead what the table gives it, and no more: it follows the table, and changes its own part.

Followed: what comes is recovered, with the notes about its segments; what goes is served no more from this
moment on, and who waits for it is told to ask for its leader (`follow`, in the catalog's order with
everything else that memory follows: `gateway.cluster.following`).

Changed: slots whose leader's life is over are taken, if the next table gives them to this gateway; its own
ones are given away where the next table has them elsewhere (`gateway.cluster.slot_leadership`). Who has not
heard yet from enough stores that the catalog is the newest may not reach them at all, and is given nothing;
it gives away what it leads, as one that drains. Rule: a slot is given away only after nothing of its
partitions is served here any more, and while no other one is without a leader; to make shares even, only
while nothing waits here to be recovered. What its producers have under way becomes durable before
(`gateway.cluster.handing_over`); a slot for which the stores are too slow at that stays for a while. A
gateway that stops gives everything away at once; what is not durable then fails, as when a leader dies, and
is sent again to the next one, which finds it in the stores or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.catalog.interface import CatalogLost
from gateway.cluster.handing_over import HandingOver
from gateway.cluster.preferred_leaders import PreferredLeaders
from gateway.leadership.balance import Gateway
from gateway.leadership.evenness import Evenness
from gateway.leadership.next_table import NOBODY, Move, next_moves
from gateway.leadership.records import BadRecord
from gateway.leadership.slots import SLOTS, Occupancy, TopicShape, first_slot

if TYPE_CHECKING:
    from gateway.cluster.gateways import Living, SharedGateways
    from gateway.cluster.slot_leadership import SlotLeadership
    from gateway.cluster.topics import Topics
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from gateway.log.recovery.recovery import Recovery

GIVE_SECONDS: Final = 0.25
"""Between two slots with partitions that are given away: the producers of one are served again by then."""

CALM_SECONDS: Final = 0.1
"""A look waits for so long after something has changed, while everything has a leader: topics are created by
the hundred, and each look goes through all of them."""

TOPICS_A_TURN: Final = 500
"""Topics that are counted before others have their turn: under a millisecond."""

SETTLE_SECONDS: Final = 1.0
"""How long a slot is kept for what is under way about its partitions in the catalog."""

FREE_AT_ONCE: Final = 40
"""Slots without partitions that are given away together: nobody notices. So are all slots of a gateway that
stops."""

STAY_SECONDS: Final = 5.0
"""How long a slot stays that could not be given away."""

logger = logging.getLogger(__name__)


class _Plan(NamedTuple):
    """What this gateway changes of the table: slots that it takes; and those that it gives, to whom."""

    take: list[int]
    give: dict[int, tuple[int, str]]
    is_last: bool
    """Nothing more is to be given after it."""
    has_partitions: bool = False
    """Somebody may notice that something is given, or something that waits until partitions are recovered."""


class Leading:
    """One gateway life's. `run` works for ever."""

    def __init__(
        self,
        context: LogContext,
        leadership: SlotLeadership,
        gateways: SharedGateways,
        topics: Topics,
        recovery: Recovery,
    ) -> None:
        self.preferred = PreferredLeaders(context.catalog, topics, gateways)
        self._context = context
        self._gateways = gateways
        self._leadership = leadership
        self._topics = topics
        self._recovery = recovery
        self._changed = trio.Event()
        self._looked = trio.Event()
        self._is_waited_for = True
        """Somebody waits for a look: none is put off."""
        self._handing_over = HandingOver(context)
        self._is_leaving = False
        self._gone = trio.Event()
        """Set when there is nothing to give away any more, or nobody to take it."""
        self._stays: dict[int, float] = {}
        """Slots that could not be given away, and until when they are not tried again."""
        self._evenness = Evenness()
        self._on_moved: list[Callable[[list[Partition], list[Partition]], None]] = []

    def on_moved(self, tell: Callable[[list[Partition], list[Partition]], None]) -> None:
        """Have this called with the partitions that this gateway leads from now on, or leads anew, and with
        those that it has led.
        """
        self._on_moved.append(tell)

    async def wait_looked(self) -> None:
        """Return when it has taken what was without a leader at this moment, as far as that is its own."""
        self._looked = trio.Event()
        self._is_waited_for = True
        self.look_soon()
        await self._looked.wait()

    async def leave(self) -> None:
        """This gateway stops, as the catalog says: return when it leads nothing any more, or others are to
        take that only once it has stopped.
        """
        self._is_leaving = True
        self.look_soon()
        await self._gone.wait()
        if not self._has_to_give and self._gateways.somebody_else_stays:
            logger.info("other gateways lead what this one has led")

    # the table is followed --------------------------------------------------------------------------------

    def follow(self) -> None:
        """The table, or who is alive, may be different."""
        gained, lost, others = self._read()
        if gained or lost or others:
            self._tell(gained, lost | others)
        self.look_soon()

    def place(self, partitions: Iterable[Partition]) -> list[Partition]:
        """These come into memory, or have just come: have them go by the table as it is now, for one that was
        built while its slot changed was told nothing of that. Gives those that are to be recovered.
        """
        gained = []
        for partition in partitions:
            epoch = self._epoch(partition)
            if not self._context.leads(partition):
                partition.led_elsewhere(epoch)
            elif partition.led_since != epoch:
                partition.gained(epoch)
                gained.append(partition)
        return gained

    def look_soon(self) -> None:
        """Something may be different by which the next table is made."""
        self._changed.set()

    def _read(self) -> tuple[set[int], set[int], set[int]]:
        try:
            moved = self._leadership.read()
            self._gateways.read()
        except BadRecord as error:
            raise self._unreadable(error) from None
        for slot in moved.gained:
            leader = self._leadership.table.slots[slot]
            assert leader is not None
            self._context.epoch_counter.given(leader.epoch)
        return moved

    def _unreadable(self, error: BadRecord) -> CatalogLost:
        return CatalogLost(
            f"the catalog {self._context.catalog.where} has something that cannot be read of who leads what: "
            f"{error}. Start the version that has written it"
        )

    def _tell(self, gained: set[int], lost: set[int]) -> None:
        came: list[Partition] = []
        went: list[Partition] = []
        for partition, slot in self._partitions():
            if slot in gained:
                partition.gained(self._epoch(partition))
                came.append(partition)
            elif slot in lost:
                partition.led_elsewhere(self._epoch(partition))
                went.append(partition)
        if gained:
            level = logging.INFO if came else logging.DEBUG
            logger.log(level, "this gateway leads %d partitions more, in %d slots", len(came), len(gained))
            context = self._context
            context.closer.load()
            context.segments_gained()
        for tell in self._on_moved:
            tell(came, went)
        self._recovery.begin(sorted(came, key=lambda one: not one.topic.internal))

    def _partitions(self) -> Iterable[tuple[Partition, int]]:
        """All that there are, with their slots."""
        for topic in self._topics.all():
            first = first_slot(topic.id)
            for partition in topic.partitions:
                if not partition.deleted:
                    yield partition, (first + partition.index) % SLOTS

    def _epoch(self, partition: Partition) -> int:
        return self._context.first_epoch(partition.topic.id, partition.index)

    # the table is changed ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take and give, for ever."""
        while True:
            self.follow()
            self._changed = trio.Event()
            try:
                plan = await self._change()
            except BadRecord as error:
                raise self._unreadable(error) from None
            if not plan.take:
                self._looked.set()
                self._is_waited_for = False
            if self._is_leaving and not self._has_to_give:
                self._gone.set()
            if plan.is_last and not plan.take:
                await self._wait_for_changes()
                if not (self._is_waited_for or self._gateways.somebody_is_missed):
                    await trio.sleep(CALM_SECONDS)
            elif plan.has_partitions and not self._is_leaving:
                await trio.sleep(GIVE_SECONDS)

    @property
    def _has_to_give(self) -> bool:
        leadership = self._leadership
        return self._gateways.somebody_else_stays and any(map(leadership.leads_slot, range(SLOTS)))

    async def _wait_for_changes(self) -> None:
        """Return when something is different, what could not be given away may be tried again, or it is time
        to look at shares.
        """
        until = min([*self._stays.values(), self._evenness.next_look])
        with trio.move_on_at(until):
            await self._changed.wait()
        now = trio.current_time()
        self._evenness.at(now)
        self._stays = {slot: until for slot, until in self._stays.items() if until > now}

    async def _change(self) -> _Plan:
        """One look; what was done."""
        if self._leadership.is_keeper():
            await self.preferred.forget()
        plan = await self._plan(self._gateways.living)
        counter = self._context.epoch_counter
        if plan.take:
            await self._leadership.take(plan.take, counter)
            self.follow()
        if plan.give:
            await self._give(plan.give)
        return plan

    async def _give(self, targets: Mapping[int, tuple[int, str]]) -> None:
        """Have others lead these slots, without what stays."""
        partitions = [(partition, slot) for partition, slot in self._partitions() if slot in targets]
        slow = await self._handing_over.prepare([partition for partition, _ in partitions])
        if slow and not self._is_leaving:
            stay = {slot for partition, slot in partitions if partition in slow}
            self._keep(stay, partitions)
            targets = {slot: target for slot, target in targets.items() if slot not in stay}
        given = [partition for partition, slot in self._partitions() if slot in targets]
        # What is under way in the catalog comes to its end: it would be refused for another reason later.
        with trio.move_on_after(SETTLE_SECONDS):
            await self._context.fences.free(given)
        for partition, slot in self._partitions():
            if slot in targets:
                partition.given()
        await self._leadership.give(targets, self._context.epoch_counter)
        self.follow()

    def _keep(self, slots: Collection[int], partitions: Iterable[tuple[Partition, int]]) -> None:
        """These slots stay, with those of the partitions that are in them: the stores are too slow."""
        self._stays.update(dict.fromkeys(slots, trio.current_time() + STAY_SECONDS))
        for partition, slot in partitions:
            if slot in slots:
                partition.stay()

    async def _plan(self, living: Mapping[int, Living]) -> _Plan:
        own, table = self._leadership, self._leadership.table
        plan = _Plan([], {}, is_last=True)
        if own.gateway not in living or living[own.gateway].life != own.life:
            return plan  # whoever has this one's place does it
        orphans = table.orphans({number: one.life for number, one in living.items()})
        gateways = [Gateway(number, one.rack, draining=not one.stays) for number, one in living.items()]
        occupancy = await self._occupancy()
        # What it has to recover comes before making shares even; what others lead they give themselves.
        is_behind = self._recovery.is_behind and not self._is_leaving
        owners = table.owners()
        evens = self._evenness.is_due(owners, gateways, occupancy) and not is_behind
        evened = own.gateway if evens else NOBODY
        for move in next_moves(owners, orphans, gateways, occupancy, evened):
            if move is None:
                await trio.lowlevel.checkpoint()
            elif move.slot in orphans:
                if move.target == own.gateway:
                    plan.take.append(move.slot)
            elif move.slot in self._stays and not self._is_leaving:
                continue
            elif orphans or self._is_enough(plan.give, move, occupancy):
                break
            elif move.source == own.gateway:
                plan.give[move.slot] = move.target, living[move.target].life
        if evens and not (orphans or plan.give or self._stays):
            self._evenness.looked(trio.current_time())
        has_partitions = is_behind or any(occupancy.weights[slot] for slot in plan.give)
        return plan._replace(is_last=not (plan.give or is_behind), has_partitions=has_partitions)

    async def _occupancy(self) -> Occupancy:
        occupancy = Occupancy()
        for done, topic in enumerate(self._topics.all(), 1):
            preferred = self.preferred.of_topic(topic.id)
            occupancy.add(TopicShape(topic.id, len(topic.partitions), preferred))
            if not done % TOPICS_A_TURN:
                await trio.lowlevel.checkpoint()
        return occupancy

    def _is_enough(self, give: Mapping[int, object], move: Move, occupancy: Occupancy) -> bool:
        """Whether this move waits for the next look: one slot with partitions is given at a time."""
        if len(give) >= FREE_AT_ONCE:
            return True
        if self._is_leaving:
            return False
        return bool(give) and any(occupancy.weights[slot] for slot in (move.slot, *give))
