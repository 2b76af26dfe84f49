"""Produce: full batches by the native generator, and Kafka's own tool with its producer's settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from tests.bench import clients
from tests.bench.ceilings import Ceiling
from tests.bench.measurement import Context, Figure, Measurement, NotHere, throughput
from tests.bench.wire.leaders import await_leaders

SIZES = {100: "100", 1024: "1k", 10_240: "10k"}
"""Bytes of a value, and the name of it in a figure's."""
PARTITIONS = (1, 16, 200)
PRODUCERS = (1, 8)
CODECS = {"plain": "none", "lz4": "lz4", "zstd": "zstd"}

TOOLS = (("tool", clients.TUNED, "produce by Kafka's tool"), ("default", (), "produce by default settings"))
"""The beginning of a figure's name, what its producer is told, and what it is called."""
TOOLS_SIZES = (100, 1024)
TOOLS_PARTITIONS = (1, 4)
RECORDS = {100: 2_000_000, 1024: 400_000}
WARM_UP = {100: 500_000, 1024: 100_000}


def produce(
    context: Context, *, size: int, partitions: int, producers: int, codec: str
) -> Iterator[Measurement]:
    """Idempotent producers with acks=all and five requests in flight each, as fast as they are answered."""
    topic = "produced"
    make_topic(context, topic, partitions)
    load = context.timed_load(
        "produce", topic, Partitions=partitions, Clients=producers, RecordBytes=size, Codec=CODECS[codec]
    )
    check_size(context, topic, partitions, load.all_records)
    name = (
        f"produce {size:,} B, {counted(partitions, 'partition')}, {counted(producers, 'producer')}, {codec}"
    )
    yield throughput(name, load)


def by_kafkas_tool(
    context: Context, *, size: int, partitions: int, settings: tuple[str, ...], what: str
) -> Iterator[Measurement]:
    """ProducerPerformance. Its processor time is that of its whole life, the JVM's start included."""
    topic = "produced"
    records, warm_up = context.scaled(RECORDS[size]), context.scaled(WARM_UP[size])
    make_topic(context, topic, partitions)
    with context.used() as used:
        rate = clients.produce(
            context.bootstrap, topic, record_bytes=size, records=records, warm_up=warm_up, settings=settings
        )
    check_size(context, topic, partitions, records + warm_up)
    name = f"{what} {size:,} B, {counted(partitions, 'partition')}"
    yield Measurement(name, "MB/s", rate * size / 1e6, True, used.per_gb((records + warm_up) * size))


def make_topic(context: Context, topic: str, partitions: int) -> None:
    """Make the topic, and wait until it serves. Raises NotHere where it cannot have so many partitions."""
    server = context.server
    if not isinstance(server, Ceiling) or server.partitions is None:
        clients.create_topic(context.bootstrap, topic, partitions)
        if not isinstance(server, Ceiling):
            await_leaders(context.bootstrap, {topic: partitions})
    elif partitions > server.partitions:
        raise NotHere(f"its topics have {server.partitions} partitions")
    else:
        clients.ask_for_topic(context.bootstrap, topic)


def check_size(context: Context, topic: str, partitions: int, expected: int) -> None:
    """A fast server that lost something is not fast."""
    if context.kind.ceiling:
        return
    found = clients.log_size(context.bootstrap, topic, partitions)
    if found != expected:
        raise AssertionError(f"{topic} holds {found} records of {expected} sent")


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"


def _figures() -> Iterator[tuple[str, Figure]]:
    for size, partitions, producers, codec in product(SIZES, PARTITIONS, PRODUCERS, CODECS):
        measure = partial(produce, size=size, partitions=partitions, producers=producers, codec=codec)
        name = f"produce-{SIZES[size]}-p{partitions}-x{producers}-{codec}"
        yield name, Figure(measure, ceilings=True)
    tools = (
        ("tool", clients.TUNED, "produce by Kafka's tool"),
        ("default", (), "produce by default settings"),
    )
    for (prefix, settings, what), size, partitions in product(tools, TOOLS_SIZES, TOOLS_PARTITIONS):
        measure = partial(by_kafkas_tool, size=size, partitions=partitions, settings=settings, what=what)
        yield f"{prefix}-produce-{SIZES[size]}-p{partitions}", Figure(measure)


FIGURES = dict(_figures())
