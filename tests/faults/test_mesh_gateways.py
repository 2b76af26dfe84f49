"""Several gateways share a mesh and a catalog in etcd: each of them is lost under load, and comes back.

Producers are idempotent and go on by themselves; what was acknowledged is read once, in the order in which it
was sent to its partition, by consumers and by a group.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from tests.differential.wire import Connection
from tests.faults.several_gateways import PARTITIONS, SECONDS, TOPIC, Sender, clients_of, create, read
from tests.peers.etcd import Etcd
from tests.peers.mesh import GatewayProcess, MeshCluster
from tests.peers.process import ServerEnded
from tests.peers.tower import TowerProcess
from wireproto.records.builder import build_batch

USAGE = 2
NOT_LEADER = 6
RETRIABLE = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}

pytestmark = pytest.mark.slow


class Gateways:
    """Three of them, and clients that know all."""

    def __init__(self, mesh: MeshCluster, directory: Path, etcd: Etcd) -> None:
        self.mesh, self.directory, self.etcd = mesh, directory, etcd
        self.all = {1: mesh.gateway}
        for number in (2, 3):
            self.add(number).start()

    def add(self, number: int) -> GatewayProcess:
        where = self.directory / f"gateway-{number}"
        own = ["--catalog", self.etcd.address, "--gateway-id", str(number)]
        self.all[number] = GatewayProcess(where, self.mesh.tower, 3, *own)
        return self.all[number]

    @property
    def clients(self) -> dict[str, str]:
        addresses = ",".join(one.bootstrap for one in self.all.values())
        return clients_of(addresses)

    def leaders(self, at: int, topic: str = TOPIC) -> dict[int, int]:
        """Partition -> leader, as one of them tells it."""
        admin = AdminClient({"bootstrap.servers": self.all[at].bootstrap})
        told = admin.list_topics(topic, timeout=SECONDS)
        assert all(one.leader in {-1, *told.brokers} for one in told.topics[topic].partitions.values())
        return {number: one.leader for number, one in told.topics[topic].partitions.items()}

    def wait_for_leaders(self, expected: set[int], at: int) -> dict[int, int]:
        """Until these lead something, evenly, and nobody else does."""
        deadline = time.monotonic() + SECONDS
        while True:
            leaders = list((found := self.leaders(at)).values())
            counts = {leader: leaders.count(leader) for leader in leaders}
            if counts.keys() == expected and max(counts.values()) - min(counts.values()) <= 1:
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def kill_all(self) -> None:
        for gateway in self.all.values():
            gateway.kill9()


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    with (
        Etcd(tmp_path / "etcd") as etcd,
        MeshCluster(tmp_path, gateway_arguments=["--catalog", etcd.address]) as mesh,
    ):
        made = Gateways(mesh, tmp_path, etcd)
        try:
            create(made.all[1].bootstrap, TOPIC, PARTITIONS)
            yield made
        finally:
            made.kill_all()


def test_each_gateway_is_killed_in_turn_and_nothing_is_lost(gateways: Gateways) -> None:
    everybody = {1, 2, 3}
    leaders = gateways.wait_for_leaders(everybody, at=2)
    assert gateways.wait_for_leaders(everybody, at=3) == leaders, "each tells the same"
    sender = Sender(gateways)
    sender.send_until_all_partitions_acknowledge()
    for number, gateway in gateways.all.items():
        other = number % 3 + 1
        gateway.kill9()
        sender.send_until_all_partitions_acknowledge()
        gateways.wait_for_leaders(everybody - {number}, at=other)
        seen = f"gateway {number} is taken for dead, since most of the others miss it"
        assert sum(seen in one.log for one in gateways.all.values()) == 1, "nobody waits for its lease"
        gateway.start()
        gateways.wait_for_leaders(everybody, at=other)
        sender.send_until_all_partitions_acknowledge()
    sender.finish(gateways)
    everything = sum(map(len, sender.sent.values()))
    assert read(gateways, everything, **{"group.id": "readers"}) == sender.sent


def test_a_group_goes_on_where_its_coordinator_is_killed(gateways: Gateways) -> None:
    gateways.wait_for_leaders({1, 2, 3}, at=1)
    sender = Sender(gateways)
    sender.send_until_all_partitions_acknowledge()
    consumer = Consumer(
        {**gateways.clients, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([TOPIC])
    seen: set[int] = set()
    deadline = time.monotonic() + SECONDS

    def commit() -> None:
        """Again while the coordinator loads: librdkafka leaves that to its users."""
        while True:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in RETRIABLE or time.monotonic() > deadline:
                    raise
            else:
                return

    def consume_until_all_is_seen() -> None:
        while len(seen) < sum(map(len, sender.sent.values())):
            assert time.monotonic() < deadline, f"{len(seen)}, acknowledged {sender.acknowledged}"
            messages = consumer.consume(500, 0.5)
            for message in messages:
                assert message.error() is None, message.error()
                value = message.value()
                assert isinstance(value, bytes)
                assert int(value) not in seen
                seen.add(int(value))
            if messages:
                commit()

    consume_until_all_is_seen()
    coordinator = next(number for number, one in gateways.all.items() if "group g: generation 1" in one.log)
    gateways.all[coordinator].kill9()
    sender.send_until_all_partitions_acknowledge()
    consume_until_all_is_seen()
    consumer.close()
    del gateways.all[coordinator]
    sender.finish(gateways)


@pytest.mark.parametrize("how", ["stopped", "ended"])
def test_a_gateway_that_is_stopped_for_long_or_ended_is_followed(gateways: Gateways, how: str) -> None:
    """One that wakes up again has lost its place, and ends."""
    gateways.wait_for_leaders({1, 2, 3}, at=1)
    sender = Sender(gateways)
    sender.send_until_all_partitions_acknowledge()
    second = gateways.all[2]
    if how == "ended":
        assert second.terminate() == 0
    else:
        second.send_signal(signal.SIGSTOP)
    gateways.wait_for_leaders({1, 3}, at=1)
    if how == "stopped":
        second.send_signal(signal.SIGCONT)
        assert second.wait() == USAGE
        assert "another one may have taken its place" in second.log or "taken this one's place" in second.log
    sender.send_until_all_partitions_acknowledge()
    second.start()
    gateways.wait_for_leaders({1, 2, 3}, at=2)
    sender.send_until_all_partitions_acknowledge()
    sender.finish(gateways)


def test_each_gateway_is_started_anew_and_others_lead_before_it_is_gone(gateways: Gateways) -> None:
    everybody = {1, 2, 3}
    sender = Sender(gateways)
    for number, gateway in gateways.all.items():
        other = number % 3 + 1
        gateways.wait_for_leaders(everybody, at=other)
        sender.send_until_all_partitions_acknowledge()
        gateway.send_signal(signal.SIGTERM)
        sender.send_until(lambda gateway=gateway: gateway.returncode is not None)  # type: ignore[misc]
        assert gateway.returncode == 0
        assert "other gateways lead what this one has led" in gateway.log
        assert set(gateways.leaders(at=other).values()) == everybody - {number}
        gateway.start()
    sender.send_until_all_partitions_acknowledge()
    sender.finish(gateways)


def test_etcd_is_away_for_longer_than_a_lease_and_all_go_on_when_it_is_back(gateways: Gateways) -> None:
    """Nobody can tell who has taken what: none of them answers meanwhile, and none of them ends."""
    leaders = gateways.wait_for_leaders({1, 2, 3}, at=1)
    sender = Sender(gateways)
    sender.send_until_all_partitions_acknowledge()
    gateways.etcd.kill_all()
    deadline = time.monotonic() + SECONDS

    def all_are_suspended() -> bool:
        assert time.monotonic() < deadline
        return all("it answers no clients until" in one.log for one in gateways.all.values())

    sender.send_until(all_are_suspended)
    gateways.etcd.start_all()
    sender.send_until_all_partitions_acknowledge()
    assert gateways.leaders(at=1) == leaders
    assert all("clients are answered again" in one.log for one in gateways.all.values())
    sender.finish(gateways)


def test_a_gateway_that_comes_later_takes_its_share_under_load(gateways: Gateways) -> None:
    gateways.wait_for_leaders({1, 2, 3}, at=1)
    sender = Sender(gateways)
    sender.send_until_all_partitions_acknowledge()
    gateways.add(4).start()
    gateways.wait_for_leaders({1, 2, 3, 4}, at=4)
    sender.send_until_all_partitions_acknowledge()
    sender.finish(gateways)


def test_each_gateway_changes_the_cluster_and_all_of_them_see_it(gateways: Gateways) -> None:
    for number in gateways.all:
        create(gateways.all[number].bootstrap, f"made-by-{number}", 3)
    admins = {
        number: AdminClient({"bootstrap.servers": one.bootstrap}) for number, one in gateways.all.items()
    }
    deadline = time.monotonic() + SECONDS
    expected = {TOPIC, "made-by-1", "made-by-2", "made-by-3"}
    for number, admin in admins.items():
        while not expected <= admin.list_topics(timeout=SECONDS).topics.keys():
            assert time.monotonic() < deadline, f"gateway {number} does not see them"
    for deleted in admins[3].delete_topics(["made-by-1"]).values():
        deleted.result(SECONDS)
    for admin in admins.values():
        while "made-by-1" in admin.list_topics(timeout=SECONDS).topics:
            assert time.monotonic() < deadline


def test_all_tell_the_same_of_the_cluster(gateways: Gateways) -> None:
    """Who asks one that does not lead is told to look the leader up again, and nothing else."""
    leaders = gateways.wait_for_leaders({1, 2, 3}, at=1)
    ask_offset = partial(ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition, timestamp=-1)
    of_epoch = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    ask_end = partial(of_epoch.OffsetForLeaderPartition, leader_epoch=1)
    for number, gateway in gateways.all.items():
        with Connection(gateway.bootstrap) as connection:
            cluster = connection.ask(DescribeClusterRequest(version=0))
            assert cluster.controller_id == 1
            assert [broker.broker_id for broker in cluster.brokers] == [1, 2, 3]
            topic = ListOffsetsRequest.ListOffsetsTopic(
                name=TOPIC, partitions=[ask_offset(partition_index=index) for index in leaders]
            )
            found = connection.ask(ListOffsetsRequest(version=5, replica_id=-1, topics=[topic])).topics[0]
            codes = {one.partition_index: one.error_code for one in found.partitions}
            expected = {index: 0 if leader == number else NOT_LEADER for index, leader in leaders.items()}
            assert codes == expected
            topic = of_epoch(topic=TOPIC, partitions=[ask_end(partition=index) for index in leaders])
            ends = connection.ask(OffsetForLeaderEpochRequest(version=3, replica_id=-1, topics=[topic]))
            assert {one.partition: one.error_code for one in ends.topics[0].partitions} == expected
            told_by_produce(gateways, number, leaders)
            told_by_fetch(gateways, number, leaders)


def told_by_produce(gateways: Gateways, at: int, leaders: dict[int, int]) -> None:
    """Who produces to the wrong one is told the leader, and where that is."""
    of_topic = ProduceRequest.TopicProduceData
    batch = build_batch([(None, b"value", [], 1000)])
    partitions = [of_topic.PartitionProduceData(index=index, records=batch) for index in leaders]
    request = ProduceRequest(
        version=12, acks=-1, timeout_ms=10_000, topic_data=[of_topic(name=TOPIC, partition_data=partitions)]
    )
    with Connection(gateways.all[at].bootstrap) as connection:
        answer = connection.ask(request)
    for one in answer.responses[0].partition_responses:
        leader = leaders[one.index]
        if leader == at:
            assert one.error_code == 0
        else:
            assert (one.error_code, one.current_leader.leader_id) == (NOT_LEADER, leader)
            assert one.current_leader.leader_epoch > 0
    where = {node.node_id: f"{node.host}:{node.port}" for node in answer.node_endpoints}
    assert where == {number: one.bootstrap for number, one in gateways.all.items() if number != at}


def told_by_fetch(gateways: Gateways, at: int, leaders: dict[int, int]) -> None:
    with Connection(gateways.all[at].bootstrap) as connection:
        asked = MetadataRequest.MetadataRequestTopic(topic_id=None, name=TOPIC)
        metadata = connection.ask(MetadataRequest(version=12, topics=[asked])).topics[0]
        of_topic = FetchRequest.FetchTopic
        partitions = [
            of_topic.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in leaders
        ]
        answer = connection.ask(
            FetchRequest(
                version=16, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1,
                topics=[of_topic(topic_id=metadata.topic_id, partitions=partitions)],
            )
        )  # fmt: skip
    epochs = {one.partition_index: one.leader_epoch for one in metadata.partitions}
    for one in answer.responses[0].partitions:
        leader = leaders[one.partition_index]
        if leader != at:
            told = one.current_leader.leader_id, one.current_leader.leader_epoch
            assert (one.error_code, told) == (NOT_LEADER, (leader, epochs[one.partition_index]))
    assert {node.node_id for node in answer.node_endpoints} == gateways.all.keys() - {at}


def test_one_that_finds_no_store_is_given_nothing(gateways: Gateways) -> None:
    """It was started with another mesh's tower: it serves nobody, and the others serve everybody."""
    leaders = gateways.wait_for_leaders({1, 2, 3}, at=1)
    with TowerProcess(gateways.directory / "other-tower") as tower:
        own = ["--catalog", gateways.etcd.address, "--gateway-id", "4"]
        lost = GatewayProcess(gateways.directory / "gateway-4", tower, 3, *own)
        try:
            lost.start()
            sender = Sender(gateways)
            sender.send_until_all_partitions_acknowledge()
            gateways.all[3].kill9()
            sender.send_until_all_partitions_acknowledge()
            gateways.wait_for_leaders({1, 2}, at=1)
            gateways.all[3].start()
            assert gateways.wait_for_leaders({1, 2, 3}, at=1).keys() == leaders.keys()
            sender.finish(gateways)
        finally:
            lost.kill9()


