"""The answers of one connection: each leaves, in order, whatever becomes ready when."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from gateway.common.turns import Turns
from gateway.front.answer_queue import COALESCE_BYTES, AnswerQueue
from gateway.front.limits import Limits
from gateway.front.memory import ConnectionMemory
from gateway.front.output import Output


class Socket:
    """Takes everything at once."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def send(self, data: bytes) -> int:
        self.taken += data
        return len(data)

    def sendmsg(self, buffers: list[bytes]) -> int:
        return sum(map(self.send, buffers))


class Pending:
    """A request that began."""

    def __init__(self, answer: bytes, *, ready: bool) -> None:
        self.ready = ready
        self._answer = answer
        self._call: Callable[[], None] = lambda: None

    def when_ready(self, call: Callable[[], None]) -> None:
        self._call = call

    def response(self) -> bytes:
        return self._answer

    def become_ready(self) -> None:
        self.ready = True
        self._call()


def make() -> tuple[AnswerQueue, Socket]:
    socket = Socket()
    budget = SimpleNamespace(release=lambda _size: None, try_reserve=lambda _size: True)
    context = SimpleNamespace(
        request_memory=budget,
        small_request_memory=budget,
        decoded_memory=budget,
        produced_memory=budget,
        response_memory=budget,
    )
    output = Output(cast(Any, socket), Turns())
    return AnswerQueue(output, ConnectionMemory(cast(Any, context)), Limits()), socket


ROUTE: Any = SimpleNamespace(
    stats=SimpleNamespace(
        requests=0, request_bytes=0, response_bytes=0, latency=SimpleNamespace(observe=lambda _seconds: None)
    )
)


def test_an_answer_after_a_large_one_is_not_forgotten() -> None:
    queue, socket = make()
    large, small = bytes(COALESCE_BYTES + 1), b"small"
    queue.begun(cast(Any, Pending(large, ready=True)), ROUTE, 10, 0, 0.0)
    queue.begun(cast(Any, Pending(small, ready=True)), ROUTE, 10, 0, 0.0)
    queue.flush()  # the reader waits for the client
    assert bytes(socket.taken) == large + small


def test_what_becomes_durable_while_much_is_unsent_is_answered() -> None:
    queue, socket = make()
    waits = Pending(b"durable", ready=False)
    queue.ready(bytes(COALESCE_BYTES + 1), ROUTE, 10, 0.0, held=0)
    queue.begun(cast(Any, waits), ROUTE, 10, 0, 0.0)
    waits.become_ready()
    queue.flush()
    assert bytes(socket.taken).endswith(b"durable")


SIZES = st.sampled_from([1, 100, COALESCE_BYTES // 2, COALESCE_BYTES, COALESCE_BYTES + 1, 3 * COALESCE_BYTES])


@given(
    st.lists(st.tuples(SIZES, st.sampled_from(["ready", "later", "flush"]), st.integers(0, 3)), max_size=12)
)
def test_all_answers_leave_in_their_order(steps: list[tuple[int, str, int]]) -> None:
    """Requests begin, ready or not; others become ready at any time; now and then the reader waits."""
    queue, socket = make()
    expected = b""
    waiting: list[Pending] = []
    for number, (size, how, which) in enumerate(steps):
        if how == "flush":
            queue.flush()
            continue
        answer = bytes([number]) * size
        expected += answer
        pending = Pending(answer, ready=how == "ready")
        queue.begun(cast(Any, pending), ROUTE, 10, 0, 0.0)
        if not pending.ready:
            waiting.append(pending)
        if which < len(waiting):
            waiting.pop(which).become_ready()
    for pending in reversed(waiting):
        pending.become_ready()
    queue.flush()
    assert not queue.pending
    assert bytes(socket.taken) == expected
