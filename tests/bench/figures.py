"""All that is measured, by name: one function a figure, each giving measurements of a running server."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench import (
    clients,
    consume_figures,
    group_figures,
    growth_figures,
    latency_figures,
    lookup_figures,
    memory_figures,
    produce_figures,
    transaction_figures,
)
from tests.bench.consume_figures import fill
from tests.bench.measurement import SMALLEST_RUN, Context, Figure, Measurement
from tests.bench.produce_figures import make_topic

SPARK_SOURCE_RECORDS = 1_000_000
SPARK_SINK_RECORDS = 500_000
SPARK_TRIGGERS = 20
# A server that has answered its first question is left alone this long before its memory is read.
IDLE_SECONDS = 3.0
LOADED_PARTITIONS = 16
LOADED_BYTES = 2 << 30


def start(context: Context) -> Iterator[Measurement]:
    yield Measurement("exec to first Metadata", "s", context.first_metadata_seconds, False)


def idle_rss(context: Context) -> Iterator[Measurement]:
    time.sleep(IDLE_SECONDS)
    yield Measurement("memory, idle", "MB", context.server.rss_bytes / 1e6, False)


def loaded_rss(context: Context) -> Iterator[Measurement]:
    """After the same work on both: so much written, and read from its start."""
    fill(context, "loaded", LOADED_BYTES, 1024, LOADED_PARTITIONS)
    context.load("consume", "loaded", Once=True, Partitions=LOADED_PARTITIONS)
    yield Measurement("memory, loaded", "MB", context.server.rss_bytes / 1e6, False)


def spark(context: Context) -> Iterator[Measurement]:
    """Spark's own connector in a warm session of two threads."""
    records, partitions = context.scaled(SPARK_SOURCE_RECORDS), 4
    sink_records, triggers = context.scaled(SPARK_SINK_RECORDS), context.times(SPARK_TRIGGERS)
    for topic in ("spark-source", "spark-sink", "spark-stream"):
        make_topic(context, topic, partitions)
    clients.produce_tuned(
        context.bootstrap, "spark-source", record_bytes=100, records=records, warm_up=SMALLEST_RUN
    )
    times = clients.spark(context, "spark-source", "spark-sink", "spark-stream", sink_records, triggers)
    if times.records != records + SMALLEST_RUN:
        raise AssertionError(f"Spark read {times.records} records of {records + SMALLEST_RUN}")
    read, sink, trigger = times.read, times.sink, times.trigger
    yield Measurement(f"Spark batch read of {records:,} records", "s", read.seconds, False, read.cost)
    yield Measurement(f"Spark sink of {sink_records:,} records", "s", sink.seconds, False, sink.cost)
    yield Measurement("Spark trigger of a micro-batch", "ms", trigger.seconds * 1e3, False, trigger.cost)


FIGURES: dict[str, Figure] = {
    "start": Figure(start, warm=False),
    "idle-rss": Figure(idle_rss, warm=False),
    **produce_figures.FIGURES,
    **latency_figures.FIGURES,
    **consume_figures.FIGURES,
    **lookup_figures.FIGURES,
    **group_figures.FIGURES,
    **transaction_figures.FIGURES,
    "spark": Figure(spark),
    "loaded-rss": Figure(loaded_rss),
    **memory_figures.FIGURES,
    **growth_figures.FIGURES,
}
