"""Producers as processes that get a SIGKILL and are started again: native ones, and Kafka's.

What a producer was acknowledged it notes in a file, another one in each life.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from mesh.protocol.endpoints import TowerAddress
from tests.faults.checker import Problem
from tests.spark.writer import Place

DONE_SECONDS = 180.0
"""For what is under way at the end."""


class KilledSender:
    """A program that says "ready", notes what is acknowledged, and ends in order at SIGTERM."""

    def __init__(self, name: str, directory: Path, module: str, *arguments: str) -> None:
        self._directory, self._name = directory, name
        self._errors = directory / f"{name}.err"
        self._command = [sys.executable, "-X", "faulthandler", "-m", module, *arguments]
        self._notes: list[Path] = []
        """Of each life."""
        self._failed: list[Problem] = []
        """Lives that ended by themselves."""
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        """It was told to end."""

    def start(self) -> None:
        notes = self._directory / f"{self._name}-{len(self._notes)}"
        self._notes.append(notes)
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._command, str(notes)], stdout=subprocess.PIPE, stderr=errors
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self._errors.read_text()[-1500:]

    def kill9(self) -> None:
        if self._process is not None:
            if not self._ended and self._process.poll() is not None:
                self._failed.append(self._failure())
            self._process.kill()
            self._process.communicate()

    def end(self) -> list[Problem]:
        """In order: everything is acknowledged."""
        assert self._process is not None
        if self._process.poll() is not None:
            self._failed.append(self._failure())
        self._ended = True
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(DONE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # it says where it is
            code = self._process.wait(DONE_SECONDS)
        if code:
            self._failed.append(self._failure())
        return self._failed

    def _failure(self) -> Problem:
        return Problem("failed", f"{self._name}: {self._errors.read_text()[-1500:]}")

    def noted(self) -> list[list[str]]:
        """The words of each whole line, split at the first two spaces."""
        texts = [notes.read_text() for notes in self._notes if notes.exists()]
        lines = [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]
        return [line.split(" ", 2) for line in lines]


class NativeSender(KilledSender):
    """Its records count when so many stores have them; each life has another address."""

    def __init__(self, tower: TowerAddress, subject: str, stores: int, directory: Path, number: int) -> None:
        super().__init__(
            f"native-{number}", directory, "tests.faults.native_sender", subject, str(tower), str(stores)
        )

    def acknowledged(self) -> dict[str, int]:
        """By address: how many of its records, from 0 on."""
        return {address: int(count) for address, count in self.noted()}


class KafkaSender(KilledSender):
    """An idempotent producer; each life is another one to the topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, directory: Path, number: int) -> None:
        super().__init__(
            f"kafka-{number}",
            directory,
            "tests.faults.kafka_sender",
            *(bootstrap, topic, str(partitions), str(number)),
        )

    def acknowledged(self) -> dict[bytes, Place]:
        """By value: where it is."""
        return {value.encode(): (int(at), int(offset)) for at, offset, value in self.noted()}
