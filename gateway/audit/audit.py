"""The audit: JSON lines of what was denied, of who could not show who it is, and of all administration.

    {"time": "2026-11-26T16:00:00.000Z", "event": "denied", "principal": "User:alice",
     "address": "10.0.0.7", "api": "Produce", "operation": "WRITE", "resource": "TOPIC", "name": "orders"}

Rules:

* what is told is decided here and in `contents`; the lines wait in a queue, and a worker thread writes them,
  so a slow disk holds up no client;
* who causes many lines of one kind has the first ones of a while told, and how many were left out with his
  next one. That holds for administration that was denied as a whole; other administration is told in any
  case, as long as there is room;
* what cannot be written waits. When there is no more room lines are lost, and counted, and the next one that
  is written says how many. With `required`, nothing in the catalog is changed while lines cannot be written,
  are lost, or wait for long: a sink that hangs raises nothing.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import trio

from gateway.audit.contents import MAX_CHARS, outcome, told
from gateway.common.handlers import Response
from gateway.common.metrics import Counter, Figure
from gateway.security.access import ByAcls, Question
from gateway.security.gateways import GATEWAY
from gateway.security.principal import Principal
from wireproto.kafka.asking import decode_answer
from wireproto.kafka.errors import MalformedAnswer

MAX_QUEUED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of lines that wait to be written: some 10,000 of them."""

MAX_DECODED_BYTES: Final = 4 * 1024
"""Bytes of a request or an answer that are looked into for a line; of a larger one its size is told. All
clients wait meanwhile, and an answer of this size may have 500 results: two milliseconds."""

LINES: Final = 20
"""Lines of one kind about one client within LINES_SECONDS."""

LINES_SECONDS: Final = 10.0
"""See LINES."""

DENIED: Final = "_AUTHORIZATION_FAILED"
"""How the names of those errors end that say that a client may not do what it wanted."""

MAX_CLIENTS: Final = 1_000
"""Clients whose lines are counted; the one that was not heard of for longest is forgotten."""

MAX_WAIT_SECONDS: Final = 5.0
"""How long a line may wait to be written before `trouble` is told of: a disk that is busy takes less. Who has
no reader for his pipe, or a file system that hangs, gets no error at all."""

END_SECONDS: Final = 2.0
"""How long the end waits for what is left to be written."""

