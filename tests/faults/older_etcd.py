"""An etcd of which every member is put back to older data, under gateways that run, then to its newest."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.checker import Problem
from tests.faults.cluster_faults import LOST_PLACE
from tests.faults.whole_cluster import STORES, WholeCluster
from tests.peers.copies import copy_data
from tests.peers.mesh import GatewayProcess

WAIT_SECONDS: Final = 240.0
ASK_SECONDS: Final = 10.0
TOPIC: Final = "newer-than-the-copy"
DATA_REFUSED: Final = 3
SAYS: Final = "the catalog is older than store"


class OlderEtcd:
    """Its data of some moment, and what becomes of who serves from it."""

    def __init__(self, directory: Path, cluster: WholeCluster) -> None:
        self._cluster = cluster
        self._older, self._newest = directory / "older-etcd", directory / "newest-etcd"

    def keep(self) -> None:
        """Kill all of it, copy its data, and start it again."""
        etcd = self._cluster.etcd
        etcd.kill_all()
        for member in etcd.members:
            copy_data(member.data, self._older / member.name)
        etcd.start_all()

    def put_back(self) -> list[Problem]:
        """The older data, until every gateway has refused it; then the newest. All gateways have to serve; in
        the end they are started, and not awaited.

        What an administrator was answered is remembered by a majority of the stores (docs/promises.md), so a
        catalog without it is refuted. A gateway that runs loses its place in it, or sees that it is older;
        one that is started has to say so.
        """
        gateways = self._cluster.gateways
        self._create_topic()
        self._exchange(self._newest, self._older)
        problems = [one for gateway in gateways for one in self._refused(gateway, (LOST_PLACE, DATA_REFUSED))]
        for gateway in gateways:
            gateway.launch()
        for gateway in gateways:
            problems += self._refused(gateway, (DATA_REFUSED,))
            if SAYS not in gateway.log:
                problems.append(Problem("older catalog not named", gateway.tail()))
        self._exchange(self._older, self._newest)
        for gateway in gateways:
            gateway.launch()
        return problems

    def _exchange(self, now: Path, other: Path) -> None:
        """What is there goes to `now`, and that from `other` comes."""
        etcd = self._cluster.etcd
        etcd.kill_all()
        now.mkdir(exist_ok=True)
        for member in etcd.members:
            shutil.move(member.data, now / member.name)
            shutil.move(other / member.name, member.data)
        etcd.start_all()

    def _refused(self, gateway: GatewayProcess, codes: tuple[int, ...]) -> list[Problem]:
        code = gateway.wait(WAIT_SECONDS)
        if code in codes:
            return []
        return [
            Problem("older catalog taken", f"{gateway.directory.name} ended with {code}: {gateway.tail()}")
        ]

    def _create_topic(self) -> None:
        """Until it is answered that it is there."""
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap})
        deadline = time.monotonic() + WAIT_SECONDS
        while TOPIC not in admin.list_topics(timeout=ASK_SECONDS).topics:
            assert time.monotonic() < deadline, "no topic can be made"
            try:
                admin.create_topics([NewTopic(TOPIC, 1, STORES)])[TOPIC].result(ASK_SECONDS)
            except KafkaException:
                time.sleep(0.2)  # refused while there is no leader of etcd, or made and not answered
