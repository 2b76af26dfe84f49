"""Waiting for sockets that can be read: all are served, and few in one pass of the loop."""

from __future__ import annotations

import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.front.readiness import AT_ONCE, WATCHED_BY_LOOP, Readiness

MANY = WATCHED_BY_LOOP + 3 * AT_ONCE

needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the loop watches all")


@contextmanager
def pairs(many: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """So many sockets, each with its other end."""
    with ExitStack() as stack:
        made = [socket.socketpair() for _ in range(many)]
        for pair in made:
            for one in pair:
                one.setblocking(False)
                stack.enter_context(one)
        yield made


def run(body: Callable[[Readiness, trio.Nursery], Awaitable[None]]) -> None:
    """With a readiness that is watched, and a nursery that ends with the body."""

    async def main() -> None:
        readiness = Readiness()
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(readiness.run)
                await body(readiness, nursery)
                nursery.cancel_scope.cancel()

    trio.run(main)


class Passes(trio.abc.Instrument):
    """How many of `woken` were added between two waits of the loop for events, at the most."""

    def __init__(self, woken: list[int]) -> None:
        self._woken = woken
        self._before = 0
        self.most = 0

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        self.most = max(self.most, len(self._woken) - self._before)
        self._before = len(self._woken)


def test_all_that_can_be_read_are_found_each_time() -> None:
    async def body(readiness: Readiness, nursery: trio.Nursery) -> None:
        with pairs(MANY) as made:
            read: list[list[bytes]] = [[] for _ in made]

            async def reader(number: int) -> None:
                sock = made[number][0]
                while True:
                    await readiness.wait(sock)
                    read[number].append(sock.recv(100))

            for number in range(MANY):
                nursery.start_soon(reader, number)
            for round_ in range(3):
                await wait_all_tasks_blocked()
                for number, (_, other) in enumerate(made):
                    other.send(b"%d of %d" % (number, round_))
            await wait_all_tasks_blocked()
            assert read == [[b"%d of %d" % (number, round_) for round_ in range(3)] for number in range(MANY)]

    run(body)


@needs_epoll
def test_of_many_that_end_at_once_few_are_woken_in_one_pass() -> None:
    async def body(readiness: Readiness, nursery: trio.Nursery) -> None:
        with pairs(MANY) as made:
            woken: list[int] = []

            async def reader(number: int) -> None:
                await readiness.wait(made[number][0])
                woken.append(number)

            for number in range(MANY):
                nursery.start_soon(reader, number)
            await wait_all_tasks_blocked()
            passes = Passes(woken)
            trio.lowlevel.add_instrument(passes)
            for _, other in made:
                other.close()
            await wait_all_tasks_blocked()
            trio.lowlevel.remove_instrument(passes)
            assert sorted(woken) == list(range(MANY))
            assert passes.most <= WATCHED_BY_LOOP + AT_ONCE

    run(body)


@pytest.mark.parametrize("before", [0, WATCHED_BY_LOOP])
def test_who_waits_can_be_woken_cancelled_and_wait_again(before: int) -> None:
    """For a socket that the loop watches, and for one that it does not."""

    async def body(readiness: Readiness, nursery: trio.Nursery) -> None:
        with pairs(before + 1) as made:
            for sock, _ in made[:-1]:
                nursery.start_soon(readiness.wait, sock)
            sock, other = made[-1]
            await wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                scope.cancel()
                await readiness.wait(sock)
            assert scope.cancelled_caught
            nursery.start_soon(wake_when_blocked, readiness, sock)
            await readiness.wait(sock)
            with pytest.raises(BlockingIOError):
                sock.recv(1)
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel_when_blocked, scope)
                await readiness.wait(sock)
            assert scope.cancelled_caught
            other.send(b"x")
            await readiness.wait(sock)
            assert sock.recv(1) == b"x"

    run(body)


async def wake_when_blocked(readiness: Readiness, sock: socket.socket) -> None:
    await wait_all_tasks_blocked()
    readiness.wake(sock)


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


@needs_epoll
def test_a_socket_that_was_forgotten_leaves_its_number_to_another() -> None:
    async def body(readiness: Readiness, nursery: trio.Nursery) -> None:
        with pairs(WATCHED_BY_LOOP) as made:
            for sock, _ in made:
                nursery.start_soon(readiness.wait, sock)
            await wait_all_tasks_blocked()
            numbers = set()
            for content in (b"first", b"second"):
                with pairs(1) as [(sock, other)]:
                    numbers.add(sock.fileno())
                    other.send(content)
                    await readiness.wait(sock)
                    assert sock.recv(10) == content
                    readiness.forget(sock)
            assert len(numbers) == 1

    run(body)


def test_whoever_waits_when_the_watch_has_ended_can_still_be_woken() -> None:
    """A server that stops watches no longer, and then wakes its readers."""

    async def main() -> None:
        readiness = Readiness()
        with pairs(WATCHED_BY_LOOP + 1) as made:
            async with trio.open_nursery() as readers:
                async with trio.open_nursery() as watch:
                    watch.start_soon(readiness.run)
                    for sock, _ in made:
                        readers.start_soon(readiness.wait, sock)
                    await wait_all_tasks_blocked()
                    watch.cancel_scope.cancel()
                for sock, _ in made:
                    readiness.wake(sock)
            for sock, _ in made:
                readiness.forget(sock)

    trio.run(main)
