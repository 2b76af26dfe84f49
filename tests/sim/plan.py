"""What one schedule will do, drawn from its seed before it begins: the cluster's shape, the work, the faults.

Every fault has an id that depends on nothing but the seed, so that a schedule without some of its faults
(`left_out`) is the same schedule otherwise: that is what `shrink` lives on.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.transactions.internal_topic import TRANSACTION_TOPIC

NEVER = 86_400.0
"""Seconds that no schedule has."""

DAY_MS = 86_400_000

INPUTS = "inputs"
"""The topic whose offsets programs commit; it has no records."""

NATIVE_TOPIC = "native"
"""The topic that has the records of native producers."""

COORDINATED = frozenset((OFFSETS_TOPIC, TRANSACTION_TOPIC))
"""Topics that only coordinators write to."""

MANY_PRODUCERS = 2000
"""More than write to any partition in a schedule."""

MANY_ROWS = 4096
"""More than the batches of any segment in a schedule."""


class Fault(NamedTuple):
    """One fault. It begins at `at` and heals itself `seconds` later (seconds of the world's time).

    `target` and `other` are nodes ("gateway", "store 0", ...); `keep`: a crash keeps what was written and not
    fsynced, as the page cache does when only a process dies.
    """

    id: str
    kind: str
    at: float
    seconds: float
    target: str
    other: str = ""
    keep: bool = False

    def __str__(self) -> str:
        other = f" -> {self.other}" if self.other else ""
        kept = " keeping what was written" if self.keep else ""
        return (
            f"{self.at:7.3f} s  {self.kind} {self.target}{other} for {self.seconds:.3f} s{kept}   [{self.id}]"
        )


@dataclass(frozen=True)
class Plan:
    """One schedule."""

    seed: int
    stores: int = 1
    replication_factor: int = 1
    min_insync_replicas: int = 1
    topics: int = 1
    partitions: int = 2
    clients: int = 3
    seconds: float = 5.0
    """How long there are work and faults; then everything heals."""
    pace: float = 0.06
    """Seconds between two batches of one client, on average."""
    segment_bytes: int = 1 << 30
    tail_cache_bytes: int = 1 << 20
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    """Shares of messages."""
    fsync_seconds: float = 0.004
    scrub_seconds: float = 3600.0
    """Rest between two looks of a store at its closed segments: one schedule has none, unless it is less."""
    rows_in_an_answer: int = MANY_ROWS
    """Rows of a segment that a store gives at once: a segment has more of them, or not."""
    producers_kept: int = MANY_PRODUCERS
    """Idempotent producers that a log remembers. Where these are few, others pass by, each with one batch,
    and push out who is idle: never one whose batches may come again."""
    policies: tuple[str, ...] = ("delete",)
    """`cleanup.policy` of the topics, again and again from the first."""
    compaction_seconds: float = NEVER
    """Rest of a compaction that has nothing to do."""
    dirty_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    max_lag_ms: int = DAY_MS
    """Age at which an open segment of a compacted topic is closed, by the look for what retention drops."""
    compaction_keys: int = 1000
    """Keys that one compaction remembers."""
    retention_seconds: float = NEVER
    """Rest between two looks for what retention drops."""
    retention_bytes: int = -1
    delete_delay_ms: int = 0
    """How long stores keep what has left the logs."""
    groups: int = 0
    """Consumer groups: every other one with members, the others of a single client that commits."""
    sessions: int = 0
    """Consumers of each gateway life that read with fetch sessions."""
    transactions: int = 0
    """Transactional producers."""
    applications: int = 0
    """Programs that work exactly once, with the gateway's own coordinator (`tests.sim.applications`)."""
    natives: int = 0
    """Native producers, whose records come into a topic (`tests.sim.natives`)."""
    drops_natives: bool = False
    """Stores drop what the topic has, record by record and at once."""
    publishes: int = 0
    """Native readers of the topics' values (`tests.sim.published`)."""
    hurried: bool = False
    """They give batches up at once, which come when their transactions are ended."""
    transaction_version: int = 2
    """The level of that feature."""
    gateways: int = 1
    """More than one: `tests.sim.gateways`."""
    remembers: bool = False
    """The stores remember the catalog, and each life compares it with them."""
    faults: tuple[Fault, ...] = ()
    crash_at_step: tuple[int, str, bool] | None = None
    """(step, node, keep): crash that node behind exactly this event, besides the faults."""
    left_out: frozenset[str] = field(default_factory=frozenset)
    only_fates: frozenset[str] | None = None
    """The messages that fare badly, instead of shares of all."""

    @property
    def w(self) -> int:
        """How many members of a segment must have a record."""
        return max(self.min_insync_replicas, self.replication_factor // 2 + 1)

    def least_w(self, members: int) -> int:
        """How many of so many members of a segment must have a record before it counts: a majority, and no
        fewer than the lowest `min.insync.replicas` that a topic is ever given.
        """
        given = [int(fault.other) for fault in self.happening if fault.kind == "alter topic"]
        return min(members, max(members // 2 + 1, min([self.min_insync_replicas, *given])))

    def policy(self, topic: str) -> str:
        """Of a topic by its name."""
        if topic in COORDINATED:
            return "compact"
        if topic in (INPUTS, NATIVE_TOPIC):
            return "delete"
        number = int(topic.removeprefix("topic-"))
        return self.policies[number % len(self.policies)]

    @property
    def keeps_tombstones(self) -> bool:
        """Longer than any schedule takes, also by a clock that is set on."""
        return self.delete_retention_ms >= DAY_MS

    @property
    def cleans(self) -> bool:
        """Whether compaction or retention are at work."""
        return min(self.compaction_seconds, self.retention_seconds) < NEVER

    @property
    def happening(self) -> list[Fault]:
        """The faults that are not left out."""
        return [fault for fault in self.faults if fault.id not in self.left_out]

    def without(self, ids: frozenset[str]) -> "Plan":
        """The same schedule without these faults (besides those that are left out already)."""
        return replace(self, left_out=self.left_out | ids)


FAULTS_PER_SECOND = 1.2

LOSES_A_STORE = 0.3
"""Share of the schedules, of those that can bear it, in which a disk is lost for good."""

SETS_A_STORE_BACK = 0.4
"""Share of the schedules that can bear it in which a store comes back as an older copy, or empty."""

RETIRES_A_STORE = 0.4
"""Share of the schedules without a lost disk, of those with a store to spare, in which one is taken out of
service."""

ALTERS_TOPICS = 0.3
"""Share of schedules in which topics get another `min.insync.replicas`."""

SWAPS_SIDES = 0.5
"""Share of the schedules with several stores in which a recovery hears only those that the writer did not."""

MOVES_LOG_STARTS = 0.3
"""Share of the schedules in which log starts move, and segments go."""

CLEANS = 0.5
"""Share of the schedules with compaction and retention."""

READS = 0.4
"""Share of the schedules with groups and fetch sessions."""

ROWS_IN_AN_ANSWER = (MANY_ROWS, MANY_ROWS, 2, 7)

PRODUCERS_KEPT = (MANY_PRODUCERS, MANY_PRODUCERS, MANY_PRODUCERS, 8)

RESTS = 0.5
"""Share of these in which nobody writes for a while."""

SOME_KEYS = 50
"""Keys that a compaction has room for, where it is not what a test is about: some runs for a log."""

GATEWAY = "gateway"


def store_name(number: int) -> str:
    return f"store {number}"


def gateway_name(number: int) -> str:
    """Of one of several, by its id."""
    return f"{GATEWAY} {number}"


def cleans_quickly(plan: Plan) -> Plan:
    """The plan with room for so many keys that a log is cleaned in some runs, where it has less.

    With room for two the cluster cleans for a simulated minute after its faults: the tests of cleaning itself
    wait for that.
    """
    return replace(plan, compaction_keys=max(plan.compaction_keys, SOME_KEYS))


def make_plan(
    seed: int,
    *,
    stores: int | None = None,
    seconds: float = 5.0,
    cleans: bool | None = None,
    reads: bool | None = None,
) -> Plan:
    """The plan of a seed; with `stores` its cluster has so many, and it has `seconds` of work and faults.

    `cleans`: with compaction and retention, or without; `reads`: with groups and fetch sessions, or without;
    else as the seed will.
    """
    chooser = random.Random(seed)
    drawn = chooser.choice((1, 1, 2, 3, 3, 3, 3, 4, 5))
    stores = drawn if stores is None else stores
    replication = stores if chooser.random() < 0.6 else chooser.randint(1, stores)
    majority = replication // 2 + 1
    messages = chooser.choice((0.0, 0.01, 0.05, 0.15))
    plan = Plan(
        seed,
        stores,
        replication,
        chooser.choice((1, majority, replication)) if chooser.random() < 0.4 else 1,
        topics=chooser.choice((1, 1, 2)),
        partitions=chooser.choice((1, 2, 3)),
        clients=chooser.choice((1, 2, 3)),
        segment_bytes=chooser.choice((600, 3000, 1 << 30)),
        tail_cache_bytes=chooser.choice((2000, 1 << 20)),
        lost=messages,
        doubled=messages / 2,
        late=messages / 2,
        fsync_seconds=chooser.choice((0.001, 0.004, 0.02)),
        seconds=seconds,
    )
    plan = replace(plan, faults=tuple(_faults(plan, chooser)))
    # Of streams of their own: the schedules without are those that they were before there was any.
    plan = replace(plan, rows_in_an_answer=random.Random(f"rows {seed}").choice(ROWS_IN_AN_ANSWER))
    plan = replace(plan, producers_kept=random.Random(f"producers {seed}").choice(PRODUCERS_KEPT))
    chooser = random.Random(f"cleaning {seed}")
    drawn_cleans = chooser.random() < CLEANS
    plan = _with_cleaning(plan, chooser) if (drawn_cleans if cleans is None else cleans) else plan
    plan = _with_copies(plan, random.Random(f"copies {seed}"))
    chooser = random.Random(f"reading {seed}")
    drawn_reads = chooser.random() < READS
    if not (drawn_reads if reads is None else reads):
        return plan
    return replace(plan, groups=chooser.choice((1, 2, 3)), sessions=chooser.choice((0, 1, 2)))


def _with_copies(plan: Plan, chooser: random.Random) -> Plan:
    """The same with a store that is set back to a copy of its disk, or that starts with an empty one, in some
    of the schedules that can bear it.
    """
    altered = [int(fault.other) for fault in plan.faults if fault.kind == "alter topic"]
    if max([plan.w, *altered]) >= plan.replication_factor or chooser.random() >= SETS_A_STORE_BACK:
        return plan
    kind = chooser.choice(("set back", "set back", "empty"))
    at = chooser.uniform(0.2, plan.seconds * 0.7)
    seconds = chooser.uniform(0.3, plan.seconds * 0.8) if kind == "set back" else chooser.uniform(0.1, 1.0)
    fault = Fault(kind, kind, at, seconds, _any_store(plan, chooser))
    return replace(plan, faults=tuple(sorted((*plan.faults, fault), key=lambda fault: fault.at)))


def _with_cleaning(plan: Plan, chooser: random.Random) -> Plan:
    """The same with topics that are compacted, or that retention takes something of, and with log starts that
    move.
    """
    faults = list(plan.faults)
    for number in range(chooser.choice((0, 0, 1, 3))):
        at = chooser.uniform(0.3, plan.seconds)
        faults.append(Fault(f"another trim {number}", "trim", at, 0.0, GATEWAY))
    if chooser.random() < RESTS:
        faults += _lull(plan, chooser)
    return replace(
        plan,
        policies=chooser.choice(
            (("compact",), ("compact",), ("compact,delete",), ("delete", "compact"), ("delete",))
        ),
        compaction_seconds=chooser.choice((0.05, 0.3, 1.0)),
        dirty_ratio=chooser.choice((0.01, 0.5)),
        delete_retention_ms=chooser.choice((0, 300, DAY_MS, DAY_MS)),
        max_lag_ms=chooser.choice((500, DAY_MS)),
        compaction_keys=chooser.choice((2, 4, 1000, 1000)),
        retention_seconds=chooser.choice((0.5, 1.5, NEVER)),
        retention_bytes=chooser.choice((0, 3000, 20_000, -1)),
        segment_bytes=chooser.choice((600, 1500, 3000)),
        pace=chooser.choice((0.03, 0.06)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        delete_delay_ms=chooser.choice((0, 0, 300, 2000)),
    )


def _lull(plan: Plan, chooser: random.Random) -> list[Fault]:
    """Nobody writes for a while, and the gateway starts twice meanwhile: all segments are closed and may be
    compacted, or dropped, before the second start reads what is left.
    """
    at, seconds = chooser.uniform(0.5, plan.seconds * 0.5), chooser.uniform(0.8, 1.5)
    return [
        Fault("lull", "lull", at, seconds, "producers"),
        Fault("first start", "crash", at + 0.2, 0.1, GATEWAY, keep=True),
        Fault("second start", "crash", at + seconds - 0.2, 0.02, GATEWAY, keep=True),
    ]


def _faults(plan: Plan, chooser: random.Random) -> list[Fault]:
    faults = []
    count = int(plan.seconds * FAULTS_PER_SECOND * chooser.choice((0.5, 1, 1, 2)))
    for number in range(count):
        make = chooser.choices([make for make, _ in _KINDS], [weight for _, weight in _KINDS])[0]
        at = chooser.uniform(0.05, plan.seconds)
        faults.append(make(f"fault {number}", at, plan, chooser))
    if plan.stores > 1 and chooser.random() < SWAPS_SIDES:
        faults += _swap_sides(plan, chooser)
    if plan.w < plan.replication_factor and chooser.random() < LOSES_A_STORE:
        for number in range(chooser.choice((1, 1, 2))):
            at, seconds = chooser.uniform(0.3, plan.seconds), chooser.uniform(0.1, 2.0)
            faults.append(Fault(f"wipe {number}", "wipe", at, seconds, _any_store(plan, chooser)))
    elif plan.replication_factor < plan.stores and chooser.random() < RETIRES_A_STORE:
        at = chooser.uniform(0.3, plan.seconds)
        faults.append(Fault("retire", "retire", at, 0.0, _any_store(plan, chooser)))
    if chooser.random() < ALTERS_TOPICS:
        faults += _alterations(plan, chooser, loses=any(fault.kind == "wipe" for fault in faults))
    if chooser.random() < MOVES_LOG_STARTS:
        for number in range(chooser.choice((1, 2, 4))):
            at = chooser.uniform(0.3, plan.seconds)
            faults.append(Fault(f"trim {number}", "trim", at, 0.0, GATEWAY))
    return sorted(faults, key=lambda fault: fault.at)


def _alterations(plan: Plan, chooser: random.Random, *, loses: bool) -> list[Fault]:
    """Other `min.insync.replicas` for topics in use: segments of one log have different w then.

    Where a store loses its data none may need all of its members.
    """
    most = plan.replication_factor - 1 if loses else plan.replication_factor
    return [
        Fault(
            f"alteration {number}",
            "alter topic",
            chooser.uniform(0.05, plan.seconds),
            0.0,
            f"topic-{chooser.randrange(plan.topics)}",
            str(chooser.randint(1, most)),
        )
        for number in range(chooser.choice((1, 2, 4)))
    ]


def _swap_sides(plan: Plan, chooser: random.Random) -> list[Fault]:
    """Some stores miss what the others acknowledge; then the gateway dies, and the next one meets only them.

    Random faults seldom come in this order, and recovery is about nothing else.
    """
    stores = list(map(store_name, range(plan.stores)))
    chooser.shuffle(stores)
    behind = max(1, min(plan.replication_factor, plan.stores) - plan.w)
    at, lag, blind = (
        chooser.uniform(0.1, plan.seconds * 0.6),
        chooser.uniform(0.1, 0.6),
        chooser.uniform(1.0, 3.0),
    )
    return [
        *(Fault(f"behind {name}", "isolate", at, lag, name) for name in stores[:behind]),
        *(Fault(f"unheard {name}", "isolate", at + lag, blind, name) for name in stores[behind:]),
        Fault("swap", "crash", at + lag, 0.02, GATEWAY, keep=chooser.random() < 0.5),
    ]


def _any_store(plan: Plan, chooser: random.Random) -> str:
    return store_name(chooser.randrange(plan.stores))


def _any_link(plan: Plan, chooser: random.Random) -> tuple[str, str]:
    nodes = [GATEWAY, *map(store_name, range(plan.stores))]
    first, second = chooser.sample(nodes, 2)
    return first, second


def _store_crash(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    seconds = chooser.choice((0.02, 0.3, 2.0)) * chooser.random()
    return Fault(name, "crash", at, seconds, _any_store(plan, chooser), keep=chooser.random() < 0.5)


def _gateway_crash(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    seconds = chooser.choice((0.02, 0.3, 1.0)) * chooser.random()
    return Fault(name, "crash", at, seconds, GATEWAY, keep=chooser.random() < 0.5)


def _takeover(name: str, at: float, _plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "taken for dead", at, chooser.uniform(0.1, 3.0), GATEWAY)


def _pause(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "pause", at, chooser.uniform(0.05, 2.0), _any_store(plan, chooser))


def _cut(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    first, second = _any_link(plan, chooser)
    return Fault(name, "cut link", at, chooser.uniform(0.05, 2.0), first, second)


def _isolate(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "isolate", at, chooser.uniform(0.05, 2.0), _any_store(plan, chooser))


def _disk_full(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "disk full", at, chooser.uniform(0.05, 2.0), _any_store(plan, chooser))


def _disk_slow(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "slow disk", at, chooser.uniform(0.1, 1.5), _any_store(plan, chooser))


def _all_stores_crash(name: str, at: float, _plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "power loss", at, chooser.uniform(0.01, 1.0), "all stores")


def _delete_topic(name: str, at: float, plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "delete topic", at, 0.0, f"topic-{chooser.randrange(plan.topics)}")


def _clock_step(name: str, at: float, _plan: Plan, chooser: random.Random) -> Fault:
    return Fault(name, "clock step", at, chooser.choice((-3600.0, -1.0, 5.0, 3600.0)), GATEWAY)


_KINDS: list[tuple[Callable[[str, float, Plan, random.Random], Fault], int]] = [
    (_store_crash, 8),
    (_gateway_crash, 6),
    (_takeover, 4),
    (_pause, 4),
    (_cut, 6),
    (_isolate, 3),
    (_disk_full, 2),
    (_disk_slow, 2),
    (_all_stores_crash, 2),
    (_delete_topic, 3),
    (_clock_step, 1),
]
