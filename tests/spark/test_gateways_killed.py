"""Each of three gateways gets a SIGKILL while Spark reads, writes and streams.

`tests.spark.kills` goes on for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.peers.gateways import Gateways
from tests.spark.over_kills import OverKills

pytestmark = pytest.mark.slow
GATEWAYS = 3


def test_each_gateway_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    with Gateways(GATEWAYS) as cluster:
        work = OverKills(spark, cluster, tmp_path)
        with cluster.killed_in_turn(1.0):
            work.run(lambda: cluster.kills >= GATEWAYS and work.rounds > GATEWAYS)
