"""Several gateways at the same time, over one catalog: each leads what a table says that stays as it is.

Real are the gateways' logs, as in `tests.sim.cluster`, and the leadership of slots; simulated is a catalog
that all of them share, and which each sees a little later (`tests.sim.late_mirror`). A gateway that dies, or
is taken for dead, is followed by another life of the same one, which takes its slots; the other gateways go
on meanwhile.

What is checked besides: a segment comes into the catalog only from the life that leads its slot in that very
moment, and nobody serves what the table gives another one.
"""

from __future__ import annotations

import math
import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.leadership.next_table import NOBODY
from gateway.leadership.records import AliveRecord, pack_alive, slot_text, unpack_alive, unpack_slot
from gateway.leadership.slots import slot_of
from gateway.leadership.table import Leader
from mesh.protocol.address_state import life_of
from tests.sim.catalog import SimCatalog
from tests.sim.cluster import World
from tests.sim.gateway_node import Life
from tests.sim.late_mirror import SELDOM_SECONDS, LateMirror
from tests.sim.loop import BrokenPromise
from tests.sim.plan import Fault, Plan, gateway_name, store_name

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from tests.sim.clients import PartitionName

NO_LIFE = "0" * 16
"""In the table before any gateway has begun."""

ASKS_THE_WRONG_ONE = 0.1
"""Share of the looks for a leader that end with any gateway: a client's metadata may be old."""

LEASE_SECONDS = 0.3
"""How long the key of a gateway that died stays: a crash may last longer or less long."""

FAULTS_PER_SECOND = 1.5

STOPS_PER_SECOND = 0.5
"""Besides: gateways that are told to stop, and give away what they lead before."""

HAND_OVER_SECONDS = 1.0
"""What they have for that."""

HEARD_SECONDS = 2 * SELDOM_SECONDS
"""By then every gateway has heard of what has changed, if it hears anything."""

HEARS_NOTHING = 0.5
"""Share of the gateways that go on in another one's place which are cut off from the catalog's changes."""


