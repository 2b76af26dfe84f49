"""SIGKILL under load, at random times and at named points: what was acknowledged is there, once, in order."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.clients.stored import create_topic
from tests.differential.servers import Server, our_server
from tests.faults.history import Event, History
from tests.faults.workloads import Load, WatermarkWatch, read_all
from tests.peers.standalone import Standalone

PARTITIONS = 4
POINT = "DAFKA_TEST_CRASH_POINT"
SEED = 20_260_101
# Points that a write reaches, each after so many of its kind (a start writes some by itself); and points that
# only a start reaches.
UNDER_LOAD = ["after-write:40", "after-fsync:40", "before-ack:40", "after-write:6", "after-fsync:8"]
AT_START = ["during-seal", "between-copy-and-catalog"]


class Scene:
    """A server, a topic, a load on it and a watch; put together so that a test says only what happens."""

    def __init__(self, server: Server, history: History, *, topic: str = "faults") -> None:
        self.server, self.history, self.topic = server, history, topic
        create_topic(server.bootstrap, topic, PARTITIONS)
        self.load = Load(server.bootstrap, topic, history, partitions=PARTITIONS)
        self.watch = WatermarkWatch(server.bootstrap, topic, history, PARTITIONS)

    def kill_in_flight(self) -> None:
        """SIGKILL while the client waits for acknowledgements."""
        deadline = time.monotonic() + 30
        while not self.load.in_flight:
            assert time.monotonic() < deadline, "nothing is ever in flight"
        self.server.kill9()
        self.history.add(Event("killed"))

    def finish(self) -> None:
        """Stops the load and reads everything; the history fixture judges."""
        self.load.stop()
        self.watch.stop()
        count = read_all(self.server.bootstrap, self.topic, self.history, PARTITIONS)
        assert count >= self.load.acked > 0


@pytest.mark.slow
def test_at_random_times(history: History) -> None:
    """Each life lasts until some more was acknowledged, then a little."""
    moments = random.Random(SEED)
    with our_server() as server:
        scene = Scene(server, history)
        for _ in range(8):
            scene.load.wait_for_acks(moments.randrange(1, 400))
            time.sleep(moments.random() * 0.1)
            scene.kill_in_flight()
            server.start()
        scene.load.wait_for_acks(100)
        scene.finish()


@pytest.mark.slow
@pytest.mark.parametrize("point", UNDER_LOAD)
def test_at_a_point_under_load(point: str, tmp_path: Path, history: History) -> None:
    data = tmp_path / "data"
    with Standalone(data, directory=tmp_path / "before") as before:
        create_topic(before.bootstrap, "faults", PARTITIONS)
    doomed = Standalone(data, directory=tmp_path / "doomed", environment={POINT: point})
    with doomed:
        load = Load(doomed.bootstrap, "faults", history, partitions=PARTITIONS)
        watch = WatermarkWatch(doomed.bootstrap, "faults", history, PARTITIONS)
        assert doomed.wait() == -signal.SIGKILL, doomed.tail()
        history.add(Event(f"killed itself {point}"))
        assert load.in_flight
        with Standalone(data, "--listen", doomed.bootstrap, directory=tmp_path / "after") as after:
            load.wait_for_acks(200)
            load.stop()
            watch.stop()
            assert read_all(after.bootstrap, "faults", history, PARTITIONS) >= load.acked


@pytest.mark.slow
@pytest.mark.parametrize("point", AT_START)
def test_at_a_point_of_recovery(point: str, tmp_path: Path, history: History) -> None:
    """Killed under load, then killed again while it recovers; the third life serves all."""
    data = tmp_path / "data"
    with Standalone(data, directory=tmp_path / "first") as first:
        scene = Scene(first, history)
        scene.load.wait_for_acks(300)
        scene.kill_in_flight()
        doomed = Standalone(data, directory=tmp_path / "doomed", environment={POINT: point})
        doomed.launch()
        assert doomed.wait() == -signal.SIGKILL, doomed.tail()
        history.add(Event(f"killed itself {point}"))
        first.start()
        scene.load.wait_for_acks(200)
        scene.finish()


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [10, pytest.param(50, marks=pytest.mark.long)])
def test_many_restarts(restarts: int, history: History) -> None:
    """In a row, most of them with nothing between but a few records: starts do not add up to anything."""
    moments = random.Random(SEED)
    with our_server() as server:
        scene = Scene(server, history)
        for life in range(restarts):
            if life % 5 == 0:
                scene.load.wait_for_acks(moments.randrange(1, 50))
            server.kill9()
            server.start()
        scene.load.wait_for_acks(50)
        scene.finish()


@pytest.mark.slow
def test_stopped_by_sigterm_under_load(history: History) -> None:
    """What was asked before is answered; it ends with 0; nothing is acknowledged after."""
    with Standalone() as server:
        scene = Scene(server, history)
        for _ in range(3):
            scene.load.wait_for_acks(200)
            assert server.terminate() == 0, server.tail()
            server.start()
        scene.load.wait_for_acks(100)
        scene.finish()
