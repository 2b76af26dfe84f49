"""pytest-dafka in real runs of pytest, with and without xdist, as somebody's tests use it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.applications.test_ephemeral import SECONDS, await_that
from tests.docs.constants_page import ROOT
from tests.peers.standalone import Standalone

HEAD = """
import os, sys
from pathlib import Path
from confluent_kafka import Consumer, Producer
import pytest

def send(dafka, topic, *values):
    errors = []
    producer = Producer(dafka.config())
    for value in values:
        told = lambda error, _: errors.append(error)
        producer.produce(topic, value, b"key", headers=[("h", b"1")], on_delivery=told)
    assert producer.flush(30) == 0
    return [error.name() for error in errors if error]

def reader(dafka, group):
    return Consumer(dafka.config("confluent", **{"group.id": group, "auto.offset.reset": "earliest"}))

def seen(dafka):
    Path(os.environ["SEEN"], str(os.getpid())).write_text(f"{dafka.bootstrap} {dafka.directory}")
"""


def run(directory: Path, tests: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(HEAD + tests)
    (directory / "seen").mkdir(exist_ok=True)
    path = os.pathsep.join([str(ROOT), str(ROOT / "pytest-dafka")])
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DAFKA_", "PYTEST_"))
    }
    environment |= {"PYTHONPATH": path, "SEEN": str(directory / "seen"), "TMPDIR": str(directory)} | variables
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "pytest_dafka.plugin", "-p", "no:cacheprovider",
            "-W", "error", "--rootdir", str(directory), *arguments, "test_it.py",
        ],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS * 2,
    )  # fmt: skip


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """{"passed": 3} of a run's last line."""
    return {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)
    }


def servers_seen(directory: Path) -> set[tuple[str, str]]:
    texts = [one.read_text().split(" ", 1) for one in (directory / "seen").iterdir()]
    return {(bootstrap, path) for bootstrap, path in texts}


