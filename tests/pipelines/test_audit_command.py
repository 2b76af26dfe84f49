"""`dafka-pipeline audit` as a user calls it: exit codes, the report's file, what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.failures import EXIT_DIFFERS, EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.options import KafkaOptions
from tests.clients.sample import small_records
from tests.clients.stored import put
from tests.peers.maven import pipeline_jars
from tests.peers.ports import free_ports
from tests.pipelines.tables import Rows, altered_copy
from tests.pipelines.test_audit_kafka import archive_of

TIMEOUT_SECONDS = 300


def audit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "dafka_pipeline",
        "audit",
        "--master",
        "local[2]",
        "--jars",
        str(pipeline_jars()),
    ]
    settings = ["--conf", "spark.driver.memory=1g"]
    return subprocess.run(
        [*command, *settings, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.matrix
def test_from_the_command_line(
    spark: SparkSession, kafka: KafkaOptions, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    put(kafka.bootstrap, topic, small_records(50))
    archive = archive_of(spark, Cluster(kafka), tmp_path / "archive", topic)
    report = tmp_path / "report.json"
    done = audit(str(archive), kafka.bootstrap, "--report", str(report))
    assert (done.returncode, done.stdout.splitlines()[0]) == (EXIT_OK, "EQUAL: 50 records in 1 partition."), (
        done
    )
    told = json.loads(report.read_text())
    assert (told["audit"], told["equal"], told["records"]) == (1, True, {"left": 50, "right": 50})
    assert told["left"]["archive"] == str(archive)
    assert told["right"]["topics"][topic]["offsets"] == [[0, 50]]

    def change(rows: Rows) -> Rows:
        return [{**row, "value": b"X"} if row["offset"] == 33 else row for row in rows]

    copy = altered_copy(archive, tmp_path / "copy", change)
    version = told["left"]["version"]
    done = audit(f"{copy}@{version + 1}", f"archive:{archive}@{version}", "--json", "--topics", topic)
    assert done.returncode == EXIT_DIFFERS, done
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["event"] == "result"
    assert result["differences"]["altered"] == 1
    assert [(one["kind"], one["topic"], one["offset"], one["fields"]) for one in result["named"]] == [
        ("altered", topic, 33, ["value"])
    ]


@pytest.mark.long
def test_what_cannot_be_audited(tmp_path: Path) -> None:
    nowhere = audit(str(tmp_path / "nothing"), "127.0.0.1:1")
    assert (nowhere.returncode, "There is no archive at" in nowhere.stderr) == (EXIT_REFUSED, True), nowhere
    (port,) = free_ports(1)
    away = audit(f"127.0.0.1:{port}", f"127.0.0.1:{port}", "--topics", "any", "--patience", "0")
    assert (away.returncode, "does not answer" in away.stderr) == (EXIT_FAILED, True), away
    file = audit("x", "y", "--report", str(tmp_path / "no" / "report.json"))
    assert (file.returncode, "there is no folder" in file.stderr) == (EXIT_USAGE, True), file
