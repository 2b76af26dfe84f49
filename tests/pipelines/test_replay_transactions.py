"""Where the server has transactions: a dead driver's tasks are fenced, and nobody waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from dafka_pipeline.kafka.cluster import TopicPartition as Place
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import Plan
from dafka_pipeline.producing.plan import AUTO
from dafka_pipeline.producing.rows import Rows
from dafka_pipeline.producing.sender import Ended, Progress
from dafka_pipeline.producing.stream_file import parse_stream
from dafka_pipeline.producing.transactional import TransactionalSender
from tests.clients.sample import records as sample_records
from tests.clients.sample import small_records
from tests.clients.stored import committed_records, create_topic, put
from tests.differential.batches import Record
from tests.differential.servers import kafka_bootstrap, our_bootstrap
from tests.peers.requirements import require
from tests.pipelines.archiving import archive_once
from tests.pipelines.replaying import QUICK, OnWords, killed_at, own, replay

pytestmark = [pytest.mark.slow, pytest.mark.matrix]


@pytest.fixture(scope="module", params=["apache", "ours"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    require("java")
    with kafka_bootstrap() if request.param == "apache" else our_bootstrap() as bootstrap:
        yield bootstrap


def committed(bootstrap: str, topic: str, partition: int = 0) -> list[Record]:
    """What a plain consumer of committed records gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Record] = []
    deadline = time.monotonic() + 60
    while True:
        message = consumer.poll(1.0)
        assert time.monotonic() < deadline
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        _, milliseconds = message.timestamp()
        headers = tuple(message.headers() or ())
        found.append(Record(message.value(), message.key(), milliseconds, headers))


def check(bootstrap: str, stream: str, source: str, target: str, partitions: int) -> None:
    for partition in range(partitions):
        expected = own(stream, committed_records(bootstrap, source, partition))
        assert committed(bootstrap, target, partition) == expected


def test_in_transactions_over_deaths(spark: SparkSession, server: str, tmp_path: Path) -> None:
    """Found out by itself; a driver that dies in its first and in its second round is gone on for at once."""
    source, target = create_topic(server, "tx-source", 2), create_topic(server, "tx-target", 2)
    put(server, source, sample_records(), per_batch=1)
    put(server, source, small_records(100), partition=1)
    archive_once(spark, server, tmp_path / "a", source)
    report = OnWords("waiting", lambda: None)
    settings = {"stream": "tx", "round_offsets": 50, "report": report, "transactions": AUTO}
    for place, number in (("publish-leased", 1), ("publish-sent", 2), ("replay-after-round", 1)):
        with killed_at(place, number):
            replay(spark, server, tmp_path / "a", {source: target}, **settings)
    replay(spark, server, tmp_path / "a", {source: target}, **settings)
    assert report.acted == 0
    kept = parse_stream((tmp_path / "a/_pipeline/replays/tx.stream.json").read_text())
    assert kept.transactions
    check(server, "tx", source, target, 2)


def test_a_zombie_is_fenced(spark: SparkSession, server: str, tmp_path: Path) -> None:
    """A task of a dead driver holds a transaction open, and would end it when others have sent the same."""
    source, target = create_topic(server, "fenced-source"), create_topic(server, "fenced-target")
    put(server, source, small_records(60))
    archive_once(spark, server, tmp_path / "a", source)
    with killed_at("publish-leased"):
        replay(spark, server, tmp_path / "a", {source: target}, stream="z", transactions=AUTO)
    at = Place(target, 0)
    plan = Plan("z", KafkaOptions(server), (target,), timing=replace(QUICK, message=60, stall=50, spread=50))
    zombie = TransactionalSender(plan, 1_000_000, at, 0, time.time() + 600)
    try:
        to = Progress(at, None, -1, None)
        for first, last in ((0, 20), (20, 40)):
            part = small_records(60)[first:last]
            rows = Rows(
                0,
                [f"z|{n}" for n in range(first, last)],
                [one.timestamp for one in part],
                [one.key for one in part],
                [one.value for one in part],
            )
            zombie.send(rows, 0, to)
            if first == 0:
                zombie.finish()
        # Twenty are committed, twenty lie in an open transaction.
        outcome = replay(spark, server, tmp_path / "a", {source: target}, stream="z", transactions=AUTO)
        assert outcome.records == 40
        with pytest.raises(Ended, match=r"(?i)fenced"):
            zombie.finish()
    finally:
        zombie.close()
    check(server, "z", source, target, 1)


def test_without_transactions_when_asked(spark: SparkSession, server: str, tmp_path: Path) -> None:
    """The same server, the way that servers without transactions go."""
    source, target = create_topic(server, "plain-source"), create_topic(server, "plain-target")
    put(server, source, small_records(60))
    archive_once(spark, server, tmp_path / "a", source)
    settings = {"stream": "p", "transactions": "no", "round_offsets": 40}
    with killed_at("publish-sent"):
        replay(spark, server, tmp_path / "a", {source: target}, **settings)
    assert replay(spark, server, tmp_path / "a", {source: target}, **settings).records == 20
    check(server, "p", source, target, 1)
