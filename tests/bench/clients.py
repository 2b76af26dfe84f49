"""The clients that load a server: Kafka's performance tool, two small Java programs, librdkafka, Spark."""

import contextlib
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers.java import client_command, java_tool
from tests.peers.maven import connector_jars

JAVA_SOURCES = Path(__file__).parent / "java"
CLIENT_TIMEOUT_SECONDS = 600.0
# librdkafka's log level, as syslog has it: its notices of an ended admin client say nothing here.
WARNING = 4
# What it says of the records after the warm-up.
THROUGHPUT = re.compile(r"steady state records sent, ([\d.]+) records/sec")


class Percentiles(NamedTuple):
    """Of one-at-a-time produces, in microseconds."""

    p50: float
    p99: float


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNING})
    for created in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        created.result()


def create_topics(bootstrap: str, topics: Sequence[str], partitions: int) -> None:
    """Those of them that are not there yet."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNING})
    for created in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        # Not raised and caught: its traceback would keep the client alive, which goes on to connect.
        error = created.exception()
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            continue
        if error is not None:
            raise error


def log_size(bootstrap: str, topic: str, partitions: int) -> int:
    """How many offsets the topic's partitions hold together."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, index)) for index in range(partitions)]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)


def produce(bootstrap: str, topic: str, *, record_bytes: int, records: int, warm_up: int) -> float:
    """Records a second by ProducerPerformance, after the warm-up (which counts in neither)."""
    output = java_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--record-size", str(record_bytes)),
        *("--num-records", str(records + warm_up), "--warmup-records", str(warm_up)),
        *("--command-property", "acks=all", "batch.size=131072", "linger.ms=5"),
        options=(),  # it is measured, so it may compile
        timeout=CLIENT_TIMEOUT_SECONDS,
    )
    found = THROUGHPUT.search(output.stdout)
    if found is None:
        raise AssertionError(f"ProducerPerformance said no throughput:\n{output.stdout}\n{output.stderr}")
    return float(found[1])


class Consumed(NamedTuple):
    records: int
    value_bytes: int
    seconds: float


def consume(bootstrap: str, topic: str, partitions: int, *, tail: int, passes: int) -> Consumed:
    """Read the last `tail` records of each partition (0: all) `passes` times over, by assignment."""
    arguments = (bootstrap, topic, str(partitions), str(tail), str(passes))
    records, value_bytes, seconds = _java("BenchConsumer", *arguments).split()
    return Consumed(int(records), int(value_bytes), float(seconds))


def java_latency(bootstrap: str, topic: str, *, warm_up: int, records: int) -> Percentiles:
    with latency_passes(bootstrap, topic, warm_up=warm_up, records=records) as measure:
        return measure()


@contextlib.contextmanager
def latency_passes(
    bootstrap: str, topic: str, *, warm_up: int, records: int
) -> Iterator[Callable[[], Percentiles]]:
    """A warm Java producer that sends `records`, one at a time, whenever it is called."""
    command = client_command("BenchLatency", sources=JAVA_SOURCES)
    arguments = (bootstrap, topic, "100", str(warm_up), str(records))
    process = subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    said, heard = process.stdin, process.stdout

    def line() -> str:
        found = heard.readline()
        if not found:
            raise AssertionError(f"BenchLatency ended with {process.wait()}")
        return found

    def measure() -> Percentiles:
        said.write("\n")
        said.flush()
        p50, p99 = line().split()
        return Percentiles(float(p50), float(p99))

    try:
        line()  # it is warm
        yield measure
    finally:
        process.kill()
        process.wait()


def java_commits(
    bootstrap: str, topic: str, *, groups: int, members: int, in_flight: int, warm_up: float, seconds: float
) -> float:
    """Commits a second by Java consumers, each with so many in flight."""
    numbers = (groups, members, in_flight, warm_up, seconds)
    return float(_java("BenchCommits", bootstrap, topic, *map(str, numbers)))


def java_rebalance(
    bootstrap: str, topic: str, *, members: int, heartbeat_ms: int, warm_up: int, times: int
) -> float:
    """Milliseconds from the coming of the last of so many Java consumers until all have what they got."""
    numbers = (members, heartbeat_ms, warm_up, times)
    return float(_java("BenchRebalance", bootstrap, topic, *map(str, numbers)))


def librdkafka_latency(bootstrap: str, topic: str, *, warm_up: int, records: int) -> Percentiles:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    errors: list[KafkaError] = []
    delivered = 0

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        nonlocal delivered
        delivered += 1
        if error is not None:
            errors.append(error)

    microseconds = []
    for sent in range(1, warm_up + records + 1):
        start = time.perf_counter()
        producer.produce(topic, value=bytes(100), partition=0, on_delivery=on_delivery)
        while delivered < sent:
            producer.poll(1.0)
        microseconds.append((time.perf_counter() - start) * 1e6)
    if errors:
        raise AssertionError(f"a produce failed: {errors[0]}")
    cut = statistics.quantiles(microseconds[warm_up:], n=100)
    return Percentiles(cut[49], cut[98])


class SparkTimes(NamedTuple):
    """Seconds of one batch read and one batch write, the session warm."""

    read: float
    sink: float


def spark(bootstrap: str, source: str, sink: str, sink_records: int, expected: int) -> SparkTimes:
    """Read all of `source` and write to `sink`, in a session of its own; raises if the read lacks records."""
    jars = ",".join(map(str, connector_jars()))
    command = [
        sys.executable,
        "-m",
        "tests.bench.spark_job",
        jars,
        bootstrap,
        source,
        sink,
        str(sink_records),
    ]
    answer = json.loads(_output(command).splitlines()[-1])
    if answer["records"] != expected:
        raise AssertionError(f"Spark read {answer['records']} records of {expected}")
    return SparkTimes(answer["read_seconds"], answer["sink_seconds"])


def _java(name: str, *arguments: str) -> str:
    return _output([*client_command(name, sources=JAVA_SOURCES), *arguments])


def _output(command: list[str]) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS, check=False
    )
    if result.returncode != 0:
        raise AssertionError(
            f"{command[0]} ended with {result.returncode}:\n{result.stdout}{result.stderr[-4000:]}"
        )
    return result.stdout