def listens(bootstrap: str) -> bool:
    host, port = bootstrap.split(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


def assert_gone(directory: Path) -> None:
    assert not [*directory.glob("*dafka-*")]
    assert not any(listens(bootstrap) for bootstrap, _ in servers_seen(directory))


EVERY_FIXTURE = """
@pytest.mark.parametrize("n", range(6))
def test_a_topic_and_a_group_of_its_own(dafka, dafka_topic, dafka_group, dafka_admin, n):
    seen(dafka)
    assert send(dafka, dafka_topic, b"%d" % n, b"more") == []
    consumer = reader(dafka, dafka_group)
    consumer.subscribe([dafka_topic])
    message = consumer.poll(30)
    consumer.commit(message, asynchronous=False)
    consumer.close()
    assert [record.value for record in dafka_topic.wait_for(2)] == [b"%d" % n, b"more"]
    assert dafka_topic.records()[0].headers == (("h", b"1"),)
    assert dafka_admin.lag(dafka_group) == {(dafka_topic, 0): 1}

def test_partitions_and_configs(dafka, dafka_topics):
    seen(dafka)
    one, other = dafka_topics(), dafka_topics(partitions=3, cleanup_policy="compact")
    assert one != other
    assert {one, other} <= set(dafka.admin.topics())
    send(dafka, other, b"a")
    (record,) = other.wait_for(1)
    assert (record.topic, record.key, record.value) == (other, b"key", b"a")

def test_too_few_records_are_told(dafka_topic):
    with pytest.raises(AssertionError, match="has 0 records after 0.1 s, not 1"):
        dafka_topic.wait_for(1, seconds=0.1)

@pytest.mark.dafka("--partitions", "5")
def test_a_server_of_its_own(dafka_own):
    seen(dafka_own)
    assert dafka_own.admin.topics() == []
    assert send(dafka_own, "made-by-itself", b"a") == []
    assert dafka_own.admin.topics() == ["made-by-itself"]
    assert len(dafka_own.admin.records("made-by-itself")) == 1

def test_faults(dafka, dafka_topic, dafka_chaos):
    dafka_chaos.fail_produces("INVALID_RECORD", topic=dafka_topic)
    assert send(dafka, dafka_topic, b"refused") == ["INVALID_RECORD"]
    assert send(dafka, dafka_topic, b"taken") == []
    assert [record.value for record in dafka_topic.records()] == [b"taken"]
    dafka_chaos.fail("Heartbeat", "UNKNOWN_MEMBER_ID", client_id="nobody")
    assert [fault["left"] for fault in dafka_chaos.faults()] == [1]

def test_faults_of_a_server_of_its_own_start_anew(dafka_own, dafka_chaos):
    assert dafka_chaos.faults() == []
"""


@pytest.mark.parametrize(("arguments", "servers"), [((), 2), (("-n", "2"), 2)], ids=["one process", "xdist"])
def test_every_fixture(tmp_path: Path, arguments: tuple[str, ...], servers: int) -> None:
    """All workers share a server; nothing is left; no warning is anybody's."""
    done = run(tmp_path, EVERY_FIXTURE, *arguments)
    assert counts(done) == {"passed": 11}, done.stdout + done.stderr
    shared = servers_seen(tmp_path)
    # By worker the last server is noted: the shared one, or the one of the test that had its own.
    assert 1 <= len(shared) <= servers
    assert_gone(tmp_path)


def test_all_workers_have_the_same_server(tmp_path: Path) -> None:
    tests = """
@pytest.mark.parametrize("n", range(20))
def test_it(dafka, n):
    seen(dafka)
"""
    done = run(tmp_path, tests, "-n", "3", "--dist", "each")
    assert counts(done) == {"passed": 60}, done.stdout
    assert len([*(tmp_path / "seen").iterdir()]) == 3
    assert len(servers_seen(tmp_path)) == 1
    assert_gone(tmp_path)


def test_nothing_is_loaded_or_started_before_it_is_asked_for(tmp_path: Path) -> None:
    tests = """
def test_it():
    assert not {"dafka", "kafka", "trio", "wireproto", "pytest_dafka.server"} & sys.modules.keys()
    assert not [*Path(os.environ["TMPDIR"]).glob("*dafka*")]
"""
    # (The plugins of anyio, which comes with FastAPI, and of schemathesis load trio.)
    done = run(tmp_path, tests, "-p", "no:anyio", "-p", "no:schemathesis")
    assert counts(done) == {"passed": 1}, done.stdout


def test_a_failure_shows_records_lags_and_the_log(tmp_path: Path) -> None:
    tests = """
def test_it(dafka, dafka_topic, dafka_group):
    send(dafka, dafka_topic, *[b"value %d" % n for n in range(30)])
    consumer = reader(dafka, dafka_group)
    consumer.subscribe([dafka_topic])
    consumer.commit(consumer.poll(30), asynchronous=False)
    consumer.close()
    raise AssertionError("as planned")

def test_without_fixtures():
    raise AssertionError("as planned")
"""
    done = run(tmp_path, tests)
    assert counts(done) == {"failed": 2}, done.stdout
    assert re.search(r"dafka topics \(127.0.0.1:\d+\)", done.stdout)
    shown = re.findall(r"@(\d+)  'key' -> 'value (\d+)'  \{'h': b'1'\}", done.stdout)
    assert shown == [(str(n), str(n)) for n in range(10, 30)]
    assert re.search(r"g-main-\w+-test-it: t-main-\w+-test-it-0 lags 29", done.stdout)
    assert "Kafka is ready on" in done.stdout
    assert done.stdout.count("dafka topics (") == 1


def test_a_server_that_is_there_is_used(tmp_path: Path) -> None:
    tests = """
def test_it(dafka, dafka_topic):
    send(dafka, dafka_topic, b"a")
    assert dafka_topic.wait_for(1)[0].value == b"a"
    seen(dafka)

def test_faults(dafka_chaos):
    raise AssertionError("it takes no orders")
"""
    with Standalone(directory=tmp_path / "server") as server:
        done = run(tmp_path, tests, DAFKA_BOOTSTRAP=server.bootstrap)
        assert counts(done) == {"passed": 1, "skipped": 1}, done.stdout
        assert servers_seen(tmp_path) == {(server.bootstrap, "None")}


def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    tests = """
import signal
def test_it(dafka):
    seen(dafka)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(tmp_path, tests).returncode == -9
    ((bootstrap, _),) = servers_seen(tmp_path)
    await_that(lambda: not listens(bootstrap))


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    tests = """
@pytest.mark.dafka("--partitions", "no number")
def test_it(dafka_own):
    pass
"""
    done = run(tmp_path, tests)
    assert counts(done) == {"error": 1}, done.stdout
    assert "--partitions: 'no number' is not a whole number" in done.stdout
    assert not [*tmp_path.glob("*dafka-*")]
