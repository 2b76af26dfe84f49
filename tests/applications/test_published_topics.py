"""Topics whose values native programs read: what they get is what Kafka's consumers of committed records get,
each offset one record, whatever was killed in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

import dafka
from dafka.operators.socket import ask
from mesh.protocol.native_order import Delivery
from tests.clients.stored import committed_records, create_replicated_topic
from tests.faults.native_reader import NativeReader
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.tower import TowerProcess

SECONDS = 60.0
PARTITIONS = 2


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeshCluster]:
    with MeshCluster(tmp_path_factory.mktemp("published")) as mesh:
        yield mesh


def make_topic(mesh: MeshCluster, name: str, partitions: int = PARTITIONS, **configs: str) -> str:
    """Its subject."""
    create_replicated_topic(mesh.bootstrap, name, partitions, 3, **{"dafka.publish": "values", **configs})
    return f"{name}.values"


def producer_for(mesh: MeshCluster, **settings: Any) -> Producer:
    own = {"enable.idempotence": True, "linger.ms": 5}
    return Producer({"bootstrap.servers": mesh.bootstrap, **own, **settings})


def write(producer: Producer, topic: str, values: list[bytes | None], partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS) == 0


def values_of(mesh: MeshCluster, topic: str, partitions: int = PARTITIONS) -> dict[int, list[bytes]]:
    """What a consumer of committed records has at each offset; empty where there is nothing."""
    found: dict[int, list[bytes]] = {}
    for partition in range(partitions):
        values: list[bytes] = []
        for offset, record in committed_records(mesh.bootstrap, topic, partition):
            values += [b""] * (offset - len(values))
            values.append(record.value or b"")
        found[partition] = values + [b""] * (stable_end(mesh, topic, partition) - len(values))
    return found


def stable_end(mesh: MeshCluster, topic: str, partition: int) -> int:
    """The last stable offset."""
    asked = {TopicPartition(topic, partition): OffsetSpec.latest()}
    admin = AdminClient({"bootstrap.servers": mesh.bootstrap})
    (answer,) = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
    return int(answer.result().offset)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_native_programs_read_what_kafka_clients_write(mesh: MeshCluster, codec: str) -> None:
    topic = f"codec-{codec}"
    subject = make_topic(mesh, topic)
    producer = producer_for(mesh, **{"compression.type": codec})
    with NativeReader(subject, str(mesh.tower.address)) as live:
        for partition in range(PARTITIONS):
            some: list[bytes | None] = [b"%d %d" % (partition, number) for number in range(500)]
            write(producer, topic, [b"first", None, b"", *some, b"x" * 900_000], partition)
        expected = values_of(mesh, topic)
        assert [len(values) for values in expected.values()] == [504] * PARTITIONS
        assert live.has(expected, SECONDS)
        write(producer, topic, [b"more"])
        assert live.has(values_of(mesh, topic), SECONDS)
    with NativeReader(subject, str(mesh.tower.address)) as late:
        assert late.has(values_of(mesh, topic), SECONDS)
    assert live.wrong == late.wrong == []


def test_of_a_transaction_nothing_is_shown_before_its_commit_and_of_an_aborted_one_never(
    mesh: MeshCluster,
) -> None:
    subject = make_topic(mesh, "transactions")
    producer = producer_for(mesh, **{"transactional.id": "published"})
    plain = producer_for(mesh)
    producer.init_transactions(SECONDS)
    with NativeReader(subject, str(mesh.tower.address)) as live:
        for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction) * 3):
            producer.begin_transaction()
            write(producer, "transactions", [b"of %d" % number] * 3)
            write(plain, "transactions", [b"between %d" % number])
            assert live.has(values_of(mesh, "transactions"), SECONDS), "up to the last stable offset"
            ends(SECONDS)
            deadline = time.monotonic() + SECONDS
            while stable_end(mesh, "transactions", 0) < 5 * (number + 1):  # the marker is on its way
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert live.has(values_of(mesh, "transactions"), SECONDS)
        values = live.values[0]
    assert live.wrong == []
    assert [values.count(b"of %d" % number) for number in range(6)] == [3, 0, 3, 0, 3, 0]
    assert [values.count(b"between %d" % number) for number in range(6)] == [1] * 6


def test_the_same_is_read_when_everything_was_killed(mesh: MeshCluster) -> None:
    subject = make_topic(mesh, "killed")
    producer = producer_for(mesh)
    with NativeReader(subject, str(mesh.tower.address)) as live:
        victims: list[StoreProcess | GatewayProcess | TowerProcess]
        victims = [*mesh.stores, mesh.gateway, mesh.tower]
        for number, victim in enumerate(victims):
            for partition in range(PARTITIONS):
                write(producer, "killed", [b"%d %d" % (number, one) for one in range(100)], partition)
            victim.kill9()
            for partition in range(PARTITIONS):
                producer.produce("killed", b"meanwhile %d" % number, partition=partition)
            victim.start()
        assert producer.flush(SECONDS) == 0
        expected = values_of(mesh, "killed")
        assert {len(values) for values in expected.values()} == {505}
        assert live.has(expected, SECONDS)
    with NativeReader(subject, str(mesh.tower.address)) as late:
        assert late.has(expected, SECONDS)
    assert live.wrong == late.wrong == []


async def first_of(mesh: MeshCluster, subject: str, count: int) -> tuple[list[Delivery], int]:
    """So many records from the beginning on, and how many were left out."""
    async with dafka.Consumer(subject, from_beginning=True, tower=str(mesh.tower.address)) as records:
        with trio.fail_after(SECONDS):
            found = [await records.receive() for _ in range(count)]
        return found, records.skipped


def test_what_was_deleted_is_left_out(mesh: MeshCluster) -> None:
    subject = make_topic(mesh, "deleted", 1)
    write(producer_for(mesh), "deleted", [b"%d" % number for number in range(10)])
    admin = AdminClient({"bootstrap.servers": mesh.bootstrap})
    for done in admin.delete_records([TopicPartition("deleted", 0, 7)]).values():
        done.result()
    # Stores hear of the new log start a moment later, and of everything after ten seconds at most.
    deadline = time.monotonic() + SECONDS
    while True:
        found, skipped = trio.run(first_of, mesh, subject, 3)
        if skipped:
            break
        assert time.monotonic() < deadline
    assert [(one.sequence, one.content) for one in found] == [(7, b"7"), (8, b"8"), (9, b"9")]
    assert skipped == 7


def set_config(mesh: MeshCluster, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": mesh.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def test_a_topic_that_has_records_is_published_and_no_more(mesh: MeshCluster) -> None:
    create_replicated_topic(mesh.bootstrap, "later", 1, 3)
    write(producer_for(mesh), "later", [b"before"])
    set_config(mesh, "later", "dafka.publish.subject", "news")
    set_config(mesh, "later", "dafka.publish", "values")
    with NativeReader("news", str(mesh.tower.address)) as live:
        assert live.has({0: [b"before"]}, SECONDS)
        set_config(mesh, "later", "dafka.publish", "off")
        deadline = time.monotonic() + SECONDS
        while mesh_shows(mesh, "later"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        write(producer_for(mesh), "later", [b"after"])
        set_config(mesh, "later", "dafka.publish", "values")
        assert live.has({0: [b"before", b"after"]}, SECONDS)


def mesh_shows(mesh: MeshCluster, topic: str) -> bool:
    return any(entry["topic"] == topic for entry in ask(mesh.gateway.data, "mesh.subjects")["published"])


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(KafkaException) as refused:
        act()
    return str(refused.value)


def test_what_would_come_round_is_refused_by_name(mesh: MeshCluster) -> None:
    admin = AdminClient({"bootstrap.servers": mesh.bootstrap})

    def make(name: str, **configs: str) -> None:
        config = {key.replace("_", "."): value for key, value in configs.items()}
        for done in admin.create_topics([NewTopic(name, 1, 3, config=config)]).values():
            done.result()

    # The gateway looks at all topics together: once it shows the second one it knows the first.
    make("takes", dafka_native_subject="rounds")
    make("round", dafka_publish="values")
    deadline = time.monotonic() + SECONDS
    while not mesh_shows(mesh, "round"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "would come round" in refusal(lambda: make("a", dafka_native_subject="round.values"))
    assert "'takes' takes up the subject 'rounds'" in refusal(
        lambda: make("b", dafka_publish="values", dafka_publish_subject="rounds")
    )
    assert "must not be a topic's name" in refusal(lambda: make("round.values"))
    assert "'takes' is the name of a topic" in refusal(
        lambda: set_config(mesh, "round", "dafka.publish.subject", "takes")
    )
    assert "'round' publishes its values under 'round.values'" in refusal(
        lambda: set_config(mesh, "takes", "dafka.native.subject", "round.values")
    )
    with NativeReader("round.values", str(mesh.tower.address)) as live:
        write(producer_for(mesh), "round", [b"once"])
        assert live.has({0: [b"once"]}, SECONDS), "it goes on as it was"
