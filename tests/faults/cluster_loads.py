"""All that clients do with a whole cluster while it is treated badly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.clients.leaders import leader_of
from tests.clients.stored import create_replicated_topic
from tests.faults.by_leaders import read_by_leaders
from tests.faults.checker import Problem, check
from tests.faults.client_load import TIMEOUT_MS, ClientLoad
from tests.faults.cluster_watch import ClusterWatch
from tests.faults.committing import CommitLoad
from tests.faults.group_load import GroupLoad
from tests.faults.history import History
from tests.faults.keyed import KEYED_TOPIC, KeyedLoad
from tests.faults.senders import CLIENTS
from tests.faults.serving import Serving
from tests.faults.whole_cluster import STORES, WholeCluster
from tests.faults.workloads import Load

TOPIC: Final = "killed"
PARTITIONS: Final = 6
SIZES: Final = (100, 1000, 6000)
PAUSE_SECONDS: Final = 0.01
"""Between two records: how much is in flight matters, not how much there is in the end."""

CLIENT_PAUSE_SECONDS: Final = 0.05
KEYED_PAUSE_SECONDS: Final = 0.05
COMMIT_PAUSE_SECONDS: Final = 0.5
WATCH_SECONDS: Final = 0.2
"""Between two questions to each gateway."""

WAIT_SECONDS: Final = 240.0
"""Within which everything goes on after a fault, on a machine that does much else."""

IMPATIENT: Final[dict[str, Any]] = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "message.timeout.ms": TIMEOUT_MS,
}
"""Of the producer that measures: by default it waits longer than the gateways take."""


class Loads:
    """Idempotent producers of four clients, a group, commits, a compacted topic, and a watch.

    Args:
        clients: those of `senders.CLIENTS` that send beside librdkafka.
    """

    def __init__(
        self,
        cluster: WholeCluster,
        history: History,
        directory: Path,
        *,
        seed: int,
        clients: tuple[str, ...] = CLIENTS,
    ) -> None:
        bootstrap = cluster.bootstrap
        self._addresses = bootstrap.split(",")
        self._history = history
        create_replicated_topic(self._addresses[0], TOPIC, PARTITIONS, STORES)
        self.serving = Serving(PARTITIONS)
        self.main = Load(
            bootstrap,
            TOPIC,
            history,
            partitions=PARTITIONS,
            sizes=SIZES,
            pause=PAUSE_SECONDS,
            acknowledged=self.serving.acknowledged,
            **IMPATIENT,
        )
        self._keyed = KeyedLoad(bootstrap, STORES, pause=KEYED_PAUSE_SECONDS, seed=seed)
        self._commits = CommitLoad(bootstrap, TOPIC, PARTITIONS, pause=COMMIT_PAUSE_SECONDS)
        self._group = GroupLoad(bootstrap, TOPIC, history)
        self._watch = ClusterWatch(bootstrap, TOPIC, history, PARTITIONS, pause=WATCH_SECONDS)
        self._others = [
            ClientLoad(each, bootstrap, TOPIC, history, directory, PARTITIONS, CLIENT_PAUSE_SECONDS)
            for each in clients
        ]

    @property
    def acked(self) -> int:
        return self.main.acked + sum(one.acked for one in self._others)

    def wait_until_all_have_begun(self) -> None:
        self.main.wait_for_acks(100, WAIT_SECONDS)
        for client in self._others:
            client.wait_until_it_has_begun()

    def stop(self) -> list[Problem]:
        """Everything that was sent has its result; the clients of which that is not so."""
        self.main.stop()
        stuck = [problem for client in self._others for problem in client.stop()]
        self._keyed.stop()
        self._commits.stop()
        self._watch.stop()
        return stuck

    def check(self) -> list[Problem]:
        """Reads everything, waits until the group has done the same, and judges."""
        ends = read_by_leaders(self._addresses, TOPIC, self._history, PARTITIONS)
        try:
            self._group.wait_until_read(ends, WAIT_SECONDS)
        finally:
            self._group.stop()
        unknown = self.main.unknown + sum(one.unknown for one in self._others)
        given_up = [Problem("given up", f"{unknown} records by their clients")] if unknown else []
        keyed = self._keyed.check(leader_of(",".join(self._addresses), KEYED_TOPIC, 0))
        return given_up + check(self._history) + keyed + self._commits.check()

    def kill9(self) -> None:
        for client in self._others:
            client.kill9()
