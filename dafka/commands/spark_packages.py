"""Which connector a Spark needs: `--packages org.apache.spark:spark-sql-kafka-0-10_SCALA:SPARK`."""

import os
import re
import shutil
from importlib import metadata
from typing import Final

DEFAULT_SPARK: Final = "4.0.0"
"""What is named where PySpark is not installed: the version that our tests run with."""


def installed_pyspark() -> str | None:
    """The version of PySpark in this environment, found without importing it (which takes a second)."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None


def connector(pyspark_version: str) -> str:
    """The Maven coordinate: the connector must have Spark's version, and the Scala that Spark was built with.

    PySpark from PyPI is built with Scala 2.12 before 4.0 and with 2.13 from there on. A development version
    has no connector in Maven; that of its release is named.
    """
    release = re.match(r"\d+(\.\d+)*", pyspark_version)
    version = release.group() if release else DEFAULT_SPARK
    scala = "2.12" if int(version.partition(".")[0]) < 4 else "2.13"
    return f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}"


def java_is_there() -> bool:
    """Whether Spark will find a Java to run in."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None
