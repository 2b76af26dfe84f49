"""The command line as a whole: commands, exit codes, and one line for every failure."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dafka import cli
from dafka.commands.options import OPTIONS, flag_of, shown_default
from dafka.settings import Settings
from dafka.version import VERSION
from mesh.data_directory import DataDirectoryRefused


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None of the settings that the environment of the test run may have; logging as it was afterwards."""
    for name in ("DAFKA_CONFIG", "DAFKA_BOOTSTRAP", *(f"DAFKA_{option.upper()}" for option in OPTIONS)):
        monkeypatch.delenv(name, raising=False)
    root = logging.root
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def serve_with(monkeypatch: pytest.MonkeyPatch, run: Callable[[Settings], int]) -> None:
    """Puts `run` in the place of the server."""
    module = ModuleType("dafka.processes.standalone")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dafka.processes.standalone", module)


def test_standalone_gets_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Settings] = []

    def run(settings: Settings) -> int:
        seen.append(settings)
        return 0

    serve_with(monkeypatch, run)
    config = tmp_path / "dafka.toml"
    config.write_text("partitions = 3\n")
    monkeypatch.setenv("DAFKA_FSYNC", "never")
    arguments = [
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "A=[::1]:0",
        "--topics",
        "a",
        "--no-auto-create-topics",
    ]
    assert cli.run(["standalone", *arguments, "--rebuild-catalog", "--config", str(config)]) == 0
    (settings,) = seen
    assert [listener.name for listener in settings.listen] == ["PLAINTEXT", "A"]
    assert (settings.topics, settings.fsync) == ((("a", 3),), "never")
    assert (settings.auto_create_topics, settings.rebuild_catalog, settings.relax_replication_factor) == (
        False,
        True,
        False,
    )


def test_standalones_exit_code_is_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_with(monkeypatch, lambda _: 4)
    assert cli.run(["standalone"]) == 4


def test_a_refused_directory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(settings: Settings) -> int:
        raise DataDirectoryRefused(settings.data, "process 7 is using it", "Stop that one")

    serve_with(monkeypatch, run)
    assert cli.run(["standalone", "--data", "/d"]) == 3
    assert capsys.readouterr().err == "dafka: /d: process 7 is using it. Stop that one.\n"


@pytest.mark.parametrize(("level", "has_traceback"), [("info", False), ("debug", True)])
def test_a_bug_is_one_line_unless_asked_for_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], level: str, has_traceback: bool
) -> None:
    def run(_: Settings) -> int:
        raise KeyError("lost")

    serve_with(monkeypatch, run)
    assert cli.run(["standalone", "--log-level", level]) == 1
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("dafka: internal error: KeyError: 'lost' (test_cli.py:")
    assert ("Traceback" in err) == has_traceback
    assert (len(err.splitlines()) == 1) == (not has_traceback)


def test_ctrl_c_in_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: Settings) -> int:
        raise KeyboardInterrupt

    serve_with(monkeypatch, run)
    assert cli.run(["standalone"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nope"], "No such command 'nope'. See 'dafka --help'."),
        (["--nope"], "No such option '--nope'. See 'dafka --help'."),
        (["standalone", "--fsnc", "x"], "See 'dafka standalone --help'."),
        (["standalone", "--partitions"], "requires an argument. See 'dafka "),
        (["standalone", "extra"], "See 'dafka standalone --help'."),
        (["standalone", "--fsync", "x"], "--fsync: 'x' is none of always, interval, never"),
        (["standalone", "--config", "/no/such.toml"], "/no/such.toml cannot be read"),
        (["topics", "create"], "See 'dafka topics create --help'."),
        (["doctor", "--log-level", "x"], "--log-level: 'x' is none of"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dafka: ")
    assert text in err
    assert err.count("\n") == 1


def test_a_misspelt_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAFKA_LISTN", "x")
    assert cli.run(["standalone"]) == 2
    assert "did you mean DAFKA_LISTEN?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["topics"]])
def test_a_group_alone_shows_its_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "",
        "standalone",
        "tower",
        "topics",
        "topics create",
        "topics list",
        "topics describe",
        "topics delete",
        "produce",
        "consume",
        "bench",
        "bench produce",
        "bench consume",
        "bench latency",
        "top",
        "chaos",
        "chaos error",
        "completion",
        "doctor",
        "health",
    ],
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*command.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: dafka {command}".rstrip())
    assert err == ""


def test_help_of_standalone_names_every_flag_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["standalone", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    for name in OPTIONS:
        assert flag_of(name) in out
        assert f"[default: {shown_default(Settings, name)}]" in out.replace("dafka- data", "dafka-data")


def test_help_says_where_standalone_listens_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["--help"])
    settings = Settings()
    assert (
        f"serve Kafka on {settings.listen[0]}, with the data in ./{settings.data}" in capsys.readouterr().out
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"dafka {VERSION}\n"


def test_help_and_version_load_neither_server_nor_protocol() -> None:
    """They must be there at once: the server's imports take half a second."""
    code = (
        "import sys; from dafka import cli; cli.run(['standalone', '--help']); cli.run(['--version']);"
        "heavy = {'trio', 'zmq', 'rocksdict', 'kafka', 'prometheus_client', 'asyncio',"
        " 'dafka.processes.standalone'};"
        "print('loaded:', sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize(
    ("process", "needless"),
    [
        (
            "standalone",
            {"zmq", "mesh.tower", "lz4", "zstandard", "cramjam", "re2", "aiokafka", "dafka.chaos"},
        ),
        ("gateway", {"rocksdict", "mesh.store", "mesh.tower"}),
        ("store", {"kafka", "gateway.broker", "wireproto.kafka.schemas", "mesh.tower"}),
        ("tower", {"kafka", "gateway.broker", "wireproto.kafka.schemas", "mesh.store", "rocksdict"}),
    ],
)
def test_a_process_of_a_mesh_loads_nothing_that_is_anothers(process: str, needless: set[str]) -> None:
    """It would begin to serve that much later."""
    module = f"dafka.processes.{process}"
    code = f"import sys, {module}; print('loaded:', sorted({needless!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["loaded: []"]


def test_the_reader_of_the_output_may_go_away() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "dafka.cli", "standalone", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
