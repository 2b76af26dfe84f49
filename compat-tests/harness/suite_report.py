"""The table of a suite: what passes on both servers, over several runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.cell import PASS
from harness.suite_folders import SuiteFolder
from harness.suite_run import Result

Run = dict[str, Result]


@dataclass
class SuiteReport:
    """Each run's results by test, with us and with Apache Kafka.

    A test passes when it passed in more than half of the runs (two of three). One that does not pass on
    Apache Kafka does not count.
    """

    suite: SuiteFolder
    kafka_version: str
    ours: list[Run] = field(default_factory=list)
    kafka: list[Run] = field(default_factory=list)
    unnamed: set[str] = field(default_factory=set)
    """Tests that the suite has and its folder neither runs nor excludes."""

    @property
    def tests(self) -> tuple[str, ...]:
        """Those that were run, in the suite's order."""
        return tuple(test for test in self.suite.tests if any(test in run for run in self.ours))

    def counted(self) -> list[str]:
        """Tests that Apache Kafka passes."""
        return [test for test in self.tests if _passes(test, self.kafka)]

    def lost(self) -> list[str]:
        """Tests that must pass and do not, a sentence each."""
        return [
            f"{self.suite.name} {test}: passed in {_times(test, self.ours)}"
            for test in self.tests
            if test in self.suite.allowed and not _passes(test, self.ours)
        ]

    def gained(self) -> list[str]:
        """Tests that pass and are not in the allow-list yet."""
        return [test for test in self.tests if test not in self.suite.allowed and _passes(test, self.ours)]

    def markdown(self) -> str:
        """What passes, then a row for each test that does not pass on both servers."""
        passed = [test for test in self.tests if _passes(test, self.ours)]
        lines = [f"{self.suite.title}: {len(passed)} of {len(self.tests)} tests pass."]
        if counted := self.counted():
            both = [test for test in counted if test in passed]
            lines.append(
                f"Of {len(counted)} that pass on Apache Kafka {self.kafka_version}, {len(both)} pass "
                f"({100 * len(both) / len(counted):.1f} %)."
            )
        left_out = ", ".join(f"{one.title} {len(one.tests)}" for one in self.suite.excluded)
        lines.append(f"Left out, of {len(self.suite.named)}: {left_out}.")
        rows = [
            f"| {test} | {_times(test, self.ours)} | {_times(test, self.kafka)} |"
            for test in self.tests
            if test not in passed or (self.kafka and test not in counted)
        ]
        if rows:
            lines += ["", "| test | passed with us | with Apache Kafka |", "| --- | --- | --- |", *rows]
        return "\n".join(lines)

    def json(self) -> str:
        tests = [
            {
                "test": test,
                "allowed": test in self.suite.allowed,
                "dafka": [run[test].as_json() for run in self.ours if test in run],
                "kafka": [run[test].as_json() for run in self.kafka if test in run],
            }
            for test in self.tests
        ]
        when = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"when": when, "suite": self.suite.title, "kafka_version": self.kafka_version}
        return json.dumps({**about, "tests": tests}, indent=1)

    def failures(self) -> str:
        """What each run said of a test that failed with us."""
        return "\n".join(
            f"--- {test}, run {number}, {run[test].seconds:g} s: {run[test].outcome}\n{run[test].words}"
            for test in self.tests
            for number, run in enumerate(self.ours, start=1)
            if test in run and run[test].outcome != PASS
        )

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.suite.name}.json").write_text(self.json() + "\n")
        (folder / f"{self.suite.name}.md").write_text(self.markdown() + "\n")


def _passes(test: str, runs: list[Run]) -> bool:
    found = [run[test].outcome for run in runs if test in run]
    return 2 * found.count(PASS) > len(found)


def _times(test: str, runs: list[Run]) -> str:
    found = [run[test].outcome for run in runs if test in run]
    return f"{found.count(PASS)} of {len(found)}" if found else "not run"
