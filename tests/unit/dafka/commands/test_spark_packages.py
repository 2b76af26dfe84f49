"""The connector for a Spark."""

from pathlib import Path

import pytest

from dafka.commands.spark_packages import connector, installed_pyspark, java_is_there


@pytest.mark.parametrize(
    ("pyspark", "coordinate"),
    [
        ("4.0.0", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"),
        ("4.3.0", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"),
        ("3.5.7", "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"),
        ("4.1.0.dev3", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"),
        ("4.2.0rc1", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        ("unknown", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"),
    ],
)
def test_it_has_sparks_version_and_scala(pyspark: str, coordinate: str) -> None:
    assert connector(pyspark) == coordinate


def test_the_tests_own_pyspark_is_found() -> None:
    assert installed_pyspark() == "4.0.0"


def test_java_by_path_or_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not java_is_there()
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_is_there()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java_is_there()
