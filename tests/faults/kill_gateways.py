"""Random SIGKILLs of several gateways, their stores and tower, and of the process that keeps them running,
with produces in flight: `make kills-gateways N=200 SEED=s`. Some gateways are stopped for longer than their
lease instead, and some are told to stop.

Each round has a cluster of its own and a seed of its own, as those of `tests.faults.kills`.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from gateway.cluster.alive import LEASE_SECONDS
from tests.clients.leaders import leader_of
from tests.clients.stored import create_replicated_topic
from tests.faults.by_leaders import read_by_leaders
from tests.faults.checker import Problem, check
from tests.faults.committing import CommitLoad
from tests.faults.history import Event, History
from tests.faults.keyed import KEYED_TOPIC, KeyedLoad
from tests.faults.kills import run_rounds
from tests.faults.workloads import Load
from tests.peers.supervised import Supervised

TOPIC = "killed"
PARTITIONS = 6
GATEWAYS = STORES = 3
KILLS_OF_A_ROUND = 40
SIZES = (100, 1000, 6000)
PAUSE_SECONDS = 0.002
KEYED_PAUSE_SECONDS = 0.01
COMMIT_PAUSE_SECONDS = 0.1
WAIT_SECONDS = 120.0
AWAITED = 0.7
"""How often what was killed is awaited before the next one."""

VICTIMS = (
    *["gateway"] * 8,
    *["ended gateway"] * 3,
    *["store"] * 5,
    "tower",
    "stopped gateway",
    "supervisor",
)
SIGNALS = {"ended gateway": signal.SIGTERM, "stopped gateway": signal.SIGSTOP}
"""Others are killed."""


class Round:
    """One cluster and so many kills."""

    said = ""

    def __init__(self, directory: Path, seed: int, count: int) -> None:
        self.history = History()
        self.killed: Counter[str] = Counter()
        self.acked = 0
        self._cluster = Supervised(directory, GATEWAYS, STORES)
        self._count = count
        self._seed = seed
        self._random = random.Random(seed)

    def run(self) -> list[Problem]:
        """Kills, heals, and judges."""
        cluster = self._cluster
        try:
            cluster.stay_on_its_ports()
            cluster.start()
            create_replicated_topic(cluster.addresses[0], TOPIC, PARTITIONS, STORES)
            load = Load(
                cluster.bootstrap,
                TOPIC,
                self.history,
                partitions=PARTITIONS,
                sizes=SIZES,
                pause=PAUSE_SECONDS,
            )
            keyed = KeyedLoad(cluster.addresses[0], STORES, pause=KEYED_PAUSE_SECONDS, seed=self._seed)
            commits = CommitLoad(cluster.bootstrap, TOPIC, PARTITIONS, pause=COMMIT_PAUSE_SECONDS)
            load.wait_for_acks(100, WAIT_SECONDS)
            for _ in range(self._count):
                self._kill(load)
            load.wait_for_acks(100, WAIT_SECONDS)
            load.stop()
            keyed.stop()
            commits.stop()
            self.acked = load.acked
            read_by_leaders(cluster.addresses, TOPIC, self.history, PARTITIONS)
            leader = leader_of(cluster.bootstrap, KEYED_TOPIC, 0)
            return check(self.history) + keyed.check(leader) + commits.check()
        finally:
            cluster.kill9()
            cluster.wait_until_all_are_gone()

    def _kill(self, load: Load) -> None:
        choice, cluster = self._random, self._cluster
        kind, pick = choice.choice(VICTIMS), choice.randrange(1, GATEWAYS + 1)
        acks, seconds = choice.choice((0, 1, 20, 100)), choice.random() * 0.3
        awaited = choice.random() < AWAITED
        if awaited and acks:
            load.wait_for_acks(acks, WAIT_SECONDS)
        time.sleep(seconds)
        self.killed[kind] += 1
        self.history.add(Event(f"{kind} {pick} killed"))
        if kind == "supervisor":
            self._restart()
            return
        name = "tower" if kind == "tower" else f"{kind.split()[-1]}-{pick}"
        before = cluster.log.count(f"{name} serves again")
        try:
            cluster.kill(name, SIGNALS.get(kind, signal.SIGKILL))
        except ProcessLookupError:
            return  # killed just now, and not started yet
        if kind == "stopped gateway":
            time.sleep(LEASE_SECONDS + 1)
            cluster.kill(name, signal.SIGCONT)
        if awaited or kind == "stopped gateway":
            cluster.wait_until_it_serves_again(name, before + 1)

    def _restart(self) -> None:
        self._cluster.kill9()
        self._cluster.wait_until_all_are_gone()
        self._cluster.port_file.unlink(missing_ok=True)
        self._cluster.start()


if __name__ == "__main__":
    sys.exit(run_rounds(Round, __doc__, KILLS_OF_A_ROUND))
