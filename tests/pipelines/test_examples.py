"""The examples, as a newcomer runs them: each says what it expects, and whether that came."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from tests.peers.maven import pipeline_jars
from tests.spark.settings import spark_environment

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(file.stem for file in FOLDER.glob("*.py"))
SECONDS = 300


def loaded(name: str, folder: Path = FOLDER) -> ModuleType:
    """The example as a module; the session's workers get its code with the functions that they run."""
    from pyspark.cloudpickle import register_pickle_by_value

    spec = importlib.util.spec_from_file_location(f"example_{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    register_pickle_by_value(module)
    return module


def test_all_are_there() -> None:
    assert EXAMPLES == ["changing_dimension", "rate_alert", "sessions", "word_count"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "word_count" else pytest.mark.matrix) for name in EXAMPLES],
)
def test_what_is_expected_comes(
    spark: SparkSession, bootstrap: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    session = spark.newSession()
    # As Spark has it by itself: a watermark takes effect at once, not with the batch after the next.
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    assert loaded(name).main(session, bootstrap), capfd.readouterr().out


@pytest.mark.matrix
def test_the_archive_of_an_application(
    spark: SparkSession, bootstrap: str, capfd: pytest.CaptureFixture[str]
) -> None:
    example = loaded("spark_archive", FOLDER / "applications")
    assert example.main(spark.newSession(), bootstrap), capfd.readouterr().out


def test_one_that_gets_something_else_says_so(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = loaded("word_count")
    monkeypatch.setattr(example, "SECOND", ["the dog sleeps"])
    assert not example.main(spark.newSession(), bootstrap)


@pytest.mark.long
def test_by_its_command(bootstrap: str) -> None:
    command = [
        sys.executable,
        str(FOLDER / "sessions.py"),
        "--bootstrap",
        bootstrap,
        "--jars",
        str(pipeline_jars()),
    ]
    done = subprocess.run(
        command, env=spark_environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'from': '10:30'" in done.stdout.split("came:")[1]