class Gateways(World):
    """One schedule of a cluster with `plan.gateways`, whose ids begin with 1."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._stopping: set[Life] = set()
        self._down: set[int] = set()
        """Gateways that are to begin another life a little later."""
        self.catalog = SimCatalog(self.catalog_file, self)
        self._last_view: LateMirror
        self._views: dict[Life, LateMirror] = {}
        on_segment = self.catalog_file.on_segment

        def seen(key: str, before: bytes | None, after: bytes) -> None:
            if before is None:
                self._check_leader(key)
            on_segment(key, before, after)

        self.catalog_file.on_segment = seen

    def _numbers(self) -> range:
        return range(1, self.plan.gateways + 1)

    # who leads what ---------------------------------------------------------------------------------------

    def leader(self, topic_id: bytes, index: int) -> Leader:
        """By the catalog."""
        entry = self.catalog_file.entries.get(keys.SLOTS + slot_text(slot_of(topic_id, index)))
        return Leader(NOBODY, NO_LIFE, 0) if entry is None else unpack_slot(entry.value)

    def _check_leader(self, segment_key: str) -> None:
        """A segment is put: by the life that leads its slot. Raises BrokenPromise."""
        topic_id, index, place = segment_key.removeprefix(keys.SEGMENTS).split("/")
        life, leader = life_of(place.rpartition("-")[2]), self.leader(bytes.fromhex(topic_id), int(index))
        if life != leader.life:
            raise BrokenPromise(f"life {life} put {segment_key}, and gateway {leader} leads its slot")
        self.reached[f"segments of {gateway_name(leader.gateway)}"] += 1

    def _check(self) -> None:
        for life in self.current_lives() if not self.loop.over.is_set() else ():
            for log in life.partitions() if life.serving else ():
                leader = self.leader(log.topic.id, log.index)
                if log.available and leader.life != life.life_name:
                    raise BrokenPromise(f"gateway {life.gateway} serves {log}, which {leader} leads")
        super()._check()

    def current_lives(self) -> list[Life]:
        return [life for life in self.lives if not life.over and not life.zombie]

    def current_life(self) -> Life | None:
        """Any of them: for what every one may do."""
        lives = self.current_lives()
        return lives[0] if lives else None

    def leader_of(self, partition: PartitionName) -> Life | None:
        topic_id = next(one for one, name in self.topic_names.items() if name == partition[0])
        leader = self.leader(bytes.fromhex(topic_id), partition[1])
        return next((life for life in self.current_lives() if life.life_name == leader.life), None)

    def gateway_of(self, before: Life | None, partition: PartitionName | None = None) -> Life | None:
        """The leader, or one whom the client still takes for it."""
        assert partition is not None, "groups are coordinated by one gateway"
        lives = self.current_lives()
        if before is not None and before.zombie and before.answers and self.random.random() < 0.9:
            return before
        if lives and self.working and self.random.random() < ASKS_THE_WRONG_ONE:
            self.reached["clients that asked any gateway"] += 1
            return self.random.choice(lives)
        return self.leader_of(partition)

    def _end_views(self) -> None:
        for view in self._views.values():
            view.end()

    def stale_seconds(self, life: Life) -> float:
        """One that goes on in another one's place may hear nothing of it; the others hear within moments."""
        return math.inf if life.zombie else HEARD_SECONDS

    # lives and faults -------------------------------------------------------------------------------------

    def open_catalog(self) -> Catalog:
        self._last_view = LateMirror(self.catalog, self)
        return self._last_view

    async def take_place(self, life: Life) -> None:
        """The gateway's key is this life's, as `gateway.cluster.alive` puts it."""
        key = keys.alive_key(life.gateway)
        while True:
            entry = self.catalog.get(key)
            compare = Compare(key, 0 if entry is None else entry.mod_revision)
            try:
                revision = await self.catalog.transact(
                    [compare], {key: pack_alive(AliveRecord(life.life_name))}
                )
            except CompareFailed:
                continue
            life.catalog.hold(Compare(key, revision))
            return

    async def _end_lease(self, life: Life, seconds: float) -> None:
        """The gateway says nothing for so long: then its key is gone, if it is this life's."""
        await trio.sleep(seconds)
        key = keys.alive_key(life.gateway)
        entry = self.catalog.get(key)
        if entry is not None and unpack_alive(entry.value).life == life.life_name:
            with suppress(CompareFailed):
                await self.catalog.transact([Compare(key, entry.mod_revision)], {}, [key])
                self.reached["leases that ended"] += 1

    def start_gateway(self) -> None:
        for number in self._numbers():
            self._start(number)

    def _start(self, gateway: int) -> None:
        life = Life(self, len(self.lives) + 1, gateway)
        self._views[life] = self._last_view
        self.lives.append(life)
        self.nursery.start_soon(life.run)

    def _begin_again(self, gateway: int) -> None:
        self._down.discard(gateway)
        self._start(gateway)

    def _fault_crash(self, fault: Fault) -> None:
        if fault.target not in map(gateway_name, self._numbers()):
            super()._fault_crash(fault)
        elif (life := self._life_of(fault)) is not None:
            life.kill()
            self.nursery.start_soon(self._end_lease, life, LEASE_SECONDS)
            self._down.add(life.gateway)
            self.loop.after(fault.seconds, self._begin_again, life.gateway)
            self.reached["gateway crash"] += 1

    def _lives_on(self, life: Life, seconds: float) -> None:
        """Its place is another one's, and it goes on for so long. It may hear nothing of that: what it would
        change is refused all the same.
        """
        life.zombie = True
        if self.random.random() < HEARS_NOTHING:
            view = self._views[life]
            view.stall()
            self.loop.after(seconds, view.end)
            self.reached["lives that heard nothing"] += 1
        self.loop.after(seconds, life.kill)

    def _fault_taken_for_dead(self, fault: Fault) -> None:
        """A gateway goes on for a while beside its own next life."""
        if (life := self._life_of(fault)) is not None:
            self._lives_on(life, fault.seconds)
            self._start(life.gateway)

    def _fault_lease_lost(self, fault: Fault) -> None:
        """A gateway cannot say that it is alive, and goes on; others take what it leads."""
        if (life := self._life_of(fault)) is not None:
            self._lives_on(life, fault.seconds)
            self.nursery.start_soon(self._end_lease, life, 0.0)
            self._down.add(life.gateway)
            self.loop.after(fault.seconds + 0.1, self._begin_again, life.gateway)

    def _fault_stop(self, fault: Fault) -> None:
        if (life := self._life_of(fault)) is not None and life.serving and life not in self._stopping:
            self._stopping.add(life)
            self.nursery.start_soon(self._stop, life, fault.seconds)

    async def _stop(self, life: Life, seconds: float) -> None:
        """In order: others lead what it has led, if they can, and its key goes before it is gone."""
        alive, leaving = keys.alive_key(life.gateway), keys.leaving_key(life.gateway)
        with trio.move_on_after(HAND_OVER_SECONDS):
            entry = self.catalog.get(leaving)
            record = pack_alive(AliveRecord(life.life_name, leaving=True))
            compare = Compare(leaving, 0 if entry is None else entry.mod_revision)
            await self.catalog.transact([compare], {leaving: record})
            assert life.broker.leading is not None
            await life.broker.leading.leave()
            self.reached["gateways that others had taken over from when they stopped"] += 1
        if life.over or life.zombie:
            return  # something else has happened to it meanwhile
        life.kill()
        self._down.add(life.gateway)
        entry = self.catalog.get(alive)
        if entry is not None and unpack_alive(entry.value).life == life.life_name:
            with suppress(CompareFailed):
                await self.catalog.transact([Compare(alive, entry.mod_revision)], {}, [alive])
        await trio.sleep(seconds)
        self._begin_again(life.gateway)

    def _fault_isolate(self, fault: Fault) -> None:
        stores = [member.name for member in self.members if member.name != fault.target]
        others = [*map(gateway_name, self._numbers()), *stores]
        links = [(fault.target, other) for other in others] + [(other, fault.target) for other in others]
        self._cut(links, fault.seconds)

    def _life_of(self, fault: Fault) -> Life | None:
        return next(
            (life for life in self.current_lives() if gateway_name(life.gateway) == fault.target), None
        )


