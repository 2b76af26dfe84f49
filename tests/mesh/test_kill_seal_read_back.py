"""The riskiest path, whole: RECORD -> fsync -> ACK -> SIGKILL -> seal -> read back, between two processes
over TCP.

A writer's window feeds a real store process; the store is killed with records in flight, started again on the
same directory, and sealed by a second life: everything that was acknowledged is there, byte for byte, and the
first writer is told that it was cut off.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from mesh.links import Context
from mesh.native.subjects import NativeSubjects
from mesh.node import Node
from mesh.producer import Producer
from mesh.protocol.recovery import Seal
from mesh.protocol.writer import State, Writer
from mesh.reader import Reader
from mesh.requests import Requests
from mesh.routing import gateway_routes
from tests.unit.mesh.producer_asks import opened, sealed
from wireproto.dafka import ids
from wireproto.dafka.additions import ANY_STORE, Announcement, Ping, Pong
from wireproto.dafka.messages import directed_prefix
from wireproto.records.builder import build_batch

INCARNATION = "5" * 32
CLUSTER = "a-cluster"
WINDOW = 200


class StoreProcess:
    def __init__(self, path: Path, peer: str) -> None:
        script = Path(__file__).with_name("store_process.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(path), INCARNATION, peer],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().decode().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Life:
    """One gateway life's node: it owns a writer, and hears how far that got."""

    def __init__(self, context: Context) -> None:
        self.node = Node(context)
        self.endpoint = self.node.publisher.bind("tcp://127.0.0.1:*")
        self.requests = Requests(self.node)
        self.producer = Producer(self.node, self.requests)
        subjects = NativeSubjects(self.node, self.requests)
        self.node.route(gateway_routes(self.requests, self.producer, subjects))
        self.reader = Reader(self.requests)
        self.moved = trio.Event()
        self.lost = ""

    def progressed(self, _writer: Writer) -> None:
        self.moved.set()
        self.moved = trio.Event()

    def fenced(self, _writer: Writer, reason: str) -> None:
        self.lost = reason
        self.moved.set()
        self.moved = trio.Event()

    async def greet(self) -> Pong:
        await self.node.publisher.wait_subscribed(directed_prefix(ids.PING, ANY_STORE))
        pong = await self.requests.ask(ANY_STORE, lambda requester: Ping(ANY_STORE, requester))
        assert isinstance(pong, Pong)
        return pong

    def announcement(self, epoch: int, start: int) -> Announcement:
        address = self.requests.new_id()
        return Announcement(address, "orders", CLUSTER, "log/0", epoch, start, (INCARNATION,), 1, b"details")


def batch(number: int) -> bytes:
    """A batch whose content tells its number; offsets are dense, one record each."""
    return build_batch(
        [(b"k", b"value %d " % number * (number % 50 + 1), [], 1000 + number)], base_offset=number
    )


async def produce_until(life: Life, writer: Writer, acknowledged: int) -> None:
    """Keep the window full until the store has acknowledged so many records."""
    while writer.committed < acknowledged:
        fill_window(life, writer)
        await life.moved.wait()
    # One commit may have acknowledged the whole window: what comes next must find records in flight.
    fill_window(life, writer)


def fill_window(life: Life, writer: Writer) -> None:
    while len(writer) < WINDOW:
        life.producer.append(writer, batch(writer.next_sequence))


async def first_life(life: Life, path: Path) -> tuple[Writer, int]:
    """Open, produce, and kill the store with a full window. The writer, and what was acknowledged by then."""
    store = StoreProcess(path, life.endpoint)
    life.node.connect(store.endpoint)
    assert (await life.greet()).store == INCARNATION
    segment = life.announcement(epoch=0, start=0)
    writer = life.producer.start(segment.address, segment.subject, segment.members, segment.w, life)
    held = life.producer.append(writer, batch(0))
    assert (held, writer.state) == (0, State.OPENING)
    assert await opened(life.producer, [segment]) == {}
    await produce_until(life, writer, acknowledged=1500)
    assert len(writer) > 0, "the kill must come with records in flight"
    store.kill()
    life.node.disconnect(store.endpoint)
    return writer, writer.committed


async def second_life(life: Life, first: Life, writer: Writer, path: Path, acknowledged: int) -> None:
    store = StoreProcess(path, life.endpoint)
    try:
        life.node.connect(store.endpoint)
        await life.greet()
        seal = Seal(writer.address, writer.members, writer.w)
        await sealed(life.producer, [seal])
        end, _ = seal.end()
        assert acknowledged <= end < writer.next_sequence
        contents: list[bytes] = []
        while len(contents) <= end:
            contents += await life.reader.read(
                writer.members, writer.address, "orders", len(contents), end - len(contents) + 1, 100_000
            )
        assert contents == [batch(number) for number in range(end + 1)]
        await the_first_writer_is_told(first, writer, path, store)
    finally:
        store.kill()


async def the_first_writer_is_told(first: Life, writer: Writer, path: Path, store: StoreProcess) -> None:
    """The old life reaches the store again: its HEAD is answered with SEALED, and it loses the segment."""
    store.kill()
    again = StoreProcess(path, first.endpoint)
    try:
        first.node.connect(again.endpoint)
        while not first.lost:
            await first.moved.wait()
        assert writer.state is State.FENCED
        assert "sealed" in first.lost
    finally:
        again.kill()


@pytest.mark.parametrize("round_number", range(2))
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, round_number: int) -> None:
    async def main() -> None:
        context = Context()
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                lives = [Life(context), Life(context)]
                for life in lives:
                    nursery.start_soon(life.node.run)
                    nursery.start_soon(life.producer.run)
                writer, acknowledged = await first_life(lives[0], tmp_path / "store")
                await second_life(lives[1], lives[0], writer, tmp_path / "store", acknowledged)
                nursery.cancel_scope.cancel()
        context.close()

    trio.run(main)
