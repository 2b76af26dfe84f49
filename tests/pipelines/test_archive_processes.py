"""The archive job as a process with its JVM: killed by SIGKILL, stopped by SIGTERM, its server killed under
it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.sample import small_records
from tests.clients.stored import create_topic, put
from tests.differential.servers import our_server
from tests.peers.process import ServerProcess
from tests.pipelines.dumps import archive_rows, topic_rows
from tests.pipelines.processes import Pipeline, die, run

pytestmark = [pytest.mark.slow, pytest.mark.matrix]
SMALL = ("--max-batch-bytes", "60KB")


def fill(bootstrap: str, topic: str, seed: str, records: int = 600) -> None:
    for partition in (0, 1):
        wanted = small_records(records, f"{seed}{partition}")
        put(bootstrap, topic, wanted, partition=partition, codec="lz4", per_batch=50)


def arguments(bootstrap: str, topic: str, to: Path, *more: str) -> list[str]:
    return ["--bootstrap", bootstrap, "--topics", topic, "--to", str(to), *SMALL, *more]


@pytest.mark.parametrize(
    "place",
    [
        "archive-before-commit:2",
        "archive-after-commit:2",
        pytest.param("archive-after-fence", marks=pytest.mark.long),
    ],
)
def test_killed_there(bootstrap: str, new_topic: Callable[..., str], tmp_path: Path, place: str) -> None:
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, "a")
    call = arguments(bootstrap, topic, tmp_path / "a", "--once")
    die(tmp_path / "run", "archive", *call, at=place)
    run(tmp_path / "run", "archive", *call)
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic, 2)


@contextmanager
def writing(bootstrap: str, topic: str) -> Iterator[None]:
    """Records come all the time."""
    stop = threading.Event()

    def write() -> None:
        for number in range(1_000_000):
            if stop.wait(0.05):
                return
            try:
                put(bootstrap, topic, small_records(10, f"w{number}"), partition=number % 2)
            except (OSError, AssertionError):
                time.sleep(0.2)  # the server is being killed; what it did not acknowledge may be there or not

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.long
def test_the_server_is_killed_under_it(tmp_path: Path) -> None:
    """Away at the start, killed twice while batches run: the job waits, says so, goes on; SIGTERM ends it
    with 0."""
    with our_server(directory=tmp_path / "server") as server:
        assert isinstance(server, ServerProcess)
        topic = create_topic(server.bootstrap, "t", 2)
        fill(server.bootstrap, topic, "a")
        server.kill9()
        call = arguments(server.bootstrap, topic, tmp_path / "a", "--every", "200ms")
        with Pipeline(tmp_path / "run", "archive", *call) as job:
            job.await_text("does not answer")
            server.start()
            with writing(server.bootstrap, topic):
                for _ in range(2):
                    _more_progress(job)
                    server.kill9()
                    time.sleep(0.5)
                    server.start()
                _more_progress(job)
            job.terminate()
            job.end()
        run(tmp_path / "run", "archive", *arguments(server.bootstrap, topic, tmp_path / "a", "--once"))
        assert archive_rows(tmp_path / "a") == topic_rows(server.bootstrap, topic, 2)


@pytest.mark.long
def test_sigterm_idle_and_in_a_batch_and_metrics(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, "a")
    call = arguments(bootstrap, topic, tmp_path / "a", "--every", "1s", "--json", "--metrics", "127.0.0.1:0")
    with Pipeline(tmp_path / "run", "archive", *call) as job:
        job.await_text('"lag_records": 0')
        lines = [json.loads(line) for line in job.text.splitlines() if line.startswith("{")]
        address = next(line["address"] for line in lines if "address" in line)
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert "dafka_pipeline_" in text
        job.terminate()
        job.end()
    fill(bootstrap, topic, "b", 3000)
    with Pipeline(tmp_path / "run", "archive", *call) as job:
        job.await_text('"event": "progress"')
        job.terminate()
        job.end()
    run(tmp_path / "run", "archive", *arguments(bootstrap, topic, tmp_path / "a", "--once"))
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic, 2)


@pytest.mark.long
def test_an_executor_is_killed(bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    """On a cluster of two workers; Spark replaces it, the batch is there once."""
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, "a", 6000)
    call = arguments(bootstrap, topic, tmp_path / "a", "--once")
    with Pipeline(tmp_path / "run", "archive", *call, master="local-cluster[2,1,1024]") as job:
        job.await_text("records")
        for pid in executors(job.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
        job.end()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic, 2)


def test_on_a_cluster(bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, "a")
    call = arguments(bootstrap, topic, tmp_path / "a", "--once")
    run(tmp_path / "run", "archive", *call, master="local-cluster[2,1,1024]")
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic, 2)


def executors(leader: int) -> list[int]:
    """Processes of the job's group that are Spark's executors."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == leader:
                line = (entry / "cmdline").read_bytes()
                if b"CoarseGrainedExecutorBackend" in line and b"java" in line.split(b"\0")[0]:
                    found.append(int(entry.name))
        except (OSError, ProcessLookupError):
            continue
    return found


def _more_progress(job: Pipeline, seconds: float = 120.0) -> None:
    """Wait until it tells of one more batch."""
    seen = job.text.count("records")
    deadline = time.monotonic() + seconds
    while job.text.count("records") == seen:
        assert time.monotonic() < deadline, job.text[-4000:]
        time.sleep(0.05)
