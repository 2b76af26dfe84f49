"""Worker threads are shared by clients: one that wants much waits for itself."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import pytest
import trio
import trio.testing

from gateway.common.clients import client_of
from gateway.common.workers import Look, Workers
from tests.unit.gateway.kafka_wire import run


def in_trio(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def runs() -> None:
        run(test)

    return runs


class Jobs:
    """Work that ends when it is told to."""

    def __init__(self, workers: Workers, nursery: trio.Nursery) -> None:
        self.workers = workers
        self.nursery = nursery
        self.running: list[str] = []
        self.done: list[str] = []
        self._may_end: dict[str, threading.Event] = {}
        self._changed = trio.Event()

    def begin(self, client: str, name: str) -> trio.CancelScope:
        scope = trio.CancelScope()
        self._may_end[name] = threading.Event()

        async def task() -> None:
            with scope:
                await self.workers.run(client, partial(self._work, trio.lowlevel.current_trio_token(), name))
                self._note(self.done, name)

        self.nursery.start_soon(task)
        return scope

    def _work(self, token: Any, name: str, _look: Look) -> None:
        trio.from_thread.run_sync(self._note, self.running, name, trio_token=token)
        assert self._may_end[name].wait(10)

    def _note(self, names: list[str], name: str) -> None:
        names.append(name)
        self._changed.set()
        self._changed = trio.Event()

    async def are_running(self, *names: str) -> None:
        """Returns when these have threads; nothing else may have one."""
        with trio.fail_after(10):
            while set(self.running) - set(self.done) != set(names):
                await self._changed.wait()
        assert self.workers.busy == len(names)

    async def end(self, name: str) -> None:
        self._may_end[name].set()
        with trio.fail_after(10):
            while name not in self.done:
                await self._changed.wait()


async def begin_all(jobs: Jobs, client: str, *names: str) -> None:
    for name in names:
        jobs.begin(client, name)
        await trio.testing.wait_all_tasks_blocked()


@in_trio
async def test_one_client_never_holds_the_last_thread() -> None:
    workers = Workers(4)
    async with trio.open_nursery() as nursery:
        jobs = Jobs(workers, nursery)
        await begin_all(jobs, "greedy", "g1", "g2", "g3", "g4", "g5")
        await jobs.are_running("g1", "g2", "g3")
        assert (workers.busy, workers.waiting) == (3, 2)
        await begin_all(jobs, "other", "o1")
        await jobs.are_running("g1", "g2", "g3", "o1")
        for name in ("o1", "g1", "g2", "g3", "g4", "g5"):
            await jobs.end(name)
    assert (workers.busy, workers.waiting) == (0, 0)


@in_trio
async def test_the_clients_of_one_network_never_hold_the_last_thread_together() -> None:
    workers = Workers(4)
    async with trio.open_nursery() as nursery:
        jobs = Jobs(workers, nursery)
        for number in range(5):
            await begin_all(jobs, client_of(f"2001:db8:1:{number}::1"), f"g{number}")
        await jobs.are_running("g0", "g1", "g2")
        await begin_all(jobs, client_of("2001:db8:2:0::1"), "o1")
        await jobs.are_running("g0", "g1", "g2", "o1")
        for name in ("o1", "g0", "g1", "g2", "g3", "g4"):
            await jobs.end(name)
    assert (workers.busy, workers.waiting) == (0, 0)


@in_trio
async def test_clients_that_wait_have_turns() -> None:
    workers = Workers(2)
    async with trio.open_nursery() as nursery:
        jobs = Jobs(workers, nursery)
        await begin_all(jobs, "a", "a1", "a2", "a3")
        await begin_all(jobs, "b", "b1", "b2")
        await begin_all(jobs, "c", "c1")
        await jobs.are_running("a1", "b1")
        await jobs.end("a1")
        await jobs.are_running("b1", "a2")  # a holds nothing, and waits for longest
        await jobs.end("a2")
        await jobs.are_running("b1", "c1")  # c has not had its turn, b holds what it may
        await jobs.end("b1")
        await jobs.are_running("c1", "b2")
        await jobs.end("c1")
        await jobs.are_running("b2", "a3")
        await jobs.end("b2")
        await jobs.end("a3")


@in_trio
async def test_what_waits_is_forgotten_when_it_is_cancelled() -> None:
    workers = Workers(2)
    async with trio.open_nursery() as nursery:
        jobs = Jobs(workers, nursery)
        await begin_all(jobs, "a", "a1")
        gone = jobs.begin("a", "a2")
        await trio.testing.wait_all_tasks_blocked()
        await begin_all(jobs, "a", "a3")
        gone.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert workers.waiting == 1
        await jobs.end("a1")
        await jobs.are_running("a3")
        await jobs.end("a3")
    assert "a2" not in jobs.running


@in_trio
async def test_work_that_runs_ends_with_its_next_look_when_it_is_cancelled() -> None:
    workers = Workers(2)
    looked, cancelled = threading.Event(), threading.Event()
    looks: list[int] = []

    def endless(look: Look) -> None:
        for number in range(1_000_000):
            look()
            looks.append(number)
            looked.set()
            assert cancelled.wait(10)

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def client() -> None:
            with scope:
                await workers.run("gone", endless)

        nursery.start_soon(client)
        assert await trio.to_thread.run_sync(partial(looked.wait, 10))
        scope.cancel()
        cancelled.set()
    assert (scope.cancelled_caught, looks) == (True, [0])
    assert (workers.busy, workers.waiting) == (0, 0)


@in_trio
async def test_what_work_returns_and_raises_comes_back_and_its_thread_is_free() -> None:
    workers = Workers(2)
    fail: Callable[[Look], int] = lambda _: 1 // 0  # noqa: E731
    assert await workers.run("a", lambda _: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await workers.run("a", fail)
    assert workers.busy == 0


def test_one_thread_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="1 threads"):
        Workers(1)