def world_of(plan: Plan) -> Gateways | None:
    """The world of a schedule with several gateways; None: that of a schedule is made for it."""
    return Gateways(plan) if plan.gateways > 1 else None


def make_gateways_plan(seed: int, *, seconds: float = 4.0) -> Plan:
    """A schedule with two gateways, of this seed. What is about the catalog's own faults, groups, deletions,
    compactions and stores that are lost for good has schedules with one gateway.
    """
    chooser = random.Random(f"gateways {seed}")
    plan = Plan(
        seed,
        gateways=2,
        stores=3,
        replication_factor=3,
        topics=chooser.choice((1, 2)),
        partitions=chooser.choice((2, 3, 5)),
        clients=chooser.choice((1, 2)),
        seconds=seconds,
        # Where little is written many partitions have no open segment, and their records do not change.
        pace=chooser.choice((0.05, 0.3, 1.0)),
        segment_bytes=chooser.choice((1000, 3000, 1 << 30)),
        lost=chooser.choice((0.0, 0.02)),
        doubled=chooser.choice((0.0, 0.02)),
        late=chooser.choice((0.0, 0.02)),
    )
    names = [gateway_name(1), gateway_name(2)]
    stores = [store_name(number) for number in range(plan.stores)]
    faults = []
    for number in range(int(seconds * FAULTS_PER_SECOND)):
        kind = chooser.choice(
            ("crash", "crash", "taken for dead", "lease lost", "lease lost", "isolate", "cut link")
        )
        of_gateways = kind in {"taken for dead", "lease lost"}
        target = chooser.choice(names if of_gateways else [*names, *stores])
        other = chooser.choice([one for one in (*names, *stores) if one != target])
        at, lasts = chooser.uniform(0.05, seconds), chooser.uniform(0.02, 2.0)
        keep = chooser.random() < 0.5
        faults.append(
            Fault(f"fault {number}", kind, at, lasts, target, other if kind == "cut link" else "", keep=keep)
        )
    # Of a source of their own: what was found once with a seed is still in its schedule.
    stops = random.Random(f"stops {seed}")
    for number in range(int(seconds * STOPS_PER_SECOND)):
        at, lasts = stops.uniform(0.05, seconds), stops.uniform(0.02, 1.0)
        faults.append(Fault(f"stop {number}", "stop", at, lasts, stops.choice(names), "", keep=False))
    return replace(plan, faults=tuple(sorted(faults, key=lambda fault: fault.at)))
