"""A lost catalog: refused without the flag, read back from the store with it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers.process import ServerEnded
from tests.peers.standalone import Standalone

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 90


def produce(server: Standalone, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})
    for number in range(first, last):
        producer.produce(TOPIC, b"value %d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def everything(server: Standalone) -> dict[tuple[int, int], bytes]:
    """(partition, offset) -> value of all records."""
    # A fetch that waits at the end of one partition holds up those of the next.
    quick = {"enable.auto.commit": False, "fetch.wait.max.ms": 10}
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "none", **quick})
    found: dict[tuple[int, int], bytes] = {}
    for partition in range(PARTITIONS):
        low, high = reader.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=20)
        reader.assign([TopicPartition(TOPIC, partition, low)])
        count = 0
        while count < high - low:
            message = reader.poll(20)
            assert message is not None
            assert message.error() is None
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            found[partition, offset] = bytes(value)
            count += 1
    reader.close()
    return found


def gone(gateway: Path) -> None:
    shutil.rmtree(gateway)


def damaged(gateway: Path) -> None:
    catalog = gateway / "catalog.sqlite"
    catalog.write_bytes(b"not a database" + catalog.read_bytes()[14:])


@pytest.mark.parametrize("lose", [gone, damaged])
def test_the_catalog_comes_back_from_the_store(lose: Callable[[Path], None], tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Standalone(data) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        new = NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": "1048576", "cleanup.policy": "delete"})
        admin.create_topics([new])[TOPIC].result(20)
        produce(server, 0, RECORDS // 2)
        server.kill9()
        server.start()
        produce(server, RECORDS // 2, RECORDS)
        before = everything(server)
        server.terminate()
        lose(data / "gateway")
        with pytest.raises(ServerEnded):
            server.start()
        assert server.returncode == 3
        assert "--rebuild-catalog" in server.log
        server.arguments = ("--rebuild-catalog",)
        server.start()
        assert len(before) == RECORDS
        assert everything(server) == before
        produce(server, RECORDS, RECORDS + PARTITIONS)
        after = everything(server)
        assert {place: after[place] for place in before} == before
        assert len(after) == RECORDS + PARTITIONS
        server.terminate()
        server.arguments = ()
        server.start()
        assert everything(server) == after
