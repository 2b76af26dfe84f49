"""Catalog and store that do not belong together any more: nothing is served as if nothing were missing."""

import shutil
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.gateway.in_process import RawClient, produce_request
from tests.peers.process import ServerEnded
from tests.peers.standalone import Standalone
from wireproto.records.builder import build_batch

TOPIC = "orders"
RECORDS = 40


def produce(server: Standalone, first: int, last: int) -> list[int]:
    """The error code of each record, each sent when the one before it is answered."""
    from kafka.protocol.producer import ProduceResponse

    async def main() -> list[int]:
        codes: list[int] = []
        async with await RawClient.connect(server.port) as client:
            for number in range(first, last):
                batch = bytes(build_batch([(None, b"value %d" % number, [], 1_700_000_000_000)]))
                answer = await client.ask(produce_request(batch, topic=TOPIC), ProduceResponse)
                codes.append(answer.responses[0].partition_responses[0].error_code)
        return codes

    return trio.run(main)


def refused(server: Standalone) -> bool:
    """Whether the partition takes no records, now and a moment later."""
    return 0 not in produce(server, 900, 903)


def read_all(server: Standalone) -> list[bytes | None]:
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "none"})
    _, high = reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)
    reader.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < high:
        message = reader.poll(20)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    reader.close()
    return found


def values(last: int) -> list[bytes | None]:
    return [b"value %d" % number for number in range(last)]


def test_an_older_catalog_takes_no_records_and_harms_none(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    with Standalone(data, "--topics", f"{TOPIC}:1") as server:
        assert produce(server, 0, 10) == [0] * 10
        server.terminate()
        shutil.copytree(data / "gateway", backup)
        server.start()
        assert produce(server, 10, RECORDS) == [0] * (RECORDS - 10)
        server.terminate()
        newer = tmp_path / "newer"
        shutil.copytree(data / "gateway", newer)
        for _ in range(3):
            shutil.rmtree(data / "gateway")
            shutil.copytree(backup, data / "gateway")
            server.start()
            assert refused(server)
            assert "--rebuild-catalog" in server.log
            server.terminate()
        shutil.rmtree(data / "gateway")
        shutil.copytree(newer, data / "gateway")
        server.start()
        assert read_all(server) == values(RECORDS)
        assert produce(server, RECORDS, RECORDS + 1) == [0]


def test_an_emptied_store_is_not_served_as_an_empty_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Standalone(data, "--topics", f"{TOPIC}:1") as server:
        assert produce(server, 0, RECORDS) == [0] * RECORDS
        server.kill9()
        shutil.rmtree(data / "store" / "db")
        try:
            server.start()
        except ServerEnded:
            assert server.returncode == 3
        else:
            assert refused(server)
            assert "no store knows it" in server.log


def test_a_store_of_another_directory_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with Standalone(tmp_path / name, "--topics", f"{TOPIC}:1") as server:
            assert produce(server, 0, 3) == [0] * 3
            server.terminate()
    shutil.rmtree(tmp_path / "one" / "store")
    shutil.copytree(tmp_path / "other" / "store", tmp_path / "one" / "store")
    refused = Standalone(tmp_path / "one", directory=tmp_path)
    with pytest.raises(ServerEnded):
        refused.start()
    assert refused.returncode == 3
    assert "do not belong together" in refused.log


def test_a_long_chain_of_segments_starts_and_is_deleted_whole(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Standalone(data, "--fsync", "never") as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config={"segment.ms": "1"})])[TOPIC].result(20)
        producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"value %d" % number, partition=0)
            assert producer.flush(20) == 0
        server.kill9()
        server.start()
        assert read_all(server) == values(RECORDS)
        admin.delete_topics([TOPIC])[TOPIC].result(20)
        server.kill9()
        server.start()
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        print(server.log)
        assert TOPIC not in admin.list_topics(timeout=20).topics
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
        assert read_all(server) == []
        assert produce(server, 0, 3) == [0] * 3
        assert read_all(server) == values(3)
