"""The load of another client than librdkafka: a process is given records, and says what became of them."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from tests.faults.checker import Problem
from tests.faults.history import History, Result, Sent
from tests.faults.senders import sender_command
from tests.faults.workloads import make_value, read_value

TIMEOUT_MS: Final = 900_000
"""Milliseconds after which a client gives a record up: longer than anything is away, also while etcd is put
back to older data on a machine that does much else."""

END_SECONDS: Final = 300.0
"""How long a client may take for what it has been given, once everything serves."""

MOST_IN_FLIGHT: Final = 500
RECORD_BYTES: Final = 500
STARTED_SECONDS: Final = 120.0
TAIL_CHARACTERS: Final = 3000


class ClientLoad:
    """One of `senders.CLIENTS`; what it says goes into the history under its name."""

    def __init__(
        self,
        client: str,
        bootstrap: str,
        topic: str,
        history: History,
        directory: Path,
        partitions: int,
        pause: float,
    ) -> None:
        self.name = client
        self.acked = self.unknown = 0
        self._history, self._partitions, self._pause = history, partitions, pause
        self._said = directory / f"{client}.log"
        self._stop = threading.Event()
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*sender_command(client), bootstrap, topic, str(TIMEOUT_MS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                bufsize=1,
            )
        self._number = 0
        self._gave_all = False
        """It was given records until it was told to stop."""
        self._threads = [
            threading.Thread(target=run, name=f"{client} {run.__name__}", daemon=True)
            for run in (self._send_all, self._hear_all)
        ]
        for thread in self._threads:
            thread.start()

    def _send_all(self) -> None:
        given = self._process.stdin
        assert given is not None
        # Where the program has ended, `stop` says so; a close sends what is left, and fails as a write does.
        with suppress(BrokenPipeError), given:
            while not self._stop.wait(self._pause):
                if self._number - self.acked - self.unknown <= MOST_IN_FLIGHT:
                    self._give(given)
            self._gave_all = True

    def _give(self, given: IO[str]) -> None:
        """The next record, to the next partition."""
        number, partition = self._number, self._number % self._partitions
        value = make_value(self.name, number, RECORD_BYTES)
        self._history.add(Sent(self.name, number, partition, read_value(value)[2]))
        self._number += 1
        given.write(f"{number}\t{partition}\t{value.decode()}\n")

    def _hear_all(self) -> None:
        told = self._process.stdout
        assert told is not None
        with told:
            for line in told:
                number, outcome, *why = line.rstrip("\n").split("\t")
                if outcome == "error":
                    self.unknown += 1
                    self._history.add(Result(self.name, int(number), "unknown", why=" ".join(why)))
                else:
                    self.acked += 1
                    self._history.add(Result(self.name, int(number), "ok", int(outcome)))

    def wait_until_it_has_begun(self) -> None:
        """Until its first record is acknowledged."""
        deadline = time.monotonic() + STARTED_SECONDS
        while not self.acked:
            assert self._process.poll() is None, f"{self.name} has ended:\n{self._tail()}"
            assert time.monotonic() < deadline, f"{self.name} sends nothing:\n{self._tail()}"
            time.sleep(0.01)

    def stop(self) -> list[Problem]:
        """Stops sending and waits until everything sent has its result, or the client is stuck."""
        self._stop.set()
        try:
            code: int | None = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        self.kill9()
        left = self._number - self.acked - self.unknown
        if code == 0 and left == 0 and self._gave_all:
            return []
        how = "does not end" if code is None else f"ended with {code}"
        return [Problem("stuck client", f"{self.name} {how}, {left} without a result: {self._tail()}")]

    def kill9(self) -> None:
        self._stop.set()
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()

    def _tail(self) -> str:
        return self._said.read_text(errors="replace")[-TAIL_CHARACTERS:]
