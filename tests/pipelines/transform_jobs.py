"""Functions between topics, as a user has them in a file of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


def passes(records: DataFrame) -> DataFrame:
    """Everything goes on as it came: key, value, headers, time."""
    return records


def shouts(records: DataFrame, mark: str = "!") -> DataFrame:
    return records.selectExpr("key", f"concat(upper(CAST(value AS STRING)), '{mark}') AS value")


class Counting(StatefulProcessor):  # type: ignore[misc]  # PySpark's types are not looked at
    """For each record of a key, which one of this key it is."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count BIGINT")

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803  # Spark's
    ) -> Iterator[pd.DataFrame]:
        before = self._count.get()[0] if self._count.exists() else 0
        count = sum(len(some) for some in rows)
        self._count.update((before + count,))
        numbers = [str(n).encode() for n in range(before + 1, before + count + 1)]
        yield pd.DataFrame({"key": [key[0]] * count, "value": numbers})

    def close(self) -> None:
        pass


def numbers_per_key(records: DataFrame) -> DataFrame:
    """State in Python: 1, 2, 3, ... for the records of each key, however batches are cut."""
    return records.groupBy("key").transformWithStateInPandas(
        statefulProcessor=Counting(),
        outputStructType="key BINARY, value BINARY",
        outputMode="Append",
        timeMode="None",
    )


def numbers_per_key_old(records: DataFrame) -> DataFrame:
    """The same by the older interface, which needs no worker beside the batch."""
    from pyspark.sql.streaming.state import GroupState

    def numbers(key: Any, rows: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        before = int(state.get[0]) if state.exists else 0
        count = sum(len(some) for some in rows)
        state.update((before + count,))
        values = [str(n).encode() for n in range(before + 1, before + count + 1)]
        yield pd.DataFrame({"key": [key[0]] * count, "value": values})

    return records.groupBy("key").applyInPandasWithState(
        numbers, "key BINARY, value BINARY", "count BIGINT", "append", "NoTimeout"
    )
