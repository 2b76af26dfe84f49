"""What a job tells: on a terminal, in a file, as JSON."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from dafka_pipeline.failures import KafkaAway
from dafka_pipeline.running.report import PROGRESS_SECONDS, Progress, Report, duration, progress_text

TIME = r"\d\d:\d\d:\d\d"


def on_a_terminal(program: str, columns: int) -> tuple[str, list[str]]:
    """All that a program wrote to its terminal, and the lines that stay on the screen."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=follower, stderr=follower)
    os.close(follower)
    written = b""
    while True:
        try:
            read = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not read:
            break
        written += read
    os.close(leader)
    assert child.wait(60) == 0, written.decode()
    text = written.decode()
    return text, screen(text, columns)


def screen(text: str, columns: int) -> list[str]:
    """What a terminal shows: carriage return, line feed, erase to the end of the line, and wrapping."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for part in re.findall(r"\x1b\[K|[\s\S]", text):
        if part == "\x1b[K":
            del lines[row][column:]
        elif part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines.append([])
        else:
            if column == columns:
                row, column = row + 1, 0
                lines.append([])
            lines[row][column : column + 1] = [part]
            column += 1
    return ["".join(line) for line in lines]


PROGRAM = """
import itertools
from dafka_pipeline.running.report import Progress, Report
ticks = itertools.count(0.0, 1.0)
report = Report("archive", clock=lambda: next(ticks))
report.progress(Progress(123456, 1000000, 5000.0, 876544, 3700.0))
report.progress(Progress(9, 10, 1.0))
report.say("A topic is new: orders")
report.progress(Progress(10, 10, 1.0))
report.result("10 records are new.")
"""


@pytest.mark.parametrize("columns", [200, 40])
def test_on_a_terminal_progress_is_one_line_that_is_drawn_anew(columns: int) -> None:
    written, lines = on_a_terminal(PROGRAM, columns)
    # It was there, no wider than the terminal.
    first = "123,456 of 1,000,000 records, 5,000 a second, 876,544 wait (1 h 1 min old), 2 min 55 s left"
    assert f"\r\x1b[K{first[: columns - 1]}\r" in written
    # What stays: the line that was said is whole, and of progress the last line alone.
    said, progress, result, end = lines
    assert re.fullmatch(rf"{TIME} A topic is new: orders", said)
    assert progress == "10 of 10 records, 1 a second"
    assert (result, end) == ("10 records are new.", "")


def test_on_a_terminal_a_line_that_was_drawn_too_soon_after_another_is_drawn_at_the_end() -> None:
    program = """
from dafka_pipeline.running.report import Progress, Report
report = Report("archive", clock=lambda: 0.0)
for done in (1, 2, 3):
    report.progress(Progress(done))
report.close()
"""
    written, lines = on_a_terminal(program, 80)
    assert "2 records" not in written
    assert lines == ["3 records, 0 a second", ""]


class Lines:
    """A report that writes into memory, on a clock of its own."""

    def __init__(self, **options: object) -> None:
        self.out = io.StringIO()
        self.now = 0.0
        self.report = Report("archive", out=self.out, clock=lambda: self.now, **options)  # type: ignore[arg-type]

    @property
    def plain(self) -> list[str]:
        return [re.sub(rf"^{TIME} ", "", line) for line in self.out.getvalue().splitlines()]

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


def test_elsewhere_lines_of_progress_are_rare_and_the_last_is_there() -> None:
    told = Lines()
    for second in range(8):
        told.now = float(second)
        told.report.progress(Progress(second))
    told.report.say("Something else.")
    told.report.close()
    told.report.close()
    often = int(PROGRESS_SECONDS)
    assert told.plain == [
        "0 records, 0 a second",
        f"{often} records, 0 a second",
        "Something else.",
        "7 records, 0 a second",
    ]


def test_the_result_comes_last_and_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    told = Lines()
    told.report.progress(Progress(1))
    told.report.progress(Progress(2))
    told.report.result("Done.", rows=2)
    assert told.plain == ["1 records, 0 a second", "2 records, 0 a second"]
    assert capsys.readouterr().out == "Done.\n"


def test_as_json_everything_has_the_same_keys(capsys: pytest.CaptureFixture[str]) -> None:
    told = Lines(as_json=True)
    told.report.say("Lost.", lost=3, event="mine", when={"a": (1, 2)})
    told.report.progress(Progress(5, 10, 2.0, 7, 1.5, 3, {"batch": 0.5}, {"orders": 5}))
    told.report.progress(Progress(6))
    told.report.failed(KafkaAway("It is away."), 4)
    told.report.result("Done.", rows=6)
    said, progress, next_progress, failed = told.objects
    assert [one.pop("job") for one in (said, progress, next_progress, failed)] == ["archive"] * 4
    assert all(isinstance(one.pop("time"), float) for one in (said, progress, next_progress, failed))
    assert said == {"event": "said", "text": "Lost.", "lost": 3, "when": {"a": [1, 2]}}
    assert progress == {
        "event": "progress",
        "text": "5 of 10 records, 2 a second, 7 wait (2 s old), 3 lost, 2 s left",
        "done": 5,
        "total": 10,
        "rows_per_second": 2.0,
        "lag_records": 7,
        "lag_seconds": 1.5,
        "rows_lost": 3,
        "phases": {"batch": 0.5},
        "by_topic": {"orders": 5},
        "seconds_left": 2.5,
    }
    assert next_progress.keys() == progress.keys()
    assert failed == {"event": "failed", "text": "It is away.", "failure": "KafkaAway", "exit_code": 4}
    result = json.loads(capsys.readouterr().out)
    assert (result["event"], result["job"], result["rows"]) == ("result", "archive", 6)


@pytest.mark.parametrize("as_json", [True, False])
def test_secrets_are_in_nothing_that_is_told(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    secret = 'pass"wörd\\'
    told = Lines(as_json=as_json, hide=lambda text: text.replace(secret, "(hidden)"))
    told.report.say(f"It is {secret}.", fact=secret, facts=[{"x": secret}])
    told.report.waiting(f"It is {secret}.")
    told.report.failed(ValueError(secret), 4)
    told.report.result(f"It is {secret}.", fact=secret)
    everything = told.out.getvalue() + capsys.readouterr().out
    escaped = json.dumps(secret)[1:-1]
    assert secret not in everything
    assert escaped not in everything
    assert "(hidden)" in everything


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(0), "0 records, 0 a second"),
        (Progress(1000, 2000, 100.0), "1,000 of 2,000 records, 100 a second, 10 s left"),
        # Without an end, what waits is what is left.
        (Progress(1, None, 10.0, 600, 0.0), "1 records, 10 a second, 600 wait, 1 min 0 s left"),
        (Progress(1, None, 0.0, 600), "1 records, 0 a second, 600 wait"),
        # More was done than had been counted.
        (Progress(12, 10, 1.0), "12 of 10 records, 1 a second"),
    ],
)
def test_progress_for_people(progress: Progress, text: str) -> None:
    assert progress_text(progress) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.6, "1 h 0 min"), (90061, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
