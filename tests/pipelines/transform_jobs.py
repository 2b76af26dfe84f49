"""Functions between topics, as a user has them in a file of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


def passes(records: DataFrame) -> DataFrame:
    """Everything goes on as it came: key, value, headers, time."""
    return records


def shouts(records: DataFrame, mark: str = "!") -> DataFrame:
    return records.selectExpr("key", f"concat(upper(CAST(value AS STRING)), '{mark}') AS value")


def dies_once(records: DataFrame, marker: str) -> DataFrame:
    """A Python worker that is killed in the middle of its first batch, and not again."""

    def value_of(value: bytes) -> bytes:
        if not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    return records.withColumn("value", F.udf(value_of, "binary")(F.col("value")))


def raises(records: DataFrame) -> DataFrame:
    def value_of(value: bytes) -> bytes:
        raise ZeroDivisionError(f"no way with {value!r}")

    return records.withColumn("value", F.udf(value_of, "binary")(F.col("value")))


def by_value(records: DataFrame) -> DataFrame:
    """Into the topic that the value names."""
    return records.selectExpr("key", "value", "CAST(value AS STRING) AS topic")


def into_partitions(records: DataFrame) -> DataFrame:
    """Into the partition that the key names."""
    return records.selectExpr("key", "value", "CAST(CAST(key AS STRING) AS INT) AS partition")


def not_streaming(records: DataFrame) -> DataFrame:
    return records.sparkSession.createDataFrame([("x",)], "value STRING")


def forgets_to_return(records: DataFrame) -> None:
    records.selectExpr("value")


def selects_what_is_not_there(records: DataFrame) -> DataFrame:
    return records.select("no_such_column")


def without_watermark(records: DataFrame) -> DataFrame:
    return records.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")


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


def by_the_older_interface(records: DataFrame) -> DataFrame:
    """The same by applyInPandasWithState."""
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
