"""The application under test: its topics, its instances, and its results compared with what must come out."""

from __future__ import annotations

import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

from frameworks.checks import SECONDS, equal, until
from frameworks.java import JavaProcess
from frameworks.main import Stage

from kafka_streams.lines import Lines, latest, number
from tests.peers.meanwhile import meanwhile

PARTITIONS = 2
# The stream of lines, and what is grouped by word, in each partition.
TASKS = {"0_0", "0_1", "1_0", "1_1"}
# Streams hands what stands behind "topic." to the topics it makes.
COMPACTED_SOON = ("topic.segment.ms=1000", "topic.min.cleanable.dirty.ratio=0.01")
RESULTS = ("counts", "places", "windows", "joined")
LINES_AT_A_TIME = 5
PAUSE_SECONDS = 0.1
# A word's places are written again with each line that has it: bytes grow with the square of the lines.
SLOW_LINES = 2
SLOW_PAUSE_SECONDS = 0.4


class App:
    """The application's topics are made as a user makes them; its internal ones it makes itself."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.server = stage.server
        self.id = stage.name("word-count")
        self.lines = Lines()
        self._input = stage.name("lines")
        self._output = stage.name("words")
        self.server.make_topic(self._input, PARTITIONS)
        for result in RESULTS:
            self.server.make_topic(f"{self._output}-{result}", PARTITIONS)

    def instance(self, name: str, *settings: str) -> JavaProcess:
        """One, with a state directory of its own; not started yet."""
        arguments = (self.stage.bootstrap, self.id, str(self._state(name)), self._input, self._output)
        return self.stage.java(name, "WordCount", *arguments, *settings)

    def reset(self) -> None:
        """As `kafka-streams-application-reset --force` does, with what its user does besides."""
        arguments = ("--bootstrap-server", self.stage.bootstrap, "--application-id", self.id)
        main_class = "org.apache.kafka.tools.StreamsResetter"
        self.stage.java("reset", main_class, *arguments, "--input-topics", self._input, "--force").run()

    def forget_state(self, name: str) -> None:
        """An instance that was started somewhere else has none."""
        assert self._state(name).is_dir()
        shutil.rmtree(self._state(name))

    def write(self, count: int) -> None:
        self.server.produce(self._input, self.lines.more(count))

    def writing(self) -> AbstractContextManager[None]:
        """Lines come until the end of the block."""
        return meanwhile(lambda: self.write(LINES_AT_A_TIME), PAUSE_SECONDS)

    def write_slowly(self, seconds: float) -> None:
        """Lines come for so long, and longer where the server lets them wait: always the same ones."""
        for _ in range(round(seconds / SLOW_PAUSE_SECONDS)):
            self.write(SLOW_LINES)
            time.sleep(SLOW_PAUSE_SECONDS)

    def await_some_results(self) -> None:
        """More of them than now."""
        before = sum(number(value) for value in self._latest("counts").values())
        until(lambda: sum(number(value) for value in self._latest("counts").values()) > before, "results")

    def await_all(self) -> None:
        """Every line is counted: the sets of places are whole, which repeats do not change."""
        wanted = self.lines.places()
        deadline = time.monotonic() + SECONDS
        while (found := self._places()) != wanted:
            if time.monotonic() > deadline:
                equal(found, wanted, "places of the words")
            time.sleep(PAUSE_SECONDS)

    def check_exact(self) -> None:
        """Every result, and the state that is kept in changelogs: nothing missing, nothing twice."""
        counts = dict(self.lines.counts())
        self._check_places()
        equal(self._numbers("counts"), counts, "counts")
        equal(self._numbers("windows"), dict(self.lines.windows()), "counts by window")

    def check_at_least(self) -> None:
        """Nothing missing; a count may be higher, since what was not committed is counted again."""
        self._check_places()
        for what, wanted in (("counts", self.lines.counts()), ("windows", self.lines.windows())):
            found = self._numbers(what)
            equal(set(found), set(wanted), f"keys of {what}")
            fewer = {key: (found[key], wanted[key]) for key in wanted if found[key] < wanted[key]}
            equal(fewer, {}, f"{what} that are too low, found and wanted")

    def is_compacted(self, internal: str) -> bool:
        return self.server.is_compacted(self.internal(internal))

    def internal_topics(self) -> set[str]:
        return {name for name in self.server.topics() if name.startswith(f"{self.id}-")}

    def internal(self, name: str) -> str:
        """Streams' own name for one of its topics."""
        return f"{self.id}-{name}"

    def _check_places(self) -> None:
        wanted = self.lines.places()
        equal(self._places(), wanted, "places of the words")
        counts = self._numbers("counts")
        joined = {word: f"{counts[word]} in {places.count(',') + 1}" for word, places in wanted.items()}
        equal(self._text("joined"), joined, "the join of both")
        stored = {word: value.decode() for word, value in self._changelog("places").items()}
        equal(stored, wanted, "places in the changelog")
        # In front of the value Streams keeps its timestamp only in the store, not in the changelog.
        equal(
            {word: number(value) for word, value in self._changelog("counts").items()}, counts, "its counts"
        )

    def _places(self) -> dict[str, str]:
        return self._text("places")

    def _text(self, result: str) -> dict[str, str]:
        return {key: value.decode() for key, value in self._latest(result).items()}

    def _numbers(self, result: str) -> dict[str, int]:
        return {key: number(value) for key, value in self._latest(result).items()}

    def _latest(self, result: str) -> dict[str, bytes]:
        return latest(self.server.read(f"{self._output}-{result}"))

    def _changelog(self, store: str) -> dict[str, bytes]:
        return latest(self.server.read(self.internal(f"{store}-changelog")))

    def _state(self, name: str) -> Path:
        return self.stage.directory / f"state-{name}"


def tasks(instance: JavaProcess) -> set[str]:
    """What it said last."""
    said = [line.split()[1:] for line in instance.log.splitlines() if line.startswith("tasks")]
    return set(said[-1]) if said else set()


def await_tasks(count: int, *instances: JavaProcess) -> None:
    """Each works on so many, and together on all."""
    until(
        lambda: (
            all(len(tasks(one)) == count for one in instances)
            and set().union(*(tasks(one) for one in instances)) == TASKS
        ),
        f"{count} tasks each of {', '.join(one.name for one in instances)}",
    )
