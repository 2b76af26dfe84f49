"""Producers as processes that get a SIGKILL and are started again: native ones, and Kafka's.

What a producer was acknowledged it notes in a file, one for all its lives.
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
        self._notes = directory / name
        self._errors = directory / f"{name}.err"
        self._command = [sys.executable, "-m", module, *arguments, str(self._notes)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self._errors.read_text()[-1500:]

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def end(self) -> list[Problem]:
        """In order: everything is acknowledged."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(DONE_SECONDS)
        return [Problem("failed", self._errors.read_text()[-1500:])] if code else []

    def noted(self) -> list[list[str]]:
        """Three words of each whole line, or two."""
        text = self._notes.read_text() if self._notes.exists() else ""
        return [line.split(" ", 2) for line in text[: text.rfind("\n") + 1].splitlines()]


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
