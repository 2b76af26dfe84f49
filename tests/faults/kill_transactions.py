"""Random faults of gateways, stores and clients under transactions: `make kills-transactions N=200 SEED=s`.

Transactional producers of three clients copy, in two groups, what they write; gateways, stores and clients
are killed, gateways and stores are stopped for a while or told to end. Each round has a cluster of its own
and a seed of its own, as those of `tests.faults.kills`.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from gateway.cluster.alive import LEASE_SECONDS
from tests.faults.checker import Problem
from tests.faults.kills import run_rounds
from tests.faults.transactions.checker import check
from tests.faults.transactions.clients import CLIENTS
from tests.faults.transactions.loads import WORKERS, Loads
from tests.faults.transactions.told import Histories
from tests.peers.supervised import Supervised

GATEWAYS: Final = 3
STORES: Final = 3
KILLS_OF_A_ROUND: Final = 100

PAUSE_SECONDS: Final = (0.5, 4.0)
"""Between two faults, from and to: so long that transactions are in all their states."""

AWAITED: Final = 0.7
"""How often what was killed is awaited before the next one."""

VICTIMS: Final = {
    "gateway killed": 8,
    "gateway ended": 3,
    "gateway stopped": 2,
    "store killed": 4,
    "store ended": 1,
    "store stopped": 1,
    "tower killed": 1,
    "client killed": 6,
}
"""How often each is, beside the others."""

SIGNALS: Final = {"killed": signal.SIGKILL, "ended": signal.SIGTERM, "stopped": signal.SIGSTOP}
STOPPED_SECONDS: Final = (0.5, 2.0, LEASE_SECONDS + 1.0)
"""One of them is longer than a lease."""


class Round:
    """One cluster and so many faults."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        count: int,
        *,
        clients: tuple[str, ...] = CLIENTS,
        workers: int = WORKERS,
    ) -> None:
        self.history = Histories()
        self.killed: Counter[str] = Counter()
        self.acked = 0
        self.said = ""
        self._directory, self._seed, self._count = directory, seed, count
        self._clients, self._workers = clients, workers
        self._random = random.Random(seed)
        self._cluster = Supervised(directory, GATEWAYS, STORES)

    def run(self, seconds: float = 0.0) -> list[Problem]:
        """Faults, and so many seconds without any; then all heals, and is judged."""
        cluster = self._cluster
        loads: Loads | None = None
        try:
            cluster.stay_on_its_ports()
            cluster.start()
            loads = self._loads()
            loads.wait_until_all_have_committed()
            for _ in range(self._count):
                self._fault(loads)
            time.sleep(seconds)
            loads.wait_until_all_have_committed()
            problems = loads.finish()
        finally:
            if loads is not None:
                loads.kill9()
            cluster.kill9()
            cluster.wait_until_all_are_gone()
        return problems + self._judged()

    def _loads(self) -> Loads:
        return Loads(
            self._cluster.addresses,
            self._directory / "loads",
            self.history,
            seed=self._seed,
            stores=STORES,
            clients=self._clients,
            workers=self._workers,
        )

    def _judged(self) -> list[Problem]:
        verdict = check(self.history)
        self.acked = verdict.counts["committed"]
        told = ", ".join(f"{count} {what}" for what, count in (verdict.counts + verdict.allowed).items())
        self.said = f"{told}, "
        return verdict.problems

    def _fault(self, loads: Loads) -> None:
        choice, cluster = self._random, self._cluster
        (kind,) = choice.choices(list(VICTIMS), list(VICTIMS.values()))
        pick, awaited = choice.randrange(3), choice.random() < AWAITED
        stopped = choice.choice(STOPPED_SECONDS)
        time.sleep(choice.uniform(*PAUSE_SECONDS))
        who, how = kind.split()
        self.killed[kind] += 1
        if who == "client":
            client = loads.clients[pick % len(loads.clients)]
            loads.told.event(f"{client.name} killed")
            client.kill9()
            client.start()
            return
        name = who if who == "tower" else f"{who}-{pick + 1}"
        loads.told.event(f"{name} {how}")
        before = cluster.log.count(f"{name} serves again")
        try:
            cluster.kill(name, SIGNALS[how])
            if how == "stopped":
                time.sleep(stopped)
                cluster.kill(name, signal.SIGCONT)
                loads.told.event(f"{name} goes on after {stopped:g} s")
        except ProcessLookupError:
            return  # killed just now, and not started yet
        if awaited and how != "stopped":
            cluster.wait_until_it_serves_again(name, before + 1)


if __name__ == "__main__":
    sys.exit(run_rounds(Round, __doc__, KILLS_OF_A_ROUND))
