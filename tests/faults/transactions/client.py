"""One of the transactional clients, as a process that is killed and started again."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.faults.checker import Problem
from tests.faults.transactions.clients import HUNG, client_process
from tests.faults.transactions.commits import Commits
from tests.faults.transactions.told import Histories

END_SECONDS: Final = 180.0
"""How long a client may take to end what it has begun, once everything serves."""

COMMIT_SECONDS: Final = 180.0
"""Within which each worker commits something, once everything serves."""

TAIL_CHARACTERS: Final = 3000


class Client:
    """Its lives write one file each."""

    def __init__(
        self, client: str, bootstrap: str, directory: Path, histories: Histories, workers: int, seed: int
    ) -> None:
        self.name = client
        self._bootstrap, self._directory = bootstrap, directory
        self._workers, self._seed = workers, seed
        self._lives = self.hung = 0
        self._drains = False
        self._histories, self._last = histories, self._errors
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Its next life."""
        self._lives += 1
        said = self._directory / f"{self.name}-{self._lives}.jsonl"
        arguments = [self._bootstrap, self.name, str(self._lives), str(self._workers), str(self._seed)]
        with said.open("w") as out, self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [*client_process(self.name), *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self._histories.files.append(said)
        self._last = said
        self._commits = Commits(said, [f"{self.name}-{number}" for number in range(self._workers)])

    @property
    def _errors(self) -> Path:
        return self._directory / f"{self.name}.log"

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close()

    def _close(self) -> None:
        """What went to it is gone with it."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def revive(self) -> None:
        """Start it again if it hangs by a defect of its own."""
        if self._process is not None and self._process.poll() == HUNG:
            self.hung += 1
            self._close()
            self.start()
            if self._drains:
                self.drain()

    def drain(self) -> None:
        """Nothing new is written to the inputs."""
        self._drains = True
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("drain\n")

    def stop(self) -> list[Problem]:
        """It ends what it has begun, or is stuck."""
        process = self._process
        assert process is not None
        try:
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill9()
            return [Problem("stuck client", f"{self.name} does not end: {self._tail()}")]
        if process.returncode not in (0, HUNG):
            return [Problem("stuck client", f"{self.name} ended with {process.returncode}: {self._tail()}")]
        return []

    def wait_until_all_have_committed(self) -> None:
        """In this life. Raises AssertionError: a worker does not go on."""
        deadline = time.monotonic() + COMMIT_SECONDS
        while left := self._commits.left():
            self.revive()
            assert not self._has_ended, f"{self.name} has ended: {self._tail()}"
            assert time.monotonic() < deadline, f"no commits of {sorted(left)}: {self._tail()}"
            time.sleep(0.2)

    def has_drained(self) -> bool:
        """Each worker has committed what it began after it knew that it is to drain."""
        self.revive()
        return not self._commits.left_since_drain()

    @property
    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _tail(self) -> str:
        last = self._last.read_text(errors="replace")[-TAIL_CHARACTERS:]
        return self._errors.read_text(errors="replace")[-TAIL_CHARACTERS:] + "\n" + last
