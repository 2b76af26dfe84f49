"""Each record once, whatever ends a replay: its driver, a task, the server; and whatever of it comes late."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import publisher
from dafka_pipeline.producing.stream_file import parse_stream
from tests.clients.sample import small_records
from tests.clients.stored import committed_records, create_topic, put
from tests.faults.proxy import OUT, Proxy
from tests.peers.ports import free_ports
from tests.peers.standalone import Standalone
from tests.pipelines.archiving import archive_once
from tests.pipelines.processes import ROOT
from tests.pipelines.replaying import QUICK, OnWords, assert_holds, assert_replayed, killed_at, own, replay

pytestmark = [pytest.mark.slow, pytest.mark.long]
RECORDS = 150


@pytest.fixture
def source(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> str:
    """A topic of two partitions that is archived in `tmp_path / "a"`."""
    topic = new_topic(2)
    for partition in (0, 1):
        put(bootstrap, topic, small_records(RECORDS, str(partition)), partition=partition)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    return topic


@pytest.mark.parametrize("place", ["replay-pinned", "publish-leased", "publish-sent", "replay-after-round"])
def test_the_driver_dies_there(
    spark: SparkSession,
    bootstrap: str,
    source: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    place: str,
) -> None:
    """In its first round, then in the second one of the next call; the call after that goes on."""
    target = new_topic(2, "-again")
    settings = {"stream": "r", "round_offsets": 100}
    for time_ in (1, 2):
        if (place, time_) == ("replay-pinned", 2):
            break
        with killed_at(place, time_):
            replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    assert_replayed(bootstrap, "r", source, target, 2)
    assert replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings).records == 0
    assert_replayed(bootstrap, "r", source, target, 2)


# what comes late ------------------------------------------------------------------------------------------


class CountingProxy(Proxy):
    """Knows how much has come to it, passed on or not."""

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self.received = 0

    async def _pass(self, pair: Any, way: str, source: Any, sink: Any) -> None:
        proxy = self

        class Counted:
            async def receive_some(self, size: int) -> bytes:
                data = bytes(await source.receive_some(size))
                proxy.received += len(data) if way == OUT else 0
                return data

        await super()._pass(pair, way, Counted(), sink)  # type: ignore[arg-type]  # all that is asked of it


class Zombie:
    """A task whose driver is dead. A context manager."""

    def __init__(self, **given: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipelines.zombie", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)


@pytest.fixture
def two_ways(tmp_path: Path) -> Iterator[tuple[str, CountingProxy]]:
    """A server of its own, directly and through a proxy."""
    (port,) = free_ports(1)
    with CountingProxy(("127.0.0.1", port)) as proxy:
        slow = f"SLOW=127.0.0.1:{port}@127.0.0.1:{proxy.port}"
        with Standalone(tmp_path / "data", "--listen", slow, directory=tmp_path / "logs") as server:
            yield server.bootstrap, proxy


def end_of(bootstrap: str, topic: str) -> int:
    place = TopicPartition(topic, 0)
    return Cluster(KafkaOptions(bootstrap)).end_offsets([place])[place]


def await_end(bootstrap: str, topic: str, end: int) -> None:
    deadline = time.monotonic() + 30
    while end_of(bootstrap, topic) < end:
        assert time.monotonic() < deadline, f"{topic} ends at {end_of(bootstrap, topic)}, not {end}"


def dead_driver(spark: SparkSession, bootstrap: str, folder: Path) -> tuple[str, str]:
    """A replay whose driver died when its round had begun; source and target."""
    source, target = create_topic(bootstrap, "source"), create_topic(bootstrap, "target")
    put(bootstrap, source, small_records(RECORDS, "0"))
    archive_once(spark, bootstrap, folder / "a", source)
    with killed_at("publish-leased"):
        replay(spark, bootstrap, folder / "a", {source: target}, stream="late", round_offsets=100)
    return source, target


@contextmanager
def bytes_on_their_way(bootstrap: str, proxy: CountingProxy, target: str) -> Iterator[Callable[[], None]]:
    """A dead driver's task has sent a hundred records and is dead, too; ten have arrived, the others are
    held.

    Gives what lets them arrive.
    """
    given = {"topic": target, "stream": "late", "count": 100, "message": 600, "until": time.time() + 600}
    with Zombie(bootstrap=f"127.0.0.1:{proxy.port}", **given) as zombie, ExitStack() as held:
        assert zombie.hear() == "begun"
        before = proxy.received
        held.enter_context(proxy.held(OUT))
        zombie.go()
        assert zombie.hear() == "queued"
        while proxy.received < before + 90 * 100:
            time.sleep(0.01)
        zombie.send_signal(signal.SIGKILL)
        yield held.close


def test_what_is_still_on_its_way_arrives_before_the_tail_is_read(
    spark: SparkSession, two_ways: tuple[str, CountingProxy], tmp_path: Path
) -> None:
    """A batch of a dead task lands when the next call has begun: it is counted, not sent again."""
    bootstrap, proxy = two_ways
    source, target = dead_driver(spark, bootstrap, tmp_path)
    with bytes_on_their_way(bootstrap, proxy, target) as arrive:
        report = OnWords("waiting", arrive)
        outcome = replay(
            spark,
            bootstrap,
            tmp_path / "a",
            {source: target},
            stream="late",
            round_offsets=100,
            report=report,
        )
    assert report.acted == 1
    assert outcome.records == RECORDS - 100
    assert_replayed(bootstrap, "late", source, target)


def test_a_tail_that_is_read_too_early_is_found_out(
    spark: SparkSession,
    two_ways: tuple[str, CountingProxy],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted bug: without the wait the batch lands behind records that were sent anew, which is a
    double.

    It is not prevented then, but it does not pass for a replay either.
    """
    bootstrap, proxy = two_ways
    source, target = dead_driver(spark, bootstrap, tmp_path)
    monkeypatch.setattr(publisher, "final_after", lambda *_: 0.0)
    with bytes_on_their_way(bootstrap, proxy, target) as arrive:
        passed: list[int] = []

        def fail_point(name: str) -> None:
            if name == "publish-sent" and not passed:
                passed.append(end_of(bootstrap, target))
                arrive()
                await_end(bootstrap, target, passed[0] + 90)

        monkeypatch.setattr(publisher, "fail_point", fail_point)
        with pytest.raises(Refused, match="gave offset 239 where 149 was next"):
            replay(spark, bootstrap, tmp_path / "a", {source: target}, stream="late", round_offsets=100)
    with pytest.raises(AssertionError):
        assert_replayed(bootstrap, "late", source, target)


