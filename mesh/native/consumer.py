"""A native consumer: a node that hears the records of one subject, from all producers and stores.

The machine is `mesh.protocol.native_order`.
"""

from uuid import uuid4

import trio

from mesh.node import Node
from mesh.protocol.native_order import Delivery, NativeOrder
from mesh.protocol.native_resends import Resends
from mesh.zmq_trio import Context
from wireproto.dafka import ids
from wireproto.dafka.additions import STATUS_BEGINS_LATER, End
from wireproto.dafka.messages import (
    ConsumerHello,
    DirectHead,
    DirectRecord,
    GetHeads,
    Head,
    Record,
    StoreHello,
)

TICK_SECONDS = 0.05
"""How often is looked for a FETCH that is due."""

HEADS_SECONDS = 5.0
"""How often all stores are asked for the heads of the subject: of an address whose producer is gone nobody
else tells, nor of the last records that it sent."""


class NativeConsumer:
    """Bind `node.publisher`, connect `node` to everybody, `run` it, `receive`."""

    def __init__(self, context: Context, subject: str, *, from_beginning: bool = False) -> None:
        """Raises ValueError for a subject over 255 bytes or with a NUL inside."""
        self.requester = uuid4().hex.upper()
        self.order = NativeOrder(subject, self.requester, from_beginning=from_beginning)
        self.node = node = Node(context)
        self.resends = Resends()
        self._arrived = trio.Event()
        self._get_heads = GetHeads(subject, self.requester)
        self._get_heads.frames()  # a subject that cannot be is refused here
        for published in (ids.RECORD, ids.HEAD):
            node.subscribe(published + subject.encode())
        for answered in (ids.DIRECT_RECORD, ids.DIRECT_HEAD, ids.STORE_HELLO, ids.END):
            node.subscribe(answered + self.requester.encode())
        node.route(
            {
                Record: self._on_record,
                DirectRecord: self._on_direct_record,
                Head: self._on_head,
                DirectHead: self._on_direct_head,
                StoreHello: self._on_store_hello,
                End: self._on_end,
            }
        )
        node.on_drained(self._fetch)
        node.on_subscribed(self._on_subscribed)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.node.run)
            nursery.start_soon(self._tick)
            nursery.start_soon(self._ask_for_heads)
            task_status.started()

    async def receive(self) -> Delivery:
        """The next record, of any address. One task at a time."""
        while not self.order.ready:
            await self._arrived.wait()
        return self.order.take()

    async def _tick(self) -> None:
        while True:
            self._fetch()
            await trio.sleep(TICK_SECONDS)

    async def _ask_for_heads(self) -> None:
        while True:
            self.node.send(self._get_heads)
            await trio.sleep(HEADS_SECONDS)

    def _fetch(self) -> None:
        now = trio.current_time()
        for fetch in self.order.fetches(now):
            allowed = self.resends.allowed(fetch, now)
            if allowed is not None:
                self.node.send(allowed)
        if self.resends.take_subjects(now):
            self.node.send(self._get_heads)
        if self.order.ready:
            self._arrived.set()
            self._arrived = trio.Event()

    # what is heard ----------------------------------------------------------------------------------------

    def _on_record(self, record: Record) -> None:
        address, subject, sequence, content = record
        self.order.on_record(address, subject, sequence, bytes(content), trio.current_time())

    def _on_direct_record(self, record: DirectRecord) -> None:
        if record.requester == self.requester:
            content = bytes(record.content)
            self.order.on_record(
                record.address, record.subject, record.sequence, content, trio.current_time()
            )

    def _on_head(self, head: Head) -> None:
        self.order.on_head(head.address, head.subject, head.sequence, trio.current_time())

    def _on_direct_head(self, head: DirectHead) -> None:
        if head.requester == self.requester:
            self.resends.on_head(head.address, head.sequence)
            self.order.on_head(head.address, head.subject, head.sequence, trio.current_time())

    def _on_end(self, end: End) -> None:
        if end.requester == self.requester and end.last.status == STATUS_BEGINS_LATER:
            self.order.on_start(end.last.address, end.last.sequence, trio.current_time())

    # stores -----------------------------------------------------------------------------------------------

    def _on_subscribed(self, prefix: bytes) -> None:
        """A store that waits for hellos is linked: say which subjects' heads are wanted."""
        if prefix[:1] == ids.CONSUMER_HELLO and len(prefix) > 1:
            try:
                self._greet(prefix[1:].decode())
            except ValueError:
                return  # not a store's name

    def _on_store_hello(self, hello: StoreHello) -> None:
        if hello.consumer == self.requester:
            self._greet(hello.store)

    def _greet(self, store: str) -> None:
        subjects = (self.order.subject,) if self.order.from_beginning else ()
        self.node.send(ConsumerHello(store, self.requester, subjects))
