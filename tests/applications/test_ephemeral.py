"""`dafka standalone --ephemeral`, started as a test in any language starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.clients.stored import create_topic, stored_batches
from tests.differential.batches import records_of

SECONDS = 60.0
"""Patience with a loaded machine; nothing here waits for it."""

PROGRAM = [sys.executable, "-m", "dafka", "standalone", "--listen", "127.0.0.1:0", "--ephemeral"]


def await_that(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def started(directory: Path, *arguments: str, parent: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The server, or a `parent` that starts it; with its temporary data below `directory`."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    command = [*PROGRAM, "--port-file", str(directory / "port"), *arguments]
    shell = [sys.executable, "-c", parent, *command]
    process = subprocess.Popen(
        shell if parent else command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        # The line comes after the file.
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Kafka is ready")
        yield process
    finally:
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        process.kill()
        process.wait()


def data_directories(directory: Path) -> list[Path]:
    return [*directory.glob("dafka-ephemeral-*")]


def test_it_serves_where_its_file_says_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "port").write_text("127.0.0.1:1\n")  # of an earlier run, which was killed
    with started(tmp_path, "--topics", "orders:2") as server:
        bootstrap = (tmp_path / "port").read_text().removesuffix("\n")
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("orders", b"a book", partition=1)
        assert producer.flush(SECONDS) == 0
        stored = stored_batches(bootstrap, "orders", 1)
        assert [record.value for batch in stored for _, record in records_of(batch)] == [b"a book"]
        assert len(data_directories(tmp_path)) == 1
        server.terminate()
        assert server.wait(SECONDS) == 0
    assert [*tmp_path.iterdir()] == []


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    parent = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    with started(tmp_path, parent=parent) as killed:
        assert data_directories(tmp_path)
        killed.kill()
        killed.wait()
        await_that(lambda: not [*tmp_path.iterdir()])


def test_it_ends_with_whom_it_is_told(tmp_path: Path) -> None:
    with (
        subprocess.Popen([sys.executable], stdin=subprocess.PIPE) as other,
        started(tmp_path, "--ends-with", str(other.pid)) as server,
    ):
        other.kill()
        other.wait()
        assert server.wait(SECONDS) == 0
    assert [*tmp_path.iterdir()] == []


def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """As PR_SET_PDEATHSIG would not."""
    parent = (
        "import subprocess, sys, threading;"
        "one = threading.Thread(target=subprocess.Popen, args=[sys.argv[1:]]); one.start(); one.join();"
        "sys.stdin.read()"
    )
    with started(tmp_path, parent=parent):
        create_topic((tmp_path / "port").read_text().strip(), "orders", 1)


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with started(tmp_path) as killed:
        killed.kill()
        killed.wait()
        (left,) = data_directories(tmp_path)
        with started(tmp_path) as running:
            assert left.exists()  # it might be one that has only just begun
            hours_ago = time.time() - 7200
            for directory in data_directories(tmp_path):
                os.utime(directory, (hours_ago, hours_ago))
            with started(tmp_path, "--port-file", str(tmp_path / "second")):
                assert not left.exists()
                assert len(data_directories(tmp_path)) == 2  # the one that runs, and this one
                assert running.poll() is None


def test_a_port_that_is_taken_leaves_nothing_either(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        bootstrap = (tmp_path / "port").read_text().strip()
        refused = subprocess.run(
            [*PROGRAM, "--listen", bootstrap, "--port-file", str(tmp_path / "other")],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert refused.returncode == 2, refused.stderr
        assert len(data_directories(tmp_path)) == 1
        assert not (tmp_path / "other").exists()
        assert server.poll() is None
