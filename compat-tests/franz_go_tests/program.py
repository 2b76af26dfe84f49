"""Runs a group of franz-go's tests: `run NAME BOOTSTRAP REPORT`, NAME up to its first underscore.

It writes REPORT, all words of the tests into a log beside it, and what failed onto standard error. It exits
with the status of the tests.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Of the tests that move records from topic to topic; the suite's own number is 500,000.
RECORDS = "200000"
STATES = {"PASS": "PASSED", "SKIP": "SKIPPED", "FAIL": "FAILED"}
# One that a test has (`Name/part`) is indented, and belongs to it.
OUTCOME = re.compile(r"^--- (PASS|SKIP|FAIL): (\S+) \(", re.MULTILINE)
FAILURE = re.compile(r"^\s+(--- FAIL|\S+_test\.go:\d+:)|^panic:")
TOLD_LINES = 12


def main() -> int:
    name, bootstrap, report = sys.argv[1], sys.argv[2], Path(sys.argv[3]).absolute()
    log = report.with_suffix(".log")
    with log.open("wb") as words, tempfile.TemporaryDirectory(prefix="franz-go-") as scratch:
        status = subprocess.run(
            [f"{os.environ['COMPAT_HOME']}/kgo.test", "-test.v", "-test.run", f"^{name}(_.*)?$"],
            cwd=scratch,
            env=os.environ
            | {
                "KGO_SEEDS": bootstrap,
                "KGO_TEST_RF": "1",
                "KGO_TEST_RECORDS": RECORDS,
                # Connections of groups' members end after a second, and transactions begin with what ends the
                # one before.
                "KGO_TEST_CHAOS": "1",
                "KGO_TEST_UNSAFE": "1",
            },
            stdout=words,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    said = log.read_text(errors="replace")
    report.write_text(json.dumps({"tests": states_in(said)}))
    if status != 0:
        print(_what_failed(said), file=sys.stderr)
    return status


def states_in(log: str) -> dict[str, dict[str, str]]:
    """What came of each test; one that a panic has ended is not among them."""
    return {test: {"state": STATES[outcome]} for outcome, test in OUTCOME.findall(log)}


def _what_failed(log: str) -> str:
    lines = log.splitlines()
    return "\n".join(
        [line.strip() for line in lines if FAILURE.match(line)][:TOLD_LINES] or lines[-TOLD_LINES:]
    )


if __name__ == "__main__":
    raise SystemExit(main())
