"""As many requests a second as a server answers, from connections that keep so many in flight."""

import math
import select
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tests.bench.measurement import PER_REQUEST, Cost
from tests.bench.wire.connection import RECEIVE_BYTES

# Longest that all connections together may be without any answer.
SILENCE_SECONDS = 30.0
# How many times as long as the measurement a warm-up may take.
WARM_UP_TIMES = 5


class Used(Protocol):
    """A server whose processor time can be read."""

    @property
    def cpu_seconds(self) -> float: ...


class WrongAnswer(AssertionError):
    """An answer is not the one that was expected: what was measured would mean nothing."""


class Lane:
    """One connection. Its requests are sent in turn, and each is answered with the same bytes.

    Args:
        sock: a blocking one.
        requests: all of one length; with one correlation id, so that one answer fits all.
        answer: the framed answer to each.
    """

    def __init__(self, sock: socket.socket, requests: Sequence[bytes], answer: bytes) -> None:
        if len({len(request) for request in requests}) != 1:
            raise ValueError("the requests of a lane have one length")
        self.socket = sock
        self._length = len(requests[0])
        self._count = len(requests)
        self._requests = b"".join(requests) * 2
        self._next = 0
        self._answer = answer
        self._expected = answer * (RECEIVE_BYTES // len(answer) + 2)
        self._into = 0

    def send(self, count: int) -> None:
        while count:
            some = min(count, self._count)
            start = self._next * self._length
            self.socket.sendall(self._requests[start : start + some * self._length])
            self._next = (self._next + some) % self._count
            count -= some

    def receive(self) -> int:
        """How many answers are complete with what is there now. Raises WrongAnswer."""
        data = self.socket.recv(RECEIVE_BYTES)
        into = self._into
        if not data or data != self._expected[into : into + len(data)]:
            raise WrongAnswer(f"expected {self._answer!r}, {into} bytes into it came {data[:200]!r}")
        done, self._into = divmod(into + len(data), len(self._answer))
        return done


class Rate(NamedTuple):
    """Requests a second, and what each took of the server's processor time and of ours."""

    per_second: float
    cost: Cost


def measure(server: Used, lanes: Sequence[Lane], *, in_flight: int, warm_up: int, seconds: float) -> Rate:
    """Keep so many requests of each lane in flight, `seconds` long, and wait for the rest.

    Before that `warm_up` requests are answered, as far as that takes no longer than WARM_UP_TIMES as long: a
    fresh JVM becomes fast by the number of what it has done.

    Raises:
        WrongAnswer: one was not answered as expected.
    """
    poll = select.epoll()
    by_file = {lane.socket.fileno(): lane for lane in lanes}
    for file in by_file:
        poll.register(file, select.EPOLLIN)
    for lane in lanes:
        lane.send(in_flight)
    try:
        _run(poll, by_file, WARM_UP_TIMES * seconds, warm_up)
        servers, ours, began = server.cpu_seconds, time.process_time(), time.perf_counter()
        done = _run(poll, by_file, seconds)
        took = time.perf_counter() - began
        cost = Cost(
            (server.cpu_seconds - servers) / done * 1e6,
            (time.process_time() - ours) / done * 1e6,
            PER_REQUEST,
        )
        _drain(poll, by_file, in_flight * len(lanes))
    finally:
        poll.close()
    return Rate(done / took, cost)


def _run(poll: select.epoll, lanes: dict[int, Lane], seconds: float, enough: float = math.inf) -> int:
    """How many were answered in that time, or until it was enough; each was followed by another one."""
    done = 0
    clock = time.perf_counter
    until = clock() + seconds
    while clock() < until and done < enough:
        for file, _ in _wait(poll):
            lane = lanes[file]
            if answered := lane.receive():
                lane.send(answered)
                done += answered
    return done


def _drain(poll: select.epoll, lanes: dict[int, Lane], left: int) -> None:
    while left:
        for file, _ in _wait(poll):
            left -= lanes[file].receive()


def _wait(poll: select.epoll) -> list[tuple[int, int]]:
    ready = poll.poll(SILENCE_SECONDS)
    if not ready:
        raise WrongAnswer(f"nothing was answered for {SILENCE_SECONDS:.0f} s")
    return ready
