"""A Spark program that comes in by a delegation token alone, which Spark's own code has made for it.

Arguments: HOST:PORT, source, target, a file of Spark's options by which a token is asked for, folder. Ends
with 0 when the source is written into the target: one half by a batch, the other one by a stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.docs.commands import blocks
from tests.docs.constants_page import ROOT
from tests.spark.frames import read, read_stream
from tests.spark.settings import spark_settings

FUNCTION = "fetch_tokens"
HALF = 30


def main(bootstrap: str, source: str, target: str, settings: Path, folder: Path) -> None:
    spark = session(bootstrap, settings, folder)
    documented()(spark)
    # How a connection is protected is not in a token; who comes is.
    trust = {name: value for name, value in options(settings).items() if ".ssl." in name}
    part = {"subscribe": source, "endingOffsets": f'{{"{source}": {{"0": {HALF}}}}}'}
    batch = columns(read(spark, bootstrap, **part, **trust), target).coalesce(1).write.format("kafka")
    batch.option("kafka.bootstrap.servers", bootstrap).options(**trust).save()
    rest = {"subscribe": source, "startingOffsets": f'{{"{source}": {{"0": {HALF}}}}}'}
    stream = columns(read_stream(spark, bootstrap, **rest, **trust), target).writeStream.format("kafka")
    stream = stream.option("kafka.bootstrap.servers", bootstrap).options(**trust)
    stream = stream.option("checkpointLocation", str(folder / "at")).trigger(availableNow=True)
    stream.start().awaitTermination()


def columns(frame: DataFrame, topic: str) -> DataFrame:
    return frame.selectExpr("key", "value", f"'{topic}' AS topic")


def session(bootstrap: str, settings: Path, folder: Path) -> SparkSession:
    builder = SparkSession.builder.appName("tokens").config(map=spark_settings(folder))
    cluster = "spark.kafka.clusters.mine"
    builder = builder.config(f"{cluster}.auth.bootstrap.servers", bootstrap)
    builder = builder.config(f"{cluster}.security.protocol", "SASL_SSL")
    builder = builder.config(f"{cluster}.sasl.token.mechanism", "SCRAM-SHA-512")
    for name, value in options(settings).items():
        builder = builder.config(f"{cluster}.{name}", value)
    return builder.getOrCreate()


def options(settings: Path) -> dict[str, str]:
    """Spark's, each with `kafka.` in front."""
    pairs = (line.split("=", 1) for line in settings.read_text().splitlines())
    return {name: value for name, value in pairs if name != "kafka.security.protocol"}


def documented() -> Callable[[SparkSession], None]:
    """The function of the page."""
    page = ROOT / "docs" / "security.md"
    [program] = [one.text for one in blocks(page) if f"def {FUNCTION}(" in one.text]
    names: dict[str, Any] = {}
    exec(program, names)  # our own page
    function: Callable[[SparkSession], None] = names[FUNCTION]
    return function


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
