"""A cluster is upgraded one process after the other, under load, and then what the new release brings is
switched on.

The older release is this one with the features of another (`DAFKA_TEST_FEATURES`); or, by hand, a real one:
`DAFKA_TEST_OLD_PYTHON=/tmp/old/.venv/bin/python`, the interpreter of another checkout's environment. What
producers were acknowledged is read once and in order, by consumers, by a group that reads meanwhile, and by
one that reads at the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError
from kafka.protocol.admin import UpdateFeaturesRequest
from kafka.protocol.metadata import ApiVersionsRequest

from gateway.cluster.features import VARIABLE
from tests.differential.wire import Connection
from tests.faults.several_gateways import PARTITIONS, SECONDS, TOPIC, Sender, clients_of, create, read
from tests.peers.etcd import Etcd
from tests.peers.mesh import GatewayProcess, StoreProcess
from tests.peers.process import ServerEnded, ServerProcess
from tests.peers.tower import TowerProcess

OLD_PYTHON: Final = os.environ.get("DAFKA_TEST_OLD_PYTHON")

OLD_FEATURES: Final = "metadata.version:30-30"
"""What a release can that has the levels of features, and none of its own yet."""

FEATURE: Final = "dafka.preferred.leaders"
INVALID_UPDATE_VERSION: Final = 95
DATA_REFUSED: Final = 3

pytestmark = pytest.mark.slow


def as_old(process: ServerProcess) -> None:
    """From its next start on."""
    if OLD_PYTHON is None:
        process.environment[VARIABLE] = OLD_FEATURES
    else:
        # Without the present directory, which has this release.
        process.python = (OLD_PYTHON, "-P")


def as_new(process: ServerProcess) -> None:
    """From its next start on."""
    process.environment.pop(VARIABLE, None)
    process.python = ServerProcess(process.directory).python


class Cluster:
    """Three gateways and three stores, all of the older release."""

    def __init__(self, directory: Path, etcd: Etcd, tower: TowerProcess) -> None:
        self.stores = [
            StoreProcess(directory / f"s{number}", f"s{number}", tower, "--metrics", "127.0.0.1:0")
            for number in (1, 2, 3)
        ]
        self.gateways = {
            number: GatewayProcess(
                directory / f"gateway-{number}",
                tower,
                3,
                *("--catalog", etcd.address, "--gateway-id", str(number)),
            )
            for number in (1, 2, 3)
        }
        for process in self.processes:
            as_old(process)

    @property
    def processes(self) -> list[StoreProcess | GatewayProcess]:
        return [*self.stores, *self.gateways.values()]

    @property
    def clients(self) -> dict[str, str]:
        return clients_of(",".join(one.bootstrap for one in self.gateways.values()))

    def start(self) -> None:
        for process in self.processes:
            process.start()

    def raise_level(self, at: int, level: int = 1) -> str:
        """Why it is not raised, "" if it is."""
        change = UpdateFeaturesRequest.FeatureUpdateKey(
            feature=FEATURE, max_version_level=level, upgrade_type=1
        )
        with Connection(self.gateways[at].bootstrap) as connection:
            answer = connection.ask(UpdateFeaturesRequest(version=2, feature_updates=[change]))
        assert answer.error_code in {0, INVALID_UPDATE_VERSION}
        return answer.error_message or ""

    def level(self, at: int) -> int:
        """As one of them tells clients."""
        with Connection(self.gateways[at].bootstrap) as connection:
            answer = connection.ask(
                ApiVersionsRequest(version=4, client_software_name="a", client_software_version="1")
            )
        levels: dict[str, int] = {one.name: one.max_version_level for one in answer.finalized_features}
        return levels.get(FEATURE, 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Etcd(tmp_path / "etcd") as etcd, TowerProcess(tmp_path / "tower") as tower:
        made = Cluster(tmp_path, etcd, tower)
        try:
            made.start()
            create(made.gateways[1].bootstrap, TOPIC, PARTITIONS)
            yield made
        finally:
            for process in made.processes:
                process.kill9()


class Reader:
    """A member of a group that commits what it has seen."""

    def __init__(self, cluster: Cluster) -> None:
        self._consumer = Consumer(
            {**cluster.clients, "group.id": "meanwhile", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([TOPIC])
        self.seen: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}

    def read(self, seconds: float = 0) -> None:
        for message in self._consumer.consume(500, seconds):
            error = message.error()
            assert error is None or error.code() == KafkaError._MAX_POLL_EXCEEDED or error.retriable(), error
            partition, value = message.partition(), message.value()
            if error is None and partition is not None and isinstance(value, bytes):
                self.seen[partition].append(int(value))

    def read_all(self, sent: dict[int, list[int]]) -> None:
        deadline = time.monotonic() + SECONDS
        while any(len(self.seen[one]) < len(sent[one]) for one in sent):
            assert time.monotonic() < deadline, {one: len(sent[one]) - len(self.seen[one]) for one in sent}
            self.read(0.2)
        self._consumer.close()
        assert self.seen == sent


class Load:
    """A producer and a group, while something happens."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.sender = Sender(cluster)
        self.reader = Reader(cluster)

    def until(self, happened: Callable[[], bool]) -> None:
        def look() -> bool:
            self.reader.read()
            return happened()

        self.sender.send_until(look)
        self.sender.send_until_all_partitions_acknowledge()

    def restart(self, process: StoreProcess | GatewayProcess) -> None:
        """In order, as another release maybe."""
        process.send_signal(signal.SIGTERM)
        self.until(lambda: process.returncode is not None)
        assert process.returncode == 0, process.tail()
        process.start()
        self.until(lambda: True)

    def finish(self) -> None:
        """Nothing was lost, doubled or reordered, and nobody was told of a failure."""
        self.sender.finish(self._cluster)
        self.reader.read_all(self.sender.sent)
        everything = sum(map(len, self.sender.sent.values()))
        assert read(self._cluster, everything, **{"group.id": "afterwards"}) == self.sender.sent


