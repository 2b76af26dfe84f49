"""What an audit finds in altered copies of a table: each kind of damage is named, at its place, and nothing
else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.verdict import ALTERED, SWAPPED, Difference, Verdict
from dafka_pipeline.table.location import Location
from tests.pipelines.audit_cases import CASES, RECORDS, Case, Said, base
from tests.pipelines.tables import altered_copy, write_archive

ENDS = [count + 10 for count in RECORDS.values()]
"""Of each topic: the last ten offsets have no record, as behind an aborted transaction."""


@pytest.fixture(scope="module")
def archives(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Every case's topic, before and after."""
    folder = tmp_path_factory.mktemp("audit")
    left, right = [], []
    for case in CASES:
        here, there = base(case.topic), base(case.topic)
        case.change(here, there)
        left += here
        right += there
    ends = {case.topic: ENDS for case in CASES}
    archive = write_archive(spark, folder / "left", left, ends)
    return archive, altered_copy(archive, folder / "right", lambda _rows: right)


def audit(spark: SparkSession, left: Path, right: Path, options: AuditOptions) -> Verdict:
    here, there = (archive_side(spark, Location(str(path))) for path in (left, right))
    return audit_frames(spark, here, there, options)


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, id="xxhash64"), pytest.param(True, id="sha256", marks=pytest.mark.long)],
)
def verdict(spark: SparkSession, archives: tuple[Path, Path], request: pytest.FixtureRequest) -> Verdict:
    options = AuditOptions(range_offsets=16, strong=request.param, rows=10_000)
    return audit(spark, *archives, options)


def said_of(topic: str, differences: list[Difference]) -> list[Said]:
    found = []
    for one in differences:
        if one.place.topic == topic:
            assert one.other is None or one.other.topic == topic
            other = one.other and (one.other.partition, one.other.offset)
            found.append(
                Said(one.kind, (one.place.partition, one.place.offset), one.fields, one.times, other)
            )
    return sorted(found)


@pytest.mark.parametrize("case", CASES, ids=[case.topic for case in CASES])
def test_what_is_wrong_is_named_and_nothing_else(verdict: Verdict, case: Case) -> None:
    assert said_of(case.topic, verdict.named) == sorted(case.said)


def test_all_is_counted_though_little_is_named(
    spark: SparkSession, archives: tuple[Path, Path], verdict: Verdict
) -> None:
    assert verdict.counts == dict(Counter(said.kind for case in CASES for said in case.said))
    assert not verdict.equal
    if verdict.strong:
        return
    some = [case for case in CASES if case.topic in {"three-in-a-ring", "two-pairs-swapped", "untouched"}]
    options = AuditOptions(tuple(case.topic for case in some), range_offsets=16, rows=1)
    few = audit(spark, *archives, options)
    assert few.counts == {ALTERED: 3, SWAPPED: 2}
    assert [(one.kind, one.place.offset) for one in few.named] == [(ALTERED, 5), (SWAPPED, 5)]


def test_only_the_ranges_that_differ_are_read_again(verdict: Verdict) -> None:
    ranges = {
        (case.topic, said[0], said[1] // 16) for case in CASES for one in case.said for said in _places(one)
    }
    assert verdict.read_again == len(ranges)
    assert verdict.ranges == len(CASES) * sum(-(-count // 16) for count in RECORDS.values())


def _places(one: Said) -> list[tuple[int, int]]:
    return [one.place, one.other] if one.other is not None else [one.place]
