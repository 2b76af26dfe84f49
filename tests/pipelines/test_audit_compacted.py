"""`--compacted`: what compaction explains is no difference, and nothing else is excused by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from dafka_pipeline.audit.compacted import KEYLESS, LATER, TOMBSTONE
from dafka_pipeline.audit.coverage import Kept
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import ARCHIVE, SCHEMA, Side, frame_side
from dafka_pipeline.audit.verdict import ALTERED, DOUBLED_RIGHT, MISSING_LEFT, MISSING_RIGHT, Verdict
from dafka_pipeline.kafka.cluster import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.long]

Log = list[tuple[int, int, bytes | None, bytes | None]]
"""Partition, offset, key, value."""
END = 10


@dataclass(frozen=True)
class Case:
    """taken: what compaction explains. said: what is still wrong, (kind, partition, offset)."""

    name: str
    archive: Log
    log: Log
    taken: Mapping[str, int] = field(default_factory=dict)
    said: list[tuple[str, int, int]] = field(default_factory=list)
    archive_end: int = END


A1, A2, A3 = (0, 0, b"a", b"1"), (0, 4, b"a", b"2"), (0, 7, b"a", b"3")
B1 = (0, 2, b"b", b"1")
GONE_A = (0, 8, b"a", None)

CASES = [
    Case("nothing taken", [A1, B1, A2], [A1, B1, A2]),
    Case("a later record has the key", [A1, B1, A2], [B1, A2], {LATER: 1}),
    Case("one of three left", [A1, A2, A3], [A3], {LATER: 2}),
    Case("the newest of its key lost", [A1, B1, A2], [A1, B1], said=[(MISSING_RIGHT, 0, 4)]),
    Case("the only one of its key lost", [A1, B1, A2], [A1, A2], said=[(MISSING_RIGHT, 0, 2)]),
    Case("all of a key lost", [A1, B1, A2], [B1], {LATER: 1}, [(MISSING_RIGHT, 0, 4)]),
    Case("the later one is in another partition", [A1, (1, 4, b"a", b"2")], [(1, 4, b"a", b"2")],
         said=[(MISSING_RIGHT, 0, 0)]),
    Case("a tombstone that has done its work", [A1, GONE_A], [], {LATER: 1, TOMBSTONE: 1}),
    Case("a tombstone lost before its work was done", [A1, GONE_A], [A1], said=[(MISSING_RIGHT, 0, 8)]),
    Case("a tombstone before a newer record", [GONE_A, (0, 9, b"a", b"4")], [(0, 9, b"a", b"4")], {LATER: 1}),
    Case("no key", [(0, 0, None, b"x"), B1], [B1], {KEYLESS: 1}),
    Case("an empty key is not no key", [(0, 0, b"", b"x"), (0, 1, None, b"y")], [(0, 1, None, b"y")],
         said=[(MISSING_RIGHT, 0, 0)]),
    Case("the later one is behind the archive's end", [A1, B1], [B1, A3], {LATER: 1}, archive_end=4),
    Case("what is left is altered", [A1, A2], [(0, 4, b"a", b"X")], {LATER: 1}, [(ALTERED, 0, 4)]),
    Case("the log has what the archive has not", [A2], [A1, A2], said=[(MISSING_LEFT, 0, 0)]),
    Case("the log has it twice", [A1, A2], [A2, A2], {LATER: 1}, [(DOUBLED_RIGHT, 0, 4)]),
]  # fmt: skip


def frame(spark: SparkSession, logs: Mapping[str, Log]) -> DataFrame:
    rows = [
        (topic, partition, offset, 0, key, value)
        for topic, log in logs.items()
        for partition, offset, key, value in log
    ]
    made = spark.createDataFrame(
        rows, "topic STRING, partition INT, offset BIGINT, type INT, key BINARY, value BINARY"
    )
    return made.selectExpr(
        "topic", "partition", "offset", "timestamp_millis(offset) AS timestamp",
        "type AS timestamp_type", "key", "value",
        "cast(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    )  # fmt: skip


def sides(spark: SparkSession) -> tuple[Side, Side]:
    names = {case.name: case for case in CASES}
    places = [TopicPartition(name, number) for name in names for number in range(2)]
    archive = frame_side(
        "archive",
        frame(spark, {case.name: case.archive for case in CASES}),
        {place: Kept(0, names[place.topic].archive_end, True) for place in places},
    )
    log = frame_side(
        "log",
        frame(spark, {case.name: case.log for case in CASES}),
        {place: Kept(0, END) for place in places},
    )
    assert spark.createDataFrame([], SCHEMA).dtypes == archive.records([]).dtypes
    return replace(archive, kind=ARCHIVE, lags=True), log


@pytest.fixture(scope="module", params=[False, True], ids=["xxhash64", "sha256"])
def verdict(spark: SparkSession, request: pytest.FixtureRequest) -> Verdict:
    return audit_frames(
        spark, *sides(spark), options=AuditOptions(compacted=True, strong=request.param, rows=100)
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_compaction_cannot_have_done_is_said(verdict: Verdict, case: Case) -> None:
    said = [
        (one.kind, one.place.partition, one.place.offset)
        for one in verdict.named
        if one.place.topic == case.name
    ]
    assert said == case.said


def test_what_compaction_explains_is_counted(verdict: Verdict) -> None:
    expected: dict[str, int] = {}
    for case in CASES:
        for why, count in case.taken.items():
            expected[why] = expected.get(why, 0) + count
    assert verdict.compacted == expected
    assert sum(verdict.counts.values()) == sum(len(case.said) for case in CASES)


def test_without_the_option_all_of_it_differs(spark: SparkSession) -> None:
    archive, log = sides(spark)
    names = ("a later record has the key", "no key")
    verdict = audit_frames(spark, archive, log, AuditOptions(names))
    assert verdict.counts == {MISSING_RIGHT: 2}
    assert not verdict.compacted
