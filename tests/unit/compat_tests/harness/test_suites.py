"""What the table of a client's own suite says, whatever the suite's program does."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import suites
from harness.cell import FAIL, NOT_IN_CLIENT, PASS
from harness.folders import HERE
from harness.suite_folders import SuiteFolder, suite_folders
from harness.suite_report import SuiteReport
from harness.suite_run import Result, SuiteRun

ABOUT = """
title = "A suite"
package = "a@1"
integrity = "sha512-"
partitions = 4
quick = ["02"]

[tests]
auto_create = ["01_first", "01_second", "02_third"]
no_auto_create = ["03_fourth"]

[seconds]
02 = 1.5

[parts]
03 = ["one", "two: b"]

[[excluded]]
title = "Security"
reason = "needs TLS"
tests = ["04_tls"]
"""


def folder(path: Path, script: str = "exit 0", allowed: str = "") -> SuiteFolder:
    (path / "suite.toml").write_text(ABOUT)
    (path / "allow.txt").write_text(f"# a comment\n{allowed}\n")
    (path / "run").write_text(f"#!/bin/sh\n{script}\n")
    (path / "run").chmod(0o755)
    return SuiteFolder(path)


def states(**tests: str) -> str:
    """What a suite's program writes, as a shell command."""
    report = {"tests": {name: {"state": state} for name, state in tests.items()}}
    return f"""echo '{json.dumps(report)}' > "$3" """


def results(path: Path, script: str) -> dict[str, Result]:
    suite = folder(path, script)
    return SuiteRun(suite, path, "127.0.0.1:1", path / "reports", "dafka").results(suite.groups, jobs=1)


def outcomes(path: Path, script: str) -> dict[str, str]:
    return {test: result.outcome for test, result in results(path, script).items()}


def test_tests_of_one_number_and_server_are_one_group(tmp_path: Path) -> None:
    suite = folder(tmp_path)
    assert [(one.name, one.tests, one.auto_create, one.quick) for one in suite.groups] == [
        ("01", ("01_first", "01_second"), True, False),
        ("02", ("02_third",), True, True),
        ("03", ("03_fourth",), False, False),
    ]
    assert [one.seconds for one in suite.groups] == [300.0, 1.5, 300.0]
    assert suite.groups[2].parts == ("one", "two: b")
    assert suite.named == {"01_first", "01_second", "02_third", "03_fourth", "04_tls"}


def test_the_suites_own_report_says_what_came_of_each_test(tmp_path: Path) -> None:
    script = states(
        **{"01_first": "PASSED", "01_second": "FAILED", "02_third": "SKIPPED", "03_fourth": "RUNNING"}
    )
    assert outcomes(tmp_path, script) == {
        "01_first": PASS,
        "01_second": FAIL,
        "02_third": NOT_IN_CLIENT,
        "03_fourth": FAIL,
    }


def test_a_program_that_writes_no_report_or_half_of_one_has_failed_with_its_words(tmp_path: Path) -> None:
    found = results(tmp_path, 'echo it broke >&2; echo \'{"tests": {"01_first": \' > "$3"; exit 0')
    assert {one.outcome for one in found.values()} == {FAIL}
    assert {one.words for one in found.values()} == {"it broke"}


def test_a_group_that_hangs_costs_its_own_limit_only(tmp_path: Path) -> None:
    passed = states(**{"01_first": "PASSED", "01_second": "PASSED", "03_fourth": "PASSED"})
    found = results(tmp_path, f'[ "$1" = 02 ] && sleep 1000; {passed}')
    assert found["02_third"].outcome == FAIL
    assert "still running after 1.5 s" in found["02_third"].words
    assert [found[test].outcome for test in ("01_first", "01_second", "03_fourth")] == [PASS] * 3


