"""The clients that load a server: Kafka's performance tool, two small Java programs, librdkafka, Spark."""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.bench.measurement import PER_GB, PER_REQUEST, PER_RUN, Context, Cost
from tests.bench.servers import Server
from tests.peers.java import client_command, java_tool
from tests.peers.maven import connector_jars
from tests.peers.process import processor_seconds

JAVA_SOURCES = Path(__file__).parent / "java"
# A producer says each time that it has to come again, as Kafka has it do at the begin of most transactions.
SENDER_IS_QUIET = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.producer.internals.Sender=error"
CLIENT_TIMEOUT_SECONDS = 600.0
CREATE_SECONDS = 300.0
METADATA_SECONDS = 10.0
# librdkafka's log level, as syslog has it: its notices of an ended admin client say nothing here.
WARNING = 4
# What it says of the records after the warm-up.
THROUGHPUT = re.compile(r"steady state records sent, ([\d.]+) records/sec")


class Percentiles(NamedTuple):
    """Of one-at-a-time produces, in microseconds, and what each cost."""

    p50: float
    p99: float
    p999: float
    cost: Cost


def create_topic(
    bootstrap: str, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNING})
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    for created in admin.create_topics([new], operation_timeout=CREATE_SECONDS).values():
        created.result()


def add_partitions(bootstrap: str, topic: str, partitions: int) -> None:
    """Up to so many in all."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNING})
    new = NewPartitions(topic, partitions)
    for added in admin.create_partitions([new], operation_timeout=CREATE_SECONDS).values():
        added.result()


def ask_for_topic(bootstrap: str, topic: str) -> None:
    """Of a server that makes topics when it is asked for them."""
    AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNING}).list_topics(topic, METADATA_SECONDS)


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


# Of a producer that is set for throughput.
TUNED = ("acks=all", "batch.size=131072", "linger.ms=5")


def produce(
    bootstrap: str,
    topic: str,
    *,
    record_bytes: int,
    records: int,
    warm_up: int,
    settings: Sequence[str],
) -> float:
    """Records a second by ProducerPerformance, after the warm-up (which counts in neither)."""
    properties = ("--command-property", *settings) if settings else ()
    output = java_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--record-size", str(record_bytes)),
        *("--num-records", str(records + warm_up), "--warmup-records", str(warm_up)),
        *properties,
        options=(),  # it is measured, so it may compile
        timeout=CLIENT_TIMEOUT_SECONDS,
    )
    found = THROUGHPUT.search(output.stdout)
    if found is None:
        raise AssertionError(f"ProducerPerformance said no throughput:\n{output.stdout}\n{output.stderr}")
    return float(found[1])


def produce_tuned(bootstrap: str, topic: str, *, record_bytes: int, records: int, warm_up: int) -> float:
    """The same of a producer that is set for throughput."""
    return produce(
        bootstrap, topic, record_bytes=record_bytes, records=records, warm_up=warm_up, settings=TUNED
    )


class Consumed(NamedTuple):
    records: int
    value_bytes: int
    seconds: float
    cost: Cost


def consume(server: Server, topic: str, partitions: int, *, tail: int, passes: int) -> Consumed:
    """Read the last `tail` records of each partition (0: all) `passes` times over, by assignment."""
    arguments = (server.bootstrap, topic, str(partitions), str(tail), str(passes))
    with java_steps("BenchConsumer", *arguments) as java:
        java.heard()  # it is warm
        used = Used(server, java.pid)
        java.go_on()
        records, value_bytes, seconds = java.heard().split()
        return Consumed(
            int(records), int(value_bytes), float(seconds), used.until_now(int(value_bytes) / 1e9, 1, PER_GB)
        )


@contextlib.contextmanager
def latency_passes(
    server: Server, topic: str, *, warm_up: int, records: int
) -> Iterator[Callable[[], Percentiles]]:
    """A warm Java producer that sends `records`, one at a time, whenever it is called."""
    with java_steps("BenchLatency", server.bootstrap, topic, "100", str(warm_up), str(records)) as java:

        def measure() -> Percentiles:
            used = Used(server, java.pid)
            java.go_on()
            p50, p99, p999 = map(float, java.heard().split())
            return Percentiles(p50, p99, p999, used.until_now(records, 1e6, PER_REQUEST))

        java.heard()  # it is warm
        yield measure


class Used:
    """What a server and its client have used since this was made."""

    def __init__(self, server: Server, client_pid: int) -> None:
        self._server, self._client = server, client_pid
        self._before = server.cpu_seconds, processor_seconds(client_pid)

    def until_now(self, count: float, factor: float, unit: str) -> Cost:
        server, client = self._server.cpu_seconds, processor_seconds(self._client)
        return Cost(
            (server - self._before[0]) / count * factor, (client - self._before[1]) / count * factor, unit
        )


class Steps:
    """A program that says a line when it has done a step, and waits for one before the next."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.pid = process.pid

    def go_on(self, told: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{told}\n")
        self._process.stdin.flush()

    def heard(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the client ended with {self._process.wait()}")
        return line


@contextlib.contextmanager
def java_steps(name: str, *arguments: str) -> Iterator[Steps]:
    command = [*client_command(name, sources=JAVA_SOURCES, options=(SENDER_IS_QUIET,)), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Steps(process)
    finally:
        process.kill()
        process.wait()


def java_commits(
    bootstrap: str, topic: str, *, groups: int, members: int, in_flight: int, warm_up: float, seconds: float
) -> float:
    """Commits a second by Java consumers, each with so many in flight."""
    numbers = (groups, members, in_flight, warm_up, seconds)
    return float(java_output("BenchCommits", bootstrap, topic, *map(str, numbers)))


def java_rebalance(
    bootstrap: str, topic: str, *, members: int, heartbeat_ms: int, warm_up: int, times: int
) -> float:
    """Milliseconds from the coming of the last of so many Java consumers until all have what they got."""
    numbers = (members, heartbeat_ms, warm_up, times)
    return float(java_output("BenchRebalance", bootstrap, topic, *map(str, numbers)))


def librdkafka_latency(server: Server, topic: str, *, warm_up: int, records: int) -> Percentiles:
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 0})
    errors: list[KafkaError] = []
    delivered = 0

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        nonlocal delivered
        delivered += 1
        if error is not None:
            errors.append(error)

    def one_pass(count: int) -> list[float]:
        microseconds = []
        for sent in range(delivered + 1, delivered + count + 1):
            start = time.perf_counter()
            producer.produce(topic, value=bytes(100), partition=0, on_delivery=on_delivery)
            while delivered < sent:
                producer.poll(1.0)
            microseconds.append((time.perf_counter() - start) * 1e6)
        return microseconds

    one_pass(warm_up)
    used = Used(server, os.getpid())
    cut = statistics.quantiles(one_pass(records), n=1000)
    cost = used.until_now(records, 1e6, PER_REQUEST)
    if errors:
        raise AssertionError(f"a produce failed: {errors[0]}")
    return Percentiles(cut[499], cut[989], cut[998], cost)


class Step(NamedTuple):
    """Seconds, and what they cost."""

    seconds: float
    cost: Cost


class SparkTimes(NamedTuple):
    """Of one batch read, one batch write and the median micro-batch of a stream, the session warm."""

    read: Step
    sink: Step
    trigger: Step
    records: int
    """That were read."""


def spark(
    context: Context, source: str, sink: str, stream: str, sink_records: int, triggers: int
) -> SparkTimes:
    """Read all of `source`, write to `sink` and read `stream` as a stream, in a session of its own."""
    jars = ",".join(map(str, connector_jars()))
    numbers = map(str, (sink_records, triggers, context.server.pid))
    command = [sys.executable, "-m", "tests.bench.spark_job"]
    answer = json.loads(
        _output([*command, jars, context.bootstrap, source, sink, stream, *numbers]).splitlines()[-1]
    )
    read, written, trigger = (
        Step(seconds, Cost(server, client, PER_RUN)) for seconds, (server, client) in answer["steps"]
    )
    return SparkTimes(read, written, trigger, answer["records"])


def java_output(name: str, *arguments: str) -> str:
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
