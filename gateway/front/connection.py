"""One connection of a Kafka client: requests in, answers out in the same order.

Theory of operation. Two tasks. The *reader* receives, cuts frames, decodes, and runs the handlers itself,
one request after the other, so that a request which completes at once costs no task switch. The answers of
requests that only began then leave when the log calls back, without a task. The *writer* waits for a client
that reads slowly (`gateway.front.answer_queue`).

Order. Kafka handles one request of a connection at a time; clients rely on it, and on answers in request
order. What may overlap is Produce, and small commits of offsets: `begin` appends at once, and the next one
may begin while earlier ones wait for the stores. Everything else runs when all requests before it are
answered; so a parked Fetch holds back what follows, as it does in Kafka. Hence at any time

    answers ready (`output`)  |  requests begun (`pending`)  |  at most one request in the reader

and the reader's request is either about to begin or has found `pending` empty.

Bounds. Nothing is read while the reader is busy, so what a client sends on waits in the kernel and TCP
slows it down. The memory of a frame is taken from the gateway's budget before it is allocated and given
back when its answer is ready (`gateway.front.memory`). Deadlines are looked at by the server once a second
(`overdue`): on this path only times are noted.

Quotas. Where there are any, each request has a bill (`gateway.front.throttle`). Who has used too much is
answered, and then not read until his time is over: what he sends on waits in the kernel, and holds no memory.

Flushing. Ready answers stay in `output` while the reader goes on without giving up control, so that several
leave in one system call. Whatever makes it wait flushes them first.

End. When the client closes, or sends what it may not, or the gateway stops, the reader ends; the writer
still writes the answers of what was begun, then the connection is closed. That the client has closed its
sending side is seen also while nobody reads (`client_left`, called by `gateway.front.departures`): what is
parked then (Fetch, JoinGroup, SyncGroup) is not answered; what else was sent is taken as far as it can be
within LEFT_SECONDS, of which the time that quotas do not let it be read is no part.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import trio

from gateway.api.api_versions import API_VERSIONS_KEY
from gateway.api.sasl_authenticate import FAILED_SECONDS, step
from gateway.common.costs import CONNECTION_END, DECODED_KIB, REQUEST
from gateway.common.failures import ends_process
from gateway.common.handlers import MAX_AT_ONCE_BYTES, NoRoom, Request
from gateway.common.metrics import MEASURED
from gateway.common.waiting import call_before_blocking
from gateway.common.work import FREE, Work
from gateway.front.answer_queue import COALESCE_BYTES, AnswerQueue
from gateway.front.authentication import Unauthenticated, check, framed, max_frame_bytes
from gateway.front.clients import Client
from gateway.front.context import ConnectionContext
from gateway.front.deadlines import Deadlines
from gateway.front.decoding import decode_counted, decode_many_partitions, take_produced
from gateway.front.dispatch import Route, UnsupportedRequest
from gateway.front.limits import (
    FAIR_SHARE_REQUESTS,
    FREE_ELEMENTS,
    LINGER_SECONDS,
    MAX_GATE_SECONDS,
    MIN_COUNTED_REQUEST_BYTES,
    SMALL_REQUESTS_OWE,
)
from gateway.front.listeners import Listener, join_host_port
from gateway.front.memory import ConnectionMemory
from gateway.front.output import Output
from gateway.front.principal_rules import NoPrincipal
from gateway.front.throttle import Bill, BusyTime, is_exempt
from gateway.front.tls import HandshakeFailed, TlsLink
from gateway.front.tls_output import TlsOutput
from gateway.security.gateways import GATEWAY
from gateway.security.principal import ANONYMOUS, Principal
from gateway.security.sasl_session import SaslSession, Stage
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.framing import FrameReader
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.produce import ManyPartitions

SIZE_BYTES = 4
"""Bytes of a frame's size field."""

LINGER_CHUNK_BYTES = 16 * 1024
"""Bytes read at once from a client whose requests are of no interest any more."""

MAX_SHOWN_CHARS = 255
"""Characters of what a client calls itself that are kept, as many as ApiVersions takes."""

