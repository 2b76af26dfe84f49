"""Sums of ranges: one pass over both sides, after which only ranges whose sums differ are read again.

A sum is the number of records, the sums of the low and of the high halves of their hashes (a sum of whole
ones would not fit into 64 bits), the exclusive or of them, and the first and the last offset. The offset is
in a record's hash, so that one altered record stays unseen with a probability of 2^-64, a doubled one
changes number and sums, and two that have each other's contents change them, too. With `strong` it is
SHA-256 over the records' digests in the order of their
offsets: sums of digests could be made to collide by somebody who chooses many records.

The sums come to the driver: there are at most RANGES of them on each side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dafka_pipeline.audit.coverage import LEFT, RIGHT
from dafka_pipeline.audit.hashing import record_hash
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGES: Final = 65_536
"""How many sums one side may have: some 30 MB on the driver."""
STRONG_RANGE_OFFSETS: Final = 1 << 20
"""Offsets of one range with `strong`: its digests are in one task's memory, some 200 bytes each."""


class Range(NamedTuple):
    """The offsets from number * size up to the next number's, in one partition."""

    topic: str
    partition: int
    number: int


class Sum(NamedTuple):
    """What the records of a range come to. digest: with `strong`; then low, high and either are 0."""

    rows: int
    first: int
    last: int
    low: int = 0
    high: int = 0
    either: int = 0
    digest: str = ""


def range_offsets(spans: Collection[Span], wanted: int, *, strong: bool) -> int:
    """The size of a range: `wanted`, or as many times twice that as keep their number below RANGES.

    Raises UsageFailure where `strong` does not allow that.
    """
    size = wanted
    while sum(span.length // size + 2 for span in spans) > max(RANGES, 2 * len(spans) + 1):
        size *= 2
    if strong and size > max(wanted, STRONG_RANGE_OFFSETS):
        raise UsageFailure(
            f"--strong keeps a range's digests in memory, and so many offsets need ranges of {size:,}: "
            "audit fewer --topics at a time, or parts of them with --from and --to."
        )
    return size


def sums_of(
    left: DataFrame, right: DataFrame, size: int, *, strong: bool, ignore_type: bool
) -> tuple[dict[Range, Sum], dict[Range, Sum]]:
    """The sums of both sides, in one Spark job."""
    made = {
        side: summed(frame, size, strong=strong, ignore_type=ignore_type)
        for side, frame in ((LEFT, left), (RIGHT, right))
    }
    found: dict[str, dict[Range, Sum]] = {LEFT: {}, RIGHT: {}}
    both = (
        made[LEFT]
        .selectExpr(f"'{LEFT}' AS side", "*")
        .unionByName(made[RIGHT].selectExpr(f"'{RIGHT}' AS side", "*"))
    )
    for row in both.collect():
        found[row["side"]][Range(row["topic"], row["partition"], row["number"])] = _sum(row, strong=strong)
    return found[LEFT], found[RIGHT]


def summed(frame: DataFrame, size: int, *, strong: bool, ignore_type: bool) -> DataFrame:
    """One row for each range that has records."""
    from pyspark.sql import functions as sql

    hashed = frame.selectExpr(
        "topic",
        "partition",
        f"offset div {size} AS number",
        "offset",
        f"{record_hash(strong=strong, ignore_type=ignore_type)} AS hash",
    )
    if strong:
        ordered = "transform(sort_array(collect_list(struct(offset, hash))), one -> one.hash)"
        parts = [sql.expr(f"sha2(array_join({ordered}, ''), 256) AS digest")]
    else:
        parts = [
            sql.expr("sum(hash & 4294967295L) AS low"),
            sql.expr("sum(shiftrightunsigned(hash, 32)) AS high"),
            sql.expr("bit_xor(hash) AS either"),
        ]
    return hashed.groupBy("topic", "partition", "number").agg(
        sql.expr("count(1) AS rows"),
        sql.expr("min(offset) AS first"),
        sql.expr("max(offset) AS last"),
        *parts,
    )


def differing(left: Mapping[Range, Sum], right: Mapping[Range, Sum]) -> list[Range]:
    """Ranges whose sums are not the same, in order."""
    return sorted(one for one in left.keys() | right.keys() if left.get(one) != right.get(one))


def merged(ranges: Sequence[Range], size: int, spans: Collection[Span]) -> list[Span]:
    """The offsets of ranges, neighbours together, as far as they are in the spans that are compared."""
    whole = {(span.topic, span.partition): span for span in spans}
    found: list[Span] = []
    for one in sorted(ranges):
        limits = whole.get((one.topic, one.partition))
        if limits is None:
            continue
        start, end = max(limits.start, one.number * size), min(limits.end, (one.number + 1) * size)
        if start >= end:
            continue
        if found and found[-1][:2] == one[:2] and found[-1].end == start:
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(Span(one.topic, one.partition, start, end))
    return found


def _sum(row: Any, *, strong: bool) -> Sum:
    counted = (row["rows"], row["first"], row["last"])
    if strong:
        return Sum(*counted, digest=row["digest"])
    return Sum(*counted, row["low"], row["high"], row["either"])
