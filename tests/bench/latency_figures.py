"""How long one record takes: until it is acknowledged, until a consumer has it, and beside other work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.bench import clients
from tests.bench.consume_figures import LOG_BYTES, fill
from tests.bench.measurement import Context, Cost, Figure, Measurement, per_gb, percentiles
from tests.bench.produce_figures import make_topic

RECORD_BYTES = 100
RECORDS = 5_000
WARM_UP = 5_000
RATES = (1_000, 10_000)
"""Records a second, end to end."""
END_TO_END_PARTITIONS = 4

MIXED_PARTITIONS = 16
MIXED_BYTES = 1024
MIXED_RATE = 20_000
"""Records a second: about a fifth of what a server here takes when it has nothing else to do."""


def native(context: Context) -> Iterator[Measurement]:
    make_topic(context, "latency", 1)
    load = context.timed_load("sync", "latency", RecordBytes=RECORD_BYTES)
    yield from percentiles("one record at a time, native", load)


def java(context: Context) -> Iterator[Measurement]:
    make_topic(context, "latency", 1)
    counts = {"warm_up": context.scaled(WARM_UP), "records": context.scaled(RECORDS)}
    with clients.latency_passes(context.server, "latency", **counts) as measure:
        yield from _of_client("Java", measure())


def librdkafka(context: Context) -> Iterator[Measurement]:
    make_topic(context, "latency", 1)
    counts = {"warm_up": context.scaled(WARM_UP), "records": context.scaled(RECORDS)}
    yield from _of_client("librdkafka", clients.librdkafka_latency(context.server, "latency", **counts))


def _of_client(client: str, found: clients.Percentiles) -> Iterator[Measurement]:
    for name, value in (("p50", found.p50), ("p99", found.p99), ("p99.9", found.p999)):
        yield Measurement(f"one record at a time, {client}, {name}", "us", value, False, found.cost)


def end_to_end(context: Context, *, rate: int) -> Iterator[Measurement]:
    """From the call that produces a record to the poll that has it, both franz-go's."""
    make_topic(context, "end-to-end", END_TO_END_PARTITIONS)
    load = context.timed_load(
        "end-to-end", "end-to-end", Partitions=END_TO_END_PARTITIONS, RecordBytes=RECORD_BYTES, Rate=rate
    )
    yield from percentiles(f"end to end at {rate:,} records/s", load)


def mixed(context: Context) -> Iterator[Measurement]:
    """Producers at a rate, a reader at the end, one of an old log, one record at a time: all at once."""
    fill(context, "old", LOG_BYTES, MIXED_BYTES, MIXED_PARTITIONS)
    make_topic(context, "new", MIXED_PARTITIONS)
    load = context.timed_load(
        *("mixed", "new"),
        OldTopic="old",
        Partitions=MIXED_PARTITIONS,
        RecordBytes=MIXED_BYTES,
        Clients=2,
        Rate=MIXED_RATE,
    )
    moved = load.bytes + load.followed_bytes + load.replayed_bytes
    cost: Cost = per_gb(load, moved)
    for what, size in (
        ("produced", load.bytes),
        ("followed", load.followed_bytes),
        ("replayed", load.replayed_bytes),
    ):
        yield Measurement(f"mixed, {what}", "MB/s", size / load.seconds / 1e6, True, cost)
    for name, value in (("p50", load.p50), ("p99", load.p99), ("p99.9", load.p999)):
        yield Measurement(f"mixed, one record at a time, {name}", "us", value, False, cost)


FIGURES = {
    "latency-native": Figure(native, ceilings=True),
    "latency-java": Figure(java),
    "latency-librdkafka": Figure(librdkafka, ceilings=True),
    **{f"end-to-end-{rate}": Figure(partial(end_to_end, rate=rate)) for rate in RATES},
    "mixed": Figure(mixed),
}
