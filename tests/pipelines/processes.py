"""`dafka-pipeline` as a process of its own with its JVM, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from dafka_pipeline.running.fail_points import VARIABLE
from tests.peers.maven import pipeline_jars
from tests.pipelines.settings import SMALL

END_SECONDS = 300.0
ROOT = Path(__file__).parents[2]


class Pipeline:
    """A context manager around one call of the command, its process group killed at the end.

    fail_at: the fail point at which it shall die.
    """

    def __init__(
        self,
        folder: Path,
        command: str,
        *arguments: str,
        master: str = "local[2]",
        fail_at: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        conf = [f"--conf={name}={value}" for name, value in SMALL.items()]
        options = ["--master", master, "--jars", str(pipeline_jars()), *conf]
        self._line = [sys.executable, "-m", "dafka_pipeline", command, *arguments, *options]
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: fail_at, **(environment or {})}
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._log = folder / f"{command}-{time.monotonic_ns()}.log"
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill9()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    @property
    def text(self) -> str:
        """What it wrote so far."""
        return self._log.read_text(errors="replace")

    def kill9(self) -> None:
        """SIGKILL to it and all it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def terminate(self) -> None:
        """SIGTERM to the command alone, as a supervisor does."""
        self._process.send_signal(signal.SIGTERM)

    def end(self, expected: int = 0, seconds: float = END_SECONDS) -> str:
        """Wait for its end and return what it wrote; anything but the expected exit code is an error."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.text[-4000:]}") from None
        assert code == expected, f"ended with {code}, not {expected}:\n{self.text[-4000:]}"
        return self.text

    def await_text(self, words: str, seconds: float = END_SECONDS) -> None:
        """Wait until it has written that."""
        self.await_until(lambda: words in self.text, seconds)

    def await_until(self, happened: Callable[[], bool], seconds: float = END_SECONDS) -> None:
        """Wait until something has happened, which needs it running."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert self._process.poll() is None, f"ended too early:\n{self.text[-4000:]}"
            assert time.monotonic() < deadline, f"did not happen:\n{self.text[-4000:]}"
            time.sleep(0.05)


def run(folder: Path, command: str, *arguments: str, expected: int = 0, master: str = "local[2]") -> str:
    """One call from its start to its end."""
    with Pipeline(folder, command, *arguments, master=master) as call:
        return call.end(expected)


def die(folder: Path, command: str, *arguments: str, at: str, master: str = "local[2]") -> None:
    """One call that is killed at a fail point."""
    with Pipeline(folder, command, *arguments, fail_at=at, master=master) as call:
        call.end(-signal.SIGKILL)
