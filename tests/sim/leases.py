"""Several gateways that have leases, and lose the catalog: what they may still answer, and for how long.

Real is here, besides what is in `tests.sim.gateways`, how a gateway takes its place, renews its lease, is
suspended while that is old, and ends (`gateway.cluster.alive`), with a lease of some tenths of a second. The
catalog ends what is not renewed. A gateway that does not reach the catalog may make transactions that happen
at once, and whose outcome it learns later; others are sent when it is back.

What is checked besides: nobody answers for what another gateway leads, but for the moment until it notices
that its lease is old; and log starts move by DeleteRecords, whose answers are judged with the others.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from gateway.catalog import keys
from gateway.catalog.fenced import Deposed
from gateway.catalog.interface import CatalogFailed, Entry
from gateway.cluster import alive as alive_module
from gateway.cluster.alive import Alive, LeaseLost
from gateway.leadership.records import GatewayRecord, pack_gateway, unpack_alive
from tests.sim.gateways import HEARD_SECONDS, Gateways
from tests.sim.log_model import DeleteRecords
from tests.sim.plan import Fault, Plan, gateway_name, store_name
from wireproto.kafka.errors import KafkaError

if TYPE_CHECKING:
    from gateway.catalog.mirror import Plan as Transaction
    from gateway.log.partition import Partition
    from tests.sim.gateway_node import Life

LEASE_SECONDS = 0.6
RENEW_SECONDS = 0.2
LOOK_SECONDS = 0.05
"""As the real ones, a tenth of them."""

STARTS_AGAIN_SECONDS = 0.2
"""A gateway that ended by itself is started anew."""

FAULTS_PER_SECOND = 2.0

KINDS = (
    *("crash", "crash", "catalog cut", "catalog cut", "catalog cut"),
    *("stop", "cut link", "isolate", "pause", "trim", "trim", "slow disk"),
)

LOSES_A_STORE = 0.3
"""Share of the schedules in which a disk is lost for good."""


class LeasedGateways(Gateways):
    """One schedule of gateways with leases."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._ended: dict[int, str] = {}
        """Gateway -> its last life that is known to be over, as a lock on its directory says."""
        told = self.catalog_file.on_transaction

        def seen(transaction: Transaction) -> None:
            told(transaction)
            self._see_places(transaction)

        self.catalog_file.on_transaction = seen

    def _write_topics(self) -> None:
        """All gateways have been there before."""
        super()._write_topics()
        for number in self._numbers():
            key, record = keys.gateway_key(number), GatewayRecord(gateway_name(number), "", {}, {}, "1")
            self.catalog_file.entries[key] = Entry(key, pack_gateway(record), 1, 1)

    async def run(self) -> None:
        short = {
            "LEASE_SECONDS": LEASE_SECONDS,
            "RENEW_SECONDS": RENEW_SECONDS,
            "LOOK_SECONDS": LOOK_SECONDS,
        }
        with patch.dict(vars(alive_module), short):
            await super().run()

    def start_gateway(self) -> None:
        self.nursery.start_soon(self.catalog.run)
        super().start_gateway()

    def _see_places(self, transaction: Transaction) -> None:
        """Whose place is gone goes on in vain: until it hears that, or its lease is old."""
        for key, entry in transaction.entries.items():
            if key.startswith(keys.ALIVE):
                holder = "" if entry is None else unpack_alive(entry.value).life
                for life in self.current_lives():
                    if keys.alive_key(life.gateway) == key and life.has_place and life.life_name != holder:
                        life.zombie = True
                        self.reached["places lost"] += 1

    def stale_seconds(self, life: Life) -> float:  # noqa: ARG002 - the same for all
        """Its lease was as old as the catalog's when that ended it: it need only look."""
        return LOOK_SECONDS + HEARD_SECONDS

    # lives ------------------------------------------------------------------------------------------------

    async def take_place(self, life: Life) -> None:
        last = self._ended.get(life.gateway, "")
        life.alive = Alive(life.catalog, life.gateway, life.life_name, last, clock=lambda: self.loop.now)
        self.nursery.start_soon(self._keep_alive, life, life.alive)
        await life.alive.take()
        life.has_place = True

    async def _keep_alive(self, life: Life, alive: Alive) -> None:
        with life.beside:
            alive.on_suspended(self._count_suspended)
            try:
                await alive.run()
            except* (LeaseLost, CatalogFailed, Deposed):
                self.reached["gateways that lost their lease"] += 1
                life.kill()
                self.life_ended(life)
            finally:
                self._views[life].end()

    def _count_suspended(self, suspended: bool) -> None:
        self.reached["gateways suspended" if suspended else "gateways that answered again"] += 1

    def _start(self, gateway: int) -> None:
        over = [life for life in self.lives if life.gateway == gateway]
        if over:
            assert all(life.over for life in over), "one directory, one process"
            self._ended[gateway] = over[-1].life_name
        super()._start(gateway)

    def life_ended(self, life: Life) -> None:
        if life.gateway not in self._down:
            self._down.add(life.gateway)
            self.loop.after(STARTS_AGAIN_SECONDS, self._begin_again, life.gateway)

    # faults -----------------------------------------------------------------------------------------------

    def _life_of(self, fault: Fault) -> Life | None:
        return next(
            (life for life in self.lives if not life.over and gateway_name(life.gateway) == fault.target),
            None,
        )

    def _fault_catalog_cut(self, fault: Fault) -> None:
        if (life := self._life_of(fault)) is not None:
            view = self._views[life]
            view.cut_off()
            self.loop.after(fault.seconds, view.reach_again)

    def _fault_trim(self, _fault: Fault) -> None:
        for life in self.current_lives():
            starts = {
                log: self.random.randint(log.log_start_offset, log.high_watermark)
                for log in (life.partitions() if life.answers else ())
                if log.available
            }
            for log, start in starts.items():
                name = log.topic.name, log.index
                self.trimmed[name] = max(self.trimmed.get(name, 0), start)
            self.nursery.start_soon(self._delete_records, life, starts)

    async def _delete_records(self, life: Life, starts: dict[Partition, int]) -> None:
        invoked = self.asked.now()
        try:
            answers = await life.broker.log_starts.delete_records(starts)
        except (CatalogFailed, Deposed):
            return  # the gateway is gone
        if life.answers:
            for log, answer in answers.items():
                if not isinstance(answer, KafkaError):
                    self.asked.answered(life, log, DeleteRecords(starts[log]), answer, invoked)
                    self.reached["answers to DeleteRecords"] += 1


