"""`dafka bench`, `dafka top`, `dafka completion`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from dafka import cli
from dafka.commands.bench_runs import percentiles
from dafka.commands.top_view import Group, Look, lines
from tests.applications.test_ephemeral import SECONDS, await_that
from tests.clients.stored import create_topic
from tests.peers.spoken import without_librdkafka
from tests.peers.standalone import Standalone


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    quick = ("--fsync", "never", "--group-initial-rebalance-delay-ms", "0")
    with Standalone(None, *quick, directory=tmp_path_factory.mktemp("bench")) as server:
        yield server


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(arguments) == 0
    out, err = capfd.readouterr()
    assert without_librdkafka(err.splitlines()) == []
    return out


def test_each_run_counts_what_it_did(server: Standalone, capfd: pytest.CaptureFixture[str]) -> None:
    where = ("--bootstrap", server.bootstrap, "--json")
    made = json.loads(
        run(capfd, "bench", "produce", *where, "--records", "2050", "--partitions", "2", "--codec", "lz4")
    )
    assert (made["what"], made["records"], made["bytes"]) == ("produce", 2100, 210_000)
    assert list(made["latencies_ms"]) == ["p50", "p95", "p99", "p99.9", "max"]
    assert made["records_per_second"] == pytest.approx(made["records"] / made["seconds"])

    create_topic(server.bootstrap, "read", 2)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(500):
        producer.produce("read", b"x" * number, partition=number % 2)
    assert producer.flush(SECONDS) == 0
    read = json.loads(run(capfd, "bench", "consume", *where, "--topic", "read"))
    assert (read["what"], read["records"]) == ("consume", 500)
    assert read["bytes"] > sum(range(500))

    both = json.loads(run(capfd, "bench", "latency", *where, "--rate", "100", "--seconds", "0.3"))
    assert (both["what"], both["records"]) == ("end to end", 30)
    assert 0 < both["latencies_ms"]["p50"] <= both["latencies_ms"]["max"]
    assert run(capfd, "topics", "list", "--bootstrap", server.bootstrap) == "read\n"
    assert run(capfd, "bench", "consume", "--bootstrap", server.bootstrap, "--topic", "read").startswith(
        "consume: 500 records in "
    )


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentiles([]) == {}
    found = percentiles([n / 1000 for n in range(1000, 0, -1)])
    assert found == {"p50": 501, "p95": 951, "p99": 991, "p99.9": 1000, "max": 1000}


def test_what_there_is_not_is_said(server: Standalone, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "consume", "--bootstrap", server.bootstrap, "--topic", "none"]) == 2
    assert "UNKNOWN_TOPIC_OR_PARTITION" in capfd.readouterr().err


def test_a_view_of_two_moments() -> None:
    before = Look(100.0, 3, {("a", 0): 0, ("b", 0): 0}, {("a", 0): 1000, ("b", 0): 5})
    now = Look(
        102.0, 3, {("a", 0): 500, ("b", 0): 0, ("new", 0): 0}, {("a", 0): 1500, ("b", 0): 5, ("new", 0): 7}
    )
    before.groups = [Group("late", "Stable", 2, {("a", 0): 900})]
    now.groups = [
        Group("idle", "Empty", 0, {}),
        Group("late", "Stable", 2, {("a", 0): 1300}),
        Group("done", "Empty", 0, {("b", 0): 9}),
    ]
    now.unknown = ["lost"]
    assert lines(before, now, "h:1") == [
        "h:1  brokers 3  topics 3  groups 3  250.0 records/s",
        "",
        "TOPIC  PARTITIONS  OFFSETS    END  RATE/S",
        "a               1    1,000  1,500   250.0",
        "b               1        5      5     0.0",
        "new             1        7      7     0.0",
        "lost: no leader for all of its partitions",
        "",
        "GROUP  STATE   MEMBERS  LAG        LAG CHANGE/S  READS",
        "late   Stable        2  200               +50.0  a",
        "done   Empty         0  0                     -  b",
        "idle   Empty         0  no commit             -  -",
    ]


def test_an_empty_cluster_says_what_next() -> None:
    text = "\n".join(lines(Look(1.0, 1), Look(2.0, 1), "h:1"))
    assert "'dafka topics create NAME' makes one" in text
    assert "(no groups)" in text


def test_once_without_a_terminal(server: Standalone, capfd: pytest.CaptureFixture[str]) -> None:
    create_topic(server.bootstrap, "seen", 3)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(9):
        producer.produce("seen", b"x", partition=number % 3)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["seen"])
    message = consumer.poll(SECONDS)
    assert message is not None
    consumer.commit(message, asynchronous=False)
    text = run(capfd, "top", "--bootstrap", server.bootstrap, "--once", "--interval", "0.1")
    consumer.close()
    rows = [line.split() for line in text.splitlines()]
    assert ["seen", "3", "9", "9", "0.0"] in rows
    assert ["readers", "Stable", "1", "2", "+0.0", "seen"] in rows
    assert "\x1b" not in text


def test_live_in_a_terminal(server: Standalone) -> None:
    """It draws over itself, and leaves the screen as it was."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dafka", "top", "--bootstrap", server.bootstrap, "--interval", "0.1"]
    with subprocess.Popen(
        command, stdout=theirs, env={**os.environ, "COLUMNS": "80", "LINES": "24"}
    ) as process:
        os.close(theirs)
        shown = b""

        def drawn_twice() -> bool:
            nonlocal shown
            shown += os.read(ours, 65536)
            return shown.count(b"\x1b[H") >= 2

        await_that(drawn_twice)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
        shown += os.read(ours, 65536)
    os.close(ours)
    assert shown.startswith(b"\x1b[?1049h")
    assert shown.endswith(b"\x1b[?1049l")
    assert b"TOPIC" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "_DAFKA_COMPLETE" in run(capfd, "completion", shell)


def test_what_bash_is_told() -> None:
    words = {"COMP_WORDS": "dafka topics cr", "COMP_CWORD": "2", "_DAFKA_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", "from dafka.cli import main; main()"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    assert done.stdout == "plain,create\n"
