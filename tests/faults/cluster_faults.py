"""What happens to a whole cluster: each kind of fault begins, lasts, and is over.

Which process it meets, for how long and which way is drawn; `KINDS` says how often each kind is.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from gateway.cluster.alive import LEASE_SECONDS
from tests.faults.clocks import Clocks
from tests.faults.network import cut
from tests.faults.whole_cluster import Process, WholeCluster
from tests.peers.etcd import EtcdProcess
from tests.peers.process import ServerProcess

KINDS: Final = {
    "gateway killed": 8,
    "gateway ended": 3,
    "store killed": 6,
    "tower killed": 2,
    "etcd member killed": 3,
    "etcd leader killed": 3,
    "gateway stopped": 3,
    "store stopped": 1,
    "etcd member stopped": 1,
    "etcd leader stopped": 1,
    "gateway cut from etcd": 2,
    "gateway cut from stores": 1,
    "gateway cut from clients": 1,
    "gateway cut from gateways": 1,
    "etcd member cut from others": 1,
    "all of etcd killed": 1,
    "clock moved": 2,
    "machine slept": 1,
}
"""How often each is, beside the others."""

BRIEF_SECONDS: Final = (0.0, 0.1, 0.3, 1.0)
"""How long what was killed is away."""

LONG_SECONDS: Final = (1.0, 3.0, LEASE_SECONDS + 1.0, LEASE_SECONDS + 3.0)
"""How long what was stopped or cut off is: two of them are longer than a lease."""

MOST_CLOCK_SECONDS: Final = 1500.0
"""How far a time of day is moved: Kafka refuses records of which the time is an hour ahead."""

LOST_PLACE: Final = 2
"""The exit code of a gateway that was away for so long that others took its place, or that found no etcd."""

SLEPT_SECONDS: Final = (3.0, 20.0)
"""How long a machine seems to have slept: one of them is longer than a lease."""


@dataclass(frozen=True)
class Fault:
    """One of them, drawn."""

    kind: str
    seconds: float
    """How long it lasts."""
    number: int
    """Which of the processes of a kind."""
    ways: tuple[bool, bool]
    """Of a cut: whether packets to the victim and from it are lost."""
    silent: bool
    clock: float
    """Seconds."""

    def __str__(self) -> str:
        lost = {(True, True): "both ways", (True, False): "to it", (False, True): "from it"}[self.ways]
        way = f", {lost}{', silently' if self.silent else ''}" if "cut" in self.kind else ""
        moved = f", {self.clock:+.0f} s" if self.kind in ("clock moved", "machine slept") else ""
        return f"{self.kind} ({self.number + 1}{way}{moved}) for {self.seconds:g} s"


def draw(choice: random.Random, kinds: Mapping[str, int] = KINDS) -> Fault:
    """The next one. It draws the same number of numbers each time."""
    (kind,) = choice.choices(list(kinds), list(kinds.values()))
    brief, long, clock = choice.choice(BRIEF_SECONDS), choice.choice(LONG_SECONDS), choice.uniform(-1, 1)
    slept = choice.choice(SLEPT_SECONDS)
    is_brief = kind.endswith(("killed", "ended", "moved", "slept"))
    return Fault(
        kind,
        brief if is_brief else long,
        choice.randrange(3),
        choice.choice(((True, True), (True, False), (False, True))),
        choice.random() < 0.5,
        slept if kind == "machine slept" else clock * MOST_CLOCK_SECONDS,
    )


class ClusterFaults:
    """Does them. `clocks` has those that can be moved, by gateway and store."""

    def __init__(self, cluster: WholeCluster, clocks: Mapping[Process, Clocks]) -> None:
        self._cluster, self._clocks = cluster, clocks

    def done(self, fault: Fault) -> AbstractContextManager[None]:
        """It begins, and is over at the end; who has ended by it is started again, and not awaited."""
        if "cut" in fault.kind:
            return self._cut(fault)
        if fault.kind in ("clock moved", "machine slept"):
            return self._clock(fault)
        if fault.kind == "all of etcd killed":
            return self._killed(self._cluster.etcd.members)
        victim = self._victim(fault)
        if fault.kind.endswith("killed"):
            return self._killed([victim])
        return self._ended(victim) if fault.kind.endswith("ended") else _stopped(victim)

    def _victim(self, fault: Fault) -> Process:
        cluster = self._cluster
        if fault.kind.startswith("etcd leader"):
            return self._etcd_leader() or cluster.etcd.members[fault.number]
        who: dict[str, Sequence[Process]] = {
            "gateway": cluster.gateways,
            "store": cluster.stores,
            "tower": cluster.towers,
            "etcd": cluster.etcd.members,
        }
        those = who[fault.kind.split()[0]]
        return those[fault.number % len(those)]

    def _etcd_leader(self) -> EtcdProcess | None:
        try:
            return self._cluster.etcd.leader()
        except (AssertionError, OSError):
            return None  # there is none at present

    @contextmanager
    def _killed(self, victims: Sequence[Process]) -> Iterator[None]:
        for victim in victims:
            victim.kill9()
        yield
        for victim in victims:
            _launch(victim)

    @contextmanager
    def _ended(self, victim: Process) -> Iterator[None]:
        if victim.returncode is None:
            code = victim.terminate()
            # Before it serves it may have no way to end in order yet; or it has lost its lease just now.
            assert code in (0, LOST_PLACE, -signal.SIGTERM), f"ended with {code}:\n{victim.tail()}"
        yield
        _launch(victim)

    @contextmanager
    def _cut(self, fault: Fault) -> Iterator[None]:
        victim = self._victim(fault)
        hosts = self._cluster.hosts
        others = [hosts[other] for other in self._others(fault) if other is not victim]
        others = others or [self._cluster.clients]
        to, back = fault.ways
        ends = ([hosts[victim]], others) if back else (others, [hosts[victim]])
        with cut(*ends, back=to and back, silent=fault.silent):
            yield

    def _others(self, fault: Fault) -> Sequence[Process]:
        """From whom the victim is cut off; nobody of ours: from the clients."""
        cluster = self._cluster
        ends: dict[str, Sequence[Process]] = {
            "etcd": cluster.etcd.members,
            "others": cluster.etcd.members,
            "stores": cluster.stores,
            "gateways": cluster.gateways,
            "clients": (),
        }
        return ends[fault.kind.rpartition(" ")[2]]

    @contextmanager
    def _clock(self, fault: Fault) -> Iterator[None]:
        """The time of day stays as it is from then on, until it is moved again."""
        clocks = list(self._clocks.values())
        clock = clocks[(fault.number * 2 + fault.silent) % len(clocks)]
        if fault.kind == "clock moved":
            clock.set_wall(fault.clock)
        else:
            clock.sleep(fault.clock)
        yield


@contextmanager
def _stopped(victim: ServerProcess) -> Iterator[None]:
    if victim.returncode is not None:
        yield
        return
    victim.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        victim.send_signal(signal.SIGCONT)


def _launch(victim: Process) -> None:
    if victim.returncode is not None:
        victim.launch()


def lasting(fault: Fault, meanwhile: Callable[[], None]) -> None:
    """Let it last, and do something in the middle of that."""
    time.sleep(fault.seconds / 2)
    meanwhile()
    time.sleep(fault.seconds / 2)
