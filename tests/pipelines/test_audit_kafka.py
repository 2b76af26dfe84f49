"""An archive against the topic it was made of: what only one of them can have, and what both must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.coverage import BEHIND, GONE, LEFT, LEFT_OUT, RIGHT, Absent, NotCompared
from dafka_pipeline.audit.failing import explained
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.kafka_side import kafka_side
from dafka_pipeline.audit.limits import limits_of
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.audit.verdict import ALTERED, MISSING_LEFT, MISSING_RIGHT, Verdict
from dafka_pipeline.failures import PipelineError, Refused, UsageFailure
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.location import Location
from tests.clients.sample import records, small_records
from tests.clients.stored import create_topic, put
from tests.differential.batches import Record
from tests.pipelines.dumps import topic_rows
from tests.pipelines.tables import Rows, add_gaps, add_rows, altered_copy, write_archive

pytestmark = [pytest.mark.slow, pytest.mark.long]

SMALL_RANGES = AuditOptions(range_offsets=16)


@pytest.fixture
def cluster(kafka: KafkaOptions) -> Cluster:
    return Cluster(kafka)


def rows_of(bootstrap: str, topic: str, partitions: int = 1) -> Rows:
    """A topic over plain Fetch, in an archive's columns."""
    return [
        {
            "topic": topic,
            "partition": one.partition,
            "offset": one.offset,
            "timestamp": one.record.timestamp * 1000,
            "timestamp_type": 0,
            "key": one.record.key,
            "value": one.record.value,
            "headers": [{"key": key, "value": value} for key, value in one.record.headers] or None,
        }
        for one in topic_rows(bootstrap, topic, partitions)
    ]


def archive_of(spark: SparkSession, cluster: Cluster, path: Path, topic: str) -> Path:
    """An archive of all that the topic holds now."""
    found = cluster.topics([topic])[topic]
    rows = rows_of(cluster.options.bootstrap, topic, found.partitions)
    ends = [
        max((row["offset"] + 1 for row in rows if row["partition"] == number), default=0)
        for number in range(found.partitions)
    ]
    assert found.topic_id is not None
    mine = [{"topic_id": found.topic_id, **row} for row in rows]
    return write_archive(spark, path, mine, {topic: ends}, ids={topic: found.topic_id})


def audit(
    spark: SparkSession,
    archive: Path,
    cluster: Cluster,
    options: AuditOptions = SMALL_RANGES,
    *,
    prepare: Callable[[Side], Side] = lambda side: side,
    **of_archive: Any,
) -> Verdict:
    left = archive_side(spark, Location(str(archive)), **of_archive)
    right = prepare(kafka_side(spark, cluster, left.topics))
    return audit_frames(spark, left, right, options)


def delete_before(cluster: Cluster, topic: str, offset: int) -> None:
    place = confluent_kafka.TopicPartition(topic, 0, offset)
    for done in cluster.admin.delete_records([place]).values():
        done.result()


def only(span: Span, side: str, why: str) -> list[NotCompared]:
    return [NotCompared(span, side, why)]


