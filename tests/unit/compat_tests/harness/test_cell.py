"""What a cell of the compatibility table says of a client's program, whatever the program does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from harness.cell import FAIL, NOT_IN_CLIENT, PASS, Cell, run_cell
from harness.folders import HERE, ClientFolder, client_folders
from harness.report import Report
from harness.scenarios import SCENARIOS, Scenario, chosen

SECONDS = 20.0


class NoServer:
    """Tells how often it was killed and started."""

    def __init__(self) -> None:
        self.restarts = 0
        self.bootstrap = "127.0.0.1:1"

    def restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def server() -> NoServer:
    return NoServer()


CLIENT = 'title = "A client"\nregistry = "apt"\npackage = "sh"\n'


def folder(path: Path, script: str, allowed: str = "", toml: str = CLIENT) -> ClientFolder:
    (path / "client.toml").write_text(toml)
    (path / "allow.txt").write_text(f"# a comment\n{allowed}\n")
    (path / "run").write_text(f"#!/bin/sh\n{script}\n")
    (path / "run").chmod(0o755)
    return ClientFolder(path)


def cell(
    path: Path,
    script: str,
    server: NoServer,
    codecs: dict[str, set[str]] | None = None,
    seconds: float = 60.0,
) -> Cell:
    scenario = Scenario("seek", "seek", seconds=seconds)
    return run_cell(folder(path, script), path, scenario, server, lambda _, topic: (codecs or {})[topic])


def test_exit_status_decides(tmp_path: Path, server: NoServer) -> None:
    outcomes = [cell(tmp_path, f"exit {n}", server).outcome for n in (0, 77, 1, 3)]
    assert outcomes == [PASS, NOT_IN_CLIENT, FAIL, FAIL]


def test_a_program_is_told_scenario_bootstrap_and_home(tmp_path: Path, server: NoServer) -> None:
    script = f'[ "$1 $2 $COMPAT_HOME" = "seek 127.0.0.1:1 {tmp_path}" ]'
    assert cell(tmp_path, script, server).outcome == PASS


def test_words_of_a_failure_are_kept(tmp_path: Path, server: NoServer) -> None:
    assert (
        cell(tmp_path, "echo offset 3, not 4 >&2; exit 1", server).words == "offset 3, not 4\n\nended with 1"
    )


def test_a_program_that_hangs_fails_and_takes_its_children_with_it(tmp_path: Path, server: NoServer) -> None:
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}; wait"
    found = cell(tmp_path, script, server, seconds=1.0)
    assert found.outcome == FAIL
    assert "still running after 1 s" in found.words
    deadline = time.monotonic() + SECONDS
    while _runs(int(child.read_text())):
        assert time.monotonic() < deadline


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_child_left_behind_by_a_program_that_passed_is_ended(tmp_path: Path, server: NoServer) -> None:
    assert cell(tmp_path, "sleep 1000 & exit 0", server).outcome == PASS  # and does not wait for its pipes


@pytest.mark.parametrize("ending", ["exit 0", "exit 1", "sleep 1000"])
def test_what_a_program_leaves_in_its_temporary_folder_goes(
    tmp_path: Path, server: NoServer, ending: str
) -> None:
    told = tmp_path / "told"
    cell(tmp_path, f'touch "$TMPDIR/left"; echo "$TMPDIR" > {told}; {ending}', server, seconds=1.0)
    folder = Path(told.read_text().strip())
    assert folder.name.startswith("compat-")
    assert not folder.exists()


def test_the_server_is_killed_and_started_when_the_program_says_so(tmp_path: Path, server: NoServer) -> None:
    script = 'echo kill-server; read line; [ "$line" = restarted ]'
    assert cell(tmp_path, script, server).outcome == PASS
    assert server.restarts == 1


def test_a_server_that_does_not_come_back_is_a_failure_with_its_words(
    tmp_path: Path, server: NoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError("the log cannot be read")

    monkeypatch.setattr(server, "restart", refuse)
    found = cell(tmp_path, "echo kill-server; read line; exit 0", server)
    assert found.outcome == FAIL
    assert "the log cannot be read" in found.words


def test_what_lasts_is_told_how_long_and_has_that_time_besides(tmp_path: Path, server: NoServer) -> None:
    lasts = Scenario("lasts", "lasts", seconds=1.0, lasts_seconds=60.0)
    (longer,) = chosen(["lasts"], quick=False, seconds=90.0, among=[lasts])
    assert (lasts.limit_seconds, longer.limit_seconds) == (181.0, 271.0)
    client = folder(tmp_path, '[ "$COMPAT_SECONDS" = 90.0 ]')
    assert run_cell(client, tmp_path, longer, server, lambda *_: set()).outcome == PASS


def test_under_kills_only_what_lasts_is_run_unless_something_is_named() -> None:
    lasts, other = Scenario("lasts", "", quick=False, lasts_seconds=60.0), Scenario("other", "")
    assert chosen([], quick=False, lasting=True, among=[lasts, other]) == (lasts,)
    assert chosen(["other"], quick=False, lasting=True, seconds=5.0, among=[lasts, other]) == (other,)
    assert chosen([], quick=False, among=[lasts, other]) == (lasts, other)
    assert chosen([], quick=True, among=[lasts, other]) == (other,)


def test_what_is_for_one_gateway_is_not_run_on_several() -> None:
    one, other = Scenario("one", "", alone=True), Scenario("other", "")
    assert chosen([], quick=False, among=[one, other]) == (one, other)
    assert chosen([], quick=False, several=True, among=[one, other]) == (other,)
    assert chosen(["one"], quick=False, several=True, among=[one, other]) == ()


def test_batches_stored_under_another_codec_are_a_failure(tmp_path: Path, server: NoServer) -> None:
    script = "echo check-codec a gzip"
    assert cell(tmp_path, script, server, {"a": {"gzip"}}).outcome == PASS
    assert cell(tmp_path, script, server, {"a": {"gzip", "none"}}).outcome == FAIL
    assert cell(tmp_path, script, server, {"a": set()}).outcome == FAIL


def test_report_names_what_is_lost_and_what_is_gained(tmp_path: Path) -> None:
    client = folder(tmp_path, "exit 0", allowed="seek\nheaders")
    scenarios = chosen(["seek", "headers", "commits"], quick=False)
    report = Report([client], {client.name: scenarios}, "4.3.1")
    for scenario, outcome in (("seek", FAIL), ("headers", PASS), ("commits", PASS)):
        report.ours[client.name, scenario] = Cell(outcome, "", 1.0)
    report.kafka[client.name, "seek"] = Cell(PASS, "", 1.0)
    assert report.lost() == [f"{client.name} seek: fail"]
    assert report.gained() == {client.name: ["commits"]}
    assert "| seek to an offset, the beginning, the end | **fail** (Kafka: pass) |" in report.markdown()


def test_a_framework_has_scenarios_and_a_table_of_its_own(tmp_path: Path) -> None:
    for name in ("a_client", "a_framework"):
        (tmp_path / name).mkdir()
    client = folder(tmp_path / "a_client", "exit 0")
    toml = 'title = "Sums"\nregistry = "apt"\n[[scenario]]\nname = "adds"\nshows = "adds up"\nquick = false\n'
    framework = folder(tmp_path / "a_framework", "exit 0", allowed="adds", toml=toml)
    assert client.scenarios == SCENARIOS
    assert chosen([], quick=True, among=framework.scenarios) == ()
    scenarios = {client.name: chosen(["seek"], quick=False), framework.name: framework.scenarios}
    report = Report([client, framework], scenarios, "4.3.1")
    report.ours[client.name, "seek"] = Cell(PASS, "", 1.0)
    report.ours[framework.name, "adds"] = Cell(FAIL, "", 1.0)
    assert report.lost() == ["a_framework adds: fail"]
    first, second = report.markdown().split("\n\n")
    assert first.startswith("| scenario | A client |")
    assert second == "| scenario | Sums |\n| --- | --- |\n| adds up | **fail** |"


def test_every_folder_has_what_the_readme_says_and_allows_only_scenarios_that_are() -> None:
    clients = client_folders([])
    assert clients
    for client in clients:
        assert os.access(client.path / "run", os.X_OK), client.name
        assert (client.path / "FINDINGS.md").is_file(), client.name
        assert client.allowed, client.name
        assert client.allowed <= {one.name for one in client.scenarios}, client.name
        assert f"`{client.name}`" in (HERE / "README.md").read_text()


def test_scenarios_of_security_have_a_server_of_their_own() -> None:
    """With one gateway alone, and few of them are quick."""
    secured = [one for one in SCENARIOS if one.server]
    assert {one.name for one in secured} >= {"tls", "sasl-plain", "reauthentication"}
    quick = [one.name for one in chosen([], quick=True) if one.server]
    assert quick == ["tls", "sasl-scram-sha-512", "certificate-exchanged"]
    assert [one for one in chosen([], quick=False, several=True) if one.server] == []
