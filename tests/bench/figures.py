"""What is measured: one function a figure, each giving one or more measurements of a running server."""

import time
from collections.abc import Iterator
from functools import partial

from tests.bench import clients, group_figures, lookup_figures, memory_figures
from tests.bench.measurement import SMALLEST_RUN, Context, Measure, Measurement
from tests.bench.servers import Server
from tests.peers.probe import broker_count
from tests.peers.process import START_TIMEOUT_SECONDS

# Enough records that a measure takes seconds, at `--scale 1`.
RECORDS = {100: 2_000_000, 1024: 400_000}
WARM_UP = {100: 500_000, 1024: 100_000}
HOT_TAIL_BYTES = 16 << 20
HOT_PASSES = 20
LATENCY_RECORDS = 5_000
LATENCY_WARM_UP = 5_000
SPARK_SOURCE_RECORDS = 1_000_000
SPARK_SINK_RECORDS = 500_000
# A server that has answered its first question is left alone this long before its memory is read.
IDLE_SECONDS = 3.0


def await_first_metadata(server: Server) -> float:
    """Seconds since the process was made, once a Metadata answer names a broker.

    Raises AssertionError when none does in time.
    """
    host, port = server.bootstrap.rsplit(":", 1)
    while not broker_count(host, int(port)):
        if time.monotonic() - server.started_at > START_TIMEOUT_SECONDS:
            raise AssertionError(f"{server.bootstrap} names no broker in Metadata:\n{server.tail()}")
        time.sleep(0.005)
    return time.monotonic() - server.started_at


def start(context: Context) -> Iterator[Measurement]:
    yield Measurement("exec to first Metadata", "s", context.first_metadata_seconds, False, limit=1.0)


def idle_rss(context: Context) -> Iterator[Measurement]:
    time.sleep(IDLE_SECONDS)
    yield Measurement("memory, idle", "MB", context.server.rss_bytes / 1e6, False, limit=100.0)


def loaded_rss(context: Context) -> Iterator[Measurement]:
    yield Measurement("memory, after all of the above", "MB", context.server.rss_bytes / 1e6, False)


def produce(context: Context, *, record_bytes: int, partitions: int) -> Iterator[Measurement]:
    topic = f"produce-{record_bytes}-{partitions}"
    records, warm_up = context.scaled(RECORDS[record_bytes]), context.scaled(WARM_UP[record_bytes])
    clients.create_topic(context.bootstrap, topic, partitions)
    rate = clients.produce(
        context.bootstrap, topic, record_bytes=record_bytes, records=records, warm_up=warm_up
    )
    check_size(context, topic, partitions, records + warm_up)
    name = f"produce {record_bytes} B, {partitions} partition{'s' * (partitions > 1)}"
    goal = 0.8 if record_bytes == 100 else 1.0
    if record_bytes == 100:
        yield Measurement(name, "1000 records/s", rate / 1e3, True, goal)
    else:
        yield Measurement(name, "MB/s", rate * record_bytes / 1e6, True, goal)


def consume(context: Context, *, record_bytes: int, partitions: int) -> Iterator[Measurement]:
    topic = f"consume-{record_bytes}-{partitions}"
    records = context.scaled(RECORDS[record_bytes])
    clients.create_topic(context.bootstrap, topic, partitions)
    clients.produce(
        context.bootstrap, topic, record_bytes=record_bytes, records=records, warm_up=SMALLEST_RUN
    )
    check_size(context, topic, partitions, records + SMALLEST_RUN)
    tail = min(HOT_TAIL_BYTES // record_bytes, records) // partitions
    for what, tail_records, passes in (("tail", tail, HOT_PASSES), ("whole log", 0, 1)):
        read = clients.consume(context.bootstrap, topic, partitions, tail=tail_records, passes=passes)
        name = f"consume {record_bytes} B, {partitions} partition{'s' * (partitions > 1)}, {what}"
        if record_bytes == 100:
            yield Measurement(name, "1000 records/s", read.records / read.seconds / 1e3, True, 0.6)
        else:
            yield Measurement(name, "MB/s", read.value_bytes / read.seconds / 1e6, True, 0.6)


def latency(context: Context) -> Iterator[Measurement]:
    for client, measure in (("Java", clients.java_latency), ("librdkafka", clients.librdkafka_latency)):
        topic = f"latency-{client}"
        clients.create_topic(context.bootstrap, topic, 1)
        found = measure(
            context.bootstrap,
            topic,
            warm_up=context.scaled(LATENCY_WARM_UP),
            records=context.scaled(LATENCY_RECORDS),
        )
        yield Measurement(f"one record at a time, {client}, p50", "us", found.p50, False, 1.2)
        yield Measurement(f"one record at a time, {client}, p99", "us", found.p99, False)


def spark(context: Context) -> Iterator[Measurement]:
    records, partitions = context.scaled(SPARK_SOURCE_RECORDS), 4
    sink_records = context.scaled(SPARK_SINK_RECORDS)
    for topic in ("spark-source", "spark-sink"):
        clients.create_topic(context.bootstrap, topic, partitions)
    clients.produce(
        context.bootstrap, "spark-source", record_bytes=100, records=records, warm_up=SMALLEST_RUN
    )
    times = clients.spark(
        context.bootstrap, "spark-source", "spark-sink", sink_records, records + SMALLEST_RUN
    )
    yield Measurement(f"Spark batch read of {records:,} records", "s", times.read, False, 1.2)
    yield Measurement(f"Spark sink of {sink_records:,} records", "s", times.sink, False, 1.2)


def check_size(context: Context, topic: str, partitions: int, expected: int) -> None:
    """A fast server that lost something is not fast."""
    found = clients.log_size(context.bootstrap, topic, partitions)
    if found != expected:
        raise AssertionError(f"{topic} holds {found} records of {expected} sent")


# In the order of a run: memory when idle first, after load last.
FIGURES: dict[str, Measure] = {
    "start": start,
    "idle-rss": idle_rss,
    "latency": latency,
    "produce-100-p1": partial(produce, record_bytes=100, partitions=1),
    "produce-100-p4": partial(produce, record_bytes=100, partitions=4),
    "produce-1k-p1": partial(produce, record_bytes=1024, partitions=1),
    "produce-1k-p4": partial(produce, record_bytes=1024, partitions=4),
    "consume-100": partial(consume, record_bytes=100, partitions=1),
    "consume-1k": partial(consume, record_bytes=1024, partitions=1),
    "spark": spark,
    "loaded-rss": loaded_rss,
    # Groups and many partitions stay with a server: what is measured before them has it to itself.
    **lookup_figures.FIGURES,
    **group_figures.FIGURES,
    **memory_figures.FIGURES,
}