def test_one_that_finds_too_few_stores_answers_when_they_are_back(gateways: Gateways) -> None:
    """It leads nothing before they have said whether its catalog is the newest, and its share after that."""
    gateways.wait_for_leaders({1, 2, 3}, at=1)
    third, away = gateways.all[3], gateways.mesh.stores[:2]
    third.kill9()
    for store in away:
        store.kill9()
    third.launch()
    third.wait_for_log("too few stores have said whether this catalog is the newest")
    third.wait_ready()
    for store in away:
        store.start()
    gateways.wait_for_leaders({1, 2, 3}, at=1)
    assert gateways.leaders(at=3) == gateways.leaders(at=1)
    sender = Sender(gateways)
    sender.send_until_all_partitions_acknowledge()
    sender.finish(gateways)


def test_one_with_a_catalog_of_its_own_is_refused(gateways: Gateways, tmp_path: Path) -> None:
    """So is a number of its own for one that shares no catalog."""
    elsewhere = GatewayProcess(
        tmp_path / "elsewhere", gateways.mesh.tower, 3, "--catalog", f"{gateways.etcd.address}/other"
    )
    with pytest.raises(ServerEnded):
        elsewhere.start()
    assert elsewhere.returncode == 3
    alone = GatewayProcess(tmp_path / "alone", gateways.mesh.tower, 3, "--gateway-id", "2")
    with pytest.raises(ServerEnded):
        alone.start()
    assert alone.returncode == USAGE
    assert "--gateway-id 2 is for gateways that share a catalog in an etcd" in alone.log