def test_the_program_is_told_part_bootstrap_and_kind_of_server(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    results(tmp_path, f'echo "$1|$2|$COMPAT_HOME|$COMPAT_AUTO_CREATE" >> {calls}')
    assert calls.read_text().splitlines() == [
        f"{what}|127.0.0.1:1|{tmp_path}|{auto}"
        for what, auto in (("01", 1), ("02", 1), ("03/one", 0), ("03/two: b", 0))
    ]


def test_a_test_run_in_parts_passes_when_each_part_does(tmp_path: Path) -> None:
    passed, failed = states(**{"03_fourth": "PASSED"}), states(**{"03_fourth": "FAILED"})
    script = f'[ "$1" = "03/two: b" ] && {{ echo part two >&2; {failed}; exit 1; }}; {passed}'
    found = results(tmp_path, script)["03_fourth"]
    assert (found.outcome, found.words) == (FAIL, "part two")
    assert results(tmp_path, passed)["03_fourth"].outcome == PASS
    assert (tmp_path / "reports" / "03-two-b-no-auto-create.json").is_file()


def test_names_that_the_suite_has_are_kept_so_that_none_is_forgotten(tmp_path: Path) -> None:
    suite = folder(tmp_path, states(**{"01_first": "PASSED", "<MAIN>": "PASSED", "99_new": "SKIPPED"}))
    run = SuiteRun(suite, tmp_path, "127.0.0.1:1", tmp_path / "reports", "dafka")
    run.results(suite.groups[:1], jobs=1)
    assert run.seen - suite.named == {"99_new"}


def times(suite: SuiteFolder, *runs: str) -> list[dict[str, Result]]:
    """A run for each word; its letters are the tests' outcomes in order: p(ass), f(ail), s(kipped)."""
    kinds = {"p": PASS, "f": FAIL, "s": NOT_IN_CLIENT}
    return [
        {test: Result(kinds[letter], letter, 1.0) for test, letter in zip(suite.tests, run, strict=True)}
        for run in runs
    ]


def test_two_of_three_runs_decide(tmp_path: Path) -> None:
    suite = folder(tmp_path, allowed="01_first\n01_second\n")
    report = SuiteReport(suite, "4.3.1")
    report.ours = times(suite, "pfpp", "ppfs", "ffps")
    report.kafka = times(suite, "pppf", "pppf", "fpff")
    assert report.counted() == ["01_first", "01_second", "02_third"]
    assert report.lost() == [f"{suite.name} 01_second: passed in 1 of 3"]
    assert report.gained() == ["02_third"]
    text = report.markdown()
    assert "2 of 4 tests pass" in text
    assert "Of 3 that pass on Apache Kafka 4.3.1, 2 pass (66.7 %)." in text
    assert "Left out, of 5: Security 1." in text
    assert "| 01_second | 1 of 3 | 3 of 3 |" in text
    assert "| 03_fourth | 1 of 3 | 0 of 3 |" in text
    assert "| 01_first |" not in text
    written = json.loads(report.json())["tests"]
    assert [one["test"] for one in written] == list(suite.tests)
    assert [run["outcome"] for run in written[1]["dafka"]] == [FAIL, PASS, FAIL]


@pytest.mark.parametrize("suite", suite_folders([]), ids=lambda suite: suite.name)
def test_every_suite_has_what_the_readme_says_and_names_each_test_once(suite: SuiteFolder) -> None:
    for program in ("bring", "run"):
        assert os.access(suite.path / program, os.X_OK)
    assert (suite.path / "FINDINGS.md").is_file()
    assert f"`{suite.name}`" in (HERE / "README.md").read_text()
    assert suite.allowed
    assert suite.allowed <= set(suite.tests)
    named = [*suite.tests, *(test for one in suite.excluded for test in one.tests)]
    assert len(named) == len(set(named))
    assert all(one.reason for one in suite.excluded)
    groups = {group.name for group in suite.groups}
    for names in (suite.about["quick"], suite.about["seconds"], suite.about["parts"]):
        assert set(names) <= groups


class FakeServers:
    """In the place of both servers: it notes how each was started, and its address is its name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[tuple[object, ...]] = []
        monkeypatch.setattr(suites, "our_server", self._ours)
        monkeypatch.setattr(suites, "ApacheKafka", self._kafka)

    def _ours(self, gateways: int, *arguments: str) -> AbstractContextManager[SimpleNamespace]:
        self.started.append(("ours" if gateways == 1 else f"{gateways} of ours", *arguments))
        return nullcontext(SimpleNamespace(bootstrap="ours"))

    def _kafka(self, properties: dict[str, str]) -> AbstractContextManager[SimpleNamespace]:
        self.started.append(("kafka", properties["num.partitions"], properties["auto.create.topics.enable"]))
        return nullcontext(SimpleNamespace(bootstrap="kafka"))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> FakeServers:
    return FakeServers(monkeypatch)


SECOND_FAILS_WITH_US = (
    f'if [ "$2$1" = ours02 ]; then {states(**{"02_third": "FAILED"})}; else '
    + states(**dict.fromkeys(("01_first", "01_second", "02_third", "03_fourth"), "PASSED"))
    + "; fi"
)


def suite_in_cache(path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteFolder:
    suite = folder(path, SECOND_FAILS_WITH_US)
    monkeypatch.setattr(SuiteFolder, "bring", lambda _suite: path)
    return suite


@pytest.mark.parametrize(
    ("kafka", "run_on_kafka"),
    [("none", set()), ("failed", {"02_third"}), ("all", {"01_first", "01_second", "02_third", "03_fourth"})],
)
def test_what_is_run_on_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: FakeServers, kafka: str, run_on_kafka: set[str]
) -> None:
    suite = suite_in_cache(tmp_path, monkeypatch)
    report = suites.run_suite(suite, tmp_path / "out", jobs=2, runs=1, kafka=kafka)
    assert [set(run) for run in report.ours] == [set(suite.tests)]
    assert {test for run in report.kafka for test in run} == run_on_kafka
    assert report.ours[0]["02_third"].outcome == FAIL
    assert json.loads((tmp_path / "out" / f"{suite.name}.json").read_text())["suite"] == "A suite"


def test_each_run_has_fresh_servers_of_the_kind_that_its_tests_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: FakeServers
) -> None:
    suite = suite_in_cache(tmp_path, monkeypatch)
    suites.run_suite(suite, tmp_path / "out", jobs=2, runs=2, kafka="all")
    wanted = [
        ("ours", "--partitions", "4", "--auto-create-topics"),
        ("ours", "--partitions", "4", "--no-auto-create-topics"),
        ("kafka", "4", "true"),
        ("kafka", "4", "false"),
    ]
    assert sorted(servers.started) == sorted(2 * wanted)
    assert (tmp_path / "out" / suite.name / "kafka-2" / "03-one-no-auto-create.json").is_file()


def test_what_asks_for_several_brokers_is_run_on_several_and_not_on_one_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: FakeServers
) -> None:
    suite_in_cache(tmp_path, monkeypatch)
    more = '[brokers]\n02 = 3\n[alone]\n03 = ["one"]\n'
    (tmp_path / "suite.toml").write_text(f"{ABOUT}\n{more}")
    suite = SuiteFolder(tmp_path)
    alone = suites.run_suite(suite, tmp_path / "out", jobs=1)
    assert alone.tests == ("01_first", "01_second", "03_fourth")
    cluster = suites.run_suite(suite, tmp_path / "out", jobs=1, gateways=3)
    assert cluster.ours[0]["02_third"].outcome == FAIL
    assert cluster.kafka == []
    assert suite.groups[2].over(1).parts == ("one", "two: b")
    assert suite.groups[2].over(3).parts == ("two: b",)
    assert {one[0] for one in servers.started} == {"ours", "3 of ours"}


def test_quick_ones_and_named_ones_are_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: FakeServers
) -> None:
    suite = suite_in_cache(tmp_path, monkeypatch)
    quick = suites.run_suite(suite, tmp_path, jobs=1, quick=True, kafka="none")
    named = suites.run_suite(suite, tmp_path, jobs=1, tests=["01_second"], kafka="none")
    assert quick.tests == ("02_third",)
    assert named.tests == ("01_first", "01_second")  # one group
    with pytest.raises(SystemExit, match="no such test: 04_tls"):
        suites.run_suite(suite, tmp_path, jobs=1, tests=["04_tls"])
