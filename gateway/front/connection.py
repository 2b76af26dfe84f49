"""One connection of a Kafka client: requests in, answers out in the same order.

Theory of operation. Two tasks. The *reader* receives, cuts frames, decodes, and runs the handlers itself,
one request after the other, so that a request which completes at once costs no task switch. The answers of
requests that only began then leave when the log calls back (`_answer_durable`), without a task. The *writer*
waits for a client that reads slowly.

Order. Kafka handles one request of a connection at a time; clients rely on it, and on answers in request
order. What may overlap is Produce, and small commits of offsets: `begin` appends at once, and the next one
may begin while earlier ones wait for the stores. Everything else runs when all requests before it are
answered; so a parked Fetch holds back what follows, as it does in Kafka. Hence at any time

    answers ready (Output)  |  requests begun (`_pending`)  |  at most one request in the reader

and the reader's request is either about to begin or has found `_pending` empty.

Bounds. Nothing is read while the reader is busy, so what a client sends on waits in the kernel and TCP
slows it down. The memory of a frame is taken from the gateway's budget before it is allocated and given
back when its answer is ready. Deadlines are looked at by the server once a second (`overdue`): on this path
only times are noted.

End. When the client closes, or sends what it may not, or the gateway stops, the reader ends; the writer
still writes the answers of what was begun, then the connection is closed.
"""

from __future__ import annotations

import logging
import math
import socket
from collections import deque
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import trio

from gateway.common.failures import DiskFailed
from gateway.common.handlers import MAX_AT_ONCE_BYTES, Begin, NotNow, PendingResponse, Request, Response
from gateway.common.waiting import Waiter, call_before_blocking
from gateway.front.context import ConnectionContext
from gateway.front.dispatch import Route, UnsupportedRequest
from gateway.front.limits import (
    DECODED_BYTES_PER_BYTE,
    FAIR_SHARE_REQUESTS,
    FREE_ELEMENTS,
    LINGER_SECONDS,
    MAX_GATE_SECONDS,
    MIN_COUNTED_REQUEST_BYTES,
    PRODUCED_ELEMENT_BYTES,
)
from gateway.front.listeners import Listener, join_host_port
from gateway.front.output import Output
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.framing import BIG_FRAME_BYTES, FrameReader
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.produce import MAX_PRODUCED_ELEMENTS, ManyPartitions

SIZE_BYTES = 4
"""Bytes of a frame's size field."""

COALESCE_BYTES = 64 * 1024
"""Bytes of ready answers that are written at once rather than joined by the next ones: a larger write gains
nothing."""

LINGER_CHUNK_BYTES = 16 * 1024
"""Bytes read at once from a client whose requests are of no interest any more."""

_ENDED_BY_US = frozenset({"shutdown", "malformed", "unsupported", "memory", "bug"})
"""Reasons for which a connection ends while its client may be sending and has answers to read."""

_log = logging.getLogger(__name__)


class _Begun(NamedTuple):
    """A request that took effect and waits for its answer. `decoded` is memory beside its `size`."""

    pending: PendingResponse
    route: Route
    size: int
    decoded: int
    started: float


class _NoRoom(Exception):
    """Too many producers without answers wait for room: this one's connection is closed."""


