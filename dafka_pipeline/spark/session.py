"""One Spark session as the jobs need it, quiet unless it was asked to speak."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.spark.installed import installed_pyspark
from dafka_pipeline.spark.jars import how_to_fill, jar_settings
from dafka_pipeline.spark.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_LOG: Final = Path(__file__).with_name("log4j2-quiet.properties")

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Times in tables and messages are UTC wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A table's log is small: its default of 50 tasks a snapshot costs more than the work.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Readable by everything; the default is INT96, which has no file statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # A task that writes several topics keeps a file open for each of them instead of sorting its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # One attempt would be enough to find that a task has failed; a second one could run beside a late first.
    "spark.speculation": "false",
    "spark.sql.streaming.stopTimeout": "60s",
}
"""What every job runs with; `--conf` wins over each of them."""


@dataclass(frozen=True)
class SparkOptions:
    """Where and how Spark runs.

    master: as Spark's, e.g. `local[2]`, `spark://HOST:PORT`, `yarn`. Empty: what spark-submit or --conf says,
        else all processors of this machine.
    jars: a folder with the jars, for machines without a network; None lets Spark resolve them.
    conf: Spark's own settings; they win.
    verbose: Spark's own log on standard error.
    """

    master: str = ""
    jars: Path | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False


@contextmanager
def spark_session(options: SparkOptions, name: str, *, avro: bool = False) -> Iterator[SparkSession]:
    """A session of that name, stopped at the end.

    Raises UsageFailure when Java, PySpark or a jar is missing or does not fit.
    """
    check_java()
    settings = session_settings(options, avro=avro)
    # Workers run this Python, not the first `python3` of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise UsageFailure(_did_not_start(error, options)) from error
    try:
        session.sparkContext.setLogLevel("INFO" if options.verbose else "FATAL")
        yield session
    finally:
        session.stop()


def session_settings(options: SparkOptions, *, avro: bool = False) -> dict[str, str]:
    """All settings of a session, those of the user last."""
    settings = dict(SETTINGS)
    if options.master:
        settings["spark.master"] = options.master
    elif "SPARK_ENV_LOADED" not in os.environ and "spark.master" not in options.conf:
        settings["spark.master"] = "local[*]"
    if settings.get("spark.master", "").startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 2)
    if not options.verbose:
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}"
    if not {"spark.jars", "spark.jars.packages"} & options.conf.keys():
        settings |= jar_settings(installed_pyspark(), options.jars, avro=avro)
    return settings | dict(options.conf)


def _did_not_start(error: Exception, options: SparkOptions) -> str:
    if options.jars is None and "spark.jars" not in options.conf:
        return (
            f"Spark did not start ({error}). The lines above say why; where they name an unresolved "
            f"dependency, this machine does not reach Maven: give the jars with --jars DIR. "
            f"{how_to_fill(installed_pyspark(), Path('DIR'))}"
        )
    return f"Spark did not start ({error}). The lines above say why."
