"""Javas of all ages, each a script that says its version as a real one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.spark.java import check_java, java_version

SAID = {
    8: 'java version "1.8.0_432"\nJava(TM) SE Runtime Environment (build 1.8.0_432-b06)',
    11: 'openjdk version "11.0.25" 2024-10-15\nOpenJDK Runtime Environment',
    17: 'openjdk version "17.0.15" 2025-04-15',
    21: 'Picked up JAVA_TOOL_OPTIONS: -Dversion="1"\nopenjdk version "21" 2023-09-19',
    22: 'openjdk version "22-ea" 2024-03-19',
    25: 'openjdk version "25" 2025-09-16 LTS',
}


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test puts its java: nothing else is on the PATH but what runs scripts."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin" / "java"


def write(java: Path, body: str) -> None:
    java.write_text(f"#!/bin/sh\n{body}\n")
    java.chmod(0o755)


def says(java: Path, version: int) -> None:
    lines = SAID[version].replace("'", "")
    write(java, f"while read -r line; do echo \"$line\" >&2; done <<'END'\n{lines}\nEND")


@pytest.mark.parametrize("version", SAID)
def test_versions(version: int) -> None:
    assert java_version(SAID[version]) == version


@pytest.mark.parametrize("version", [17, 21, 22])
def test_what_fits(java: Path, version: int) -> None:
    says(java, version)
    check_java()


@pytest.mark.parametrize("version", [8, 11, 25])
def test_what_does_not(java: Path, version: int) -> None:
    says(java, version)
    with pytest.raises(UsageFailure, match=rf"{java} is Java {version}, and Spark needs 17 to 22.*JAVA_HOME"):
        check_java()


def test_none_at_all(java: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match=r"no 'java' on the PATH.*openjdk-17"):
        check_java()
    says(java, 17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(UsageFailure, match=rf"no 'java' in JAVA_HOME \({tmp_path}/elsewhere\)"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def test_one_that_does_not_run(java: Path) -> None:
    java.write_text("not a program")
    java.chmod(0o755)
    with pytest.raises(UsageFailure, match="does not run"):
        check_java()


def test_one_that_says_nothing(java: Path) -> None:
    write(java, "exit 1")
    with pytest.raises(UsageFailure, match="does not say which version"):
        check_java()
