"""Records that a side is known not to have: told with the reason that it gives, and no differences."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dafka_pipeline.audit.coverage import SIDES
from dafka_pipeline.audit.records import PLACE, keep
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.audit.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def without_known(
    found: DataFrame, sides: Mapping[str, Side], verdict: Verdict, kept: ExitStack
) -> DataFrame:
    """The places that differ, without those that lie in a known gap of the side that lacks them; these are
    counted.
    """
    from pyspark.sql import functions as sql

    for side in SIDES:
        gaps = sides[side].gaps
        if gaps is None:
            continue
        missing = found.where(f"{side}_times = 0").select(*PLACE)
        inside = (
            (missing["topic"] == gaps["topic"])
            & (missing["partition"] == gaps["partition"])
            & (missing["offset"] >= gaps["first_offset"])
            & (missing["offset"] < gaps["end_offset"])
        )
        explained = missing.join(gaps, inside).select(*[missing[name] for name in PLACE], gaps["reason"])
        explained = keep(explained.groupBy(*PLACE).agg(sql.min("reason").alias("reason")), kept)
        for row in explained.groupBy("reason").count().collect():
            reason = row["reason"] or "unknown"
            verdict.known_gaps[reason] = verdict.known_gaps.get(reason, 0) + row["count"]
        found = found.join(explained.select(*PLACE), [*PLACE], "left_anti")
    return found
