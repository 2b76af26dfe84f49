"""A streaming program of its own, for tests that kill it: a topic into Parquet files, with a checkpoint.

Arguments: HOST:PORT, topic, folder (for sink and checkpoint), records a batch. Ends when all that was there
at its start is written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.frames import topic_stream
from tests.spark.settings import spark_settings


def main(bootstrap: str, topic: str, folder: Path, per_batch: str) -> None:
    builder = SparkSession.builder.appName("driver").config(map=spark_settings(folder))
    frame = topic_stream(builder.getOrCreate(), bootstrap, topic, per_batch)
    writer = frame.writeStream.format("parquet").option("path", str(folder / "sink"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
