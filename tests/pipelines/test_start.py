"""Starts that fail, as a user sees them: one line with the cause and the next step, and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.maven import pipeline_jars
from tests.peers.requirements import require

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

ROOT = Path(__file__).parents[2]
BOUND_SECONDS = 240
PROGRAM = """
import sys
import click
from dafka_pipeline import cli
from dafka_pipeline.commands.options import Run, job_options

@click.command()
@job_options
def job(run: Run) -> None:
    with run.spark() as spark:
        run.report.result(str(spark.range(7).count()))

cli._LazyGroup.get_command = lambda *_: job
sys.exit(cli.run(["job", *sys.argv[1:]]))
"""
"""A job that does nothing but start."""


def start(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    require("java")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--master=local[1]", *arguments],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    return done.returncode, done.stdout, done.stderr


def test_a_start_that_goes_well_says_nothing_but_the_result(tmp_path: Path) -> None:
    assert start(tmp_path, f"--jars={pipeline_jars()}") == (0, "7\n", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--conf=spark.driver.memory=256m"], "Spark refuses to start with so little memory: give 512 MiB"),
        (["--conf=spark.driver.memory=900000g"], "Java does not get the memory that it was told to take"),
        (["--conf=spark.master=nonsense"], "Spark does not know such a master: --master takes"),
        (["--kafka=securty.protocol=SSL"], "Is security.protocol meant?"),
        (["--bootstrap=localhost"], "'localhost' is no HOST:PORT"),
        (["--metrics=9405"], "--metrics 9405: give HOST:PORT"),
    ],
)
def test_a_wrong_setting(tmp_path: Path, arguments: list[str], says: str) -> None:
    code, out, err = start(tmp_path, f"--jars={pipeline_jars()}", *arguments)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("dafka-pipeline: ")
    assert says in line


def test_no_network_for_the_jars(tmp_path: Path) -> None:
    """Nobody listens where Spark looks for them."""
    code, out, err = start(
        tmp_path,
        f"--conf=spark.jars.ivy={tmp_path / 'ivy'}",
        DEFAULT_ARTIFACT_REPOSITORY="http://127.0.0.1:1/",
    )
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert "Spark's jars cannot be fetched from Maven (Server access error at url http://127.0.0.1:1/" in line
    assert "Without a network: --jars DIR." in line
    assert "kafka-clients-3.9.0.jar" in line


def test_a_folder_of_jars_that_is_empty(tmp_path: Path) -> None:
    code, _, err = start(tmp_path, f"--jars={tmp_path}")
    assert code == 2
    assert f"--jars {tmp_path} lacks spark-sql-kafka-0-10_2.13-4.0.0.jar, " in err


def test_jars_of_another_version_that_a_setting_brings(tmp_path: Path) -> None:
    """By a name that does not tell; Spark itself is asked what it has."""
    jars = []
    for jar in pipeline_jars().glob("*.jar"):
        name = jar.name.replace("kafka-clients-3.9.0", "kafka-clients-3.8.0")
        (tmp_path / name).symlink_to(jar)
        jars.append(str(tmp_path / name))
    code, _, err = start(tmp_path, f"--conf=spark.jars={','.join(jars)}")
    assert code == 2
    assert "kafka-clients 3.8.0" in err
    without = [jar for jar in jars if "commons-pool2" not in jar and "kafka-clients" not in jar]
    code, _, err = start(tmp_path, f"--conf=spark.jars={','.join(without)}")
    assert code == 2
    assert "Spark lacks kafka-clients-3.9.0.jar, commons-pool2-2.12.0.jar: it was started by --conf" in err