@pytest.mark.parametrize("first", ["gateways", "stores"])
def test_one_process_after_the_other_is_upgraded_and_then_a_feature_is_switched_on(
    cluster: Cluster, first: str
) -> None:
    load = Load(cluster)
    load.until(lambda: True)
    order: list[StoreProcess | GatewayProcess] = [*cluster.gateways.values(), *cluster.stores]
    if first == "stores":
        order = [*cluster.stores, *cluster.gateways.values()]
    old = dict.fromkeys(cluster.gateways)
    for process in order:
        as_new(process)
        load.restart(process)
        upgraded = [number for number, one in cluster.gateways.items() if one is process]
        for number in upgraded:
            del old[number]
            if old:
                why = cluster.raise_level(at=number)
                assert f"Broker {next(iter(old))} does not support this feature." in why
    assert [cluster.level(at) for at in cluster.gateways] == [0, 0, 0]
    assert cluster.raise_level(at=2) == ""
    load.until(lambda: all(cluster.level(at) == 1 for at in cluster.gateways))
    refuse_an_old_one(cluster, load)
    load.finish()


def refuse_an_old_one(cluster: Cluster, load: Load) -> None:
    """It was stopped before the level was raised, or comes anew: it says why it does not start."""
    last = cluster.gateways[3]
    assert last.terminate() == 0
    as_old(last)
    with pytest.raises(ServerEnded):
        last.start()
    assert last.returncode == DATA_REFUSED
    if OLD_PYTHON is None:
        assert (
            f"the cluster's feature {FEATURE} is at level 1, and this release does not know it" in last.tail()
        )
        assert "which has set the level, or a newer one" in last.tail()
    else:
        assert "its catalog has format 2, and this version knows none above 1" in last.tail()
    load.until(lambda: True)
    as_new(last)
    last.start()
    load.until(lambda: True)


def test_a_gateway_that_is_away_holds_a_level_up_until_it_is_removed(cluster: Cluster) -> None:
    load = Load(cluster)
    for number in (1, 2):
        as_new(cluster.gateways[number])
        load.restart(cluster.gateways[number])
    assert cluster.gateways[3].terminate() == 0
    why = cluster.raise_level(at=1)
    assert "Broker 3 does not support this feature. It is not running: 'dafka gateways remove 3'" in why
    load.until(lambda: True)
    load.finish()