def make_leased_plan(seed: int, *, seconds: float = 4.0) -> Plan:
    """A schedule of this seed with two or three gateways that have leases."""
    chooser = random.Random(f"leases {seed}")
    plan = Plan(
        seed,
        gateways=chooser.choice((2, 2, 3)),
        stores=3,
        replication_factor=3,
        partitions=chooser.choice((2, 3)),
        clients=chooser.choice((1, 2)),
        seconds=seconds,
        pace=chooser.choice((0.05, 0.2)),
        segment_bytes=chooser.choice((1000, 3000, 1 << 30)),
        lost=chooser.choice((0.0, 0.02)),
        doubled=chooser.choice((0.0, 0.02)),
        late=chooser.choice((0.0, 0.02)),
    )
    gateways = [gateway_name(number) for number in range(1, plan.gateways + 1)]
    stores = [store_name(number) for number in range(plan.stores)]
    faults = [
        _fault(f"fault {number}", gateways, stores, seconds, chooser)
        for number in range(int(seconds * FAULTS_PER_SECOND))
    ]
    if chooser.random() < LOSES_A_STORE:
        at, lasts = chooser.uniform(0.3, seconds), chooser.uniform(0.1, 2.0)
        faults.append(Fault("wipe", "wipe", at, lasts, chooser.choice(stores)))
    return replace(plan, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _fault(
    name: str, gateways: list[str], stores: list[str], seconds: float, chooser: random.Random
) -> Fault:
    kind = chooser.choice(KINDS)
    targets = {"catalog cut": gateways, "stop": gateways, "pause": stores, "slow disk": stores}
    target = chooser.choice(targets.get(kind, [*gateways, *stores]))
    other = chooser.choice([one for one in (*gateways, *stores) if one != target])
    at, lasts = chooser.uniform(0.05, seconds), chooser.uniform(0.02, 2.0)
    keep = chooser.random() < 0.5
    return Fault(name, kind, at, lasts, target, other if kind == "cut link" else "", keep=keep)
