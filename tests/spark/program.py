"""A Spark program as processes of its own (Python and its JVM), ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.spark.settings import spark_environment

START_SECONDS = 90.0


class Program:
    """A context manager around a running command and everything it started."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=spark_environment(),
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill9()

    @property
    def text(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def kill9(self) -> None:
        """SIGKILL to the program and to its JVM: the process group that it leads."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait_for_end(self, seconds: float = START_SECONDS) -> int:
        """Its exit code, once it has ended by itself. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def killed_after(self, seconds: float) -> bool:
        """Whether it was killed then, or had ended by itself."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill9()
            return True
        return False

    def wait_until(self, happened: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Looks every few milliseconds; the program's end or the end of patience is an error."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert self._process.poll() is None, f"ended too early:\n{self.text[-4000:]}"
            assert time.monotonic() < deadline, f"did not happen:\n{self.text[-4000:]}"
            time.sleep(0.002)