RETRY_SECONDS: Final = 1.0
"""Between two attempts to write what could not be written."""

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where lines go. It is called in a worker thread."""

    def write(self, lines: bytes) -> None:
        """Raises OSError."""


class Audit:
    """`now` gives the time of day; `run` has to run."""

    def __init__(
        self, sink: Sink, *, required: bool = False, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._sink = sink
        self._required = required
        self._now = now
        self._queue: deque[tuple[float, bytes]] = deque()
        """Lines, and since when (trio's clock) they wait."""
        self._bytes = 0
        self._has_some = trio.Event()
        self._ends = trio.Event()
        self._has_room = True
        """Whether no line was lost since the last ones that were written."""
        self._counted: OrderedDict[tuple[str, str], _Counted] = OrderedDict()
        self._unsaid = 0
        """Lines that were lost since the last one that was queued."""
        self.lines: dict[str, int] = {"denied": 0, "refused": 0, "administration": 0}
        """How many there were of each kind."""
        self.left_out = 0
        self.lost = 0
        self.failures = 0
        """Attempts to write that have failed."""
        self._trouble = ""

    @property
    def trouble(self) -> str | None:
        """Why nothing may be changed now: it could not be told. None: it can, or need not."""
        why = self._why() if self._required else ""
        return f"the audit cannot be written: {why}" if why else None

    def _why(self) -> str:
        if self._trouble:
            return self._trouble
        if not self._has_room:
            return "there is no room for more lines that wait"
        if self._queue and trio.current_time() - self._queue[0][0] > MAX_WAIT_SECONDS:
            return f"lines wait for more than {MAX_WAIT_SECONDS:.0f} seconds"
        return ""

    # what is told -----------------------------------------------------------------------------------------

    def denied(self, access: ByAcls, question: Question) -> None:
        """A client was denied something."""
        operation, resource, name = question
        self._limited(
            "denied",
            str(access.principal),
            {
                "principal": str(access.principal),
                "address": access.host,
                "api": access.api,
                "operation": operation.name,
                "resource": resource.name,
                "name": name[:MAX_CHARS],
            },
        )

    def refused(self, address: str, why: str) -> None:
        """A client could not show who it is."""
        self._limited("refused", address.rpartition(":")[0], {"address": address, "why": why[:MAX_CHARS]})

    def administration(
        self, principal: Principal, address: str, api: str, key: int, version: int, request: Any,
        request_bytes: int, response: Response,
    ) -> None:  # fmt: skip
        """A request that changes something was answered. What gateways ask each other is no administration:
        each commit of a transaction has some of it.
        """
        if principal.type == GATEWAY:
            return
        framed = b"".join(response) if isinstance(response, list) else response or b""
        came_of_it = _outcome(key, version, framed)
        fields = {
            "principal": str(principal),
            "address": address,
            "api": api,
            "what": told(request) if request_bytes <= MAX_DECODED_BYTES else {"bytes": request_bytes},
            "outcome": came_of_it,
        }
        if came_of_it and all(error.endswith(DENIED) for error in came_of_it):
            self._limited("administration", str(principal), fields)
        else:
            self._queue_line("administration", fields)

    def _limited(self, event: str, who: str, fields: dict[str, Any]) -> None:
        key = event, who
        counted = self._counted.pop(key, None)
        now = trio.current_time()
        if counted is None or now - counted.began >= LINES_SECONDS:
            left_out = 0 if counted is None else max(0, counted.lines - LINES)
            counted = _Counted(now)
            if left_out:
                fields["left_out_before"] = left_out
        self._counted[key] = counted
        if len(self._counted) > MAX_CLIENTS:
            self._counted.popitem(last=False)
        counted.lines += 1
        if counted.lines > LINES:
            self.lines[event] += 1
            self.left_out += 1
        else:
            self._queue_line(event, fields)

    def _queue_line(self, event: str, fields: Mapping[str, Any]) -> None:
        self.lines[event] += 1
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"time": time, "event": event, **fields}
        if self._unsaid:
            line["lost_before"] = self._unsaid
        packed = json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        if self._bytes + len(packed) > MAX_QUEUED_BYTES:
            self.lost += 1
            self._unsaid += 1
            self._has_room = False
            return
        self._unsaid = 0
        self._queue.append((trio.current_time(), packed))
        self._bytes += len(packed)
        self._has_some.set()

    # writing ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what is queued, for ever; what is left when it is cancelled is written then, as far as it can
        be within END_SECONDS.
        """
        async with trio.open_nursery() as nursery:
            writing = trio.CancelScope(shield=True)
            nursery.start_soon(self._keep_writing, writing)
            try:
                await trio.sleep_forever()
            finally:
                writing.deadline = trio.current_time() + END_SECONDS
                self._ends.set()
                self._has_some.set()

    async def _keep_writing(self, scope: trio.CancelScope) -> None:
        """What the sink has begun to write when this ends is waited for: it is not written twice."""
        with scope:
            while not self._ends.is_set():
                await self._has_some.wait()
                if not await self._write():
                    with trio.move_on_after(RETRY_SECONDS):
                        await self._ends.wait()
            await self._write()
        if self._queue:
            logger.error("the audit was not written to its end: %d lines may be lost", len(self._queue))

    async def _write(self) -> bool:
        """Whether all that was queued is written."""
        lines = [line for _, line in self._queue]
        if not lines:
            return True
        try:
            await trio.to_thread.run_sync(self._sink.write, b"".join(lines), abandon_on_cancel=True)
        except OSError as error:
            self.failures += 1
            if not self._trouble:
                logger.error("the audit cannot be written: %s", error)
            self._trouble = str(error)
            return False
        self._trouble = ""
        self._has_room = True
        for line in lines:
            self._queue.popleft()
            self._bytes -= len(line)
        if not self._queue:
            self._has_some = trio.Event()
        return True


AUDIT: Final[Sequence[Figure[Audit]]] = (
    Counter(
        "dafka_audit_lines_total",
        "Audit lines, also those that were left out.",
        lambda audit: {(event,): count for event, count in audit.lines.items()},
        ("event",),
    ),
    Counter(
        "dafka_audit_left_out_total",
        "Audit lines that were not written, since there were many alike about one client.",
        lambda audit: audit.left_out,
    ),
    Counter(
        "dafka_audit_lost_total",
        "Audit lines that were lost, since too many waited to be written.",
        lambda audit: audit.lost,
    ),
    Counter(
        "dafka_audit_failures_total",
        "Attempts to write audit lines that have failed.",
        lambda audit: audit.failures,
    ),
)
"""What is shown of it."""


class _Counted:
    """Lines of one kind about one client, since `began` (trio's clock)."""

    __slots__ = ("began", "lines")

    def __init__(self, began: float) -> None:
        self.began = began
        self.lines = 0


def _outcome(key: int, version: int, framed: bytes) -> dict[str, int]:
    if len(framed) > MAX_DECODED_BYTES:
        return {"bytes": len(framed)}
    try:
        return outcome(decode_answer(key, version, memoryview(framed)[4:]))
    except MalformedAnswer:
        return {"bytes": len(framed)}
