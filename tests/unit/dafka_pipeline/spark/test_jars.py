"""Which jars are brought, from where, and what is said when they do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.spark.jars import FITS, fit, jar_settings, needed

SPARK = "4.0.0"
FILES = [jar.file for jar in needed(SPARK, avro=False)]
AVRO = FITS[SPARK].avro.file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in [*FILES, AVRO]:
        (tmp_path / name).touch()
    return tmp_path


def names(settings: dict[str, str]) -> list[str]:
    return [Path(path).name for path in settings["spark.jars"].split(",")]


def test_a_pyspark_that_nothing_fits() -> None:
    with pytest.raises(UsageFailure, match=r"PySpark 3\.5\.6 is installed.*pip install pyspark==4\.0\.0"):
        fit("3.5.6")


def test_from_maven() -> None:
    settings = jar_settings(SPARK, None)
    assert settings["spark.jars.packages"] == (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,io.delta:delta-spark_2.13:4.0.1"
    )
    assert "org.apache.hadoop:hadoop-client-runtime" in settings["spark.jars.excludes"].split(",")
    with_avro = jar_settings(SPARK, None, avro=True)["spark.jars.packages"]
    assert with_avro.endswith(",org.apache.spark:spark-avro_2.13:4.0.0")


def test_from_a_folder(folder: Path) -> None:
    assert names(jar_settings(SPARK, folder)) == [FILES[0], FILES[1], *FILES[2:]]
    assert AVRO in names(jar_settings(SPARK, folder, avro=True))


def test_from_a_folder_as_ivy_fills_it(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / f"org.some.group_{name}").touch()
    assert names(jar_settings(SPARK, tmp_path)) == [f"org.some.group_{name}" for name in FILES]


def test_a_users_own_come_on_top(folder: Path) -> None:
    conf = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1", "spark.jars": "/mine.jar"}
    made = jar_settings(SPARK, None, conf=conf)
    assert made["spark.jars.packages"].split(",")[-1] == "org.apache.hadoop:hadoop-aws:3.4.1"
    assert made["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka")
    assert names(jar_settings(SPARK, folder, conf=conf)) == [*FILES, "mine.jar"]


def test_a_users_own_stand_in_for_ours(folder: Path) -> None:
    conf = {"spark.jars": ",".join(f"/theirs/{name}" for name in FILES)}
    assert jar_settings(SPARK, None, conf=conf) == {}
    conf = {"spark.jars.packages": FITS[SPARK].delta.coordinate}
    assert jar_settings(SPARK, None, conf=conf)["spark.jars.packages"] == (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,io.delta:delta-spark_2.13:4.0.1"
    )


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:3.5.6"},
        {"spark.jars": "/x/spark-sql-kafka-0-10_2.13-3.5.6.jar,/x/y.jar"},
    ],
)
def test_a_users_own_in_another_version(conf: dict[str, str]) -> None:
    with pytest.raises(
        UsageFailure, match=r"names spark-sql-kafka-0-10_2.13 3\.5\.6, and PySpark 4\.0\.0 needs"
    ):
        jar_settings(SPARK, None, conf=conf)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match=r"--jars .*/none: there is no such folder.*~/\.ivy"):
        jar_settings(SPARK, tmp_path / "none")


def test_a_folder_that_lacks_some(folder: Path) -> None:
    (folder / "kafka-clients-3.9.0.jar").unlink()
    (folder / "commons-pool2-2.12.0.jar").unlink()
    with pytest.raises(
        UsageFailure, match=r"lacks kafka-clients-3.9.0.jar, commons-pool2-2.12.0.jar\. Where"
    ):
        jar_settings(SPARK, folder)


def test_a_folder_with_other_versions(folder: Path) -> None:
    (folder / "delta-spark_2.13-4.0.1.jar").rename(folder / "delta-spark_2.13-3.3.0.jar")
    says = re.escape("lacks delta-spark_2.13-4.0.1.jar. It has delta-spark_2.13-3.3.0.jar, which do not fit")
    with pytest.raises(UsageFailure, match=says):
        jar_settings(SPARK, folder)
