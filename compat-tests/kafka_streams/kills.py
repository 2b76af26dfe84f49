"""Two instances of a word count, gateways and stores get SIGKILLs: `make kills-streams N=100 SEED=s`.

Words are counted, collected, counted by window and joined under `exactly_once_v2`, while lines are written
all the time. At the end an application of the same code that nobody disturbs reads the same lines: for a
`read_committed` reader each key must have the same results from both, with the same timestamps, in the same
order. Each round has a cluster of its own and a seed of its own, as those of `tests.faults.kills`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from frameworks.java import JavaProcess
from frameworks.main import Stage
from frameworks.side import SETTINGS
from harness.folders import client_folders

from gateway.cluster.alive import LEASE_SECONDS
from kafka_streams.apart import PARTITIONS, LinesApart, by_key, differences
from kafka_streams.app import RESULTS
from kafka_streams.lines import latest, number
from tests.faults.checker import Problem
from tests.faults.history import Event, History
from tests.peers.meanwhile import meanwhile
from tests.peers.supervised import Supervised

library: Any = confluent_kafka

EXACTLY_ONCE: Final = "exactly_once_v2"
AT_LEAST_ONCE: Final = "at_least_once"

GATEWAYS: Final = 3
STORES: Final = 3
KILLS_OF_A_ROUND: Final = 25

INSTANCES: Final = ("static", "dynamic")
"""The first one comes back as the member of the group that it was; the second one as another."""

VICTIMS: Final = {
    "gateway killed": 8,
    "gateway ended": 1,
    "gateway stopped": 1,
    "store killed": 4,
    "tower killed": 1,
    "program killed": 7,
    "program lost": 2,
    "program ended": 1,
    "program stopped": 1,
}
"""How often each is, beside the others. What is lost starts without its state, and with another transactional
id: what it had begun stays open until its timeout.
"""

SIGNALS: Final = {
    "killed": signal.SIGKILL,
    "lost": signal.SIGKILL,
    "ended": signal.SIGTERM,
    "stopped": signal.SIGSTOP,
}
SESSION_MS: Final = 6000
STOPPED_SECONDS: Final = (0.5, 2.0, max(LEASE_SECONDS, SESSION_MS / 1000) + 1.0)
"""One of them is longer than a lease and a session."""

AWAITED: Final = 0.6
"""How often results are awaited before the next kill."""

AWAITED_RESULTS: Final = 20
PAUSE_SECONDS: Final = (0.1, 1.0)
LINES_AT_A_TIME: Final = 2
WRITE_PAUSE_SECONDS: Final = 0.25
GO_ON_SECONDS: Final = 240.0
"""Within which there are results again, whatever was killed."""

SETTINGS_OF_STREAMS: Final = (
    "statestore.cache.max.bytes=0",  # each record has its result
    f"consumer.session.timeout.ms={SESSION_MS}",
    "log.summary.interval.ms=-1",
)


class Application:
    """Instances that count the lines of one topic, with topics of their own for results."""

    def __init__(self, stage: Stage, name: str, lines: str, *settings: str) -> None:
        self.name = name
        self.stage = stage
        self._lines = lines
        self._settings = (*SETTINGS_OF_STREAMS, *settings)
        for result in RESULTS:
            stage.server.make_topic(self.topic(result), PARTITIONS)

    def topic(self, result: str) -> str:
        return f"{self.name}-out-{result}"

    def instance(self, name: str, *settings: str) -> JavaProcess:
        """Not started yet."""
        arguments = (self.stage.bootstrap, self.name, str(self.state(name)), self._lines, f"{self.name}-out")
        return self.stage.java(f"{self.name}-{name}", "WordCount", *arguments, *self._settings, *settings)

    def state(self, name: str) -> Path:
        """An instance's state directory."""
        return self.stage.directory / f"state-{self.name}-{name}"