class Connection:
    """One accepted socket (stdlib, non-blocking). `run` serves it until its end, `finish` closes it."""

    __slots__ = (
        "_context",
        "_decoded",
        "_failure",
        "_frame_began",
        "_frames",
        "_held_answers",
        "_in_flight_bytes",
        "_input_waiting_since",
        "_local_address",
        "_output",
        "_partial",
        "_pending",
        "_produced",
        "_progress",
        "_reading",
        "_receiving",
        "_reserved",
        "_reserved_small",
        "_scope",
        "_served",
        "_socket",
        "_work",
        "client_address",
        "reason",
    )

    def __init__(self, sock: socket.socket, listener: Listener, context: ConnectionContext) -> None:
        self._socket = sock
        self._context = context
        self.client_address = join_host_port(*sock.getpeername()[:2])
        self._local_address = listener.advertised(sock.getsockname()[0])
        self._frames = FrameReader(context.limits.max_request_bytes)
        self._output = Output(sock)
        self._pending: deque[_Begun] = deque()
        self._in_flight_bytes = 0
        self._failure: Exception | None = None  # of an answer that was made while the log called back
        self._work = Waiter()  # the writer waits here for work
        self._progress = Waiter()  # the reader waits here for the writer
        self._scope = trio.CancelScope()
        self.reason = ""  # why the connection ended: a word for the metrics
        self._reading = True
        self._served = 0  # requests so far
        self._partial = 0  # bytes received that belong to no frame yet
        self._receiving = 0  # bytes of budget taken for the frame that is being received
        self._reserved = 0  # bytes of budget held by big requests
        self._reserved_small = 0  # and by small ones
        self._decoded = 0  # and by what the request in the reader became
        self._produced = 0  # and by what Produce requests became
        self._held_answers: list[int] = []  # reservations of answers that are not written yet
        self._input_waiting_since = math.inf
        self._frame_began = math.inf

    async def run(self) -> None:
        """Serves the connection until its end; `finish` closes it.

        Raises DiskFailed (in an exception group); everything else that goes wrong ends only this connection.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    self._reading = False
                    self._work.wake()
        finally:
            for begun in self._pending:
                begun.pending.forget()
            self._pending.clear()
            self._context.request_memory.release(self._reserved)
            self._context.small_request_memory.release(self._reserved_small)
            self._context.produced_memory.release(self._produced)
            self._release_decoded()
            self._release_answers()

    async def finish(self, *, linger: bool) -> None:
        """Closes the socket; with `linger` so that the last answers arrive.

        To close a socket with unread requests in it resets the connection, and the reset may overtake or
        discard the answers (RFC 9293, 3.6.1; nginx's `lingering_close`). So say that this was all, and read
        until the client has seen it and closes, for at most LINGER_SECONDS. Not needed when the client
        closed, nor for one that does not read.
        """
        try:
            if linger and self.reason in _ENDED_BY_US:
                self._socket.shutdown(socket.SHUT_WR)
                scratch = bytearray(LINGER_CHUNK_BYTES)
                with trio.move_on_after(LINGER_SECONDS):
                    received = 1
                    while received:
                        await trio.lowlevel.wait_readable(self._socket)
                        received = self._socket.recv_into(scratch)
        except OSError:
            pass  # gone
        finally:
            self._socket.close()

    def close(self, reason: str) -> None:
        """Ends the connection now, whatever is in flight."""
        self.reason = self.reason or reason
        self._scope.cancel()

    def stop_reading(self) -> None:
        """For a gateway that stops (`shutting_down` is set): no further request is received."""
        # Wakes the reader if it waits for the client (and the writer, which looks and waits again).
        trio.lowlevel.notify_closing(self._socket)

    @property
    def half_received_bytes(self) -> int:
        """Budget held by a request that has not arrived as a whole."""
        return self._receiving

    @property
    def held_answer_bytes(self) -> int:
        """Budget held by answers that the client has not read yet."""
        return sum(self._held_answers)

    def overdue(self, now: float) -> str | None:
        """Why the connection is to be closed at `now` (trio's clock): a sentence, or None."""
        limits, output = self._context.limits, self._output
        rate, stall = limits.min_bytes_per_second, limits.stall_seconds
        if now - output.waiting_since > stall:
            return f"the client has read nothing for {stall:.0f} s"
        if output.draining and now - output.drain_began > stall + output.drained / rate:
            return f"the client reads less than {rate} bytes/s"
        waited = now - self._input_waiting_since
        if self._partial:
            if waited > stall:
                return f"a request stopped arriving for {stall:.0f} s"
            if waited >= 0 and now - self._frame_began > stall + self._partial / rate:
                return f"a request arrives with less than {rate} bytes/s"
        elif not self._pending:
            allowed = limits.idle_seconds if self._served else limits.first_request_seconds
            if waited > allowed:
                return f"nothing was asked for {allowed:.0f} s"
        return None

    # ------------------------------------------------------------------------------------------ reader

    async def _read(self) -> None:
        """Takes requests until there is a reason to end; never raises for what a client or a handler does."""
        frames = self._frames
        share = FAIR_SHARE_REQUESTS
        try:
            while True:
                frame = frames.next_frame()
                if frame is None:
                    if not await self._receive():
                        return
                    share = FAIR_SHARE_REQUESTS  # others had their turn meanwhile
                    continue
                self._partial -= len(frame) + SIZE_BYTES
                await self._serve(frame)
                share -= 1
                if not share:
                    self._flush()
                    await trio.lowlevel.checkpoint()
                    share = FAIR_SHARE_REQUESTS
        except MalformedRequest as error:
            self._end("malformed", f"malformed request: {error}")
        except UnsupportedRequest as error:
            self._end("unsupported", str(error))
        except _NoRoom:
            self._end(
                "memory",
                "its acks=0 requests find no room in the log, and too many others wait for some already",
            )
        except Exception as error:
            if is_disk_failure(error):
                raise
            self.reason = "bug"
            _log.exception("closing the connection of %s: a request failed unexpectedly", self.client_address)

    async def _receive(self) -> bool:
        """Waits for bytes. False at the end: the client closed, or the gateway stops."""
        frames, context = self._frames, self._context
        if self._output.unsent:
            self._flush()
        if size := frames.wants_allocation():
            await self._take_memory(size)
            self._receiving = size
        if not context.shutting_down.is_set():
            now = trio.current_time()
            if self._partial and self._frame_began == math.inf:
                self._frame_began = now
            self._input_waiting_since = now
            try:
                await trio.lowlevel.wait_readable(self._socket)
            except trio.ClosedResourceError:
                pass  # woken by `stop_reading`
            self._input_waiting_since = math.inf
        if context.shutting_down.is_set():
            self.reason = self.reason or "shutdown"
            return False
        try:
            count = self._socket.recv_into(frames.buffer())
        except BlockingIOError:
            return True  # woken for nothing
        except OSError:
            count = 0
        if not count:
            self.reason = self.reason or "client"
            return False
        self._partial += count
        frames.received(count)
        return True

    async def _take_memory(self, size: int) -> None:
        """Takes the budget of a big frame, once this connection may have that much in flight."""
        while self._pending and self._in_flight_bytes + size > self._context.limits.max_in_flight_bytes:
            await self._progress.wait()
        await self._context.request_memory.reserve(size)
        self._reserved += size
        self._frame_began = math.inf  # the client is not to blame for the time spent here

    async def _take_memory_of(self, size: int) -> None:
        """Takes the budget of a request that has arrived."""
        small = size < BIG_FRAME_BYTES
        memory = self._context.small_request_memory if small else self._context.request_memory
        if not memory.try_reserve(size):
            self._flush()
            await memory.reserve(size)
        if small:
            self._reserved_small += size
        else:
            self._reserved += size

    async def _take_decoded_memory(self, size: int) -> None:
        """Takes the budget of what a request becomes."""
        memory = self._context.decoded_memory
        if not memory.try_reserve(size):
            self._flush()
            await memory.reserve(size)
        self._decoded = size

    def _release_decoded(self) -> None:
        self._context.decoded_memory.release(self._decoded)
        self._decoded = 0

    async def _serve(self, frame: memoryview) -> None:
        """Handles one request, as far as it can be before its answer is there."""
        started = perf_counter()
        context = self._context
        size = len(frame)
        if self._receiving:
            self._receiving = 0
        else:
            # It came with others in one receive: a copy that exists already, of at most one receive buffer.
            await self._take_memory_of(size)
        self._frame_began = math.inf
        self._served += 1
        arrived = trio.current_time()
        dispatcher = context.dispatcher
        route, header = dispatcher.route(frame, context.limits.max_other_request_bytes)
        begin, decoded = route.begin, 0
        if route.at_once is not None and size <= MAX_AT_ONCE_BYTES:
            if self._answered_at_once(route, header, frame, started):
                return
        elif size < MIN_COUNTED_REQUEST_BYTES:
            begin = begin or route.begin_small
        if route.begin is not None:
            body, decoded = await self._decode_produce(route, header, frame)
        elif begin is not None:
            body = dispatcher.decode(route, header, frame)
        else:
            await self._come_to_turn()
            if size >= MIN_COUNTED_REQUEST_BYTES:
                await self._take_decoded_memory(size * DECODED_BYTES_PER_BYTE)
            if dispatcher.takes_long(route, frame):
                self._flush()
                decode = partial(dispatcher.decode, route, header, frame)
                body = await trio.to_thread.run_sync(decode, limiter=context.decoding)
            else:
                body = dispatcher.decode(route, header, frame)
        request = Request(
            header, body, frame, self._local_address, self.client_address, context.shutting_down,
            context.response_memory, arrived,
        )  # fmt: skip
        if begin is not None:
            await self._begin(begin, route, request, size, decoded, started)
        else:
            await self._answer(route, request, size, started)

    async def _decode_produce(
        self, route: Route, header: RequestHeader, frame: memoryview
    ) -> tuple[Any, int]:
        """The body, and how much memory was taken for it beside its bytes."""
        context = self._context
        try:
            body = context.dispatcher.decode(route, header, frame)
        except ManyPartitions:
            decoded = MAX_PRODUCED_ELEMENTS * PRODUCED_ELEMENT_BYTES
            await self._take_produced_memory(decoded)
            self._flush()
            decode = partial(context.dispatcher.decode_large, route, header, frame)
            return await trio.to_thread.run_sync(decode, limiter=context.decoding), decoded
        decoded = max(0, body.elements - FREE_ELEMENTS) * PRODUCED_ELEMENT_BYTES
        if decoded:
            await self._take_produced_memory(decoded)
        return body, decoded

    async def _take_produced_memory(self, size: int) -> None:
        memory = self._context.produced_memory
        if not memory.try_reserve(size):
            self._flush()
            await memory.reserve(size)
        self._produced += size

    def _answered_at_once(
        self, route: Route, header: RequestHeader, frame: memoryview, started: float
    ) -> bool:
        """Answer a request without a task or a wait, if it is its turn and that can be."""
        output, size = self._output, len(frame)
        if self._pending or output.unsent > self._context.limits.max_unsent_bytes:
            return False
        assert route.at_once is not None
        response = route.at_once(header, frame, self._local_address, self._context.broker)
        if response is None:
            return False
        self._ready(response, route, size, started, held=size)
        if output.unsent > COALESCE_BYTES:
            self._flush()
        return True

    async def _come_to_turn(self) -> None:
        """Waits until all requests before are answered, and most of that is read.

        Before more memory is taken: both may last as long as the client likes.
        """
        output = self._output
        while self._pending or output.unsent > self._context.limits.max_unsent_bytes:
            self._flush()
            if self._pending or output.unsent:
                await self._progress.wait()

    async def _begin(
        self, begin: Begin, route: Route, request: Request, size: int, decoded: int, started: float
    ) -> None:
        limits = self._context.limits
        pending = self._pending
        while pending and (
            len(pending) >= limits.max_in_flight_requests
            or self._in_flight_bytes + size + decoded > limits.max_in_flight_bytes
        ):
            self._flush()
            await self._progress.wait()
        if begin is route.begin and not self._context.produce_gate.is_open:
            self._flush()
            await self._pass_gate(request)
        begun: PendingResponse | None = None
        while begun is None:
            try:
                begun = begin(request, self._context.broker)
            except NotNow as not_now:
                self._flush()
                await self._wait_for(not_now, size + decoded)
        pending.append(_Begun(begun, route, size, decoded, started))
        self._in_flight_bytes += size + decoded
        if not begun.ready:
            begun.when_ready(self._answer_durable)
        elif len(pending) == 1:
            self._answer_ready()

    async def _wait_for(self, not_now: NotNow, held: int) -> None:
        """Waits until a request can go on that holds so many bytes. Raises _NoRoom."""
        if not not_now.for_room:
            await not_now.over()
            return
        memory = self._context.room_memory
        if not memory.try_reserve(held):
            raise _NoRoom
        try:
            await not_now.over()
        finally:
            memory.release(held)

    async def _pass_gate(self, request: Request) -> None:
        """Waits at the closed gate while the request's own time lasts; then the handler answers with an
        error.
        """
        gate = self._context.produce_gate
        deadline = request.arrived + min(max(0, request.body.timeout_ms) / 1000, MAX_GATE_SECONDS)
        # Those before may have closed it again.
        while not gate.is_open and (left := deadline - trio.current_time()) > 0:
            await gate.wait(left)

    async def _answer(self, route: Route, request: Request, size: int, started: float) -> None:
        assert route.handler is not None
        output = self._output
        request.let_go = self._let_go
        answer = route.handler(request, self._context.broker)
        try:
            response = await (call_before_blocking(answer, self._flush) if output.unsent else answer)
        finally:
            if request.reserved:
                self._held_answers.append(request.reserved)
        self._ready(response, route, size, started, held=size if request.holds_frame else 0)
        if self._decoded:
            self._release_decoded()
        if output.unsent > COALESCE_BYTES:
            self._flush()

    def _let_go(self, request: Request) -> None:
        """Gives back the memory of a request that waits for its answer: it may wait for minutes."""
        self._release_request(len(request.frame))
        self._release_decoded()
        request.frame.release()

    def _flush(self) -> None:
        """Writes the ready answers as far as the client takes them; leaves the rest to the writer."""
        output = self._output
        if not output.draining:
            output.try_send()
            if output.unsent or output.error is not None:
                self._work.wake()
            elif self._held_answers:
                self._release_answers()

    def _end(self, reason: str, text: str) -> None:
        self.reason = reason
        self._context.log.warning("closing the connection of %s: %s", self.client_address, text)

    # ------------------------------------------------------------------------------------------ writer

    async def _write(self) -> None:
        """Writes what the client does not take at once, until the reader has ended and all is answered."""
        output = self._output
        try:
            while True:
                if self._failure is not None:
                    raise self._failure
                if output.unsent or output.error is not None:
                    await output.drain()
                    self._release_answers()
                    self._answer_ready()
                    self._progress.wake()
                elif self._reading or self._pending:
                    await self._work.wait()
                else:
                    return
        except OSError:
            self.close("client")
        except Exception as error:
            if is_disk_failure(error):
                raise
            self._end_writing(error)

    def _end_writing(self, error: Exception) -> None:
        """Ends the connection after an answer that failed; those before it go as far as the client takes
        them.
        """
        if isinstance(error, MalformedRequest):
            # A Produce without an answer (acks=0) that failed: to close is all that can be said.
            self._end("malformed", str(error))
        else:
            _log.error(
                "closing the connection of %s: a request failed unexpectedly",
                self.client_address,
                exc_info=error,
            )
            self.reason = "bug"
        self._output.try_send()
        self._scope.cancel()

    def _answer_durable(self) -> None:
        """Called from the log: what a request began is durable, or its time is over. Never blocks or
        raises.
        """
        output, pending = self._output, self._pending
        try:
            while pending and pending[0].pending.ready and output.unsent <= COALESCE_BYTES:
                self._answer_ready()
                self._flush()
        except Exception as error:  # noqa: BLE001 - the writer raises it
            self._failure = error
        self._progress.wake()
        if self._failure is not None or not self._reading:
            self._work.wake()

    def _answer_ready(self) -> None:
        """Makes ready the answers of the first requests that began, as far as they are there, and not too
        many.
        """
        output, pending = self._output, self._pending
        while pending and pending[0].pending.ready and output.unsent <= COALESCE_BYTES:
            begun = pending.popleft()
            self._in_flight_bytes -= begun.size + begun.decoded
            if begun.decoded:
                self._context.produced_memory.release(begun.decoded)
                self._produced -= begun.decoded
            self._ready(begun.pending.response(), begun.route, begun.size, begun.started, held=begun.size)

    # -------------------------------------------------------------------------------------------- both

    def _ready(self, response: Response, route: Route, size: int, started: float, *, held: int) -> None:
        """Queues an answer behind the ones before it; the request's memory is free from here on."""
        sent = self._output.put(response)
        if held:
            self._release_request(held)
        stats = route.stats
        stats.requests += 1
        stats.request_bytes += size
        stats.response_bytes += sent
        stats.latency.observe(perf_counter() - started)

    def _release_request(self, size: int) -> None:
        if size < BIG_FRAME_BYTES:
            self._context.small_request_memory.release(size)
            self._reserved_small -= size
        else:
            self._context.request_memory.release(size)
            self._reserved -= size

    def _release_answers(self) -> None:
        for size in self._held_answers:
            self._context.response_memory.release(size)
        self._held_answers.clear()


def is_disk_failure(error: BaseException) -> bool:
    """Whether this is DiskFailed, or a group with one in it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(DiskFailed) is not None
    return isinstance(error, DiskFailed)
