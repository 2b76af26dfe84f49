"""Ranges that differ, record by record: which record, which field, how often on which side.

Both sides are reduced to hashes of their fields first, and only those are brought together by offset; what
differs is kept on the executors' disks until the audit ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from dafka_pipeline.audit.coverage import LEFT, RIGHT, SIDES
from dafka_pipeline.audit.hashing import field_hashes, payload_hash
from dafka_pipeline.audit.verdict import FIELDS
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUND_SPANS: Final = 64
"""Spans that are read again at a time: each is a condition of its own."""
ROUND_OFFSETS: Final = 1 << 23
"""Offsets that are read again at a time: some 2 GB of hashes on disk."""

_AGGREGATED: Final = dict.fromkeys(FIELDS, ("min", "max")) | dict.fromkeys(
    ("payload", "nothing", "keyless"), ("min",)
)
"""What is kept of each column where several copies of a record are at one place."""

PLACE: Final = ("topic", "partition", "offset")


def rounds(spans: Collection[Span]) -> Iterator[list[Span]]:
    """Spans in portions of no more than ROUND_SPANS and ROUND_OFFSETS; a long one is cut."""
    portion: list[Span] = []
    room = ROUND_OFFSETS
    for span in spans:
        rest = span
        while rest.length > 0:
            if not room or len(portion) == ROUND_SPANS:
                yield portion
                portion, room = [], ROUND_OFFSETS
            part = rest._replace(end=min(rest.end, rest.start + room))
            portion.append(part)
            room -= part.length
            rest = rest._replace(start=part.end)
    if portion:
        yield portion


def differences(left: DataFrame, right: DataFrame, *, strong: bool, ignore_type: bool) -> DataFrame:
    """One row for each place where the sides are not the same.

    Columns: PLACE; `left_times`, `right_times`: how often a record is there; `fields`: names of FIELDS that
        differ, empty where one side has none; `left_payload` and `right_payload`, `left_time` and
        `right_time`: hashes of key, value and headers, and timestamps with their types, as text;
        `left_key`, `right_key`: hashes of keys; `left_nothing`, `right_nothing`: whether the value is null.
        Where a side has several copies these are of one.
    """
    from pyspark.sql import functions as sql

    both = _hashed(left, LEFT, strong, ignore_type).unionByName(_hashed(right, RIGHT, strong, ignore_type))
    wanted = [
        sql.expr(f"{what}(IF(side = '{side}', {name}, NULL)) AS {side}_{what}_{name}")
        for side in SIDES
        for name, whats in _AGGREGATED.items()
        for what in whats
    ]
    times = [sql.expr(f"count_if(side = '{side}') AS {side}_times") for side in SIDES]
    found = both.groupBy(*PLACE).agg(*times, *wanted)
    names = [f"IF({_differs(name)}, '{name}', NULL)" for name in FIELDS]
    altered = f"IF(left_times > 0 AND right_times > 0, array_compact(array({', '.join(names)})), array())"
    return found.selectExpr(
        *PLACE,
        "left_times",
        "right_times",
        f"cast({altered} AS ARRAY<STRING>) AS fields",
        *[f"string({side}_min_payload) AS {side}_payload" for side in SIDES],
        *[
            f"concat_ws('/', {side}_min_timestamp, {side}_min_timestamp_type) AS {side}_time"
            for side in SIDES
        ],
        *[f"string({side}_min_key) AS {side}_key" for side in SIDES],
        *[f"{side}_min_{what} AS {side}_{what}" for side in SIDES for what in ("nothing", "keyless")],
    ).where("left_times != right_times OR size(fields) > 0")


def no_differences(spark: SparkSession) -> DataFrame:
    """As `differences`, without a row."""
    from dafka_pipeline.audit.sides import SCHEMA

    nothing = spark.createDataFrame([], SCHEMA)
    return differences(nothing, nothing, strong=False, ignore_type=False)


def keep(frame: DataFrame, kept: ExitStack) -> DataFrame:
    """The frame, held on the executors' disks from its first use until `kept` is closed."""
    from pyspark import StorageLevel

    held = frame.persist(StorageLevel.DISK_ONLY)
    kept.callback(held.unpersist)
    return held


def _hashed(frame: DataFrame, side: str, strong: bool, ignore_type: bool) -> DataFrame:
    hashes = field_hashes(strong=strong)
    if ignore_type:
        hashes["timestamp_type"] = hashes["timestamp_type"].replace("timestamp_type", "0")
    return frame.selectExpr(
        f"'{side}' AS side",
        *PLACE,
        *[f"{hashes[name]} AS {name}" for name in FIELDS],
        f"{payload_hash(strong=strong)} AS payload",
        "value IS NULL AS nothing",
        "key IS NULL AS keyless",
    )


def _differs(name: str) -> str:
    return f"left_min_{name} != right_min_{name} OR left_max_{name} != right_max_{name}"