class CommittedCounts:
    """How many results of the counts are committed: one for each word of each line."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        more = {"group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer = library.Consumer({"bootstrap.servers": bootstrap, **SETTINGS, **more})
        start = library.OFFSET_BEGINNING
        self._consumer.assign([library.TopicPartition(topic, n, start) for n in range(PARTITIONS)])
        self.seen = 0

    def await_more(self, count: int, look: Callable[[], None]) -> None:
        self.await_all(self.seen + count, look)

    def await_all(self, count: int, look: Callable[[], None]) -> None:
        """Until there are so many; `look` is called meanwhile."""
        deadline = time.monotonic() + GO_ON_SECONDS
        while self.seen < count:
            assert time.monotonic() < deadline, f"{self.seen} results after {GO_ON_SECONDS:g} s, not {count}"
            self.seen += sum(message.error() is None for message in self._consumer.consume(500, 0.1))
            look()

    def close(self) -> None:
        self._consumer.close()


class Round:
    """One cluster and so many SIGKILLs; what is stopped or told to end comes besides."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        count: int,
        *,
        guarantee: str = EXACTLY_ONCE,
        victims: Mapping[str, int] = VICTIMS,
    ) -> None:
        self.history = History()
        self.killed: Counter[str] = Counter()
        self.acked = 0
        self.said = ""
        self._problems: list[Problem] = []
        self._count, self._seed, self._guarantee = count, seed, guarantee
        self._victims = victims
        self._random = random.Random(seed)
        self._cluster = Supervised(directory / "cluster", GATEWAYS, STORES)
        self._directory = directory / "streams"
        self._directory.mkdir()

    def run(self) -> list[Problem]:
        """Kills, heals, and compares."""
        (client,) = client_folders(["kafka_streams"])
        home = client.bring()
        cluster = self._cluster
        cluster.stay_on_its_ports()
        stage: Stage | None = None
        try:
            cluster.start()
            stage = Stage(cluster.bootstrap, self._directory, home)
            return self._killed_and_compared(stage)
        except AssertionError as error:
            tails = "".join(process.tail() for process in stage.processes) if stage else ""
            raise AssertionError(f"{error}\n{tails}\n{cluster.tail()}") from error
        finally:
            for process in stage.processes if stage else ():
                if process.runs:
                    process.kill9()
            cluster.kill9()
            cluster.wait_until_all_are_gone()

    def _killed_and_compared(self, stage: Stage) -> list[Problem]:
        stage.server.make_topic("lines", PARTITIONS)
        lines = LinesApart(stage.bootstrap, "lines", self._seed)
        disturbed = Application(stage, "disturbed", "lines", *self._guaranteed())
        counts = CommittedCounts(stage.bootstrap, disturbed.topic("counts"))
        static, dynamic = INSTANCES
        instances = [
            disturbed.instance(static, f"consumer.group.instance.id={static}"),
            disturbed.instance(dynamic),
        ]
        look = partial(self._start_again, instances)
        for instance in instances:
            instance.start()
        with meanwhile(lambda: lines.write(LINES_AT_A_TIME), WRITE_PAUSE_SECONDS):
            counts.await_more(AWAITED_RESULTS, look)
            while self._kills < self._count:
                self._fault(disturbed, instances, counts)
            counts.await_more(AWAITED_RESULTS, look)
        lines.finish()
        counts.await_all(lines.words.total(), look)
        for instance in instances:
            instance.stop()
        counts.close()
        return self._problems + self._compared(stage, disturbed, lines)

    @property
    def _kills(self) -> int:
        return sum(n for kind, n in self.killed.items() if SIGNALS[kind.split()[1]] is signal.SIGKILL)

    def _guaranteed(self) -> tuple[str, ...]:
        """Kafka's default of each guarantee for how often it commits, so far as a test can wait for it."""
        commit_ms = 200 if self._guarantee == EXACTLY_ONCE else 30_000
        return f"processing.guarantee={self._guarantee}", f"commit.interval.ms={commit_ms}"

    def _start_again(self, instances: list[JavaProcess]) -> None:
        """None is to end by itself: no error of ours is the last one."""
        for instance in instances:
            if not instance.runs:
                self._problems.append(Problem("ended by itself", instance.tail()))
                instance.start()

    def _fault(self, application: Application, instances: list[JavaProcess], counts: CommittedCounts) -> None:
        choice, cluster = self._random, self._cluster
        (kind,) = choice.choices(list(self._victims), list(self._victims.values()))
        pick, awaited = choice.randrange(6), choice.random() < AWAITED
        stopped, pause = choice.choice(STOPPED_SECONDS), choice.uniform(*PAUSE_SECONDS)
        if awaited:
            counts.await_more(AWAITED_RESULTS, partial(self._start_again, instances))
        time.sleep(pause)
        self._start_again(instances)
        who, how = kind.split()
        if who == "program":
            self._hit_program(application, instances[pick % 2], INSTANCES[pick % 2], how, stopped)
        else:
            name = who if who == "tower" else f"{who}-{pick % 3 + 1}"
            self.history.add(Event(f"{name} {how}"))
            try:
                cluster.kill(name, SIGNALS[how])
                if how == "stopped":
                    time.sleep(stopped)
                    cluster.kill(name, signal.SIGCONT)
            except ProcessLookupError:
                return  # killed just now, and not started yet
        self.killed[kind] += 1

    def _hit_program(
        self, application: Application, instance: JavaProcess, name: str, how: str, stopped: float
    ) -> None:
        self.history.add(Event(f"{instance.name} {how}"))
        if how == "stopped":
            os.kill(instance.pid, signal.SIGSTOP)
            time.sleep(stopped)
            os.kill(instance.pid, signal.SIGCONT)
            return
        if how == "ended":
            instance.stop()
        else:
            instance.kill9()
        if how == "lost":
            shutil.rmtree(application.state(name), ignore_errors=True)
        instance.start()

    def _compared(self, stage: Stage, disturbed: Application, lines: LinesApart) -> list[Problem]:
        """With what an application makes of the same lines that nobody disturbs."""
        quiet = Application(stage, "quiet", "lines", f"processing.guarantee={EXACTLY_ONCE}")
        counts = CommittedCounts(stage.bootstrap, quiet.topic("counts"))
        instance = quiet.instance("only")
        instance.start()
        counts.await_all(lines.words.total(), partial(self._start_again, [instance]))
        instance.stop()
        counts.close()
        problems: list[Problem] = []
        compared: dict[str, int] = {}
        for result in RESULTS:
            wanted = by_key(stage.server.read(quiet.topic(result)))
            found = by_key(stage.server.read(disturbed.topic(result)))
            problems += differences(result, found, wanted)
            compared[result] = sum(map(len, wanted.values()))
        written = [line for each in lines.written.values() for line in each]
        problems += differences("the lines", by_key(stage.server.read("lines")), by_key(written))
        problems += self._counted(stage, quiet, dict(lines.words))
        self.acked = sum(compared.values())
        told = ", ".join(f"{count} {result}" for result, count in compared.items())
        self.said = f"{len(written)} lines, compared with a run without kills: {told}, "
        return problems

    def _counted(self, stage: Stage, quiet: Application, words: dict[str, int]) -> list[Problem]:
        """The run that nobody disturbed has counted each word that was written."""
        counts = latest(stage.server.read(quiet.topic("counts")))
        found = {word: number(value) for word, value in counts.items()}
        return [] if found == words else [Problem("wrong content", f"counts without kills: {found}")]
