"""Jobs on executors that are processes of their own: `local-cluster`, and a standalone master with two
workers.

The session runs in a process of its own: a Java process has one Spark context.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.sample import small_records
from tests.clients.stored import put
from tests.peers.maven import pipeline_jars
from tests.peers.spark_cluster import SparkCluster
from tests.pipelines.dumps import archive_rows, topic_rows

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[2]
BOUND_SECONDS = 240
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
CONF = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}

WHERE = """
import json, sys
from pathlib import Path
from dafka_pipeline.spark.session import SparkOptions, spark_session

def where(rows):
    import os, sys, time
    import dafka_pipeline
    from dafka_pipeline.ranges import Span
    for _ in rows:
        yield {"package": dafka_pipeline.__file__, "python": sys.executable, "folder": os.getcwd(),
               "length": Span("a", 0, 1, 3).length}

master, jars, conf = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
with spark_session(SparkOptions(master, jars, conf), "where") as session:
    context = session.sparkContext
    # As many tasks as executors, none of which ends before each executor has one.
    found = context.parallelize(range(2), 2).barrier().mapPartitions(where).collect()
    print(json.dumps({"master": context.master, "found": found, "rows": session.range(1000).count()}))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster() as running:
        yield running


@pytest.fixture(params=["local-cluster", "standalone"])
def master(request: pytest.FixtureRequest) -> str:
    if request.param == "local-cluster":
        return LOCAL_CLUSTER
    running: SparkCluster = request.getfixturevalue("cluster")
    return running.master


def run(
    command: list[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done


def test_executors_have_the_python_and_the_package_of_the_driver(master: str, tmp_path: Path) -> None:
    # Nothing but the driver's own import path leads to the package: it is not installed for the workers.
    program = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{WHERE}"
    command = [sys.executable, "-c", program, master, str(pipeline_jars()), json.dumps(CONF)]
    said: dict[str, Any] = json.loads(run(command, tmp_path, {"PYTHONPATH": ""}).stdout)
    assert said["master"] == master
    assert said["rows"] == 1000
    found = said["found"]
    assert [one["length"] for one in found] == [2, 2]
    assert {one["python"] for one in found} == {sys.executable}
    assert len({one["folder"] for one in found}) == 2  # each executor has one of its own
    assert all(one["package"].endswith("dafka_pipeline.zip/dafka_pipeline/__init__.py") for one in found)


def test_an_archive_made_by_executors(master: str, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """Kafka's and Delta's jars are there, and so is everything that the tasks import."""
    put(bootstrap, topic, small_records(100))
    conf = [f"--conf={name}={value}" for name, value in CONF.items()]
    arguments = ["archive", "--topics", topic, "--to", str(tmp_path / "archive"), "--once"]
    where = ["--bootstrap", bootstrap, "--master", master, "--jars", str(pipeline_jars())]
    command = [sys.executable, "-m", "dafka_pipeline", *arguments, *where, *conf]
    assert "100 records" in run(command, tmp_path).stdout
    assert archive_rows(tmp_path / "archive") == topic_rows(bootstrap, topic)
