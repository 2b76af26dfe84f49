"""Clients and the stores' ids: replicas that are no brokers are numbers to them, and disturb nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from tests.clients.sample import small_records
from tests.clients.stored import check_stored, create_replicated_topic
from tests.clients.test_java import VERSIONS, consume, produce
from tests.clients.test_kcat import kcat
from tests.peers.java import java_tool
from tests.peers.mesh import MeshCluster

TOPIC = "orders"
ALL = [1000, 1001, 1002]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeshCluster]:
    with MeshCluster(tmp_path_factory.mktemp("mesh")) as cluster:
        create_replicated_topic(cluster.bootstrap, TOPIC, 2, 3)
        yield cluster


@pytest.mark.parametrize("version", VERSIONS)
def test_java(mesh: MeshCluster, version: str) -> None:
    wanted = small_records(50)
    topic = create_replicated_topic(mesh.bootstrap, f"java-{version}", 1, 3)
    lines = produce(mesh.bootstrap, topic, wanted, version)
    assert lines == [f"0\t{n}\t{record.timestamp}" for n, record in enumerate(wanted)]
    check_stored(mesh.bootstrap, topic, wanted, "none")
    found = consume(mesh.bootstrap, [f"{topic}:0:0:50"], version)
    assert [record.value for _, record in found[topic]] == [record.value for record in wanted]


def test_kafkas_own_tool(mesh: MeshCluster) -> None:
    at = ["--bootstrap-server", mesh.bootstrap, "--describe"]
    lines = java_tool("org.apache.kafka.tools.TopicCommand", *at, "--topic", TOPIC).stdout.splitlines()
    assert "ReplicationFactor: 3" in lines[0]
    for index, line in enumerate(lines[1:]):
        assert f"Partition: {index}\tLeader: 1\tReplicas: 1000,1001,1002\tIsr: 1000,1001,1002" in line
    assert len(lines) == 3
    behind = java_tool("org.apache.kafka.tools.TopicCommand", *at, "--under-replicated-partitions").stdout
    assert behind == ""


def test_librdkafka(mesh: MeshCluster) -> None:
    assert "replicas: 1000,1001,1002, isrs: 1000,1001,1002" in kcat(mesh.bootstrap, "-L").decode()
    admin = AdminClient({"bootstrap.servers": mesh.bootstrap})
    listed = admin.list_topics(TOPIC, timeout=20)
    assert list(listed.brokers) == [1]
    assert [listed.topics[TOPIC].partitions[n].replicas for n in (0, 1)] == [ALL, ALL]
    assert [listed.topics[TOPIC].partitions[n].isrs for n in (0, 1)] == [ALL, ALL]
    described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(20)
    for partition in described.partitions:
        assert partition.leader.id == 1
        assert [node.id for node in partition.replicas] == ALL
        assert [node.id for node in partition.isr] == ALL


def test_kafka_python(mesh: MeshCluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=mesh.bootstrap)
    try:
        (topic,) = admin.describe_topics([TOPIC])
    finally:
        admin.close()
    for partition in topic["partitions"]:
        assert (partition["leader_id"], partition["replica_nodes"], partition["isr_nodes"]) == (1, ALL, ALL)


def test_a_store_that_goes_leaves_the_in_sync_ones(mesh: MeshCluster) -> None:
    admin = AdminClient({"bootstrap.servers": mesh.bootstrap})
    mesh.stores[1].kill9()
    try:
        while admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions[0].isrs != [1000, 1002]:
            pass
        at = ["--bootstrap-server", mesh.bootstrap, "--describe", "--under-replicated-partitions"]
        lines = java_tool("org.apache.kafka.tools.TopicCommand", *at).stdout.splitlines()
        assert len(lines) >= 2
        assert all("Isr: 1000,1002" in line for line in lines)
    finally:
        mesh.stores[1].start()
    while admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions[0].isrs != ALL:
        pass
