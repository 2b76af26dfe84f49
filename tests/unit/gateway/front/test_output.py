"""Ready answers on their way to a client that reads slowly or not at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.costs import SENT_KIB
from gateway.common.turns import TURN, Turns
from gateway.front.output import IOV_MAX, Output
from tests.unit.gateway.kafka_wire import run


@contextmanager
def pair(turns: Turns | None = None) -> Iterator[tuple[Output, socket.socket]]:
    """An output, and the client's end of its socket; both have small kernel buffers."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield Output(ours, turns or Turns()), theirs


class Counted:
    """A socket that counts how often it was asked to send."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.sends = 0

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, *arguments: Any) -> int:
        self.sends += 1
        return self._sock.send(*arguments)

    def sendmsg(self, *arguments: Any) -> int:
        self.sends += 1
        return self._sock.sendmsg(*arguments)


def read_all(sock: socket.socket) -> bytes:
    """What has arrived."""
    received = b""
    while True:
        try:
            chunk = sock.recv(1 << 20)
        except BlockingIOError:
            return received
        if not chunk:
            return received
        received += chunk


def pattern(size: int, seed: int) -> bytes:
    return bytes((seed + i * 7) % 251 for i in range(size))


def test_answers_leave_in_order_whatever_they_are_made_of() -> None:
    with pair() as (output, client):
        assert output.put(b"one") == 3
        assert output.put(None) == 0
        assert output.put([b"two", memoryview(b"xthreex")[1:6], bytearray(b"four"), b""]) == 12
        assert output.put([]) == 0
        assert output.put([b"", memoryview(b"")]) == 0
        assert output.unsent == 15
        output.try_send()
        assert output.unsent == 0
        assert read_all(client) == b"onetwothreefour"


def test_what_the_kernel_does_not_take_waits_for_the_client() -> None:
    async def main() -> None:
        with pair() as (output, client):
            whole = b"".join(pattern(size, size) for size in (1, 50_000, 3, 70_000, 10, 20))
            output.put(pattern(1, 1))
            output.put([pattern(50_000, 50_000), memoryview(pattern(3, 3)), pattern(70_000, 70_000)])
            output.try_send()
            assert 0 < output.unsent < len(whole)
            received = b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(output.drain)
                await wait_all_tasks_blocked()
                output.put([pattern(10, 10), pattern(20, 20)])  # behind the others
                while len(received) < len(whole):
                    received += read_all(client)
                    await trio.lowlevel.checkpoint()
            assert received == whole
            assert (output.unsent, output.draining) == (0, False)

    run(main)


def test_what_is_full_is_asked_again_only_when_it_has_room() -> None:
    async def main() -> None:
        ours, client = socket.socketpair()
        with ours, client:
            for sock in (ours, client):
                sock.setblocking(False)
            counted = Counted(ours)
            output = Output(counted, Turns())  # type: ignore[arg-type]
            whole = pattern(300_000, 1) + pattern(300_000, 2)
            output.put([whole[:300_000], whole[300_000:]])
            output.try_send()
            assert (output.full, counted.sends) == (True, 1)
            received, wake_ups = b"", 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(output.drain)
                await wait_all_tasks_blocked()
                assert counted.sends == 1
                while len(received) < len(whole):
                    received += read_all(client)
                    wake_ups += 1
                    await wait_all_tasks_blocked()
                    assert counted.sends <= 1 + wake_ups
            assert received == whole
            assert not output.full

    run(main)


def test_what_is_sent_is_charged_and_what_is_begun_waits_for_no_turn() -> None:
    async def main() -> None:
        turns = Turns()
        with pair(turns) as (output, client):
            output.put(pattern(300_000, 1))
            output.try_send()
            sent = 300_000 - output.unsent
            assert TURN - turns.left == (sent >> 10) * SENT_KIB > 0
            turns.left = -100 * TURN
            received = b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(output.drain)
                while len(received) < 300_000:
                    received += read_all(client)
                    await trio.lowlevel.checkpoint()
            assert received == pattern(300_000, 1)

    run(main)


def test_more_buffers_than_one_call_takes() -> None:
    async def main() -> None:
        with pair() as (output, client):
            pieces = [pattern(1 + i % 5, i) for i in range(3 * IOV_MAX + 7)]
            output.put(list(pieces))
            received = b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(output.drain)
                while len(received) < sum(map(len, pieces)):
                    received += read_all(client)
                    await trio.lowlevel.checkpoint()
            assert received == b"".join(pieces)

    run(main)


def test_a_client_that_left_is_noticed_and_nothing_is_kept_for_it() -> None:
    async def main() -> None:
        with pair() as (output, client):
            client.close()
            output.put(b"x" * 10)
            output.try_send()
            assert output.unsent == 0
            assert isinstance(output.error, OSError)
            with pytest.raises(OSError, match="pipe"):
                await output.drain()

    run(main)


def test_how_long_the_client_has_not_read_is_known_while_draining() -> None:
    async def main() -> None:
        with pair() as (output, client):
            output.put(bytes(200_000))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(output.drain)
                await wait_all_tasks_blocked()
                since, sent = output.waiting_since, output.drained
                assert since <= trio.current_time()
                assert 0 < sent < 200_000
                assert len(read_all(client)) > 0
                await wait_all_tasks_blocked()
                assert output.waiting_since >= since
                assert output.drained > sent
                nursery.cancel_scope.cancel()
            assert output.waiting_since == float("inf")
            assert not output.draining

    run(main)
