"""The answers of one connection, from the request that began to the bytes that the client has taken.

In the order of the requests: answers that are ready wait in `output` for the socket; after them come those of
requests that began and are not durable yet (`pending`). The latter become ready when the log calls back,
without a task. The writer (`write`) waits for a client that reads slowly.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import NamedTuple

from gateway.common.handlers import PendingResponse, Response
from gateway.common.waiting import Waiter
from gateway.front.dispatch import Route
from gateway.front.limits import Limits
from gateway.front.memory import ConnectionMemory
from gateway.front.output import Output
from gateway.front.throttle import Bill

COALESCE_BYTES = 64 * 1024
"""Bytes of ready answers that are written at once rather than joined by the next ones: a larger write gains
nothing."""


class _Begun(NamedTuple):
    """A request that took effect and waits for its answer. `decoded` is memory beside its `size`; when it was
    whole, and when the work on it began (0.0: not measured). `bill`: where there are quotas.
    """

    pending: PendingResponse
    route: Route
    size: int
    decoded: int
    started: float
    began: float
    bill: Bill | None


class AnswerQueue:
    """What the reader puts in, and the writer sees out.

    The reader waits at `progress` for `pending` or `output` to become shorter.
    """

    __slots__ = ("_closed", "_failure", "_limits", "_memory", "_work", "output", "pending", "progress")

    def __init__(self, output: Output, memory: ConnectionMemory, limits: Limits) -> None:
        self._memory = memory
        self._limits = limits
        self._failure: Exception | None = None  # of an answer that was made while the log called back
        self._closed = False
        self._work = Waiter()  # the writer waits here
        self.progress = Waiter()
        self.output = output
        self.pending: deque[_Begun] = deque()

    def has_room(self, size: int) -> bool:
        """Whether a request that holds `size` bytes may begin now: always if no other is in flight."""
        pending, limits = self.pending, self._limits
        return not pending or (
            len(pending) < limits.max_in_flight_requests
            and self._memory.in_flight + size <= limits.max_in_flight_bytes
        )

    def begun(
        self,
        answer: PendingResponse,
        route: Route,
        size: int,
        decoded: int,
        started: float,
        began: float = 0.0,
        bill: Bill | None = None,
    ) -> None:
        """Adds a request that took effect, after those that are here."""
        pending = self.pending
        pending.append(_Begun(answer, route, size, decoded, started, began, bill))
        self._memory.in_flight += size + decoded
        if not answer.ready:
            answer.when_ready(self._answer_durable)
        elif len(pending) == 1:
            # An answer that found no place would be asked for by nobody, unless the writer is at work.
            if self.output.unsent > COALESCE_BYTES:
                self.flush()
            self._answer_ready()

    def ready(
        self,
        response: Response,
        route: Route,
        size: int,
        started: float,
        *,
        held: int,
        began: float = 0.0,
        bill: Bill | None = None,
    ) -> None:
        """Adds an answer to those that are ready; `held` bytes of its request's memory are free from here
        on. `began`: when the work on it did, if that is measured. `bill`: where there are quotas.
        """
        if bill is not None:
            response = bill.answered(response)
        sent = self.output.put(response)
        if held:
            self._memory.of_request(held).give_back(held)
        stats = route.stats
        stats.requests += 1
        stats.request_bytes += size
        stats.response_bytes += sent
        now = perf_counter()
        stats.latency.observe(now - started)
        if began:
            stats.queued.observe(began - started)
            stats.worked.observe(now - began)

    def flush(self) -> None:
        """Writes the ready answers as far as the client takes them; leaves the rest to the writer."""
        output = self.output
        if not output.draining and not output.full:  # where it is, the writer knows
            output.try_send()
            if output.unsent or output.error is not None:
                self._work.wake()
            elif self._memory.answers.held:
                self._memory.answers.give_back_all()

    def close(self) -> None:
        """No further request comes: the writer ends when all is answered."""
        self._closed = True
        self._work.wake()

    def forget(self) -> None:
        """Nobody waits for the answers any more."""
        for begun in self.pending:
            begun.pending.forget()
        self.pending.clear()

    async def write(self) -> None:
        """Writes what the client does not take at once, until the queue is closed and all is answered.

        Raises OSError when the client is gone, and what an answer that failed has raised.
        """
        output = self.output
        while True:
            if self._failure is not None:
                raise self._failure
            if output.unsent or output.error is not None:
                await output.drain()
                self._memory.answers.give_back_all()
                self._answer_ready()
                self.progress.wake()
            elif self.pending or not self._closed:
                await self._work.wait()
            else:
                return

    def _answer_durable(self) -> None:
        """Called from the log: what a request began is durable, or its time is over. Never blocks or
        raises.
        """
        output, pending = self.output, self.pending
        if output.unsent > COALESCE_BYTES:
            self.flush()  # as in `begun`: the reader may be in the midst of a request
        try:
            while pending and pending[0].pending.ready and output.unsent <= COALESCE_BYTES:
                self._answer_ready()
                self.flush()
        except Exception as error:  # noqa: BLE001 - the writer raises it
            self._failure = error
        self.progress.wake()
        if self._failure is not None or self._closed:
            self._work.wake()

    def _answer_ready(self) -> None:
        """Makes ready the answers of the first requests that began, as far as they are there, and not too
        many.
        """
        output, pending, memory = self.output, self.pending, self._memory
        while pending and pending[0].pending.ready and output.unsent <= COALESCE_BYTES:
            begun = pending.popleft()
            memory.in_flight -= begun.size + begun.decoded
            if begun.decoded:
                memory.produced.give_back(begun.decoded)
            self.ready(
                begun.pending.response(),
                begun.route,
                begun.size,
                begun.started,
                held=begun.size,
                began=begun.began,
                bill=begun.bill,
            )
