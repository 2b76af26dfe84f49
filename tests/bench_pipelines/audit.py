"""An audit of two tables beside reading both: `python -m tests.bench_pipelines.audit [--records N]
[--rounds N]`.

Tables of 100-byte values in four partitions; in the second one byte of one record is altered. Each round reads
both tables to Spark's `noop` sink and audits them, in turns, after one warm-up. What is found is checked.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import COLUMNS
from dafka_pipeline.audit.verdict import ALTERED, Verdict
from dafka_pipeline.ranges import Span
from dafka_pipeline.spark.session import SparkOptions, spark_session
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.state import State, TopicEnds
from tests.peers.maven import pipeline_jars

PARTITIONS = 4
TOPIC = "bench"


def write_table(spark: SparkSession, path: Path, records: int, altered: int | None = None) -> None:
    """An archive of one batch; the record number `altered` has another last byte."""
    archive = Archive(spark, Location(str(path)))
    archive.records.create(layout.SCHEMA, layout.PARTITIONED_BY, layout.WITH_STATISTICS)
    each = records // PARTITIONS
    value = "concat(md5(string(id)), md5(string(id + 1)), md5(string(id + 2)), "
    value += f"IF(id = {-1 if altered is None else altered}, 'abcX', 'abcd'))"
    frame = spark.range(0, each * PARTITIONS, 1, PARTITIONS).selectExpr(
        f"'{TOPIC}' AS topic",
        "cast(NULL AS STRING) AS topic_id",
        f"int(id div {each}) AS partition",
        f"id % {each} AS offset",
        "timestamp_millis(1700000000000 + id) AS timestamp",
        "0 AS timestamp_type",
        "cast(string(id) AS BINARY) AS key",
        f"cast({value} AS BINARY) AS value",
        "cast(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        "DATE'2026-01-01' AS archived_on",
    )
    spans = tuple(Span(TOPIC, number, 0, each) for number in range(PARTITIONS))
    state = State("0" * 32, 1, "bench", 1, {TOPIC: TopicEnds(None, (each,) * PARTITIONS)}, spans)
    archive.records.append(frame, state.number, state.to_json())


def timed_read(spark: SparkSession, path: Path) -> float:
    began = time.monotonic()
    frame = spark.read.format("delta").load(str(path)).select(*COLUMNS)
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def timed_audit(spark: SparkSession, left: Path, right: Path) -> tuple[float, Verdict]:
    """With opening both sides, as the command does."""
    began = time.monotonic()
    sides = [archive_side(spark, Location(str(path))) for path in (left, right)]
    verdict = audit_frames(spark, sides[0], sides[1], AuditOptions())
    return time.monotonic() - began, verdict


def bench(spark: SparkSession, folder: Path, records: int, rounds: int) -> float:
    """Prints each round; gives the median of an audit that finds one byte, in times of reading both sides."""
    altered = records * 2 // 3
    left, right = folder / "left", folder / "right"
    write_table(spark, left, records)
    write_table(spark, right, records, altered)
    ratios, equal_ratios = [], []
    for number in range(rounds + 1):
        reading = timed_read(spark, left) + timed_read(spark, right)
        auditing, verdict = timed_audit(spark, left, right)
        each = records // PARTITIONS
        assert verdict.counts == {ALTERED: 1}, verdict.counts
        (one,) = verdict.named
        assert (one.place.partition, one.place.offset) == divmod(altered, each)
        assert one.fields == ("value",)
        same, verdict = timed_audit(spark, left, left)
        assert verdict.equal
        name = f"round {number}" if number else "warm-up"
        print(
            f"{name}: read both {reading:.2f} s, audit that finds one byte {auditing:.2f} s "
            f"({auditing / reading:.2f}), audit of equal tables {same:.2f} s ({same / reading:.2f})",
            flush=True,
        )
        if number:
            ratios.append(auditing / reading)
            equal_ratios.append(same / reading)
    equal = statistics.median(equal_ratios)
    print(f"audit / read both: {statistics.median(ratios):.2f}; of equal tables {equal:.2f}")
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        conf = {"spark.driver.memory": "2g", "spark.local.dir": f"{folder}/local"}
        with spark_session(SparkOptions("local[2]", pipeline_jars(), conf), "bench") as spark:
            bench(spark, Path(folder), arguments.records, arguments.rounds)


if __name__ == "__main__":
    main()
