"""What a server costs as something of it grows: partitions, connections, its log, its segments,
transactional ids.

Each of them takes servers of its own, from one size to the next; what is measured at a size is a point of the
plots (`tests.bench.curves`). Sizes are those of `--scale 1`: a smaller scale leaves out the largest ones.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from tests.bench import clients
from tests.bench.consume_figures import forget_pages
from tests.bench.facts import say
from tests.bench.measurement import Context, Figure, Measurement, Point, per_gb, per_request
from tests.bench.servers import Server
from tests.bench.warming import warm
from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.bench.wire.leaders import await_leaders
from tests.bench.wire.transactional_ids import begin
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone
from tests.peers.starts import await_first_metadata

PARTITIONS = (1, 10, 100, 1_000, 10_000)
CONNECTIONS = (1, 10, 100, 500, 1_000, 2_000)
GIGABYTES = (1, 2, 5, 10, 20, 50)
SEGMENTS = (1, 10, 100, 1_000, 5_000)
TRANSACTIONAL_IDS = (1_000, 10_000, 100_000)

RATE = 400
"""Records a second, one at a time for each client: what is measured is a server that is not full."""
CLIENTS = 4
MADE_AT_ONCE = 5_000
"""Partitions that one request makes: both servers refuse 10,000."""
ALL_SERVE_SECONDS = 600.0
IDLE_SECONDS = 3.0
ASKED_IDS = 500
"""After a start, of all partitions of the coordinator's topic."""
SMALL_BATCH = 256
COLD_BYTES = 256 << 20
"""Of the log's start, read after everything that was cached is dropped."""
SEGMENT_BYTES = 1 << 20
"""The least that Apache Kafka takes."""
ROLLING_BATCH = 512 << 10
DISK_SHARE = 0.5
"""Of what is free: a log that grows leaves the other half alone."""
COPIES = 1.2
"""Bytes on the disk for a byte of the log, generously: it is written again before the old copy goes."""
RECORD_BYTES = 1024


def partitions(context: Context) -> Iterator[Measurement]:
    """One topic of ever more partitions, each anew, with every one of them written to."""
    p99s: dict[int, float] = {}
    for count in _sizes(PARTITIONS, context):
        with _Anew(context) as own:
            for measurement in _of_partitions(own, count, p99s):
                yield replace(measurement, peak_rss=own.server.peak_rss_bytes)
    if 10 in p99s and max(p99s) > 10:
        ratio = p99s[max(p99s)] / p99s[10]
        yield Measurement(f"growth: produce p99, {max(p99s):,} partitions over 10", "x", ratio, False)


def _of_partitions(context: Context, count: int, p99s: dict[int, float]) -> Iterator[Measurement]:
    def point(what: str, unit: str, value: float) -> Measurement:
        return _point("partitions", count, what, unit, value)

    _make(context, count)
    time.sleep(IDLE_SECONDS)
    yield point("memory, idle", "MB", context.server.rss_bytes / 1e6)
    warm(context)
    shape = {"Partitions": count, "RecordBytes": 100}
    context.load("produce", "grown", **shape, Records=count, BatchBytes=0, RequestBytes=SMALL_BATCH * 256)
    load = context.timed_load("sync", "grown", **shape, Clients=CLIENTS, Rate=RATE)
    p99s[count] = load.p99
    cost = per_request(load)
    yield replace(point("produce p50", "us", load.p50), cost=cost)
    yield replace(point("produce p99", "us", load.p99), cost=cost)
    yield point("memory, all written", "MB", context.server.rss_bytes / 1e6)
    for what, seconds in _start_after_kill(context, {"grown": count}):
        yield point(what, "s", seconds)


def connections(context: Context) -> Iterator[Measurement]:
    """Ever more clients on one topic; together they send the same number of records a second."""
    _make(context, CLIENTS)
    for count in _sizes(CONNECTIONS, context):
        before = context.server.rss_bytes
        with ExitStack() as stack:
            for _ in range(count):
                connection = Connection(context.bootstrap)
                stack.callback(connection.close)
                connection.ask(messages.metadata(["grown"]))
            yield _point("connections", count, "memory for each that is idle", "KB",
                         (context.server.rss_bytes - before) / count / 1e3)  # fmt: skip
        shape = {"Partitions": CLIENTS, "RecordBytes": 100, "Clients": count, "Rate": RATE}
        load = context.timed_load("sync", "grown", **shape)
        for what, value in (("produce p50", load.p50), ("produce p99", load.p99)):
            yield replace(_point("connections", count, what, "us", value), cost=per_request(load))


def log(context: Context) -> Iterator[Measurement]:
    """One log that grows: how its end is written, how its start is read, what a start after a kill takes."""
    count = 4
    _make(context, count)
    shape = {"Partitions": count, "RecordBytes": RECORD_BYTES}
    there = 0.0
    for gigabytes in _fitting(GIGABYTES, context):
        size = gigabytes * context.scale
        last = max(1, int((size - there) * 1e9 / RECORD_BYTES / 2))
        context.load("produce", "grown", **shape, Records=last)
        load = context.load("produce", "grown", **shape, Records=last)  # the half that is measured
        there = size
        rate = _point("gigabytes", size, "produce", "MB/s", load.bytes / load.seconds / 1e6)
        yield replace(rate, more_is_better=True, cost=per_gb(load))
        yield _point("gigabytes", size, "server's processor, produce", "s/GB", per_gb(load).server)
        yield _point("gigabytes", size, "memory", "MB", context.server.rss_bytes / 1e6)
        for what, seconds in _start_after_kill(context, {"grown": count}):
            yield _point("gigabytes", size, what, "s", seconds)
        yield from _cold(context, "gigabytes", size, shape)


