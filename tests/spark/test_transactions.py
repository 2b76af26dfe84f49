"""Spark reads topics of transactional producers: what was committed, whole, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clients.sample import T0, records, small_records
from tests.clients.stored import create_topic, stored_batches
from tests.differential.batches import CONTROL, Record, records_of
from tests.differential.servers import our_bootstrap
from tests.spark.frames import as_records, read, read_stream, without_headers
from tests.spark.test_streams import finish, sink, to_parquet
from tests.spark.transactional import COMMITTED, Transaction, Transactions, marker_alone

pytestmark = pytest.mark.slow

# At the end of a log each look-up of an executor waits for a fetch that was sent ahead, half a second long.
SOON = {"kafka.fetch.max.wait.ms": "20"}
TRIGGER = "100 milliseconds"
SECONDS = 60

Scene = Callable[..., Transactions]


@pytest.fixture
def scene(bootstrap: str, new_topic: Callable[..., str]) -> Scene:
    def make(partitions: int = 1, **configs: str) -> Transactions:
        return Transactions(bootstrap, new_topic(partitions, **configs))

    return make


def interleaved(log: Transactions) -> tuple[Transaction, Transaction]:
    """Everything that two partitions can have: records of no transaction, committed and aborted ones within
    one another and over both partitions; then two that are open, and what was committed behind their first.
    """
    log.put(records(), 0)
    log.committed(small_records(20, "committed"), 0, 1)
    log.aborted(records(), 0, 1)
    first, second = log.begin(f"{log.topic}-first"), log.begin(f"{log.topic}-second")
    for n in range(3):
        first.put(small_records(5, f"first {n}"), 0)
        second.put(small_records(7, f"second {n}"), 0)
        log.put(small_records(2, f"between {n}"), 0)
    second.abort()
    first.commit()
    log.committed(small_records(9, "again"), 0)
    log.aborted(small_records(9, "and again"), 1)
    third, fourth = log.begin(f"{log.topic}-third"), log.begin(f"{log.topic}-fourth")
    third.put(small_records(4, "third"), 0)
    log.committed(small_records(6, "behind it"), 0, 1)
    fourth.put(small_records(4, "fourth"), 0)
    fourth.put(small_records(4, "fourth"), 1)
    log.put(small_records(3, "behind all"), 0)
    return third, fourth


def test_batches(spark: SparkSession, scene: Scene) -> None:
    """Whole, in pieces that begin and end anywhere, and before and after the open transactions have ended."""
    log = scene(2)
    subscribe = {"subscribe": log.topic, "includeHeaders": "true", **SOON}

    def compare() -> None:
        for options in (subscribe, {**subscribe, "minPartitions": "11"}):
            assert as_records(read(spark, log.bootstrap, **options, **COMMITTED)) == log.stable
            assert as_records(read(spark, log.bootstrap, **options)) == log.everything

    third, fourth = interleaved(log)
    compare()
    held = log.stable
    third.commit()
    assert log.stable != held
    compare()
    fourth.abort()
    compare()
    # As Spark does by itself, with all of Kafka's own settings.
    found = as_records(read(spark, log.bootstrap, subscribe=log.topic, **COMMITTED))
    for at, pairs in log.stable.items():
        offsets, wanted = zip(*pairs, strict=True)
        assert found.pop(at) == list(zip(offsets, without_headers(wanted), strict=True))
    assert not found
    everything = {"subscribe": log.topic, "kafka.isolation.level": "read_uncommitted"}
    assert read(spark, log.bootstrap, **everything).count() == sum(map(len, log.everything.values()))


def test_batches_between_any_two_offsets(spark: SparkSession, scene: Scene) -> None:
    """A range may be a marker alone, or lie within what was aborted: no record, and no loss either."""
    log = scene()
    log.committed(small_records(2, "a"), 0)
    log.aborted(small_records(2, "b"), 0)
    log.committed(small_records(1, "c"), 0)
    end = 8  # two records, a marker, two that were aborted, a marker, one record, a marker
    pairs = log.stable[log.topic, 0]
    assert [offset for offset, _ in pairs] == [0, 1, 6]
    for first in range(end):
        for last in {first + 1, end}:
            bounds = {
                "startingOffsets": json.dumps({log.topic: {"0": first}}),
                "endingOffsets": json.dumps({log.topic: {"0": last}}),
            }
            found = as_records(read(spark, log.bootstrap, subscribe=log.topic, **COMMITTED, **SOON, **bounds))
            wanted = [pair for pair in pairs if first <= pair[0] < last]
            assert found == ({(log.topic, 0): wanted} if wanted else {}), (first, last)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param({"maxOffsetsPerTrigger": "23"}, id="maxOffsetsPerTrigger"),
        pytest.param({"minPartitions": "7"}, id="minPartitions"),
        pytest.param({"minOffsetsPerTrigger": "12", "maxTriggerDelay": "1s"}, id="minOffsetsPerTrigger"),
    ],
)
def test_streams(spark: SparkSession, scene: Scene, tmp_path: Path, options: Mapping[str, str]) -> None:
    """One stream sees transactions begin and end; another one, of everything, sees each record at once."""
    log = scene(2)
    common = {"subscribe": log.topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    options = {**common, **SOON, **options}
    queries = {
        name: to_parquet(read_stream(spark, log.bootstrap, **made), tmp_path / name, processingTime=TRIGGER)
        for name, made in (("stable", options | COMMITTED), ("everything", options))
    }

    def compare() -> None:
        for name, wanted in (("stable", log.stable), ("everything", log.everything)):
            deadline = time.monotonic() + SECONDS
            queries[name].processAllAvailable()
            # With `minOffsetsPerTrigger` the last few come after a second only.
            while as_records(sink(spark, tmp_path / name)) != wanted and time.monotonic() < deadline:
                queries[name].processAllAvailable()
            assert as_records(sink(spark, tmp_path / name)) == wanted, name

    try:
        third, fourth = interleaved(log)
        compare()
        fourth.abort()
        compare()
        third.commit()
        compare()
        log.aborted(small_records(30, "late"), 0, 1)
        compare()
    finally:
        for query in queries.values():
            query.stop()


TAILS = ["committed", "aborted", "a marker alone", "open", "whole log aborted", "whole log open", "plain"]


def with_tails(scene: Scene) -> tuple[Transactions, Transaction]:
    """A topic whose partitions end in every way that there is, and what is open in it."""
    log = scene(len(TAILS))
    for partition, tail in enumerate(TAILS):
        if not tail.startswith("whole log"):
            log.put(small_records(6, "before"), partition)
            log.committed(small_records(4, "first"), partition)
    log.put(small_records(5, "plain"), TAILS.index("plain"))
    log.aborted(small_records(25, "nobody's"), TAILS.index("aborted"), TAILS.index("whole log aborted"))
    marker_alone(log.bootstrap, log.topic, TAILS.index("a marker alone"), f"{log.topic}-marker")
    left = log.begin(f"{log.topic}-left")
    for partition in (TAILS.index("open"), TAILS.index("whole log open")):
        left.put(small_records(25, "open"), partition)
    return log, left


@pytest.mark.parametrize(
    ("options", "end"),
    [
        pytest.param({}, "commit", id="plain"),
        pytest.param({"maxOffsetsPerTrigger": "60"}, "commit", id="maxOffsetsPerTrigger"),
        pytest.param({"minPartitions": "20"}, "abort", id="minPartitions"),
        pytest.param({"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1h"}, "abort", id="minOffsets"),
    ],
)
def test_available_now_ends(
    spark: SparkSession, scene: Scene, tmp_path: Path, options: Mapping[str, str], end: str
) -> None:
    """However the log ends. The next run goes on behind it, and takes what was open and has ended since."""
    log, left = with_tails(scene)
    options = {"subscribe": log.topic, "startingOffsets": "earliest", **SOON, **options}
    frame = read_stream(spark, log.bootstrap, **options, **COMMITTED)
    finish(to_parquet(frame, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == log.stable
    # Nothing was added: nothing to do.
    assert finish(to_parquet(frame, tmp_path, availableNow=True)) == 0
    if end == "commit":
        left.commit()
    else:
        left.abort()
    finish(to_parquet(frame, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == log.stable
    log.aborted(small_records(8, "again nobody's"), *range(len(TAILS)))
    finish(to_parquet(frame, tmp_path, availableNow=True))
    log.put(small_records(3, "more"), 0)
    finish(to_parquet(frame, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == log.stable


def test_available_now_of_everything_ends(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    """Without an isolation level: a run whose only news are the markers of what the last one read."""
    log, left = with_tails(scene)
    options = {"subscribe": log.topic, "startingOffsets": "earliest", **SOON}
    frame = read_stream(spark, log.bootstrap, **options)
    finish(to_parquet(frame, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == log.everything
    left.commit()
    assert finish(to_parquet(frame, tmp_path, availableNow=True)) == 0
    assert as_records(sink(spark, tmp_path)) == log.everything


COMPACT = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.01"}


@pytest.fixture
def compacting() -> Iterator[str]:
    """A server that compacts at once."""
    with our_bootstrap("--compaction-backoff-ms", "100") as address:
        yield address


def until_compacted(bootstrap: str, topic: str, wanted: set[int]) -> None:
    """The log has the records at these offsets, and no others."""
    deadline = time.monotonic() + SECONDS
    while True:
        batches = stored_batches(bootstrap, topic, gaps=True)
        data = [pair for one in batches if not one.attributes & CONTROL for pair in records_of(one)]
        left = {offset for offset, _ in data}
        assert wanted <= left, f"compaction took {wanted - left}"
        if wanted == left:
            return
        assert time.monotonic() < deadline, f"not compacted: {left - wanted} are there"
        time.sleep(0.05)


def test_a_compacted_topic(spark: SparkSession, compacting: str, tmp_path: Path) -> None:
    """Aborted values, and aborted tombstones, take the place of nothing; a stream goes over the gaps."""
    topic = create_topic(compacting, f"compacted-{time.time_ns()}", 1, **COMPACT)
    log = Transactions(compacting, topic)
    log.committed([Record(b"first %d" % n, b"%d" % n, T0 + n) for n in range(20)], 0)
    log.committed([Record(b"second %d" % n, b"%d" % n, T0 + n) for n in range(5, 15)], 0)
    log.committed([Record(None, b"%d" % n, T0 + n) for n in (3, 7)], 0)
    log.aborted([Record(b"nobody's", b"%d" % n, T0 + n) for n in range(25)], 0)
    log.aborted([Record(None, b"%d" % n, T0 + n) for n in range(20)], 0)
    log.put([Record(b"last", b"last", T0)], 0)  # Kafka leaves its open segment alone: this is in it
    newest = {record.key: (offset, record) for offset, record in log.stable[topic, 0]}
    wanted = {(topic, 0): sorted(newest.values())}
    until_compacted(compacting, topic, {offset for offset, _ in newest.values()})

    for options in (COMMITTED, {**COMMITTED, "minPartitions": "5"}, {}):
        assert as_records(read(spark, compacting, subscribe=topic, **SOON, **options)) == wanted
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "25", **SOON}
    stream = read_stream(spark, compacting, **options, **COMMITTED)
    finish(to_parquet(stream, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == wanted
