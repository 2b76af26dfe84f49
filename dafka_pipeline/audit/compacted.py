"""`--compacted`: what compaction of a log may have taken since the other side was made.

A record may be missing in a compacted log when a later record has its key: in what is compared on the other
side, or behind it in the log itself. A record without a value (a tombstone) may also be missing when the
log has no older record
of its key any more: it goes when its work is done. A record without a key is one that compaction removes,
    too. All that the log does have must be equal on the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from dafka_pipeline.audit.coverage import LEFT, RIGHT, SIDES, Comparison
from dafka_pipeline.audit.hashing import field_hashes
from dafka_pipeline.audit.records import PLACE, keep
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import ARCHIVE, Side
from dafka_pipeline.audit.verdict import Verdict
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LATER: Final = "a later record has the key"
TOMBSTONE: Final = "a tombstone whose key has no older record any more"
KEYLESS: Final = "a record without a key"


def without_explained(
    spark: SparkSession,
    found: DataFrame,
    sides: Mapping[str, Side],
    plan: Comparison,
    options: AuditOptions,
    verdict: Verdict,
    kept: ExitStack,
) -> DataFrame:
    """The places that differ, without those that compaction explains; these are counted by why."""
    for side in _compacted(sides):
        other = LEFT if side == RIGHT else RIGHT
        missing = found.where(f"{side}_times = 0")
        explained = keep(_explained(spark, missing, sides[side], sides[other], other, plan, options), kept)
        for row in explained.groupBy("why").count().collect():
            verdict.compacted[row["why"]] = verdict.compacted.get(row["why"], 0) + row["count"]
        found = found.join(explained.select(*PLACE), [*PLACE], "left_anti")
    return found


def _compacted(sides: Mapping[str, Side]) -> list[str]:
    """Sides that may lack what compaction took: logs; of two archives either, since each was made of a
    log.
    """
    logs = [side for side in SIDES if sides[side].kind != ARCHIVE]
    return logs or list(SIDES)


def _explained(
    spark: SparkSession,
    missing: DataFrame,
    log: Side,
    holder: Side,
    holders: str,
    plan: Comparison,
    options: AuditOptions,
) -> DataFrame:
    """PLACE and `why` of the missing records that may be missing."""
    from pyspark.sql import functions as sql

    key_hash = f"string({field_hashes(strong=options.strong)['key']}) AS key"
    keyed = ("topic", "partition", key_hash)
    behind = [
        Span(place.topic, place.partition, span.end, log.kept[place].end)
        for span in plan.spans
        for place in log.kept
        if place == span[:2] and log.kept[place].end > span.end
    ]
    last = _seen(holder.read(spark, plan.spans), keyed, "max")
    later = _seen(log.read(spark, behind), keyed, "max")
    last = last.unionByName(later).groupBy("topic", "partition", "key").agg(sql.max("offset").alias("last"))
    oldest = _seen(log.read(spark, plan.spans), keyed, "min").withColumnRenamed("offset", "oldest")
    by = ["topic", "partition", "key"]
    asked = missing.selectExpr(
        *PLACE, f"{holders}_key AS key", f"{holders}_nothing AS nothing", f"{holders}_keyless AS keyless"
    )
    why = (
        sql.when(sql.col("keyless"), sql.lit(KEYLESS))
        .when(sql.col("last") > sql.col("offset"), sql.lit(LATER))
        .when(
            sql.col("nothing") & (sql.col("oldest").isNull() | (sql.col("oldest") > sql.col("offset"))),
            sql.lit(TOMBSTONE),
        )
    )
    joined = asked.join(last, by, "left").join(oldest, by, "left")
    return joined.select(*PLACE, why.alias("why")).where("why IS NOT NULL")


def _seen(frame: DataFrame, keyed: tuple[str, ...], which: str) -> DataFrame:
    """The first or last offset of each key."""
    from pyspark.sql import functions as sql

    offset = getattr(sql, which)("offset").alias("offset")
    found = frame.where("key IS NOT NULL").selectExpr(*keyed, "offset")
    return found.groupBy("topic", "partition", "key").agg(offset)
