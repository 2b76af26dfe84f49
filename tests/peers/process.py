"""A server under test as a process of its own: started, awaited, watched, and ended by its id alone."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

# How long a start or an end may take before the test gives up: generous, since two cores may run four JVMs.
START_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 60.0
LOG_TAIL_CHARACTERS = 6000
# Between two looks at a process that starts.
POLL_SECONDS = 0.01

T = TypeVar("T")


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used so far, user and system, by all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_bytes(pid: int, field: str) -> int:
    """A field of a process's status that is so much memory. Raises AssertionError: it has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no {field}: it has ended")


def family(pid: int) -> list[int]:
    """A process, and all that it has started and those have, as far as they still run."""
    try:
        started = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    except FileNotFoundError:
        return []
    return [pid, *(one for child in " ".join(started).split() for one in family(int(child)))]


class ServerEnded(AssertionError):
    """The server ended by itself before it served."""


class ServerProcess:
    """One server process; each of its lives writes to files of its own in `directory`.

    `started_at` is `time.monotonic()` just before the process was made.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.started_at = 0.0
        self.prefix: Sequence[str] = ()
        """In front of its command from the next start on; must leave the process its id: `strace -D`,
        `ip netns exec`.
        """
        self.python: Sequence[str] = (sys.executable,)
        """What runs a program of ours, from the next start on: another release has its own."""
        self.environment: dict[str, str] = {**os.environ, **(environment or {})}
        """From the next start on."""
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for a signal, as in subprocess."""
        return None if self._process is None else self._process.poll()

    @property
    def stdout_path(self) -> Path:
        return self.directory / f"stdout-{self._starts}.log"

    @property
    def stderr_path(self) -> Path:
        return self.directory / f"stderr-{self._starts}.log"

    @property
    def log(self) -> str:
        """What this life of the process wrote to standard error so far."""
        return self.stderr_path.read_text(errors="replace")

    @property
    def rss_bytes(self) -> int:
        """Resident memory now."""
        return status_bytes(self.pid, "VmRSS")

    @property
    def peak_rss_bytes(self) -> int:
        """The most resident memory that this life of the process has had, with what it maps from files."""
        return status_bytes(self.pid, "VmHWM")

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far, user and system, by all its threads."""
        return processor_seconds(self.pid)

    @property
    def bytes_read(self) -> int:
        """`rchar` of /proc/PID/io: all bytes it asked the kernel for since its start."""
        for line in Path(f"/proc/{self.pid}/io").read_text().splitlines():
            if line.startswith("rchar:"):
                return int(line.split()[1])
        raise AssertionError("no rchar in /proc/PID/io")

    def _spawn(self, command: Sequence[str]) -> None:
        assert self._process is None or self._process.poll() is not None, "already running"
        self._starts += 1
        with self.stdout_path.open("wb") as out, self.stderr_path.open("wb") as err:
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(
                [*self.prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.environment,
            )

    def wait_for_log(self, words: str) -> None:
        """Until it says this in its log. Raises ServerEnded."""
        self._wait_until(lambda: words in self.log or None)

    def _wait_until(self, ready: Callable[[], T | None], timeout: float = START_TIMEOUT_SECONDS) -> T:
        """The first answer of `ready` that is not None.

        Raises:
            ServerEnded: it ended first; the message holds the end of its log.
            AssertionError: neither happened in time; it has been killed.
        """
        deadline = time.monotonic() + timeout
        while True:
            answer = ready()
            if answer is not None:
                return answer
            if self.returncode is not None:
                raise ServerEnded(f"ended with {self.returncode} before it served:\n{self.tail()}")
            if time.monotonic() > deadline:
                tail = self.tail()
                self.kill9()
                raise AssertionError(f"not serving after {timeout} s:\n{tail}")
            time.sleep(POLL_SECONDS)

    def tail(self) -> str:
        """The end of what it wrote, for a message."""
        texts = [
            path.read_text(errors="replace") for path in (self.stdout_path, self.stderr_path) if path.exists()
        ]
        return "".join(texts)[-LOG_TAIL_CHARACTERS:]

    def send_signal(self, number: int) -> None:
        assert self._process is not None, "not started"
        self._process.send_signal(number)

    def kill9(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_SECONDS)

    def terminate(self, timeout: float = STOP_TIMEOUT_SECONDS) -> int:
        """SIGTERM, and the exit code; raises AssertionError (after SIGKILL) when it does not end in time."""
        assert self._process is not None, "not started"
        self._process.terminate()
        return self.wait(timeout)

    def wait(self, timeout: float = STOP_TIMEOUT_SECONDS) -> int:
        """The exit code once it has ended; raises AssertionError (after SIGKILL) when it does not in time."""
        assert self._process is not None, "not started"
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            tail = self.tail()
            self.kill9()
            raise AssertionError(f"still running {timeout} s later:\n{tail}") from None
