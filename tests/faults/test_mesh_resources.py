"""Readers that stop reading, and processes that may have only so much memory, while a mesh is under load."""

from __future__ import annotations

import contextlib
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from mesh.link_bounds import HIGH_WATER_MARK_MESSAGES
from tests.clients.stored import create_replicated_topic
from tests.differential.batches import batch_of, records_of, whole_batches
from tests.differential.wire import Connection
from tests.faults.history import History
from tests.faults.mesh_scene import TOPIC, Scene
from tests.faults.report import report
from tests.faults.workloads import make_value, read_value
from tests.peers.mesh import MeshCluster, StoreProcess
from tests.peers.process import ServerProcess
from tests.peers.tower import TowerProcess

MIB = 1024 * 1024
PATIENCE_SECONDS = 120.0

LINES = 3 * HIGH_WATER_MARK_MESSAGES
"""So many that a reader which is stopped misses some, whatever waits in its queues."""
LINE_BYTES = 4000
FIRST_LINES = 10
PRODUCER_BYTES = 256 * MIB
"""All lines together are larger with what a process of ours has at least."""

GATEWAY_MAY_HOLD = (256 + 256 + 64 + 48 + 64) * MIB
"""What docs/limits.md lets a gateway hold: large requests, large answers, small requests, the tail cache and
what is not acknowledged."""
HEADROOM = 128 * MIB
STORE_MAY_GROW = 768 * MIB
CLIENTS = 50
PARTITIONS = 4
LARGE = 900_000
"""Bytes of one large record: below `max.message.bytes`."""

pytestmark = pytest.mark.slow


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[MeshCluster]:
    with MeshCluster(tmp_path) as made:
        yield made


# slow readers ---------------------------------------------------------------------------------------------


