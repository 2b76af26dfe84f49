"""Runs a suite's tests against a server, group by group, and reads what came of each from its own report."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.cell import FAIL, NOT_IN_CLIENT, PASS, WORDS_CHARACTERS, end_session
from harness.suite_folders import Group, SuiteFolder

# The suite's words for a test's end. Anything else (it still ran, it never started) is a failure.
WHOLE_RUN = "<MAIN>"
OUTCOMES = {"PASSED": PASS, "SKIPPED": NOT_IN_CLIENT}


@dataclass
class Result:
    """What came of one test in one run."""

    outcome: str
    words: str
    seconds: float

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class SuiteRun:
    """Calls of a suite's program against one server; each report and log is kept in `reports`."""

    def __init__(self, suite: SuiteFolder, home: Path, bootstrap: str, reports: Path, label: str) -> None:
        self._suite = suite
        self._home = home
        self._bootstrap = bootstrap
        self._reports = reports
        self._label = label
        self.seen: set[str] = set()
        """The names of all tests that the suite itself knows."""
        reports.mkdir(parents=True, exist_ok=True)

    def results(self, groups: Iterable[Group], jobs: int) -> dict[str, Result]:
        """By test. `jobs` groups are run at a time."""
        found: dict[str, Result] = {}
        with ThreadPoolExecutor(jobs) as pool:
            for results in pool.map(self._group, groups):
                found.update(results)
        return found

    def _group(self, group: Group) -> dict[str, Result]:
        calls = [self._call(group, part) for part in group.parts or ("",)]
        results = {test: _joined([call[test] for call in calls]) for test in group.tests}
        for test, result in results.items():
            said = result.words.strip().splitlines()[-1:] if result.outcome == FAIL else []
            print(
                f"{self._label}: {self._suite.name} {test}: {result.outcome}, {result.seconds:g} s", *said,
                flush=True,
            )  # fmt: skip
        return results

    def _call(self, group: Group, part: str) -> dict[str, Result]:
        scenario = "" if group.auto_create else "no-auto-create"
        name = re.sub(r"[^\w.-]+", "-", "-".join(filter(None, (group.name, part, scenario))))
        report = self._reports / f"{name}.json"
        report.unlink(missing_ok=True)  # of an earlier run
        start = time.monotonic()
        said = self._run(group, f"{group.name}/{part}" if part else group.name, report)
        seconds = round(time.monotonic() - start, 1)
        states = states_in(report)
        self.seen |= set(states)
        return {test: _result(test, states, said, seconds) for test in group.tests}

    def _run(self, group: Group, what: str, report: Path) -> str:
        """Run the program to its end or the group's limit; the end of its words."""
        with report.with_suffix(".err").open("w+") as words:
            process = subprocess.Popen(
                self._suite.command(what, self._bootstrap, report),
                env={
                    **self._suite.environment(self._home),
                    "COMPAT_AUTO_CREATE": str(int(group.auto_create)),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                start_new_session=True,
            )
            try:
                process.wait(group.seconds)
            except subprocess.TimeoutExpired:
                words.write(f"\nstill running after {group.seconds:g} s")
                words.flush()
            finally:
                end_session(process)
            words.seek(0)
            return words.read().strip()[-WORDS_CHARACTERS:]


def states_in(report: Path) -> dict[str, str]:
    """The state of each test in a report of the suite; nothing where there is no whole report."""
    try:
        tests = json.loads(report.read_text())["tests"]
        return {name: str(test["state"]) for name, test in tests.items() if name != WHOLE_RUN}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _result(test: str, states: dict[str, str], said: str, seconds: float) -> Result:
    outcome = OUTCOMES.get(states.get(test, ""), FAIL)
    return Result(outcome, said if outcome != PASS else "", seconds)


def _joined(parts: list[Result]) -> Result:
    """Of a test run in parts: it passes when each part does."""
    worst = next((one.outcome for one in parts if one.outcome != PASS), PASS)
    words = "\n".join(dict.fromkeys(one.words for one in parts if one.outcome != PASS))
    return Result(worst, words, round(sum(one.seconds for one in parts), 1))
