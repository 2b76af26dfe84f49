"""One Spark session as the jobs need it, quiet unless it was asked to speak."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.spark.errors import explain_spark, is_sparks
from dafka_pipeline.spark.installed import installed_pyspark
from dafka_pipeline.spark.jars import Jar, fit, how_to_fill, jar_settings, needed
from dafka_pipeline.spark.java import check_java
from dafka_pipeline.spark.masters import (
    address_settings,
    by_spark_submit,
    default_master,
    in_one_process,
    shuffle_settings,
)
from dafka_pipeline.spark.shipping import zipped
from dafka_pipeline.spark.starting import Voice, explain_start, heard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_LOG: Final = Path(__file__).with_name("log4j2-quiet.properties")
VERBOSE_LOG: Final = Path(__file__).with_name("log4j2-verbose.properties")
_PRIVATE: Final = r"(?i)secret|password|token|access[.]?key|jaas|credential|[.]pem|keystore[.]key"

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What may be a secret is shown neither in logs nor in an event log or a history server.
    "spark.redaction.regex": _PRIVATE,
    "spark.sql.redaction.options.regex": _PRIVATE,
    # Times in tables and messages are UTC wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A table's log is small: its default of 50 tasks a snapshot costs more than the work.
    "spark.databricks.delta.snapshotPartitions": "2",
    # VACUUM lists directories by as many tasks as this says: its default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
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
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
LITTER: Final = "artifacts"
"""Spark 4.0 makes a folder of this name where the job is started, and leaves it there, empty."""


@dataclass(frozen=True)
class SparkOptions:
    """Where and how Spark runs.

    master: as Spark's, e.g. `local[2]`, `spark://HOST:PORT`, `yarn`. Empty: what spark-submit,
    spark-defaults.conf or --conf says, else all processors of this machine.
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

    Raises UsageFailure when Java, PySpark or a jar is missing or does not fit, or a setting is wrong.
    """
    settings = session_settings(options, avro=avro)
    check_java()
    litter = Path(LITTER).absolute()
    was_there = litter.exists()
    # Workers run this Python, not the first `python3` of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    session = _started(settings, name, verbose=options.verbose)
    try:
        # What is the level already is not set, and then PySpark's own threshold (WARN) stays: hence two
        # steps.
        for level in ("WARN", "INFO") if options.verbose else ("FATAL",):
            session.sparkContext.setLogLevel(level)
        _check_jars(session, needed(installed_pyspark(), avro=avro))
        with _package_shipped(session):
            yield session
    finally:
        try:
            session.stop()
        except Exception as error:
            # Its Java process may have ended before: there is nothing left to stop.
            if not is_sparks(error) and not isinstance(error, ConnectionError):
                raise
        if not was_there:
            _remove_empty(litter)


def _remove_empty(folder: Path) -> None:
    """Remove a folder of empty folders; one in which something lies stays."""
    for one in (*folder.glob("*"), folder):
        with suppress(OSError):
            one.rmdir()


def session_settings(options: SparkOptions, *, avro: bool = False) -> dict[str, str]:
    """All settings of a session, those of the user last."""
    settings = dict(SETTINGS)
    master = options.conf.get("spark.master") or options.master or default_master(os.environ)
    if master:
        settings["spark.master"] = master
        settings |= address_settings(master) | shuffle_settings(master)
    settings |= options.conf
    settings |= jar_settings(installed_pyspark(), options.jars, avro=avro, conf=options.conf)
    log = VERBOSE_LOG if options.verbose else QUIET_LOG
    theirs = options.conf.get(JAVA_OPTIONS, "")
    settings[JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={log.as_uri()} {theirs}".strip()
    return settings


def _started(settings: Mapping[str, str], name: str, *, verbose: bool) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    # Py4J tells of a Java process that has ended by traceback, past every logger of its own.
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if by_spark_submit(os.environ) or SparkContext._gateway is not None:
        # Its Java process is there already.
        return _explained(builder)
    voice = Voice(verbose=verbose)
    try:
        with heard(voice):
            session = _explained(builder)
    except PySparkRuntimeError as error:
        raise explain_start(voice.last_lines(), how_to_fill(installed_pyspark())) from error
    voice.let_through()
    return session


def _explained(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:
        # A Java process that never was there is explained by what it said.
        if not is_sparks(error) or "JAVA_GATEWAY" in str(error):
            raise
        raise explain_spark(error) from error


def _check_jars(session: SparkSession, jars: list[Jar]) -> None:
    """Raises UsageFailure for jars that are not there or have another version: `--conf` may bring them."""
    pyspark = installed_pyspark()
    missing, other = [], []
    for jar in jars:
        place = _place(session, jar.known_by)
        if place is None:
            missing.append(jar.file)
        elif (version := re.search(r"-(\d[\w.]*)\.jar$", place)) and version[1] != jar.version:
            other.append(f"{Path(place).name} instead of {jar.file}")
    if missing or other:
        said = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(other)}"] * bool(other)
        names = f"{fit(pyspark).connector.coordinate},{fit(pyspark).delta.coordinate}"
        by = "--conf spark.jars or spark.jars.packages. Leave them out, or have them name"
        if by_spark_submit(os.environ):
            by = "spark-submit. Give it --packages"
        raise UsageFailure(f"Spark {' and '.join(said)}: it was started by {by} {names}.")


def _place(session: SparkSession, name: str) -> str | None:
    """The jar that a class comes from; None where there is no such class."""
    from py4j.protocol import Py4JJavaError

    java = session.sparkContext._jvm
    assert java is not None
    try:
        found = java.org.apache.spark.util.Utils.classForName(name, False, False)
    except Py4JJavaError:
        return None
    return str(found.getProtectionDomain().getCodeSource().getLocation().getPath())


@contextmanager
def _package_shipped(session: SparkSession) -> Iterator[None]:
    """The workers of a cluster have this package while the block runs."""
    if in_one_process(session.sparkContext.master):
        yield
        return
    # Executors fetch the file from here when they start, however late that is.
    with tempfile.TemporaryDirectory(prefix="dafka-pipeline-") as folder:
        session.sparkContext.addPyFile(str(zipped(Path(folder))))
        yield
