"""How Spark is set up for two cores and short tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.peers.maven import connector_jars


def spark_settings(folder: Path) -> dict[str, str]:
    """Settings for a session or for `spark-submit --conf`, its own files in `folder`."""
    return {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stopTimeout": "10s",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def spark_environment() -> dict[str, str]:
    """The environment of a Spark program of its own: this Python, and this checkout importable."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": root}
