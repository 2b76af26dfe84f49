"""Records of one partition as lines or server-sent events, from an offset on, as they become visible.

A slow reader waits for itself: no more is read before what was read is sent. The memory is its client's,
and is held only while there is something to send.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.http.limits import KIB, MIB
from gateway.http.lines import row_of
from gateway.http.live import COMMENT_SECONDS, RETRY_MS
from gateway.http.reading import MAX_BATCH_BYTES, inflated
from gateway.http.texts import encoded
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.compression import Codec
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import Buffer, read_header
from wireproto.records.outline import Outline, outlines

if TYPE_CHECKING:
    from gateway.front.clients import Client
    from gateway.front.server import Server
    from gateway.http.connection import Send
    from gateway.http.view import View
    from gateway.log.partition import Partition
    from gateway.log.tail_cache import Batch

EVENTS: Final = "text/event-stream"

STREAM_READ_BYTES: Final = 1 * MIB
"""Bytes of log that are read at a time, but for a batch that is larger."""

PIECE_BYTES: Final = 64 * KIB
"""Bytes that are made before they are sent, but for a record that is larger."""


class _News:
    """Told once that records became visible, or that the partition went away."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def advanced(self, _: Partition, /) -> None:
        self.event.set()


class RecordStream:
    """One reader. `run` sends up to `limit` records, and ends at the log's end unless it is to `block`."""

    def __init__(
        self,
        view: View,
        server: Server,
        host: str,
        partition: Partition,
        offset: int,
        limit: int,
        *,
        block: bool,
        as_events: bool,
    ) -> None:
        self._view = view
        self._server = server
        self._host = host
        self._partition = partition
        self._next = offset
        self._left = limit
        self._block = block
        self._as_events = as_events
        self._until = partition.high_watermark
        """Where a reader that does not wait is done."""

    async def run(self, send: Send) -> None:
        """Send the records. Raises what `send` does."""
        self._view.streams += 1
        try:
            with self._server.visit(self._host) as client:
                if client is None:
                    await self._fail(send, "this client has too many connections", "Close some of them.")
                    return
                if self._as_events:
                    await send(f"retry: {RETRY_MS}\n\n".encode())
                await self._send_all(client, send)
        except KafkaError as error:
            await self._fail(send, f"{error.code.name}: {error.message}", "Begin again at another offset.")
        except InvalidBatch as error:
            await self._fail(send, f"the batch at {self._next} cannot be read: {error}", "Read on after it.")
        finally:
            self._view.streams -= 1

    async def _send_all(self, client: Client, send: Send) -> None:
        while self._left:
            if self._next < (self._partition.high_watermark if self._block else self._until):
                await self._send_some(client, send)
            elif self._block and not self._server.context.shutting_down.is_set():
                await self._wait(send)
            else:
                return

    async def _wait(self, send: Send) -> None:
        """Until there is more to read. Raises KafkaError: there will not be."""
        news = _News()
        self._partition.listeners.watch(news)
        try:
            error = self._partition.check_fetch_offset(self._next)
            if error is not ErrorCode.NONE:
                raise KafkaError(error, self._partition.reason or f"offset {self._next}")
            if self._next < self._partition.high_watermark:
                return
            with trio.move_on_after(COMMENT_SECONDS):
                await news.event.wait()
        finally:
            self._partition.listeners.unwatch(news)
        if not news.event.is_set() and self._as_events:
            await send(b": still here\n\n")

    async def _send_some(self, client: Client, send: Send) -> None:
        """What one read of the log gives."""
        memory = client.response_memory
        await memory.reserve(STREAM_READ_BYTES)
        held = STREAM_READ_BYTES
        try:
            batches = await self._partition.look(self._next, STREAM_READ_BYTES)
            if any(read_header(batch).codec != Codec.NONE for batch in batches):
                # Not while holding some: two that wait for each other would wait for ever.
                memory.release(held)
                held = 0
                await memory.reserve(STREAM_READ_BYTES + MAX_BATCH_BYTES)
                held = STREAM_READ_BYTES + MAX_BATCH_BYTES
            for batch in batches:
                await self._send_batch(batch, send)
                if not self._left:
                    break
        finally:
            if held:
                memory.release(held)

    async def _send_batch(self, batch: Batch, send: Send) -> None:
        header = read_header(batch)
        if not header.is_control:
            body = await inflated(batch, header)
            records = outlines(body, header)
            more = True
            while more and self._left:
                async with self._view.turns.working():
                    piece, more = await self._piece(records, body)
                if piece:
                    await send(piece)
            if more:
                return
        self._next = max(self._next, header.last_offset + 1)

    async def _piece(self, records: Iterator[Outline], body: Buffer) -> tuple[bytes, bool]:
        """The next lines or events, and whether there may be more. Raises InvalidBatch."""
        pieces: list[bytes] = []
        size = 0
        for record in records:
            if record.offset >= self._next:
                pieces.append(await self._shown(row_of(record, body), record.offset + 1))
                size += len(pieces[-1])
                self._next = record.offset + 1
                self._left -= 1
                if size >= PIECE_BYTES or not self._left:
                    return b"".join(pieces), True
            await self._view.turns.breathe()
        return b"".join(pieces), False

    async def _shown(self, row: dict[str, Any], following: int) -> bytes:
        line = await encoded(row, self._view.turns)
        return b"id: %d\ndata: %s\n" % (following, line) if self._as_events else line

    async def _fail(self, send: Send, detail: str, next_step: str) -> None:
        """The stream ends here, and says why."""
        row = {"detail": detail, "next_step": next_step}
        async with self._view.turns.working():
            line = await encoded(row if self._as_events else {"failed": row}, self._view.turns)
        await send(b"event: failed\ndata: %s\n" % line if self._as_events else line)
