"""Spark over gateways that get a SIGKILL, each in its turn: `make kills-spark SECONDS=120`.

Batches are written and read, one stream goes into a topic and one into files; at the end all is compared with
what was sent. Exits 1 when something differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.peers.gateways import Gateways
from tests.spark.over_kills import OverKills
from tests.spark.settings import spark_settings


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="spark-kills-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = _session(folder)
        try:
            with Gateways(arguments.gateways) as cluster:
                work = OverKills(spark, cluster, folder)
                end = time.monotonic() + arguments.seconds
                try:
                    with cluster.killed_in_turn(arguments.kill_every):
                        work.run(lambda: time.monotonic() > end)
                except AssertionError as error:
                    print(f"after {cluster.kills} kills: {error}\n{cluster.tail()}", flush=True)
                    return 1
                _tell(work, cluster)
        finally:
            spark.stop()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long gateways are killed")
    parser.add_argument(
        "--kill-every",
        type=float,
        metavar="SECONDS",
        default=20.0,
        help="how long after the one before serves again the next gateway is killed",
    )
    parser.add_argument("--gateways", type=int, default=3)
    return parser.parse_args()


def _session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.appName("kills").config(map=spark_settings(folder))
    return builder.getOrCreate()


def _tell(work: OverKills, cluster: Gateways) -> None:
    print(
        f"{cluster.kills} gateways got a SIGKILL; {work.rounds} batches were written and read, and "
        f"{work.sent} records went through both streams: each once, in order, with equal contents",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
