"""A file whose lines a source connector writes to a topic, and a sink connector to another file."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from frameworks.checks import SECONDS, same_lines, until
from frameworks.main import Stage

from kafka_connect.workers import Cluster
from tests.peers.meanwhile import meanwhile

LINES_AT_A_TIME = 10
PAUSE_SECONDS = 0.05
SLOW_PAUSE_SECONDS = 0.2


class Pipe:
    """`lines` are all that were ever appended; they differ from each other."""

    def __init__(self, stage: Stage, cluster: Cluster) -> None:
        self.cluster = cluster
        self.server = stage.server
        self.topic = stage.name("lines")
        self.source = stage.name("source")
        self.sink = stage.name("sink")
        self.lines: list[str] = []
        self.input = stage.directory / "input.txt"
        self.output = stage.directory / "output.txt"
        self.input.touch()

    def create(self) -> None:
        """Both connectors; the source makes the topic, when it has a line, as its config says."""
        self.create_source()
        # A sink that subscribes to a topic that is not there has the server make it, by its own defaults.
        self.append(1)
        until(lambda: self.topic in self.server.topics(), "the source to make its topic")
        self.cluster.create(
            self.sink, {"connector.class": "FileStreamSink", "file": str(self.output), "topics": self.topic}
        )

    def create_source(self, **more: str) -> None:
        """It alone. `more` are settings of it."""
        self.cluster.create(self.source, {
            "connector.class": "FileStreamSource",
            "file": str(self.input),
            "topic": self.topic,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.compression.type": "lz4",
            **more,
        })  # fmt: skip

    def append(self, count: int) -> None:
        first = len(self.lines)
        made = [f"line {number:06d} of the file" for number in range(first, first + count)]
        with self.input.open("a") as file:
            file.writelines(f"{line}\n" for line in made)
        self.lines += made

    def appending(self) -> AbstractContextManager[None]:
        """Lines come until the end of the block."""
        return meanwhile(lambda: self.append(LINES_AT_A_TIME), PAUSE_SECONDS)

    def append_slowly(self, seconds: float) -> None:
        """Lines come for so long: always the same ones."""
        for _ in range(round(seconds / SLOW_PAUSE_SECONDS)):
            self.append(LINES_AT_A_TIME)
            time.sleep(SLOW_PAUSE_SECONDS)

    def await_some(self) -> None:
        """More in the output than now."""
        before = len(self.written())
        self._await(lambda written: len(written) > before, "more lines in the output")

    def await_all(self) -> None:
        """The last line is in the output. Those before it are compared by who calls this."""
        last = self.lines[-1]
        self._await(lambda written: written[-1:] == [last], f"{last!r} at the end of the output")

    def check_exact(self) -> None:
        """Topic and output have each line once, in order."""
        same_lines(self.server.values(self.topic), self.lines, "topic")
        same_lines(self.written(), self.lines, "output")

    def written(self) -> list[str]:
        """Whole lines of the output so far."""
        text = self.output.read_text() if self.output.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def forget_output(self) -> None:
        """A new file. Only while the sink is stopped: a task that runs has the old one open."""
        self.output.unlink()

    def _await(self, true: Callable[[list[str]], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not true(written := self.written()):
            assert time.monotonic() < deadline, (
                f"waited {SECONDS:g} s for {what}; it has {len(written)} lines"
            )
            time.sleep(PAUSE_SECONDS)
