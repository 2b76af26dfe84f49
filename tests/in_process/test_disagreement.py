"""Catalog and store that do not belong together any more: nothing is served as if nothing were missing."""

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.producer import ProduceResponse

from mesh.store import keys
from mesh.store.db import Database
from tests.in_process.in_process import RawClient, produce_request
from tests.peers.process import ServerEnded
from tests.peers.standalone import Standalone
from wireproto.records.builder import build_batch

TOPIC = "orders"
RECORDS = 40
OUT_OF_RANGE, NOT_LEADER, OFFSET_NOT_AVAILABLE = 1, 6, 78


def produce(server: Standalone, first: int, last: int, *, partition: int = 0) -> list[int]:
    """The error code of each record, each sent when the one before it is answered."""

    async def main() -> list[int]:
        codes: list[int] = []
        async with await RawClient.connect(server.port) as client:
            for number in range(first, last):
                batch = bytes(build_batch([(None, b"value %d" % number, [], 1_700_000_000_000)]))
                answer = await client.ask(
                    produce_request(batch, topic=TOPIC, partition=partition), ProduceResponse
                )
                codes.append(answer.responses[0].partition_responses[0].error_code)
        return codes

    return trio.run(main)


def refused(server: Standalone) -> bool:
    """Whether the partition takes no records, now and a moment later."""
    return 0 not in produce(server, 900, 903)


def fetched(server: Standalone, *offsets: int) -> list[int]:
    """The error code of a Fetch from each offset."""

    async def main() -> list[int]:
        codes: list[int] = []
        async with await RawClient.connect(server.port) as client:
            for offset in offsets:
                answer = await client.ask(fetch_request(offset), FetchResponse)
                codes.append(answer.responses[0].partitions[0].error_code)
        return codes

    return trio.run(main)


def fetch_request(offset: int) -> Any:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        version=4, partition=0, fetch_offset=offset, partition_max_bytes=1_000_000
    )
    return FetchRequest(
        version=4,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        isolation_level=0,
        topics=[topic(version=4, topic=TOPIC, partitions=[partition])],
    )


def latest(server: Standalone) -> int:
    """The error code of a ListOffsets for the end of the log."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(version=5, partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        version=5,
        replica_id=-1,
        isolation_level=0,
        topics=[topic(version=5, name=TOPIC, partitions=[partition])],
    )

    async def main() -> int:
        async with await RawClient.connect(server.port) as client:
            answer = await client.ask(request, ListOffsetsResponse)
            return int(answer.topics[0].partitions[0].error_code)

    return trio.run(main)


def read_all(server: Standalone) -> list[bytes | None]:
    reader = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
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
            with pytest.raises(ServerEnded):
                server.start()
            assert server.returncode == 3
            assert "the catalog is older than store" in server.log
            assert "--rebuild-catalog" in server.log
        shutil.rmtree(data / "gateway")
        shutil.copytree(newer, data / "gateway")
        server.start()
        assert read_all(server) == values(RECORDS)
        assert produce(server, RECORDS, RECORDS + 1) == [0]


def copy_catalog(source: Path, target: Path) -> None:
    """Put one catalog's files, with its write-ahead log, in the place of another's."""
    target.mkdir(exist_ok=True)
    for file in target.glob("catalog.sqlite*"):
        file.unlink()
    for file in sorted(source.glob("catalog.sqlite*")):
        shutil.copy(file, target)


@pytest.mark.parametrize("end", ["terminate", "kill9"])
def test_a_catalog_from_before_a_roll_serves_nothing_and_a_rebuilt_one_everything(
    tmp_path: Path, end: str
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    with Standalone(data) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config={"segment.ms": "1"})])[TOPIC].result(20)
        assert produce(server, 0, 1) == [0]
        copy_catalog(data / "gateway", backup)
        assert produce(server, 1, RECORDS) == [0] * (RECORDS - 1)
        getattr(server, end)()
        copy_catalog(backup, data / "gateway")
        try:
            server.start()
        except ServerEnded:
            assert server.returncode == 3
            assert "the catalog is older than store" in server.log
        else:
            # After a kill the store may not have heard yet how far the catalog was: each partition is asked.
            assert end == "kill9"
            assert "the catalog is older than store" in server.log
            assert fetched(server, 0, 1, RECORDS) == [NOT_LEADER] * 3
            assert latest(server) == OFFSET_NOT_AVAILABLE
            assert refused(server)
            server.terminate()
        server.arguments = ("--rebuild-catalog",)
        server.start()
        assert read_all(server) == values(RECORDS)
        assert produce(server, RECORDS, RECORDS + 1) == [0]


def test_a_rebuilt_catalog_goes_on_behind_epochs_that_left_no_segment(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Standalone(data, "--topics", f"{TOPIC}:2") as server:
        assert produce(server, 0, RECORDS) == [0] * RECORDS
        server.terminate()
        topic_id = _forget_topic(data)
        # As segments leave them that were announced, turned out empty, and were deleted.
        database = Database(data / "store" / "db")
        for partition in (0, 1):
            database._db.put(keys.epoch_key(f"{topic_id}/{partition}"), b"\0\0\0\x07" + b"F" * 16)
        database.close()
        server.arguments = ("--rebuild-catalog",)
        server.start()
        assert read_all(server) == values(RECORDS)
        assert produce(server, RECORDS, RECORDS + 1) == [0]
        assert produce(server, 0, 1, partition=1) == [0]


def _forget_topic(data: Path) -> str:
    """Lose the catalog; the id of the topic that was in it."""
    with sqlite3.connect(data / "gateway" / "catalog.sqlite") as catalog:
        dump = "\n".join(catalog.iterdump())
    catalog.close()
    shutil.rmtree(data / "gateway")
    found = re.search(r"/partitions/([0-9a-f]{32})/", dump)
    assert found is not None
    return found[1]


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
            assert OUT_OF_RANGE not in fetched(server, 0, RECORDS // 2, RECORDS, RECORDS + 1)


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