def test_every_kind_of_record_is_equal_and_one_byte_is_not(
    spark: SparkSession, cluster: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    bootstrap = cluster.options.bootstrap
    put(bootstrap, topic, records())
    put(bootstrap, topic, small_records(100), partition=1)
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    verdict = audit(spark, archive, cluster)
    assert verdict.equal
    assert verdict.read_again == 0
    assert not verdict.not_compared
    assert [one.right for _, one in sorted(verdict.compared.items())] == [len(records()), 100]

    def change(rows: Rows) -> Rows:
        for row in rows:
            if (row["partition"], row["offset"]) == (0, 8):
                value = bytearray(row["value"])
                value[500_000] ^= 1
                row["value"] = bytes(value)
        return rows

    verdict = audit(spark, altered_copy(archive, tmp_path / "copy", change), cluster)
    assert not verdict.equal
    assert verdict.counts == {ALTERED: 1}
    (one,) = verdict.named
    assert (one.place, one.fields) == ((topic, 0, 8), ("value",))
    assert one.details["value"].startswith("from byte 500000 on: ")


def test_what_retention_took_or_is_newer_is_told_apart_and_is_no_difference(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    bootstrap = cluster.options.bootstrap
    put(bootstrap, topic, small_records(40))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    put(bootstrap, topic, small_records(5, "newer"))
    delete_before(cluster, topic, 7)
    verdict = audit(spark, archive, cluster)
    assert verdict.equal
    assert verdict.not_compared == [
        NotCompared(Span(topic, 0, 0, 7), LEFT, GONE),
        NotCompared(Span(topic, 0, 40, 45), RIGHT, BEHIND),
    ]
    assert [(one.left, one.right) for one in verdict.compared.values()] == [(33, 33)]


def test_a_log_that_has_lost_its_end_differs(
    spark: SparkSession, cluster: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    whole, part = new_topic(), new_topic()
    put(cluster.options.bootstrap, whole, small_records(40))
    put(cluster.options.bootstrap, part, small_records(38))
    left = archive_side(spark, Location(str(archive_of(spark, cluster, tmp_path / "archive", whole))))
    right = kafka_side(spark, cluster, [whole], names={whole: part})
    verdict = audit_frames(spark, left, right, SMALL_RANGES)
    assert verdict.counts == {MISSING_RIGHT: 2}
    assert [one.place.offset for one in verdict.named] == [38, 39]
    lagging = kafka_side(spark, cluster, [whole], names={whole: part}, lags=True)
    verdict = audit_frames(spark, left, lagging, SMALL_RANGES)
    assert verdict.equal
    assert verdict.not_compared == only(Span(whole, 0, 38, 40), LEFT, BEHIND)


def test_topics_and_partitions_that_one_side_lacks(
    spark: SparkSession, cluster: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    two, one = new_topic(2), new_topic(1)
    for number in range(2):
        put(cluster.options.bootstrap, two, small_records(3), partition=number)
    put(cluster.options.bootstrap, one, small_records(3))
    wide = archive_side(spark, Location(str(archive_of(spark, cluster, tmp_path / "two", two))))
    narrow = kafka_side(spark, cluster, [two], names={two: one})
    verdict = audit_frames(spark, wide, narrow, SMALL_RANGES)
    assert verdict.absent == [Absent(two, 1, RIGHT)]
    assert verdict.counts == {MISSING_RIGHT: 3}
    # A partition that came later is one that the archive may get yet.
    small = archive_side(spark, Location(str(archive_of(spark, cluster, tmp_path / "one", one))))
    verdict = audit_frames(spark, small, kafka_side(spark, cluster, [one], names={one: two}), SMALL_RANGES)
    assert verdict.equal
    assert verdict.not_compared == only(Span(one, 1, 0, 3), RIGHT, BEHIND)
    verdict = audit_frames(
        spark, small, kafka_side(spark, cluster, [one], names={one: "nowhere"}), SMALL_RANGES
    )
    assert verdict.absent == [Absent(one, None, RIGHT)]
    assert not verdict.equal


def test_an_empty_topic_is_equal_to_an_empty_one(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    verdict = audit(spark, archive_of(spark, cluster, tmp_path / "archive", topic), cluster)
    assert verdict.equal
    assert not verdict.compared


def test_known_gaps_are_told_by_their_reason_and_others_are_missing(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    put(cluster.options.bootstrap, topic, small_records(40))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    gone = {3, 4, 20, 30}
    copy = altered_copy(archive, tmp_path / "copy", lambda rows: [r for r in rows if r["offset"] not in gone])
    topic_id = cluster.topics([topic])[topic].topic_id
    add_gaps(copy, [(topic, topic_id, 0, 3, 5, "erased"), (topic, topic_id, 0, 20, 21, "retention"),
                    (topic, "another life", 0, 30, 31, "erased")])  # fmt: skip
    verdict = audit(spark, copy, cluster)
    assert verdict.known_gaps == {"erased": 2, "retention": 1}
    assert verdict.counts == {MISSING_LEFT: 1}
    assert [one.place.offset for one in verdict.named] == [30]


def test_a_record_behind_the_end_that_the_archive_tells_differs(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    put(cluster.options.bootstrap, topic, small_records(3))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    topic_id = cluster.topics([topic])[topic].topic_id
    add_rows(archive, [{"topic_id": topic_id, **rows_of(cluster.options.bootstrap, topic)[0], "offset": 8}])
    verdict = audit(spark, archive, cluster)
    assert [(side, place, rows) for side, place, rows in verdict.strays] == [(LEFT, (topic, 0), 1)]
    assert not verdict.equal


def test_the_newest_life_of_a_topic_is_compared_and_older_ones_are_told(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    bootstrap = cluster.options.bootstrap
    put(bootstrap, topic, small_records(20, "old"))
    old = cluster.topics([topic])[topic].topic_id
    before = [{"topic_id": old, **row} for row in rows_of(bootstrap, topic)]
    make_again(cluster, topic)
    put(bootstrap, topic, small_records(9, "new"))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    add_rows(archive, before)
    verdict = audit(spark, archive, cluster)
    assert verdict.equal
    assert [(one.left, one.right) for one in verdict.compared.values()] == [(9, 9)]
    (note,) = verdict.notes
    assert "20 records" in note
    assert f"--topic-id {topic}={old}" in note
    chosen = audit(spark, archive, cluster, topic_ids={topic: old})
    assert chosen.counts == {ALTERED: 9, MISSING_RIGHT: 11}
    with pytest.raises(UsageFailure, match="has no record of that topic"):
        audit(spark, archive, cluster, topic_ids={topic: "AAAAAAAAAAAAAAAAAAAAAQ"})


def make_again(cluster: Cluster, topic: str) -> None:
    for done in cluster.admin.delete_topics([topic]).values():
        done.result()
    create_topic(cluster.options.bootstrap, topic)


def test_retention_that_cuts_the_log_while_it_is_read(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    put(cluster.options.bootstrap, topic, small_records(40))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)

    def cut(side: Side) -> Side:
        delete_before(cluster, topic, 21)
        return side

    verdict = audit(spark, archive, cluster, prepare=cut)
    assert verdict.equal
    assert verdict.not_compared == only(Span(topic, 0, 0, 21), LEFT, GONE)
    assert "deleted offsets 0 to 20" in verdict.notes[0]


def test_retention_that_cuts_the_log_between_the_sums_and_the_second_reading(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    put(cluster.options.bootstrap, topic, small_records(40))
    whole = archive_of(spark, cluster, tmp_path / "archive", topic)
    archive = altered_copy(
        whole, tmp_path / "copy", lambda rows: [r for r in rows if r["offset"] not in {2, 30}]
    )

    def cut_at_second_reading(side: Side) -> Side:
        calls: Iterator[int] = iter(range(1000))

        def read(spans: Any) -> Any:
            if next(calls) == 1:
                delete_before(cluster, topic, 21)
            return side.records(spans)

        return replace(side, records=read)

    verdict = audit(spark, archive, cluster, prepare=cut_at_second_reading)
    assert verdict.counts == {MISSING_LEFT: 1}
    assert [one.place.offset for one in verdict.named] == [30]
    assert verdict.not_compared == only(Span(topic, 0, 0, 21), LEFT, GONE)


def test_a_topic_that_is_made_again_while_it_is_read(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    put(cluster.options.bootstrap, topic, small_records(4))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)

    def renew(side: Side) -> Side:
        make_again(cluster, topic)
        put(cluster.options.bootstrap, topic, small_records(4))
        return side

    with pytest.raises(PipelineError, match="deleted and made again while it was audited"):
        audit(spark, archive, cluster, prepare=renew)


def test_versions(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    put(cluster.options.bootstrap, topic, small_records(20))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    first = DeltaTable(archive).version()
    copy = altered_copy(archive, tmp_path / "copy", lambda rows: rows[1:])
    assert audit(spark, copy, cluster, version=first).equal
    now = audit(spark, copy, cluster)
    assert now.counts == {MISSING_LEFT: 1}
    assert now.pins[LEFT]["version"] == first + 1
    older = archive_side(spark, Location(str(copy)), version=first)
    newer = archive_side(spark, Location(str(copy)))
    assert audit_frames(spark, older, newer, SMALL_RANGES).counts == {MISSING_RIGHT: 1}
    with pytest.raises(UsageFailure, match=f"has no version {first + 2}"):
        archive_side(spark, Location(str(copy)), version=first + 2)
    DeltaTable(copy).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(Refused, match="VACUUM"), explained():
        audit(spark, copy, cluster, version=first)


@pytest.mark.parametrize(("start", "end", "expected"), [("5", "12", (5, 12)), (None, "9", (0, 9)),
    ("2023-11-14T22:13:20.010Z", None, (10, 20)), ("19", "3", None)])  # fmt: skip
def test_a_part_of_it(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    tmp_path: Path,
    start: str | None,
    end: str | None,
    expected: tuple[int, int] | None,
) -> None:
    put(cluster.options.bootstrap, topic, small_records(20))
    archive = archive_of(spark, cluster, tmp_path / "archive", topic)
    side = archive_side(spark, Location(str(archive)))
    options = replace(SMALL_RANGES, limits=limits_of(spark, side, start, end))
    verdict = audit_frames(spark, side, kafka_side(spark, cluster, [topic]), options)
    assert verdict.equal
    assert [(one.start, one.end) for one in verdict.compared.values()] == ([expected] if expected else [])
    if expected:
        assert [one.left for one in verdict.compared.values()] == [expected[1] - expected[0]]
    left_out = sum(one.span.length for one in verdict.not_compared if (one.side, one.why) == (LEFT, LEFT_OUT))
    assert left_out == 20 - (expected[1] - expected[0] if expected else 0)


def test_the_same_records_in_two_topics(
    spark: SparkSession, cluster: Cluster, new_topic: Callable[..., str]
) -> None:
    one, other = new_topic(), new_topic()
    put(cluster.options.bootstrap, one, small_records(30))
    put(cluster.options.bootstrap, other, [*small_records(29), Record(b"another", None)])
    left = kafka_side(spark, cluster, [one])
    right = kafka_side(spark, cluster, [one], names={one: other})
    verdict = audit_frames(spark, left, right, SMALL_RANGES)
    assert [(said.place, said.fields) for said in verdict.named] == [
        ((one, 0, 29), ("key", "value", "timestamp"))
    ]
    assert verdict.pins[RIGHT]["topics"][one]["name"] == other