def test_a_task_that_was_paused_sends_nothing_more(
    spark: SparkSession, two_ways: tuple[str, CountingProxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task on another machine hangs, and goes on when the next call has sent what was its own."""
    bootstrap, _ = two_ways
    monkeypatch.setattr(publisher, "this_machine", lambda: "another")
    timing = replace(QUICK, lease=6)
    monkeypatch.setattr("tests.pipelines.replaying.QUICK", timing)
    source, target = dead_driver(spark, bootstrap, tmp_path)
    monkeypatch.undo()
    lease = parse_stream((tmp_path / "a/_pipeline/replays/late.stream.json").read_text()).lease
    given = {"topic": target, "stream": "late", "count": 100, "until": lease.until}
    with Zombie(bootstrap=bootstrap, message=QUICK.message, **given) as zombie:
        assert zombie.hear() == "begun"
        zombie.send_signal(signal.SIGSTOP)
        zombie.go()
        replay(spark, bootstrap, tmp_path / "a", {source: target}, stream="late")
        zombie.send_signal(signal.SIGCONT)
        assert zombie.hear() == "queued"
        assert zombie.hear() == "ended: its time was over"
    assert_replayed(bootstrap, "late", source, target)


# what dies under way --------------------------------------------------------------------------------------


def python_workers() -> list[int]:
    """Spark's Python workers below this process."""
    parents = {}
    names = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                names[int(folder.name)] = (folder / "cmdline").read_text()
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue

    def below(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and below(parents[pid]))

    daemons = {pid for pid, name in names.items() if "pyspark.daemon" in name}
    return [pid for pid in daemons if parents[pid] in daemons and below(pid)]


def while_sending(bootstrap: str, topic: str, act: Callable[[], object]) -> threading.Thread:
    """Do something once records of a round have arrived."""

    def watch() -> None:
        await_end(bootstrap, topic, 20)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_a_task_dies(
    spark: SparkSession, bootstrap: str, source: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its Python worker is killed in the middle: a next round goes on with what it had not sent."""
    target = new_topic(2, "-again")
    killed: list[int] = []

    def kill() -> None:
        for pid in python_workers():
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    thread = while_sending(bootstrap, target, kill)
    report = OnWords("A round of sending failed", lambda: None)
    settings = {"stream": "r", "records_per_second": 50.0, "timing": replace(QUICK, lease=10)}
    replay(spark, bootstrap, tmp_path / "a", {source: target}, report=report, **settings)
    thread.join()
    assert killed
    assert report.acted == 1
    assert_replayed(bootstrap, "r", source, target, 2)


def test_the_server_dies(spark: SparkSession, bootstrap: str, source: str, tmp_path: Path) -> None:
    """By SIGKILL in the middle, and comes back: what it had acknowledged is there."""
    with Standalone(tmp_path / "data", directory=tmp_path / "logs") as server:
        target = create_topic(server.bootstrap, "again", 2)
        thread = while_sending(server.bootstrap, target, server.restart)
        settings = {"stream": "r", "records_per_second": 50.0}
        replay(spark, server.bootstrap, tmp_path / "a", {source: target}, **settings)
        thread.join()
        for partition in (0, 1):
            expected = own("r", committed_records(bootstrap, source, partition))
            assert_holds(server.bootstrap, target, expected, partition)
