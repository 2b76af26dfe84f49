"""Consume: the log's end, all of it from memory, all of it from the disk, and by a group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

from tests.bench import clients
from tests.bench.facts import say
from tests.bench.measurement import Context, Figure, Measurement, throughput
from tests.bench.produce_figures import SIZES, check_size, counted, make_topic

CONSUMED_SIZES = (100, 1024)
PARTITIONS = (1, 16)
TOPIC = "consumed"
LOG_BYTES = 2 << 30
"""Of values, in all partitions together, at scale 1: several times what both keep of the newest in memory."""
HOT_BYTES = 16 << 20
"""The log's end that is read over and over: what stands in the tail cache, and in the page cache."""
TOOLS_PASSES = 20
GROUP_MEMBERS = 4


def consume(context: Context, *, size: int, partitions: int) -> Iterator[Measurement]:
    """One client with Kafka's default fetch sizes; it checks every batch."""
    records = fill(context, TOPIC, LOG_BYTES, size, partitions)
    shape = {"Partitions": partitions, "RecordBytes": size}
    name = f"{size:,} B, {counted(partitions, 'partition')}"
    tail = max(1, min(HOT_BYTES // size, records) // partitions)
    yield throughput(f"consume hot, {name}", context.timed_load("consume", TOPIC, Tail=tail, **shape))
    yield throughput(f"consume warm, {name}", context.timed_load("consume", TOPIC, **shape))
    forget_pages(context.server.directory)
    read = from_disk(context.server.pid)
    cold = context.load("consume", TOPIC, Once=True, **shape)
    say(f"    (cold: {(from_disk(context.server.pid) - read) / 1e6:.0f} MB from the disk)")
    if cold.records != records:
        raise AssertionError(f"{cold.records} records were read of {records}")
    yield throughput(f"consume cold, {name}", cold)


def by_group(context: Context) -> Iterator[Measurement]:
    """franz-go's consumers, which decode each record and commit every five seconds."""
    partitions, size = 16, 1024
    records = fill(context, TOPIC, LOG_BYTES, size, partitions)
    load = context.load(
        "group", TOPIC, Group="consumers", Clients=GROUP_MEMBERS, Records=records, Partitions=partitions
    )
    yield throughput(f"consume by a group of {GROUP_MEMBERS}, {size:,} B, {partitions} partitions", load)


def by_java(context: Context, *, size: int) -> Iterator[Measurement]:
    """Kafka's own consumer: the log's end over and over, and the whole log."""
    records = fill(context, TOPIC, LOG_BYTES // 4, size, 1)
    tail = min(HOT_BYTES // size, records)
    for what, tail_records, passes in (("hot", tail, TOOLS_PASSES), ("warm", 0, 1)):
        read = clients.consume(context.server, TOPIC, 1, tail=tail_records, passes=passes)
        metric = f"consume {what}, Java, {size:,} B, 1 partition"
        yield Measurement(metric, "MB/s", read.value_bytes / read.seconds / 1e6, True, read.cost)


def fill(context: Context, topic: str, size: int, record_bytes: int, partitions: int) -> int:
    """Make the topic, of so many bytes of values at scale 1, and let it settle. How many records it has."""
    make_topic(context, topic, partitions)
    wanted = context.scaled(size // record_bytes)
    load = context.load("produce", topic, Partitions=partitions, RecordBytes=record_bytes, Records=wanted)
    check_size(context, topic, partitions, load.all_records)
    context.settle()
    return load.all_records


def forget_pages(folder: Path) -> None:
    """Drop the page cache's copies of all files below, and of no others: the next read is the disk's."""
    for path in folder.rglob("*"):
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # a file that went away, a socket, a link
            continue
        try:
            if path.is_file():
                os.fdatasync(file)  # what is not on the disk yet would stay
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def from_disk(pid: int) -> int:
    """Bytes that a process has had the disk read for it."""
    fields = dict(line.split(": ", 1) for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["read_bytes"])


def _figures() -> Iterator[tuple[str, Figure]]:
    for size, partitions in product(CONSUMED_SIZES, PARTITIONS):
        yield (
            f"consume-{SIZES[size]}-p{partitions}",
            Figure(partial(consume, size=size, partitions=partitions)),
        )
    yield "group-consume", Figure(by_group)
    for size in CONSUMED_SIZES:
        yield f"java-consume-{SIZES[size]}", Figure(partial(by_java, size=size))


FIGURES = dict(_figures())
