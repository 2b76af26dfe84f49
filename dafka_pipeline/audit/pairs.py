"""Differences that belong together: two records with each other's contents, a record at another place.

Both are looked for within a topic. Among records with equal contents it cannot be known which went where:
the first is paired with the first, and so on, and none is in two pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dafka_pipeline.audit.records import PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OTHER: Final = tuple(f"other_{name}" for name in PLACE)


def swapped(differing: DataFrame) -> DataFrame:
    """Pairs of places where key, value and headers are exchanged, and timestamps too unless both kept theirs.

    Columns: PLACE of the earlier one, the same of the later one with `other_` before it, `fields` of both.
    """
    from pyspark.sql import functions as sql

    same_time = sql.col("left_time") == sql.col("right_time")
    sides = {
        side: sql.concat_ws(
            "/", f"{side}_payload", sql.when(~same_time, sql.col(f"{side}_time")).otherwise("")
        )
        for side in ("left", "right")
    }
    candidates = differing.where(
        "left_times = 1 AND right_times = 1 AND left_payload != right_payload"
    ).select(
        *PLACE,
        "fields",
        sql.least(*sides.values()).alias("low"),
        sql.greatest(*sides.values()).alias("high"),
        (sides["left"] < sides["right"]).alias("upwards"),
    )
    numbered = candidates.withColumn("number", _number("topic", "low", "high", "upwards"))
    found = _joined(
        numbered.where("upwards"), numbered.where("NOT upwards"), by=["topic", "low", "high", "number"]
    )
    return _earlier_first(found)


def moved(differing: DataFrame) -> DataFrame:
    """Records that are missing at a place on the right, and are at another one where the left has none.

    Columns: PLACE on the left, the same on the right with `other_` before it, `fields`: of the timestamp
        and its type.
    """
    gone = differing.where("right_times = 0").selectExpr(
        *PLACE, "left_payload AS payload", "left_time AS time", "array() AS fields"
    )
    come = differing.where("left_times = 0").selectExpr(
        *PLACE, "right_payload AS payload", "right_time AS time", "array() AS fields"
    )
    numbered = [one.withColumn("number", _number("topic", "payload")) for one in (gone, come)]
    found = _joined(*numbered, by=["topic", "payload", "number"])
    return found.selectExpr(
        *PLACE,
        *_OTHER,
        "IF(time != other_time, array('timestamp'), cast(array() AS ARRAY<STRING>)) AS fields",
    )


def _number(*same: str) -> Column:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    return sql.row_number().over(Window.partitionBy(*same).orderBy(*PLACE))


def _joined(one: DataFrame, other: DataFrame, *, by: list[str]) -> DataFrame:
    renamed = other.selectExpr(
        *[f"{name} AS {name if name in by else f'other_{name}'}" for name in other.columns]
    )
    return one.join(renamed, by).withColumn("other_topic", one["topic"])


def _earlier_first(found: DataFrame) -> DataFrame:
    earlier = "(topic, partition, offset) < (other_topic, other_partition, other_offset)"
    both = "array_distinct(concat(fields, other_fields)) AS fields"
    return found.selectExpr(
        *[f"IF({earlier}, {name}, other_{name}) AS {name}" for name in PLACE],
        *[f"IF({earlier}, other_{name}, {name}) AS other_{name}" for name in PLACE],
        both,
    )