class Tool:
    """`dafka consume` or `dafka produce` as a process; a context manager that ends it."""

    def __init__(self, tower: TowerProcess, out: Path, *arguments: str) -> None:
        at = tower.address
        own = [sys.executable, "-m", "dafka.cli", *arguments]
        self.out = out
        with out.open("wb") as file:
            self.process = subprocess.Popen(
                [*own, "--tower", f"{at.host}:{at.port_in}:{at.port_out}"], stdin=subprocess.PIPE, stdout=file
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    def write(self, lines: bytes) -> None:
        """Have it read these."""
        assert self.process.stdin is not None
        self.process.stdin.write(lines)
        self.process.stdin.flush()

    def feed(self, lines: bytes) -> int:
        """Have it read these and end; the most memory that it was seen to have, in bytes."""
        process, most = self.process, 0
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(process.communicate, lines, PATIENCE_SECONDS)
            while not written.done():
                with contextlib.suppress(OSError, AssertionError):  # it has just ended
                    most = max(most, memory_of(process.pid, "VmHWM"))
                time.sleep(0.01)
            written.result()
        assert process.returncode == 0
        return most


@pytest.mark.long
def test_readers_that_stop_reading(mesh: MeshCluster, history: History, tmp_path: Path) -> None:
    """One of native records, and one that listens to a Kafka topic: nobody's memory grows for them, and the
    first one has every record in the end, those from behind the gap as well.
    """
    scene = Scene(mesh, history)
    first = b"".join(b"first %d\n" % n for n in range(FIRST_LINES))
    more = b"".join(b"%d %s\n" % (n, b"x" * LINE_BYTES) for n in range(LINES))
    consume = ("consume", "lines", "--from-beginning", "--max-records", str(FIRST_LINES + LINES))
    with (
        Tool(mesh.tower, tmp_path / "lines", *consume) as reader,
        Tool(mesh.tower, tmp_path / "batches", "consume", TOPIC) as listener,
        Tool(mesh.tower, tmp_path / "none", "produce", "lines") as producer,
    ):
        producer.write(first)
        # It is linked with who reads now, so that what it publishes waits for them.
        _until(lambda: reader.out.read_bytes() == first and listener.out.stat().st_size > 0)
        before = mesh.gateway.rss_bytes
        with scene.counted("two readers stopped"):
            for tool in (reader, listener):
                tool.process.send_signal(signal.SIGSTOP)
            largest = producer.feed(more)
            scene.load.wait_for_new_acks(150)
            report(
                "memory",
                producer_mib=round(largest / MIB),
                gateway_mib_more=round((mesh.gateway.rss_bytes - before) / MIB),
            )
            assert largest < PRODUCER_BYTES
            assert mesh.gateway.rss_bytes - before < 200 * MIB
        for tool in (reader, listener):
            tool.process.send_signal(signal.SIGCONT)
        assert reader.process.wait(PATIENCE_SECONDS) == 0
        assert reader.out.read_bytes() == first + more
    scene.finish()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# little memory --------------------------------------------------------------------------------------------


def limit_memory(process: ServerProcess, more: int) -> None:
    """A running process may map so many bytes more than it has."""
    size = memory_of(process.pid, "VmSize") + more
    resource.prlimit(process.pid, resource.RLIMIT_AS, (size, size))


def memory_of(pid: int, name: str) -> int:
    """Bytes of a line of /proc/PID/status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")


@pytest.mark.long
def test_little_memory_and_many_large_requests(mesh: MeshCluster, history: History) -> None:
    """Every process may have what docs/limits.md says and little more; fifty clients write and fifty read
    megabytes at once. They wait for each other; nobody is refused, and no process runs out of memory.
    """
    scene = Scene(mesh, history)
    create_replicated_topic(mesh.bootstrap, "large", PARTITIONS, 3, min_insync_replicas="2")
    for number in range(4):
        assert _write(mesh.bootstrap, number) == [0] * PARTITIONS
    nodes = (mesh.gateway, *mesh.stores)
    before = {node: node.rss_bytes for node in nodes}
    limit_memory(mesh.gateway, GATEWAY_MAY_HOLD + HEADROOM)
    for store in mesh.stores:
        limit_memory(store, STORE_MAY_GROW)
    with scene.counted("little memory, fifty large writes and fifty large reads at once"):
        with ThreadPoolExecutor(2 * CLIENTS) as pool:
            writes = [pool.submit(_write, mesh.bootstrap, 100 + number) for number in range(CLIENTS)]
            reads = [pool.submit(_read, mesh.bootstrap) for _ in range(CLIENTS)]
            assert [write.result() for write in writes] == [[0] * PARTITIONS] * CLIENTS
            assert min(read.result() for read in reads) >= 4 * PARTITIONS
        scene.load.wait_for_new_acks(150)
    names = {node: node.name if isinstance(node, StoreProcess) else "gateway" for node in nodes}
    report(
        "MiB more at most", **{names[n]: round((memory_of(n.pid, "VmHWM") - before[n]) / MIB) for n in nodes}
    )
    for node in nodes:
        assert node.returncode is None, node.tail()
        assert "MemoryError" not in node.log
    assert memory_of(mesh.gateway.pid, "VmHWM") - before[mesh.gateway] < GATEWAY_MAY_HOLD
    scene.finish()


def _write(bootstrap: str, number: int) -> list[int]:
    """One request of a large record for each partition: the error codes."""
    of = ProduceRequest.TopicProduceData
    data = batch_of(make_value("large", number, LARGE))
    parts = [of.PartitionProduceData(index=n, records=data) for n in range(PARTITIONS)]
    request = ProduceRequest(
        version=9, acks=-1, timeout_ms=60_000, topic_data=[of(name="large", partition_data=parts)]
    )
    with Connection(bootstrap, timeout=PATIENCE_SECONDS) as connection:
        answer = connection.ask(request)
    return [part.error_code for part in answer.responses[0].partition_responses]


def _read(bootstrap: str) -> int:
    """One request for megabytes of every partition: the records that came, each of which is whole."""
    of = FetchRequest.FetchTopic
    parts = [
        of.FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=4 * MIB) for n in range(PARTITIONS)
    ]
    request = FetchRequest(
        version=11,
        max_wait_ms=500,
        min_bytes=0,
        max_bytes=16 * MIB,
        session_id=0,
        session_epoch=-1,
        topics=[of(topic="large", partitions=parts)],
    )
    while True:
        # Who reads too slowly while others wait is closed, and tries again.
        with (
            contextlib.suppress(ConnectionError),
            Connection(bootstrap, timeout=PATIENCE_SECONDS) as connection,
        ):
            answer = connection.ask(request)
            break
    count = 0
    for part in answer.responses[0].partitions:
        assert part.error_code == 0
        for one in whole_batches(part.records):
            for _, record in records_of(one):
                assert read_value(record.value)[2]
                count += 1
    return count
