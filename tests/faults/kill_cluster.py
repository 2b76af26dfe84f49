"""Random faults of three gateways over etcd, under load: `make kills-cluster N=1000 SEED=s`.

Three gateways, three stores, two towers and an etcd of three members, each on a host of its own, are killed,
stopped, cut off from each other, have their clocks moved, and etcd is put back to older data. Each round has
a cluster of its own and a seed of its own, as those of `tests.faults.kills`. It takes root.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from dafka.operators.socket import NoGateway, OperatorRefused, ask
from gateway.catalog import keys
from gateway.catalog.etcd.address import DEFAULT_PREFIX
from gateway.catalog.etcd.attempts import Names
from tests.faults.checker import Problem, members_differ
from tests.faults.clocks import Clocks
from tests.faults.cluster_faults import KINDS, LOST_PLACE, ClusterFaults, Fault, draw, lasting
from tests.faults.cluster_loads import WAIT_SECONDS, Loads
from tests.faults.history import Event, History
from tests.faults.kills import OFTEN_CLEANED, run_rounds
from tests.faults.network import Network
from tests.faults.older_etcd import OlderEtcd
from tests.faults.senders import CLIENTS
from tests.faults.serving import distribution
from tests.faults.whole_cluster import Process, WholeCluster
from tests.peers.mesh import GatewayProcess

FAULTS_OF_A_ROUND: Final = 40

AWAITED: Final = 0.7
"""How often all partitions are awaited before the next fault."""

TWO_AT_ONCE: Final = 0.25
"""How often something else is killed while a fault lasts."""

OLDER: Final = 0.3
"""How often a round has its etcd put back to older data, once."""

OLDER_BY: Final = 5
"""By so many faults."""

KILLED: Final = {kind: often for kind, often in KINDS.items() if kind.endswith("killed")}

FROM_ITS_END: Final = ("gateway cut from stores", "gateway cut from clients")
"""Faults during which the victim goes on to lead: what it leads is awaited from their end."""

TAIL_CHARACTERS: Final = 1500
"""Of the log of a process that ended by itself, in a problem."""


class Round:
    """One cluster and so many faults.

    Args:
        took: is told, by kind of fault, the seconds until the last partition served again.
    """

    def __init__(
        self,
        took: defaultdict[str, list[float]],
        directory: Path,
        seed: int,
        count: int,
        *,
        clients: tuple[str, ...] = CLIENTS,
    ) -> None:
        self.history = History()
        self.killed: Counter[str] = Counter()
        self.acked = 0
        self.deleted_late = 0
        """Segments and topics that were still to be deleted once no store lacked anything."""
        self._took, self._directory, self._seed, self._count = took, directory, seed, count
        self._clients = clients
        self._random = random.Random(seed)
        self._older_at = self._random.randrange(count) if self._random.random() < OLDER else count
        self._problems: list[Problem] = []

    @property
    def said(self) -> str:
        """See `Kills`."""
        return f"{self.deleted_late} deleted late, "

    def run(self) -> list[Problem]:
        """Does harm, heals, and judges."""
        names = [f"{kind}-{number}" for kind in ("gateway", "store") for number in (1, 2, 3)]
        clocks = {name: Clocks(self._directory / f"{name}.clock") for name in names}
        prefixes = {name: clock.prefix for name, clock in clocks.items()}
        with (
            Network() as network,
            WholeCluster(self._directory, network, OFTEN_CLEANED, prefixes) as cluster,
        ):
            moving: list[Process] = [*cluster.gateways, *cluster.stores]
            movable = {each: clocks[each.directory.name] for each in moving}
            loads = Loads(cluster, self.history, self._directory, seed=self._seed, clients=self._clients)
            try:
                loads.wait_until_all_have_begun()
                self._do_harm(cluster, ClusterFaults(cluster, movable), loads)
                self._settle(cluster)
                loads.serving.begin(loads.main.sent)
                self._await_all(cluster, loads)
                self._problems += loads.stop()
                self.acked = loads.acked
                self._problems += loads.check()
                self._problems += self._stores_differ(cluster)
            finally:
                loads.kill9()
        return self._problems

    def _do_harm(self, cluster: WholeCluster, faults: ClusterFaults, loads: Loads) -> None:
        older = OlderEtcd(self._directory, cluster)
        for number in range(self._count):
            if number == self._older_at:
                self._note("all of etcd killed", "all of etcd killed, and its data kept")
                older.keep()
            self._fault(cluster, faults, loads)
            if number == min(self._older_at + OLDER_BY, self._count - 1) and self._older_at < self._count:
                self._settle(cluster)
                self._note("etcd put back to older data", "etcd is put back to older data, and to its newest")
                self._problems += older.put_back()

    def _fault(self, cluster: WholeCluster, faults: ClusterFaults, loads: Loads) -> None:
        choice = self._random
        fault, second = draw(choice), draw(choice, KILLED)
        seconds, awaited, two = (
            choice.random() * 0.3,
            choice.random() < AWAITED,
            choice.random() < TWO_AT_ONCE,
        )
        time.sleep(seconds)
        self._note(fault.kind, str(fault))
        begun = time.monotonic()
        loads.serving.begin(loads.main.sent)
        with faults.done(fault):
            lasting(fault, partial(self._second, faults, second) if two else lambda: None)
        if fault.kind in FROM_ITS_END:
            begun = time.monotonic()
            loads.serving.begin(loads.main.sent)
        self._say("is over")
        if awaited:
            last = self._await_all(cluster, loads)
            self._took["two at once" if two else fault.kind].append(last - begun)
            self._say(f"all serve again {last - begun:.2f} s after it began")
        self._revive(cluster)

    def _second(self, faults: ClusterFaults, second: Fault) -> None:
        self._note(second.kind, f"meanwhile {second}")
        with faults.done(second):
            time.sleep(second.seconds)

    def _note(self, kind: str, what: str) -> None:
        self.killed[kind] += 1
        self._say(what)

    def _say(self, what: str) -> None:
        """To the history, and beside the logs of the processes, by the same clock."""
        self.history.add(Event(what))
        with (self._directory / "events.log").open("a") as file:
            file.write(f"{datetime.now(UTC):%H:%M:%S.%f} {what}\n")

    def _await_all(self, cluster: WholeCluster, loads: Loads) -> float:
        """The time at which the last partition served again."""
        return loads.serving.wait(WAIT_SECONDS, lambda: self._revive(cluster))

    def _settle(self, cluster: WholeCluster) -> None:
        """Until all of them serve."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not cluster.is_ready:
            assert time.monotonic() < deadline, "not all of them serve"
            self._revive(cluster)
            time.sleep(0.1)

    def _revive(self, cluster: WholeCluster) -> None:
        """Start again what has ended by itself."""
        for each in cluster.processes:
            if each.returncode is not None:
                if not (isinstance(each, GatewayProcess) and each.returncode == LOST_PLACE):
                    what = f"{each.directory.name} with {each.returncode}: {each.tail()[-TAIL_CHARACTERS:]}"
                    self._problems.append(Problem("ended by itself", what))
                each.launch()

    def _stores_differ(self, cluster: WholeCluster) -> list[Problem]:
        """The gateways' next lives close what is open, and have stores copy what they lack and delete what
        is to go; then each store's disk is read alone.
        """
        for gateway in cluster.gateways:
            gateway.kill9()
            gateway.launch()
        deadline = time.monotonic() + WAIT_SECONDS
        while self._lacks_some(cluster) or self._has_to_delete(cluster):
            assert time.monotonic() < deadline, "some store does not catch up"
            time.sleep(0.1)
        for gateway in cluster.gateways:
            gateway.kill9()
        for store in cluster.stores:
            assert store.terminate() == 0, store.tail()
        return members_differ({store.name: store.contents() for store in cluster.stores})

    def _lacks_some(self, cluster: WholeCluster) -> bool:
        """Whether some store has not the whole of some segment, as far as the gateways know."""
        self._settle(cluster)
        try:
            told = [ask(gateway.data, "mesh.status") for gateway in cluster.gateways]
        except (NoGateway, OperatorRefused):
            return True  # one has ended just now
        return any(store["unconfirmed_segments"] for status in told for store in status["stores"])

    def _has_to_delete(self, cluster: WholeCluster) -> bool:
        """Whether some store may still have segments that others have deleted: compaction leaves many."""
        names, kinds = Names(DEFAULT_PREFIX.encode()), (keys.SEGMENT_TOMBSTONES, keys.TOMBSTONES)
        left = sum(cluster.etcd.members[0].count(names.entry(kind).decode()) for kind in kinds)
        self.deleted_late = max(self.deleted_late, left)
        return bool(left)


def main() -> int:
    """As the command line says; the exit code."""
    took: defaultdict[str, list[float]] = defaultdict(list)
    code = run_rounds(partial(Round, took), __doc__, FAULTS_OF_A_ROUND)
    print("seconds until the last partition served again, of half, nine in ten, and all faults:")
    print(distribution(took))
    return code


if __name__ == "__main__":
    sys.exit(main())
