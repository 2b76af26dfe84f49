"""What the places that differ amount to: counted by kind, some of them named."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.audit import pairs
from dafka_pipeline.audit.records import PLACE, keep
from dafka_pipeline.audit.verdict import (
    ALTERED,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    MISSING_RIGHT,
    MOVED,
    SWAPPED,
    Difference,
    Place,
    Verdict,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONDITIONS: Final = {
    MISSING_LEFT: "left_times = 0",
    MISSING_RIGHT: "right_times = 0",
    DOUBLED_LEFT: "right_times > 0 AND left_times > right_times",
    DOUBLED_RIGHT: "left_times > 0 AND right_times > left_times",
    ALTERED: "size(fields) > 0",
}
"""Kinds of single places. One may be of two: doubled, and a copy of it altered."""
_PAYLOAD_DIFFERS: Final = "left_times = 1 AND right_times = 1 AND left_payload != right_payload"


def judge(found: DataFrame, rows: int, verdict: Verdict, kept: ExitStack) -> None:
    """Count the places of each kind, and name up to `rows` of each."""
    counts = _counted(found)
    named: list[Difference] = []
    for kind, pair, possible in (
        (SWAPPED, pairs.swapped, counts["exchangeable"] > 1),
        (MOVED, pairs.moved, counts[MISSING_LEFT] > 0 and counts[MISSING_RIGHT] > 0),
    ):
        if not possible:
            continue
        paired = keep(pair(found), kept)
        number = paired.count()
        if not number:
            continue
        verdict.counts[kind] = number
        named += [_pair(kind, row) for row in paired.orderBy(*PLACE).limit(rows).collect()]
        others = paired.selectExpr(*[f"other_{name} AS {name}" for name in PLACE])
        found = found.join(paired.select(*PLACE).unionByName(others), [*PLACE], "left_anti")
        counts = _counted(found)
    verdict.counts |= {kind: counts[kind] for kind in CONDITIONS if counts[kind]}
    if rows and any(counts[kind] for kind in CONDITIONS):
        named += _named(found, rows)
    verdict.named = sorted(named, key=lambda one: (one.place, one.kind))


def _named(found: DataFrame, rows: int) -> list[Difference]:
    """The first of each kind, in one job."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    kinds = ", ".join(f"IF({condition}, '{kind}', NULL)" for kind, condition in CONDITIONS.items())
    each = found.selectExpr("*", f"explode(array_compact(array({kinds}))) AS kind")
    number = sql.row_number().over(Window.partitionBy("kind").orderBy(*PLACE))
    return [_single(row["kind"], row) for row in each.withColumn("n", number).where(f"n <= {rows}").collect()]


def _counted(found: DataFrame) -> dict[str, int]:
    wanted = {**CONDITIONS, "exchangeable": _PAYLOAD_DIFFERS}
    row = found.selectExpr(
        *[f"count_if({condition}) AS `{name}`" for name, condition in wanted.items()]
    ).collect()[0]
    return {name: row[name] for name in wanted}


def _pair(kind: str, row: Any) -> Difference:
    other = Place(*(row[f"other_{name}"] for name in PLACE))
    return Difference(kind, _place(row), tuple(row["fields"]), other=other)


def _single(kind: str, row: Any) -> Difference:
    fields: Iterable[str] = row["fields"] if kind == ALTERED else ()
    return Difference(kind, _place(row), tuple(fields), (row["left_times"], row["right_times"]))


def _place(row: Any) -> Place:
    return Place(*(row[name] for name in PLACE))
