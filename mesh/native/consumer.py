"""A native consumer: a node that hears the records of one subject, from all producers and stores."""

from uuid import uuid4

import trio

from mesh.links import Context
from mesh.native.hearing import Hearing
from mesh.node import Node
from mesh.protocol.native_order import Delivery, from_first, from_next
from wireproto.dafka import ids
from wireproto.dafka.additions import DirectRecords, End
from wireproto.dafka.messages import (
    DirectHead,
    DirectRecord,
    Head,
    Record,
    StoreHello,
    named_heads_prefix,
)


class NativeConsumer:
    """Bind `node.publisher`, connect `node` to everybody, `run` it, `receive`."""

    def __init__(self, context: Context, subject: str, *, from_beginning: bool = False) -> None:
        """Raises ValueError for a subject over 255 bytes or with a NUL inside."""
        self.requester = uuid4().hex.upper()
        self.node = node = Node(context)
        self._from_beginning = from_beginning
        begin = from_first if from_beginning else from_next
        self._hearing = hearing = Hearing(node, subject, self.requester, begin, self._arrive)
        hearing.subscribe()
        self.order, self.resends = hearing.order, hearing.resends
        self._arrived = trio.Event()
        self._is_open = True
        for answered in (ids.DIRECT_RECORD, ids.DIRECT_HEAD, ids.STORE_HELLO, ids.END):
            node.subscribe(answered + self.requester.encode())
        # With keys natives may not subscribe to these: one that did so under another's name would have that
        # one's answers sent in a form which it does not take.
        if not node.is_keyed:
            node.subscribe(ids.DIRECT_RECORDS + self.requester.encode())
            node.subscribe(named_heads_prefix(self.requester))
        node.route(
            {
                Record: hearing.on_record,
                DirectRecord: self._on_direct_record,
                DirectRecords: self._on_direct_records,
                Head: hearing.on_head,
                DirectHead: self._on_direct_head,
                StoreHello: self._on_store_hello,
                End: self._on_end,
            }
        )
        node.on_drained(hearing.look)
        node.on_subscribed(self._on_subscribed)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.node.run)
            nursery.start_soon(self._hearing.run)
            task_status.started()

    async def receive(self) -> Delivery:
        """The next record, of any address. One task at a time. Raises trio.ClosedResourceError."""
        while not self.order.ready:
            if not self._is_open:
                raise trio.ClosedResourceError("the consumer is closed")
            await self._arrived.wait()
        return self.order.take()

    def close(self) -> None:
        """It does not run any more: who waits for a record is told so."""
        self._is_open = False
        self._arrive()

    def _arrive(self) -> None:
        self._arrived.set()
        self._arrived = trio.Event()

    # answers ----------------------------------------------------------------------------------------------

    def _on_direct_record(self, record: DirectRecord) -> None:
        if record.requester == self.requester:
            self._hearing.on_direct_record(record)

    def _on_direct_records(self, records: DirectRecords) -> None:
        if records.requester == self.requester:
            self._hearing.on_direct_records(records)

    def _on_direct_head(self, head: DirectHead) -> None:
        if head.requester == self.requester:
            self._hearing.on_direct_head(head)

    def _on_end(self, end: End) -> None:
        if end.requester == self.requester:
            self._hearing.on_end(end)

    # stores -----------------------------------------------------------------------------------------------

    def _on_subscribed(self, prefix: bytes) -> None:
        """A store that waits for hellos is linked: say which subjects' heads are wanted."""
        if prefix[:1] == ids.CONSUMER_HELLO and len(prefix) > 1:
            try:
                self._hearing.greet(prefix[1:].decode(), wants_heads=self._from_beginning)
            except ValueError:
                return  # not a store's name

    def _on_store_hello(self, hello: StoreHello) -> None:
        if hello.consumer == self.requester:
            self._hearing.greet(hello.store, wants_heads=self._from_beginning)
