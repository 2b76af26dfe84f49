"""A native producer: a node that publishes the records of one subject under one address of its own.

The machine is `mesh.protocol.native_writer`. Its life is the address's: whoever starts again has another one,
so nothing is ever written twice under one sequence.
"""

import trio

from mesh.links import Context
from mesh.node import Node
from mesh.protocol.native_resends import new_address
from mesh.protocol.native_writer import NativeWriter
from wireproto.dafka import ids
from wireproto.dafka.messages import (
    Ack,
    DirectHead,
    DirectRecordEncoder,
    Fetch,
    GetHeads,
    Head,
    RecordEncoder,
)

TICK_SECONDS = 0.05
"""How often is looked for a HEAD that is due."""


class NativeProducer:
    """Bind `node.publisher`, connect `node` to stores and consumers, `run` it, `produce`, `drained`."""

    def __init__(self, context: Context, subject: str, stores: int = 1) -> None:
        """Raises ValueError for a subject over 255 bytes or with a NUL inside."""
        self.address = new_address()
        self.writer = NativeWriter(self.address, subject, stores)
        self.node = node = Node(context)
        self._encoder = RecordEncoder(self.address, subject)
        self._moved = trio.Event()
        self._takes_more = self._is_open = True
        for message_id in (ids.ACK, ids.FETCH, ids.DIRECT_HEAD):
            node.subscribe(message_id + self.address.encode())
        node.route({Ack: self._on_ack, Fetch: self._on_fetch, DirectHead: self._on_direct_head})

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.node.run)
            nursery.start_soon(self._tick)
            task_status.started()

    async def produce(self, content: bytes) -> int:
        """Publish a record; its sequence. Waits while too much is unacknowledged. Raises
        trio.ClosedResourceError.
        """
        while self.writer.full and self._takes_more:
            await self._moved.wait()
        if not self._takes_more:
            raise trio.ClosedResourceError("the producer takes no more records")
        sequence = self.writer.append(content, trio.current_time())
        self.node.publisher.send(self._encoder.frames(sequence, content))
        return sequence

    async def drained(self) -> None:
        """Return when enough stores have everything that was produced. Raises trio.ClosedResourceError."""
        while len(self.writer):
            if not self._is_open:
                raise trio.ClosedResourceError("the producer is closed, and not everything was acknowledged")
            await self._moved.wait()

    def takes_no_more(self) -> None:
        """No further record is taken; who waits to publish one is told so."""
        self._takes_more = False
        self._move()

    def close(self) -> None:
        """It does not run any more: who waits for anything is told so."""
        self._is_open = self._takes_more = False
        self._move()

    async def _tick(self) -> None:
        writer = self.writer
        while True:
            due = writer.on_tick(trio.current_time())
            if due.head:
                self.node.send(Head(self.address, writer.subject, writer.next_sequence - 1))
            if due.ask:
                self.node.send(GetHeads(writer.subject, self.address))
            await trio.sleep(TICK_SECONDS)

    def _on_ack(self, ack: Ack) -> None:
        if ack.address == self.address and self.writer.on_ack(ack.store, ack.sequence, trio.current_time()):
            self._move()

    def _on_direct_head(self, head: DirectHead) -> None:
        ours = head.address == self.address and head.subject == self.writer.subject
        if ours and self.writer.on_told_head(head.sequence, trio.current_time()):
            self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    def _on_fetch(self, fetch: Fetch) -> None:
        if fetch.address != self.address or fetch.store:
            return
        entries = self.writer.on_fetch(fetch.sequence, fetch.count)
        encoder = DirectRecordEncoder(fetch.requester, "", self.address, self.writer.subject)
        for entry in entries:
            self.node.publisher.send(encoder.frames(entry.sequence, entry.content))
