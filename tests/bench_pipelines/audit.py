"""An audit of two tables beside reading both: `python -m tests.bench_pipelines.audit [--records N]
[--rounds N]`.

Tables of 100-byte values in four partitions; in the second one byte of a record is altered. Each round reads
both tables to Spark's `noop` sink and audits them, in turns, after one warm-up. What is found is checked.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import COLUMNS
from dafka_pipeline.audit.verdict import ALTERED, Verdict
from dafka_pipeline.ranges import Span
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.state import State, TopicEnds
from tests.bench_pipelines.frame import sizes, spark_in
from tests.peers.process import processor_seconds

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


class Cost(NamedTuple):
    """Seconds by the clock, and of processor time in the JVM: the latter is fair on a machine with others."""

    clock: float
    processor: float


@contextmanager
def cost(spark: SparkSession, into: list[Cost]) -> Iterator[None]:
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    began, used = time.monotonic(), processor_seconds(java)
    yield
    into.append(Cost(time.monotonic() - began, processor_seconds(java) - used))


def read(spark: SparkSession, path: Path) -> None:
    frame = spark.read.format("delta").load(str(path)).select(*COLUMNS)
    frame.write.format("noop").mode("overwrite").save()


def audit(spark: SparkSession, left: Path, right: Path) -> Verdict:
    """With opening both sides, as the command does."""
    here, there = (archive_side(spark, Location(str(path))) for path in (left, right))
    return audit_frames(spark, here, there, AuditOptions())


def bench(spark: SparkSession, folder: Path, records: int, rounds: int) -> None:
    """Prints each round, and the medians of audits in times of reading both sides."""
    altered = records * 2 // 3
    place = divmod(altered, records // PARTITIONS)
    left, right = folder / "left", folder / "right"
    write_table(spark, left, records)
    write_table(spark, right, records, altered)
    reading: list[Cost] = []
    finding: list[Cost] = []
    equal: list[Cost] = []
    for number in range(rounds + 1):
        with cost(spark, reading):
            read(spark, left)
            read(spark, right)
        with cost(spark, finding):
            verdict = audit(spark, left, right)
        (one,) = verdict.named
        assert verdict.counts == {ALTERED: 1}, verdict.counts
        assert ((one.place.partition, one.place.offset), one.fields) == (place, ("value",))
        with cost(spark, equal):
            assert audit(spark, left, left).equal
        print(
            f"{f'round {number}' if number else 'warm-up'}: read both {_text(reading)}; audit that finds one "
            f"byte {_text(finding)} {verdict.seconds}; audit of equal tables {_text(equal)}",
            flush=True,
        )
    for name, measured in (("audit that finds one byte", finding), ("audit of equal tables", equal)):
        clock, processor = (
            statistics.median(one[n] / both[n] for one, both in zip(measured[1:], reading[1:], strict=True))
            for n in range(2)
        )
        print(f"{name} / read both: {clock:.2f} by the clock, {processor:.2f} of processor time")


def _text(costs: list[Cost]) -> str:
    return f"{costs[-1].clock:.2f} s ({costs[-1].processor:.2f} s of processor time)"


def main(given: list[str] | None = None) -> None:
    arguments = sizes(__doc__).parse_args(given)
    with tempfile.TemporaryDirectory() as folder, spark_in(Path(folder)) as spark:
        bench(spark, Path(folder), arguments.records, arguments.rounds)


if __name__ == "__main__":
    main()
