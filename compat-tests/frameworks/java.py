"""A Java program of the framework as a process: started, stopped in order, killed, started again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from frameworks.checks import SECONDS

# A user's JVM has more; this is enough, and leaves room for others on the machine.
HEAP = "192m"
LOG_LEVEL = "warn"
TAIL_CHARACTERS = 1500
# What the JVM ends with after SIGTERM, when its shutdown hooks are done.
STOPPED = 128 + 15
# A Connect worker gives requests to its REST server up to 60 s to end (`GRACEFUL_SHUTDOWN_TIMEOUT_MS` of its
# RestServer), and then leaves its group.
STOP_SECONDS = 90.0


class JavaProcess:
    """Each life writes to a log of its own in `directory`; `home` has the jars, and the classes of ours."""

    def __init__(
        self,
        name: str,
        main_class: str,
        arguments: Sequence[str],
        directory: Path,
        home: Path | None = None,
    ) -> None:
        home = home or Path(os.environ["COMPAT_HOME"])
        options = [
            f"-Xmx{HEAP}",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            f"-Djava.io.tmpdir={directory}",
        ]
        logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={os.environ.get('COMPAT_LOG_LEVEL', LOG_LEVEL)}"
        classpath = ["-cp", f"{home}/classes:{home}/jars/*"]
        self.name = name
        self._command = ["java", *options, logging, *classpath, main_class, *arguments]
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._lives = 0

    @property
    def log(self) -> str:
        """What this life wrote so far, to standard output and error."""
        return self._log_path.read_text(errors="replace")

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        assert not self.runs, f"{self.name} runs"
        self._lives += 1
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill9(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float) -> int:
        """What it ends with, by itself. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(seconds)

    def run(self) -> None:
        """From its start to its end, which must be a good one."""
        self.start()
        status = self.wait(SECONDS)
        assert status == 0, f"{self.name} ended with {status}"

    def stop(self) -> None:
        """SIGTERM, as a user stops it; it must end in order."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(STOP_SECONDS)
        assert status == STOPPED, f"{self.name} ended with {status}"

    def tail(self) -> str:
        """The end of its log, for a message."""
        return f"--- {self.name}, life {self._lives}\n{self.log[-TAIL_CHARACTERS:]}" if self._lives else ""

    @property
    def _log_path(self) -> Path:
        return self._directory / f"{self.name}-{self._lives}.log"
