"""Runs a group of librdkafka's tests: `run NUMBER[/SUBTEST] BOOTSTRAP REPORT`.

Its runner writes REPORT, all of its words go into a log beside it, and what failed onto standard error. It
exits with the runner's status.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# The peer that results are compared with says so of itself; some tests expect other things of other versions.
KAFKA_VERSION = "4.3.1.0"
# `-L`: not those that need no server. `-p2` gives every patience of a test the factor 1.67.
OPTIONS = ("-L", "-p2")
# "default" is a server that makes topics which are only asked for.
SCENARIOS = {"1": "default", "0": "noautocreate"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# A failure's place, and on the next line its words; that the runner itself then ends badly says nothing more.
FAILURE = re.compile(r"^### Test (?!\"<MAIN>\")")
TOLD_LINES = 12
# Behind the name of a piece of a test.
PIECE_PASSED = ": PASS ("


def main() -> int:
    what, bootstrap, report = sys.argv[1], sys.argv[2], Path(sys.argv[3]).absolute()
    return run_tests(what, {"bootstrap.servers": bootstrap}, report)


def run_tests(what: str, conf: dict[str, str], report: Path) -> int:
    """The runner's status; `conf` has the client's properties, `what` is NUMBER[/SUBTEST]."""
    number, _, subtest = what.partition("/")
    home = Path(os.environ["COMPAT_HOME"])
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as scratch:
        place = _tree(home / "librdkafka", Path(scratch))
        lines = [f"{name}={value}\n" for name, value in {**conf, "test.topic.random": "true"}.items()]
        (place / "test.conf").write_text("".join(lines))
        with report.with_suffix(".log").open("wb") as log:
            status = subprocess.run(
                ["./test-runner", *OPTIONS, "-s", SCENARIOS[os.environ["COMPAT_AUTO_CREATE"]]],
                cwd=place,
                env=_environment(home, conf["bootstrap.servers"], number, subtest, report),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
    words = report.with_suffix(".log").read_text(errors="replace")
    if status != 0:
        print(_what_failed(words), file=sys.stderr)
    elif subtest and not has_passed(subtest, words):
        # To the runner a test of which it has chosen nothing has passed.
        report.unlink(missing_ok=True)
        print(f"test {number} has no piece with {subtest!r} in its name", file=sys.stderr)
        status = 1
    return status


def has_passed(subtest: str, log: str) -> bool:
    """Whether a piece with this in its name was run, and passed."""
    return any(subtest in line and PIECE_PASSED in line for line in log.splitlines())


def _tree(sources: Path, scratch: Path) -> Path:
    """A folder in which the tests find all of the source tree, and may write beside it."""
    tests = scratch / "tests"
    tests.mkdir()
    for entry in sources.iterdir():
        if entry.name != "tests":
            (scratch / entry.name).symlink_to(entry)
    for entry in (sources / "tests").iterdir():
        (tests / entry.name).symlink_to(entry)
    return tests


def _environment(home: Path, bootstrap: str, number: str, subtest: str, report: Path) -> dict[str, str]:
    # CI makes the runner wait three times as long everywhere.
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    sources = home / "librdkafka"
    return {
        **inherited,
        "LD_LIBRARY_PATH": f"{sources / 'src'}:{sources / 'src-cpp'}",
        "KAFKA_PATH": str(home / "kafka"),
        "BROKERS": bootstrap,
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "TESTS": number,
        "TEST_REPORT": str(report),
        **({"SUBTESTS": subtest} if subtest else {}),
    }


def _what_failed(log: str) -> str:
    lines = [COLOURS.sub("", line).strip() for line in log.splitlines()]
    found = [
        said
        for place, said in enumerate(lines)
        if any(map(FAILURE.match, lines[max(0, place - 1) : place + 1]))
    ]
    return "\n".join(found[:TOLD_LINES] or lines[-TOLD_LINES:])


if __name__ == "__main__":
    raise SystemExit(main())
