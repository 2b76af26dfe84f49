"""Topics that change under consumers in groups: they get more partitions, and are deleted and made again.

A topic made again has another id. Each client goes on at the beginning of the new one, as its
`auto.offset.reset` says, and what was committed for the old one counts for nothing.

With any server, who has not noticed that the topic was away commits by its name how far it was in the old
one, for the new one; Java and kafka-python then take that for a log that was cut, and go on at its end
(KIP-320). So theirs is made again between two lives of their consumer.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.protocol.admin import CreatePartitionsRequest, DeleteTopicsRequest

from tests.clients.stored import create_topic, put
from tests.differential.batches import Record
from tests.differential.offsets import fetch
from tests.differential.servers import our_bootstrap
from tests.differential.wire import ask
from tests.peers.java import QUIET, SHORT_LIVED, java_command
from tests.peers.maven import kafka_jars

SECONDS = 60.0
REFRESH_MS = 100
"""How often clients look for changes of a topic; five minutes by default."""

Found = list[tuple[int, int, bytes]]
"""(partition, offset, value) of each record, in the order in which they came."""

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A server that makes no topic because somebody asks for it: clients ask for those that are gone."""
    quick = ("--group-initial-rebalance-delay-ms", "0", "--group-min-session-timeout-ms", "500")
    with our_bootstrap(*quick, "--no-auto-create-topics") as address:
        yield address


@contextmanager
def in_thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """The work runs until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=[stop])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def confluent(bootstrap: str, topic: str, group: str, found: Found) -> AbstractContextManager[None]:
    settings = {
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0,
        "topic.metadata.refresh.interval.ms": REFRESH_MS, "heartbeat.interval.ms": 100,
        "topic.metadata.propagation.max.ms": 0,
    }  # fmt: skip

    def work(stop: threading.Event) -> None:
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        while not stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                found.append((message.partition() or 0, message.offset() or 0, value))
        consumer.close()

    return in_thread(work)


def kafka_python(bootstrap: str, topic: str, group: str, found: Found) -> AbstractContextManager[None]:
    def work(stop: threading.Event) -> None:
        consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
            metadata_max_age_ms=REFRESH_MS, heartbeat_interval_ms=100,
        )  # fmt: skip
        while not stop.is_set():
            for messages in consumer.poll(timeout_ms=500).values():
                found.extend((one.partition, one.offset, one.value) for one in messages)
        consumer.close()

    return in_thread(work)


def aiokafka(bootstrap: str, topic: str, group: str, found: Found) -> AbstractContextManager[None]:
    async def consume(stop: threading.Event) -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
            metadata_max_age_ms=REFRESH_MS, heartbeat_interval_ms=100,
        )  # fmt: skip
        await consumer.start()
        while not stop.is_set():
            for messages in (await consumer.getmany(timeout_ms=100)).values():
                found.extend((one.partition, one.offset, one.value) for one in messages)
        await asyncio.wait_for(consumer.stop(), SECONDS)

    return in_thread(lambda stop: asyncio.run(consume(stop)))


@contextmanager
def java(bootstrap: str, topic: str, group: str, found: Found) -> Iterator[None]:
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    command = [
        *java_command(tool, kafka_jars(), options=(*SHORT_LIVED, QUIET)),
        "--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning",
        "--command-property", f"metadata.max.age.ms={REFRESH_MS}",
        "--command-property", "heartbeat.interval.ms=100",
        "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:

        def work() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                partition, offset, value = line.rstrip("\n").split("\t")
                found.append((int(partition.split(":")[1]), int(offset.split(":")[1]), value.encode()))

        reader = threading.Thread(target=work)
        reader.start()
        try:
            yield
        finally:
            process.terminate()
            reader.join()


def add_partition(bootstrap: str, topic: str, count: int) -> None:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    answer = ask(bootstrap, CreatePartitionsRequest(version=3, topics=[wanted], timeout_ms=10_000))
    assert answer.results[0].error_code == 0, answer


def make_again(bootstrap: str, topic: str, wanted: list[bytes]) -> None:
    """The topic is deleted and made again, with these records in each partition."""
    request = DeleteTopicsRequest(version=5, topic_names=[topic], timeout_ms=10_000)
    assert ask(bootstrap, request).responses[0].error_code == 0
    create_topic(bootstrap, topic, 2)
    for partition in (0, 1):
        put(bootstrap, topic, [Record(value) for value in wanted], partition=partition)


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    found = ask(bootstrap, fetch(group, None)).groups[0]
    return {(t.name, p.partition_index): p.committed_offset for t in found.topics for p in t.partitions}


def until(is_so: Callable[[], bool], found: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, found[-3:]
        time.sleep(0.005)


def values(prefix: str, count: int) -> list[bytes]:
    return [b"%s %d" % (prefix.encode(), number) for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("reader", [confluent, kafka_python, aiokafka, java], ids=lambda one: one.__name__)
def test_topics_grow_and_are_made_again_under_consumers(bootstrap: str, reader: Any) -> None:
    number = next(_numbers)
    topic = create_topic(bootstrap, f"changing-{number}", 1)
    group, found = f"group-{number}", Found()
    first, grown, again = values("first", 30), values("grown", 10), values("again", 5)
    put(bootstrap, topic, [Record(value) for value in first])
    stays = reader not in {kafka_python, java}
    with reader(bootstrap, topic, group, found):
        expected = [(0, offset, value) for offset, value in enumerate(first)]
        until(lambda: found == expected, found)
        add_partition(bootstrap, topic, 2)
        put(bootstrap, topic, [Record(value) for value in grown], partition=1)
        expected += [(1, offset, value) for offset, value in enumerate(grown)]
        until(lambda: found == expected, found)
        if stays:
            make_again(bootstrap, topic, again)
            until(lambda: has_all(found[len(expected) :], again), found)
    if not stays:
        assert committed(bootstrap, group) == {(topic, 0): len(first), (topic, 1): len(grown)}
        make_again(bootstrap, topic, again)
        with reader(bootstrap, topic, group, found):
            until(lambda: has_all(found[len(expected) :], again), found)
    assert found[: len(expected)] == expected
    # Each commits when it is closed: offsets of the topic that is there, not of the one that was.
    assert committed(bootstrap, group) == {(topic, 0): len(again), (topic, 1): len(again)}


def has_all(found: Found, wanted: list[bytes]) -> bool:
    """Each record of both partitions, some perhaps more than once, and nothing else."""
    new = {(partition, offset, value) for partition in (0, 1) for offset, value in enumerate(wanted)}
    return set(found) == new