def segments(context: Context) -> Iterator[Measurement]:
    """One partition in ever more segments of 1 MiB."""
    _make(context, 1, {"segment.bytes": f"{SEGMENT_BYTES}"})
    shape = {"Partitions": 1, "RecordBytes": RECORD_BYTES}
    there = 0
    for count in _sizes(SEGMENTS, context):
        # Two batches fill a segment.
        batches = 2 * (count - there)
        records = batches * ((ROLLING_BATCH - 61) // (RECORD_BYTES + 20))
        context.load("produce", "grown", **shape, Records=records, BatchBytes=ROLLING_BATCH)
        there = count
        load = context.timed_load("sync", "grown", Partitions=1, RecordBytes=100, Rate=RATE)
        for what, value in (("produce p50", load.p50), ("produce p99", load.p99)):
            yield replace(_point("segments", count, what, "us", value), cost=per_request(load))
        yield _point("segments", count, "memory", "MB", context.server.rss_bytes / 1e6)
        for what, seconds in _start_after_kill(context, {"grown": 1}):
            yield _point("segments", count, what, "s", seconds)
        yield from _cold(context, "segments", count, shape)


def transactional_ids(context: Context) -> Iterator[Measurement]:
    """Ever more ids: their making, their memory, and a start after a kill until all of them are served."""
    begin(context.bootstrap, range(1))  # the topic is made with the first one
    there = 1
    for count in _sizes(TRANSACTIONAL_IDS, context):
        seconds = begin(context.bootstrap, range(there, count))
        yield _point("transactional ids", count, "made", "us", seconds / (count - there) * 1e6)
        there = count
        yield _point("transactional ids", count, "memory", "MB", context.server.rss_bytes / 1e6)
        for what, taken in _start_after_kill(context, {}):
            yield _point("transactional ids", count, what, "s", taken)
        served = begin(context.bootstrap, range(0, count, max(1, count // ASKED_IDS)))
        yield _point("transactional ids", count, "asked until they are served", "s", served)


def _make(context: Context, partitions: int, config: dict[str, str] | None = None) -> None:
    clients.create_topic(context.bootstrap, "grown", min(partitions, MADE_AT_ONCE), config)
    if partitions > MADE_AT_ONCE:
        clients.add_partitions(context.bootstrap, "grown", partitions)
    await_leaders(context.bootstrap, {"grown": partitions}, ALL_SERVE_SECONDS)


def _cold(context: Context, growth: str, size: float, shape: dict[str, int]) -> Iterator[Measurement]:
    """The log's start from the disk: so much of it that the page cache matters, or all that there is."""
    forget_pages(context.server.directory)
    records = COLD_BYTES // RECORD_BYTES // shape["Partitions"]
    load = context.load("consume", "grown", **shape, Once=True, Head=records)
    found = _point(growth, size, "consume cold, from the start", "MB/s", load.bytes / load.seconds / 1e6)
    yield replace(found, more_is_better=True, cost=per_gb(load))


def _start_after_kill(context: Context, topics: dict[str, int]) -> Iterator[tuple[str, float]]:
    """Seconds from the new process to its first Metadata answer, and until every partition answers."""
    server = context.server
    assert isinstance(server, ApacheKafka | Standalone)
    server.kill9()
    server.start()
    yield "start after a kill, first Metadata", await_first_metadata(server)
    await_leaders(server.bootstrap, topics, ALL_SERVE_SECONDS)
    yield "start after a kill, all partitions", time.monotonic() - server.started_at


def _sizes(sizes: tuple[int, ...], context: Context) -> list[int]:
    """Those up to the largest at this scale, which is the last of them."""
    return [size for size in sizes if size <= max(sizes[0], sizes[-1] * context.scale)]


def _fitting(gigabytes: tuple[int, ...], context: Context) -> list[int]:
    """Those that the disk has room for, at this scale; says which it has not."""
    free = shutil.disk_usage(context.server.directory).free / 1e9 * DISK_SHARE
    found = [size for size in gigabytes if size * context.scale * COPIES <= free]
    if left_out := gigabytes[len(found) :]:
        say(f"    (no room on the disk for {', '.join(map(str, left_out))} GB x {context.scale:g})")
    return found


class _Anew:
    """Another server of the same kind on an empty directory, in place of the one that there is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._server: Server = context.kind.make(context.durability)

    def __enter__(self) -> Context:
        return replace(self._context, server=self._server.__enter__())

    def __exit__(self, *exc: object) -> None:
        self._server.__exit__(*exc)


def _point(growth: str, x: float, what: str, unit: str, value: float) -> Measurement:
    name = f"growth, {x:,g} {growth}: {what}"
    return Measurement(name, unit, value, False, point=Point(growth, x, f"{what}, {unit}"))


FIGURES = {
    "growth-partitions": Figure(partitions, warm=False, by_name=True),
    "growth-connections": Figure(connections, by_name=True),
    "growth-log": Figure(log, by_name=True),
    "growth-segments": Figure(segments, by_name=True),
    "growth-transactional-ids": Figure(transactional_ids, warm=False, by_name=True),
}