_ENDED_BY_US = frozenset(
    {"authentication", "handshake", "shutdown", "suspended", "malformed", "unsupported", "memory", "bug"}
)
"""Reasons for which a connection ends while its client may be sending and has answers to read."""

_NOT_KNOWN = frozenset({"authentication", "handshake"})
"""Reasons for which it is not known who the client is."""

logger = logging.getLogger(__name__)


class Software(NamedTuple):
    """A client's library, as it names itself; None where it does not. `client_id` is of the same request."""

    library: str | None
    version: str | None
    client_id: str | None


class Connection:
    """One accepted socket (stdlib, non-blocking). `run` serves it until its end, `finish` closes it."""

    __slots__ = (
        "_answers",
        "_busy",
        "_context",
        "_deadlines",
        "_frames",
        "_handling",
        "_local_address",
        "_output",
        "_scope",
        "_tls",
        "_work",
        "access",
        "address",
        "client",
        "client_address",
        "memory",
        "place",
        "reason",
        "sasl",
        "socket",
        "software",
    )

    def __init__(
        self,
        sock: socket.socket,
        listener: Listener,
        context: ConnectionContext,
        client: Client,
        address: str,
    ) -> None:
        limits = context.limits
        self.socket = sock
        self._context = context
        self.place = client
        """Whose place it has."""
        self.client = client
        """With whom it shares what it takes; its principal, once that is known."""
        self.address = address
        """Where it comes from (`gateway.security.access.java_address`)."""
        self.client_address = join_host_port(*sock.getpeername()[:2])
        self._local_address = listener.advertised(sock.getsockname()[0])
        self.sasl = context.begin_session(listener)
        """How the client says who it is, on a listener that asks for it."""
        self.access = context.grant(ANONYMOUS, address)
        """What it may do."""
        self._frames = FrameReader(max_frame_bytes(self.sasl, limits.max_request_bytes))
        certificates = context.tls_of(listener)
        self._tls = None if certificates is None else TlsLink(certificates)
        self._output = (
            Output(sock, client.turns) if self._tls is None else TlsOutput(sock, client.turns, self._tls)
        )
        self.memory = ConnectionMemory(client)
        self._answers = AnswerQueue(self._output, self.memory, limits)
        self._deadlines = Deadlines(limits)
        if self._tls is not None or self.sasl is not None:
            self._deadlines.unknown_since = trio.current_time()
        self._handling: Request | None = None
        self._scope = trio.CancelScope()
        self._work = Work(client.turns)
        self._busy: BusyTime | None = None  # of the request that is served, where there are quotas
        self.reason = ""  # why the connection ended: a word for the metrics
        self.software: Software | None = None
        """What the client called itself in ApiVersions, None before."""

    async def run(self) -> None:
        """Serves the connection until its end; `finish` closes it.

        Raises ProcessEnds (in an exception group); everything else that goes wrong ends only this connection.
        """
        try:
            with self._scope:
                if self._tls is not None and not await self._shake_hands(self._tls):
                    return
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    self._answers.close()
        finally:
            self._answers.forget()
            self.memory.give_back_all()

    async def _shake_hands(self, tls: TlsLink) -> bool:
        """Whether the client speaks TLS as it should; it may take as long as a first request. Its certificate
        says who it is, unless it says so by SASL.
        """
        try:
            await tls.shake_hands(self.socket, self._context.handshakes)
            if self.sasl is None and (shown := tls.certificate_of_client()) is not None:
                principal = self._context.principal_rules.principal(shown)
                self._is(principal)
        except HandshakeFailed as failure:
            self._end("handshake", f"the TLS handshake failed: {failure}")
            return False
        except NoPrincipal as nobody:
            self._end("authentication", str(nobody))
            return False
        except OSError:
            self.reason = self.reason or "client"
            return False
        except trio.ClosedResourceError:
            self.reason = self.reason or "shutdown"
            return False
        if self.sasl is None:
            self._deadlines.unknown_since = math.inf
        return True

    async def finish(self, *, linger: bool) -> None:
        """Closes the socket; with `linger` so that the last answers arrive.

        To close a socket with unread requests in it resets the connection, and the reset may overtake or
        discard the answers (RFC 9293, 3.6.1; nginx's `lingering_close`). So say that this was all, and read
        until the client has seen it and closes, for at most LINGER_SECONDS. Not needed when the client
        closed, nor for one that does not read.
        """
        try:
            if self._tls is not None and not self._output.is_cut:
                self._tls.say_end(self.socket)
            if linger and self.reason in _ENDED_BY_US:
                self.socket.shutdown(socket.SHUT_WR)
                scratch = bytearray(LINGER_CHUNK_BYTES)
                with trio.move_on_after(LINGER_SECONDS):
                    received = 1
                    while received:
                        await trio.lowlevel.wait_readable(self.socket)
                        received = self.socket.recv_into(scratch)
        except OSError:
            pass  # gone
        finally:
            self.socket.close()

    @property
    def served(self) -> int:
        """Requests so far."""
        return self._deadlines.served

    def close(self, reason: str) -> None:
        """Ends the connection now, whatever is in flight."""
        self.reason = self.reason or reason
        self._scope.cancel()

    def client_left(self) -> None:
        """The client has closed its sending side, or reset the connection: nothing of it waits for long."""
        deadlines = self._deadlines
        if deadlines.left_since == math.inf:
            deadlines.left(trio.current_time())
            if self._handling is not None:
                self._handling.client_left()

    def gone(self, now: float) -> bool:
        """Whether the connection is to be closed at `now` (trio's clock) because the client has gone.

        A handler that is not parked comes to its end: an administrator's request is not left half done.
        """
        return self._deadlines.gone(now) and self._handling is None and not self._output.draining

    def stop_reading(self) -> None:
        """For a gateway that stops (`shutting_down` is set): no further request is received."""
        # Wakes the reader if it waits for the client (and the writer, which looks and waits again).
        self._context.readiness.wake(self.socket)

    def overdue(self, now: float) -> str | None:
        """Why the connection is to be closed at `now` (trio's clock): a sentence, or None."""
        return self._deadlines.overdue(now, self._output, owes_answers=bool(self._answers.pending))

    # ------------------------------------------------------------------------------------------ reader

    async def _read(self) -> None:
        """Takes requests until there is a reason to end; never raises for what a client or a handler does."""
        frames, deadlines, work = self._frames, self._deadlines, self._work
        quotas = self._context.quotas
        serve = self._serve if self.sasl is None else partial(self._serve_if_known, self.sasl)
        in_a_row = 0
        try:
            while True:
                turns = work.turns  # they are others once it is known whose
                frame = frames.next_frame()
                if frame is None:
                    if not await self._receive():
                        turns.left -= CONNECTION_END
                        return
                    in_a_row = 0  # others had their turn meanwhile
                    continue
                deadlines.partial -= len(frame) + SIZE_BYTES
                turns.attend()
                if turns.left < SMALL_REQUESTS_OWE:
                    self._answers.flush()
                    await turns.wait(SMALL_REQUESTS_OWE)
                turns.left -= REQUEST
                work.free, work.has_turn = FREE, False
                await (self._serve_measured(serve, frame) if quotas.is_on else serve(frame))
                in_a_row += 1
                if in_a_row == FAIR_SHARE_REQUESTS:
                    self._answers.flush()
                    await trio.lowlevel.checkpoint()
                    in_a_row = 0
        except MalformedRequest as error:
            self._end("malformed", f"malformed request: {error}")
        except UnsupportedRequest as error:
            self._end("unsupported", str(error))
        except Unauthenticated as error:
            self._end("authentication", str(error))
        except NoRoom:
            self._end(
                "memory",
                "its acks=0 requests find no room in the log, and too many others wait for some already",
            )
        except Exception as error:
            if ends_process(error):
                raise
            self.reason = "bug"
            logger.exception(
                "closing the connection of %s: a request failed unexpectedly", self.client_address
            )

    async def _receive(self) -> bool:
        """Waits for bytes. False at the end: the client closed, or the gateway stops."""
        frames, context, deadlines = self._frames, self._context, self._deadlines
        if self._output.unsent:
            self._answers.flush()
        if size := frames.wants_allocation():
            await self._take_memory(size)
        if not context.shutting_down.is_set():
            now = trio.current_time()
            if deadlines.partial and deadlines.frame_began == math.inf:
                deadlines.frame_began = now
            deadlines.input_waiting_since = now
            if self._tls is None or not self._tls.has_some:
                await context.readiness.wait(self.socket)
            deadlines.input_waiting_since = math.inf
        if context.shutting_down.is_set():
            self.reason = self.reason or "shutdown"
            return False
        try:
            if self._tls is None:
                count = self.socket.recv_into(frames.buffer())
            else:
                count = self._tls.recv_into(self.socket, frames.buffer())
        except BlockingIOError:
            return True  # woken for nothing
        except OSError:
            self.close("client")  # it reads no answers any more either
            return False
        if not count:
            self.reason = self.reason or "client"
            self.client_left()
            return False
        deadlines.partial += count
        frames.received(count)
        return True

    async def _wait_while_muted(self) -> None:
        """Its client has used more than its quotas allow: nothing is read for a while."""
        left = self._deadlines.muted_until - trio.current_time()
        if left > 0:
            self._answers.flush()
            with trio.move_on_after(left):
                await self._context.shutting_down.wait()
            self._deadlines.frame_began = math.inf  # the client is not to blame for the time spent here

    def _mute(self, milliseconds: int) -> None:
        until = trio.current_time() + milliseconds / 1_000
        self._deadlines.muted_until = max(self._deadlines.muted_until, until)

    async def _serve_measured(
        self, serve: Callable[[memoryview], Awaitable[None]], frame: memoryview
    ) -> None:
        self._busy = BusyTime()
        try:
            await self._busy.measured(serve(frame))
        finally:
            self._busy = None
        await self._wait_while_muted()

    def _bill(self, busy: BusyTime, route: Route, header: RequestHeader) -> Bill | None:
        """Who is not known yet has none, nor have other gateways."""
        principal = self.access.principal
        is_known = self.sasl is None or self.sasl.principal is not None
        if not is_known or principal.type == GATEWAY or is_exempt(route.key, self.access):
            return None
        charges = self._context.quotas.charges(principal.name, header.client_id or "")
        # An ApiVersions of a later version is answered as version 0.
        is_supported = header.api_version <= route.max_version
        return Bill(charges, busy, self._mute, route.key, header.api_version if is_supported else 0)

    async def _take_memory(self, size: int) -> None:
        """Takes the memory of a big frame, once this connection may have that much in flight."""
        answers, memory = self._answers, self.memory
        while answers.pending and memory.in_flight + size > self._context.limits.max_in_flight_bytes:
            await answers.progress.wait()
        await memory.requests.take(size, answers.flush)
        memory.receiving = size
        self._deadlines.frame_began = math.inf  # the client is not to blame for the time spent here

    async def _serve(self, frame: memoryview) -> None:
        """Handles one request, as far as it can be before its answer is there."""
        started = perf_counter()
        context, memory, answers = self._context, self.memory, self._answers
        size = len(frame)
        if memory.receiving:
            memory.receiving = 0
        else:
            # It came with others in one receive: a copy that exists already, of at most one receive buffer.
            account = memory.of_request(size)
            if not account.try_take(size):
                await account.take(size, answers.flush)
        deadlines = self._deadlines
        deadlines.frame_began = math.inf
        deadlines.served += 1
        arrived = trio.current_time()
        route, header = context.dispatcher.route(frame, context.limits.max_other_request_bytes)
        self.access.api = route.name
        bill = None if self._busy is None else self._bill(self._busy, route, header)
        small, begins, decoded = size < MIN_COUNTED_REQUEST_BYTES, route.begin is not None, 0
        if route.at_once is not None and size <= MAX_AT_ONCE_BYTES:
            if self._answered_at_once(route, header, frame, started, bill):
                return
        elif small and route.begin_small is not None:
            begins = True
        if not begins and (answers.pending or answers.output.unsent > context.limits.max_unsent_bytes):
            await self._come_to_turn()
        body: Any
        if route.begin is not None:
            try:
                body = route.decoder(header.api_version, frame, header.body_offset)
                if body.elements > FREE_ELEMENTS:
                    decoded = await take_produced(memory, body.elements, answers.flush)
            except ManyPartitions:
                body, decoded = await decode_many_partitions(
                    context, memory, route, header, frame, answers.flush
                )
        elif small:
            body = route.decoder(header.api_version, frame, header.body_offset)
        else:
            body = await decode_counted(context, memory, self._work, route, header, frame, answers.flush)
        request = Request(
            header, body, frame, self._local_address, self.client_address, context.shutting_down,
            self.client.response_memory, arrived, self.client.name, self._work,
        )  # fmt: skip
        request.access = self.access
        request.sasl = self.sasl
        if begins:
            await self._begin(route, request, size, decoded, started, bill)
        else:
            await self._answer(route, request, size, started, bill)

    def _answered_at_once(
        self, route: Route, header: RequestHeader, frame: memoryview, started: float, bill: Bill | None
    ) -> bool:
        """Answer a request without a task or a wait, if it is its turn and that can be."""
        output, answers, size = self._output, self._answers, len(frame)
        if answers.pending or output.unsent > self._context.limits.max_unsent_bytes:
            return False
        assert route.at_once is not None
        response = route.at_once(header, frame, self._local_address, self.access, self._context.broker)
        if response is None:
            return False
        if size >= MIN_COUNTED_REQUEST_BYTES:
            self._work.owes((size >> 10) * DECODED_KIB)
        answers.ready(response, route, size, started, held=size, bill=bill)
        if output.unsent > COALESCE_BYTES:
            answers.flush()
        return True

    async def _come_to_turn(self) -> None:
        """Waits until all requests before are answered, and most of that is read.

        Before more memory is taken: both may last as long as the client likes.
        """
        output, answers = self._output, self._answers
        while answers.pending or output.unsent > self._context.limits.max_unsent_bytes:
            answers.flush()
            if answers.pending or output.unsent:
                await answers.progress.wait()

    async def _begin(
        self, route: Route, request: Request, size: int, decoded: int, started: float, bill: Bill | None
    ) -> None:
        context, answers = self._context, self._answers
        if bill is not None:
            request.charges = bill.charges
        while answers.pending and not answers.has_room(size + decoded):
            answers.flush()
            await answers.progress.wait()
        if route.begin is None:
            assert route.begin_small is not None
            began = 0.0 if route.stats.requests % MEASURED else perf_counter()
            begun = route.begin_small(request, context.broker)
        else:
            if not context.produce_gate.is_open:
                answers.flush()
                await self._pass_gate(request)
            request.room_memory = context.room_memory
            request.held_bytes = size + decoded
            request.before_waiting = answers.flush
            began = 0.0 if route.stats.requests % MEASURED else perf_counter()
            begun = await route.begin(request, context.broker)
        if bill is not None:
            bill.begun()
        answers.begun(begun, route, size, decoded, started, began, bill)

    async def _pass_gate(self, request: Request) -> None:
        """Waits at the closed gate while the request's own time lasts; then the handler answers with an
        error.
        """
        gate = self._context.produce_gate
        deadline = request.arrived + min(max(0, request.body.timeout_ms) / 1000, MAX_GATE_SECONDS)
        # Those before may have closed it again.
        while not gate.is_open and (left := deadline - trio.current_time()) > 0:
            await gate.wait(left)

    async def _answer(
        self, route: Route, request: Request, size: int, started: float, bill: Bill | None
    ) -> None:
        assert route.handler is not None
        output, answers, memory = self._output, self._answers, self.memory
        request.let_go = self._let_go
        request.gone = self._deadlines.left_since != math.inf
        self._handling = request
        if bill is not None:
            request.charges = bill.charges
        if route.key == API_VERSIONS_KEY:
            self.software = _software(request)
        began = 0.0 if route.stats.requests % MEASURED else perf_counter()
        answer = route.handler(request, self._context.broker)
        try:
            response = await (call_before_blocking(answer, answers.flush) if output.unsent else answer)
        finally:
            self._handling = None
            if request.reserved:
                memory.answers.take_over(request.reserved)
        if route.changes_cluster and self._context.audit is not None:
            self._context.audit.administration(
                self.access.principal, self.client_address, route.name, route.key, request.header.api_version,
                request.body, size, response,
            )  # fmt: skip
        held = size if request.holds_frame else 0
        answers.ready(response, route, size, started, held=held, began=began, bill=bill)
        if memory.decoded.held:
            memory.decoded.give_back_all()
        if output.unsent > COALESCE_BYTES:
            answers.flush()
        if request.closes:
            raise Unauthenticated(request.closes)

    async def _serve_if_known(self, sasl: SaslSession, frame: memoryview) -> None:
        """Serve a request if its client may make it now, or take a token. Raises Unauthenticated."""
        now_ms, limits = self._context.broker.context.now_ms(), self._context.limits
        if sasl.stage is Stage.FRAMES:
            await self._take_token(sasl, bytes(frame), now_ms)
        elif sasl.stage is Stage.OPEN and not sasl.is_over(now_ms):
            await self._serve(frame)
            return
        else:
            route, header = self._context.dispatcher.route(frame, limits.max_other_request_bytes)
            check(sasl, route, header.api_version, now_ms)
            await self._serve(frame)
        if sasl.principal is not None and sasl.principal != self.access.principal:
            self._is(sasl.principal)
            self._deadlines.unknown_since = math.inf
        self._frames.max_frame_bytes = max_frame_bytes(sasl, limits.max_request_bytes)

    def _is(self, principal: Principal) -> None:
        """It has said who it is, for the first time: that stays so."""
        self.access = self._context.grant(principal, self.address)
        self.client = self._context.identify(str(principal), trio.current_time())
        self.memory.move(self.client)
        self._output.belong_to(self.client.turns)
        self._work.turns = self.client.turns

    async def _take_token(self, sasl: SaslSession, token: bytes, now_ms: int) -> None:
        """A frame that is no request, after SaslHandshake 0."""
        self._deadlines.frame_began = math.inf
        self._deadlines.served += 1
        told = await step(sasl, token, partial(sasl.frame, token, now_ms))
        if told.closes:
            await trio.sleep(FAILED_SECONDS)
        self._output.put(framed(told))
        self._answers.flush()

    def _let_go(self, request: Request) -> None:
        """Gives back the memory of a request that waits for its answer: it may wait for minutes."""
        size = len(request.frame)
        self.memory.of_request(size).give_back(size)
        self.memory.decoded.give_back_all()
        request.frame.release()

    def _end(self, reason: str, text: str) -> None:
        self.reason = reason
        self._context.log.warning("closing the connection of %s: %s", self.client_address, text)
        if reason in _NOT_KNOWN and self._context.audit is not None:
            self._context.audit.refused(self.client_address, text)

    # ------------------------------------------------------------------------------------------ writer

    async def _write(self) -> None:
        """Sees all answers out."""
        try:
            await self._answers.write()
        except OSError:
            self.close("client")
        except Exception as error:
            if ends_process(error):
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
            logger.error(
                "closing the connection of %s: a request failed unexpectedly",
                self.client_address,
                exc_info=error,
            )
            self.reason = "bug"
        self._output.try_send()
        self._scope.cancel()


def _software(request: Request) -> Software:
    """What the client says of itself in an ApiVersions request."""
    body, client_id = request.body, request.header.client_id
    names = (getattr(body, "client_software_name", None), getattr(body, "client_software_version", None))
    library, version = (_kept(name) for name in names)
    return Software(library, version, _kept(client_id))


def _kept(text: Any) -> str | None:
    """A client's text, if it has one that can be shown; the beginning of a long one."""
    return text[:MAX_SHOWN_CHARS] if isinstance(text, str) and text and text.isprintable() else None
