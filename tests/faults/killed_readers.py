"""Readers of a topic as processes that get a SIGKILL and are started again: a Kafka consumer, a Spark stream.

At the end each must have each offset of the topic once, with its content.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from tests.differential.batches import Record
from tests.faults.checker import Problem
from tests.faults.kafka_reader import Line, digest_of, lines_of
from tests.spark.program import Program
from tests.spark.settings import spark_settings

Stored = Mapping[int, Sequence[tuple[int, Record]]]
"""By partition, offsets and records."""

PER_BATCH: Final = "5000"
"""Records of one batch of the stream."""


class KafkaReader:
    """`tests.faults.kafka_reader` and what it has noted."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, directory: Path) -> None:
        self._notes, self._errors = directory / "kafka-reader", directory / "kafka-reader.err"
        self._command = [sys.executable, "-m", "tests.faults.kafka_reader", bootstrap, topic]
        self._command += [str(partitions), str(self._notes)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=errors)

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def misread(self, stored: Stored, seconds: float) -> Iterator[Problem]:
        """What it has otherwise, once it has as much or after so long; then it ends."""
        expected = [
            Line(partition, offset, digest_of(record.value, record.headers))
            for partition, pairs in stored.items()
            for offset, record in pairs
        ]
        deadline = time.monotonic() + seconds
        while len(found := list(lines_of(self._notes))) < len(expected) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.kill9()
        # Of one partition in order; partitions come in any.
        if sorted(found, key=lambda line: line.partition) != expected:
            what = f"{len(found)} records, or others, where the topic has {len(expected)}"
            yield Problem("misread", f"the Kafka consumer has {what}: {self._errors.read_text()[-500:]}")


class SparkReader:
    """`tests.spark.driver`, again and again: each time what is there goes into Parquet files, and a next one
    goes on from the checkpoint.
    """

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self._folder = directory / "spark"
        self._folder.mkdir()
        driver = (sys.executable, "-m", "tests.spark.driver")
        self._command = [*driver, bootstrap, topic, str(self._folder), PER_BATCH]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._program: Program | None = None
        self.ended = 0
        """Runs that had all that was there when they began."""

    def start(self) -> None:
        """The first time; after that each run is followed by the next one."""
        if self._thread.ident is None:
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._program = Program(self._command, self._folder / "log")
            self.ended += self._program.wait_for_end(1e6) == 0

    def kill9(self) -> None:
        if self._program is not None:
            with suppress(ProcessLookupError):  # it ends just now
                self._program.kill9()

    def stop(self) -> None:
        """End what runs; nothing follows."""
        self._stop.set()
        while self._thread.is_alive():
            self.kill9()
            self._thread.join(0.1)

    def misread(self, stored: Stored, seconds: float) -> Iterator[Problem]:
        """What is in the files otherwise, once a run that began now has ended, or after so long."""
        self.stop()
        log = self._folder / "log"
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with Program(self._command, log) as program, suppress(subprocess.TimeoutExpired):
                if program.wait_for_end(deadline - time.monotonic()) == 0:
                    break
        else:
            yield Problem(
                "misread", f"the Spark stream does not end: {log.read_text(errors='replace')[-1500:]}"
            )
        expected = sorted(
            (partition, offset, record.value)
            for partition, pairs in stored.items()
            for offset, record in pairs
        )
        found = self._rows()
        if found != expected:
            yield Problem(
                "misread",
                f"the Spark stream has {len(found)} rows, {len(set(found))} of them others, where the topic "
                f"has {len(expected)} records",
            )

    def _rows(self) -> list[tuple[int, int, bytes | None]]:
        builder = SparkSession.builder.appName("read").config(map=spark_settings(self._folder))
        spark = builder.getOrCreate()
        try:
            rows = spark.read.parquet(str(self._folder / "sink")).select("partition", "offset", "value")
            return sorted((row[0], row[1], bytes(row[2])) for row in rows.toLocalIterator())
        finally:
            spark.stop()
