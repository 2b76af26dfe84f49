"""The fsync is in the acknowledgement's path: seen from the kernel's side of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka.protocol.producer import ProduceRequest

from tests.clients.stored import create_topic, stored_records
from tests.differential.batches import batch_of
from tests.differential.wire import Connection
from tests.faults.strace_log import TRACED, Judgement, judge
from tests.faults.workloads import make_value
from tests.peers.requirements import require
from tests.peers.standalone import Standalone

LOG = re.compile(r"/store/.*/write-ahead/\d+\.log$")
TOPIC = "traced"
DISK_FAILED = 4  # the exit code


def strace(log: Path, *options: str) -> list[str]:
    """A wrapper that keeps the server's process id (-D) and follows its threads."""
    calls = f"trace={','.join(TRACED)}"
    return [require("strace"), "-D", "-f", "-tt", "-yy", "-s", "32", "-o", str(log), "-e", calls, *options]


def produce(connection: Connection, value: bytes, acks: int = -1) -> bool:
    """One record, and whether it was acknowledged; False as well when the server hung up."""
    of = ProduceRequest.TopicProduceData
    data = of(name=TOPIC, partition_data=[of.PartitionProduceData(index=0, records=batch_of(value))])
    try:
        answer = connection.ask(ProduceRequest(version=9, acks=acks, timeout_ms=10_000, topic_data=[data]))
    except ConnectionError:
        return False
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def traced_run(tmp_path: Path, fsync: str, acks: int, count: int = 50) -> Judgement:
    """So many synchronous produces under strace, judged."""
    log = tmp_path / "strace.log"
    data, directory = tmp_path / "data", tmp_path / "server"
    with Standalone(data, "--fsync", fsync, directory=directory, wrapper=strace(log)) as server:
        create_topic(server.bootstrap, TOPIC)
        with Connection(server.bootstrap) as before:
            assert produce(before, b"opens the segment")
        with Connection(server.bootstrap) as connection:
            port = connection.socket.getsockname()[1]
            for number in range(count):
                assert produce(connection, b"record %d" % number, acks)
        assert server.terminate() == 0
    with log.open(errors="replace") as lines:
        return judge(lines, log=LOG, client=f"->127.0.0.1:{port}]")


@pytest.mark.slow
@pytest.mark.parametrize("acks", [-1, 1])
def test_no_answer_leaves_before_its_fsync_returned(tmp_path: Path, acks: int) -> None:
    seen = traced_run(tmp_path, "always", acks)
    assert seen.violations == []
    assert seen.answers == 50
    assert seen.syncs >= 50


@pytest.mark.slow
def test_the_test_above_fails_without_fsync(tmp_path: Path) -> None:
    """`--fsync never` is the same program with the fsync left out: it must not pass."""
    seen = traced_run(tmp_path, "never", acks=-1)
    assert seen.answers == 50
    assert len(seen.violations) == 50


@pytest.mark.slow
@pytest.mark.parametrize("fail_at", [12, 25])
def test_a_failed_fsync_is_never_acknowledged(tmp_path: Path, fail_at: int) -> None:
    """EIO once: what waited for it is not acknowledged, the process ends with its own exit code, and what was
    acknowledged before is there afterwards."""
    log, data = tmp_path / "strace.log", tmp_path / "data"
    with Standalone(data, directory=tmp_path / "before") as server:
        create_topic(server.bootstrap, TOPIC)
    inject = ["-e", f"inject=fdatasync,fsync:error=EIO:when={fail_at}"]
    acked = []
    with Standalone(data, directory=tmp_path / "server", wrapper=strace(log, *inject)) as server:
        with Connection(server.bootstrap) as connection:
            for number in range(200):
                value = make_value("p", number, 100)
                if not produce(connection, value):
                    break
                acked.append(value)
        assert server.wait() == DISK_FAILED, server.tail()
        complaint = server.log
    assert len(acked) < 200, "the fault was never met"
    assert "Traceback" not in complaint
    assert complaint.strip().splitlines()[-1], "no clear last line"
    _nothing_after_the_error(log, len(acked))
    with Standalone(data, directory=tmp_path / "after") as server:
        found = [record.value for _, record in stored_records(server.bootstrap, TOPIC)]
        assert found[: len(acked)] == acked
        assert len(found) <= len(acked) + 1


def _nothing_after_the_error(log: Path, acked: int) -> None:
    """The fault really hit the store's log, and no sync was tried on it again."""
    lines = log.read_text(errors="replace").splitlines()
    failed = [number for number, line in enumerate(lines) if "EIO" in line and "INJECTED" in line]
    assert failed, "strace injected nothing"
    assert acked > 0
    after = [
        line for line in lines[failed[0] + 1 :] if "fdatasync(" in line and LOG.search(line.split(">")[0])
    ]
    assert after == [], "tried again on a file whose sync had failed"
