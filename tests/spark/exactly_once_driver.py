"""The function of docs/spark.md that writes micro-batches in transactions, as a program to be killed.

Arguments: HOST:PORT,..., source, target, folder (of the checkpoint), records a batch, and where to stop, if
anywhere: `before` or `after`, at which transaction, counted from 1, and a file. It stops there before that is
committed, its records durable, or after that, before Spark knows; makes the file, and goes on if that is
removed. Ends when all that was there at its start is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.docs.commands import blocks
from tests.docs.constants_page import ROOT
from tests.spark.frames import topic_stream
from tests.spark.settings import spark_settings
from tests.spark.transactional import COMMITTED

BEFORE, AFTER = "before", "after"
FUNCTION = "write_once"


def main(bootstrap: str, source: str, target: str, folder: Path, per_batch: str, *stop: str) -> None:
    builder = SparkSession.builder.appName("exactly once").config(map=spark_settings(folder))
    frame = topic_stream(builder.getOrCreate(), bootstrap, source, per_batch, **COMMITTED)
    function = documented(SERVER={"bootstrap.servers": bootstrap}, TARGET=target, Producer=_Stopping)
    if stop:
        place, number, file = stop
        _Stopping.stop = (place, int(number), Path(file))
    strings = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    writer = strings.writeStream.foreachBatch(function)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()


def documented(**instead: Any) -> Callable[..., None]:
    """The page's function, with these in place of the page's own."""
    [program] = [one.text for one in blocks(ROOT / "docs" / "spark.md") if f"def {FUNCTION}(" in one.text]
    names: dict[str, Any] = {}
    exec(program, names)  # our own page
    assert set(instead) <= set(names), "the page's function has other names"
    function: Callable[..., None] = names[FUNCTION]
    names.update(instead)
    return function


class _Stopping(Producer):  # type: ignore[misc]  # it has no types
    """Stops where it was told to."""

    stop = ("", 0, Path())
    _commits = 0

    def commit_transaction(self, *arguments: Any) -> None:
        place, at, stopped = self.stop
        _Stopping._commits += 1
        if _Stopping._commits != at:
            super().commit_transaction(*arguments)
            return
        if place == BEFORE:
            assert self.flush(60) == 0
        else:
            super().commit_transaction(*arguments)
        stopped.touch()
        while stopped.exists():
            time.sleep(0.01)
        if place == BEFORE:
            super().commit_transaction(*arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), *sys.argv[5:])
