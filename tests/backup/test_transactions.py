"""Backups of transactions: aborted ones over several segments, open ones, ones whose markers are missing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.backup import scene
from tests.backup.scene import dafka
from tests.backup.test_mesh import STORES, empty_stores, restore
from tests.peers.mesh import GatewayProcess, MeshCluster

SECONDS = 60.0
"""How long a call of a client may take."""

TIMEOUT_MS = 30_000
"""Of transactions: the open one is open still when the backup is taken, and soon aborted after that."""


def transactional(bootstrap: str, name: str) -> Producer:
    """One that has an id, and may begin."""
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": name,
        "transaction.timeout.ms": TIMEOUT_MS,
    }
    made = Producer(settings)
    made.init_transactions(SECONDS)
    return made


def begin(to: Producer, topic: str, numbers: Iterable[int]) -> None:
    """A transaction of these records, all of them acknowledged."""
    to.begin_transaction()
    for number in numbers:
        to.produce(topic, b"%d " % number + bytes(5000), partition=0)
    assert to.flush(SECONDS) == 0


def consumed(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[int]:
    """The numbers that a consumer is shown, from the beginning to where it is told that this is the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None, f"nothing of {topic} comes after {found[-1:]}"
        error = message.error()
        if error is None:
            value = message.value()
            assert value is not None
            found.append(int(value.split()[0]))
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
        else:
            raise AssertionError(error)


def take(old: MeshCluster, target: Path) -> None:
    """A backup of a cluster with transactions in all states."""
    at = old.bootstrap
    scene.create(at, "aborted", 1, STORES, segment_bytes=scene.SEGMENT_BYTES)
    scene.create(at, "open", 1, STORES)
    scene.create(at, "held", 1, STORES, min_insync_replicas=str(STORES))
    to = transactional(at, "a")
    begin(to, "aborted", range(500))
    to.abort_transaction(SECONDS)
    begin(to, "aborted", range(500, 510))
    to.commit_transaction(SECONDS)
    decided = transactional(at, "decided")
    begin(decided, "held", range(10))
    left = transactional(at, "left")
    begin(left, "open", range(10))
    consumer = Consumer({"bootstrap.servers": at, "group.id": "g"})
    offsets = [TopicPartition("aborted", 0, 7)]
    left.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
    consumer.close()
    old.stores[2].kill9()  # its markers have to wait for that, and what it decides has not
    decided.commit_transaction(SECONDS)
    assert consumed(at, "aborted") == list(range(500, 510))
    assert consumed(at, "held") == consumed(at, "open") == []
    assert consumed(at, "open", "read_uncommitted") == list(range(10))
    assert dafka("backup", "take", target, "--data", old.gateway.data) == 0


def test_transactions_end_as_they_were_to_end(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with MeshCluster(tmp_path / "old", STORES) as old:
        take(old, target)
    data = tmp_path / "new" / "gateway" / "data"
    with empty_stores(tmp_path / "new") as (tower, _):
        restore(target, data, tower).ends_with(0)
        gateway = GatewayProcess(tmp_path / "new" / "gateway", tower, STORES)
        try:
            gateway.start()
            at = gateway.bootstrap
            assert consumed(at, "aborted") == list(range(500, 510))
            scene.settle(lambda: consumed(at, "held") == list(range(10)), "what was decided is committed")
            # Its producer is gone, and its time is over.
            scene.settle(lambda: stable_end(at, "open") == 11, "what was open is aborted")
            assert consumed(at, "open") == []
            assert consumed(at, "open", "read_uncommitted") == list(range(10))
            assert scene.committed(at, "g") in ({}, {("aborted", 0): -1001})
            again = transactional(at, "left")
            begin(again, "open", range(10, 12))
            again.commit_transaction(SECONDS)
            assert consumed(at, "open") == [10, 11]
        finally:
            gateway.kill9()


def stable_end(bootstrap: str, topic: str) -> int:
    """The offset behind what a reader of what is committed may read."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "looks", "isolation.level": "read_committed"}
    )
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, -1)], timeout=SECONDS)
    consumer.close()
    return int(found.offset)
