"""What cannot be asked for is refused before Spark starts, with what to give instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dafka_pipeline.cli import run
from dafka_pipeline.commands import options
from dafka_pipeline.failures import EXIT_USAGE

CASES = {
    "no topic": (["archive", "--topics", ",", "--to", "a"], "--topics ',' names no topic"),
    "topics and pattern": (["archive", "--topics", "a", "--pattern", "b", "--to", "a"], "one of them"),
    "no pattern": (["archive", "--pattern", "(", "--to", "a"], "Give a regular expression"),
    "no time": (["archive", "--topics", "a", "--to", "a", "--every", "soon"], "give a time, e.g. 30s"),
    "no size": (["archive", "--topics", "a", "--to", "a", "--max-batch-bytes", "big"], "give a size"),
    "no moment": (["archive", "--topics", "a", "--to", "a", "--from", "then"], "give a time as 2026-"),
    "no format": (["archive", "--topics", "a", "--to", "a", "--decode", "yaml:f"], "give one of json:FILE"),
    "no topic to replay": (["replay", "a", "--topics", ","], "--topics ',' names no topic"),
    "a name that leaves its folder": (["replay", "a", "--topics", "t", "--id", "../../x"], "../../x"),
    "a folder that is not there": (
        ["audit", "a", "b", "--report", "/no/such/folder/f"],
        "there is no folder",
    ),
}


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(options, "spark_session", start)


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, says = CASES[case]
    assert run(arguments) == EXIT_USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("case", ["no topic", "no option"])
def test_refused_as_json(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, says = {**CASES, "no option": (["archive", "--no-such"], "--no-such")}[case]
    assert run([*arguments, "--json"]) == EXIT_USAGE
    told = json.loads(capsys.readouterr().err)
    assert (told["event"], told["exit_code"]) == ("failed", EXIT_USAGE)
    assert says in told["text"]


def test_what_knows_tables_alone_takes_no_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compact", "--help"]) == 0
    assert "--bootstrap" not in capsys.readouterr().out
    assert run(["audit", "--help"]) == 0
    assert "--bootstrap" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--kafka-file", "--decode"])
def test_a_file_that_is_no_text(tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\xfe\0")
    value = f"json:{file}" if flag == "--decode" else str(file)
    assert run(["archive", "--topics", "a", "--to", str(tmp_path / "a"), flag, value]) == EXIT_USAGE
    assert "cannot be read as text" in capsys.readouterr().err
