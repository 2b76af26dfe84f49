"""Hearing one subject on a node: its records come in the order of each address, from producers and stores.

The machine is `mesh.protocol.native_order`. Whoever has the node hands over its messages (`on_record` and so
on); a message of another subject, or an answer to another requester, changes nothing.
"""

from collections.abc import Callable, Iterable

import trio

from mesh.node import Node
from mesh.protocol.native_order import DEFAULT_LIMITS, Begin, Limits, NativeOrder
from mesh.protocol.native_resends import Resends
from wireproto.dafka import ids
from wireproto.dafka.additions import STATUS_BEGINS_LATER, DirectRecords, End
from wireproto.dafka.messages import (
    ConsumerHello,
    DirectHead,
    DirectRecord,
    GetHeads,
    Head,
    Record,
)

TICK_SECONDS = 0.05
"""How often is looked for a FETCH that is due."""

HEADS_SECONDS = 5.0
"""How often all stores are asked for the heads of the subject: of an address whose producer is gone nobody
else tells, nor of the last records that it sent."""


class Hearing:
    """One subject. `requester` is a name that nobody else is answered under; `begin` as `NativeOrder` has it.

    `run` it, and call `look` where more is to be asked for at once. `arrived` is called when records are
    `order.ready`, at each look, and when it is to `tell`.
    """

    def __init__(
        self,
        node: Node,
        subject: str,
        requester: str,
        begin: Begin,
        arrived: Callable[[], None],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Raises ValueError for a subject over 255 bytes or with a NUL inside."""
        self.order = NativeOrder(subject, requester, begin, limits)
        self.resends = Resends()
        self._node = node
        self._arrived = arrived
        self._get_heads = GetHeads(subject, requester)
        self._get_heads.frames()  # a subject that cannot be is refused here

    def subscribe(self) -> None:
        """Hear what producers publish, besides what stores tell."""
        for published in (ids.RECORD, ids.HEAD):
            self._node.subscribe(published + self.order.subject.encode())

    async def run(self) -> None:
        """Ask for what is missing, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tick)
            nursery.start_soon(self._ask_for_heads)

    async def _tick(self) -> None:
        while True:
            self.look()
            await trio.sleep(TICK_SECONDS)

    async def _ask_for_heads(self) -> None:
        while True:
            self.ask_for_heads()
            await trio.sleep(HEADS_SECONDS)

    def ask_for_heads(self) -> None:
        """Have stores say which addresses of the subject they have, and up to where."""
        self._node.send(self._get_heads)

    def look(self) -> None:
        """Ask for what is missing and due."""
        self._ask()
        self.tell()

    def _ask(self, of: Iterable[str] | None = None) -> None:
        """For what is due, of these addresses or of all."""
        now = trio.current_time()
        for fetch in self.order.fetches(now, of):
            allowed = self.resends.allowed(fetch, now)
            if allowed is not None:
                self._node.send(allowed)
        if self.resends.take_subjects(now):
            self._node.send(self._get_heads)

    def tell(self) -> None:
        """Call `arrived` if records are ready."""
        if self.order.ready:
            self._arrived()

    def greet(self, store: str, *, wants_heads: bool) -> None:
        """Answer a store's hello, and have it tell its heads."""
        subjects = (self.order.subject,) if wants_heads else ()
        self._node.send(ConsumerHello(store, self.order.requester, subjects))

    # what is heard ----------------------------------------------------------------------------------------

    def on_record(self, record: Record) -> None:
        address, subject, sequence, content = record
        self.order.on_record(address, subject, sequence, bytes(content), trio.current_time())

    def on_direct_record(self, record: DirectRecord) -> None:
        """An answer to this requester."""
        now = trio.current_time()
        if self.resends.takes(record, now, self._node.is_from_store):
            content = bytes(record.content)
            self.order.on_record(record.address, record.subject, record.sequence, content, now)

    def on_direct_records(self, records: DirectRecords) -> None:
        """An answer to this requester. What follows is asked for at once; with the next look where there may
        be stores in C, because producers answer wrongly for what they do not know to be acknowledged.
        """
        _, address, subject, first, contents = records
        self.order.on_records(address, subject, first, contents, trio.current_time())
        if not self.resends.is_others(address):
            self._ask((address,))

    def on_head(self, head: Head) -> None:
        self.order.on_head(head.address, head.subject, head.sequence, trio.current_time())

    def on_direct_head(self, head: DirectHead) -> None:
        """An answer to this requester."""
        now = trio.current_time()
        self.resends.on_head(head.address, head.sequence, head.store, now)
        self.order.on_head(head.address, head.subject, head.sequence, now)

    def on_end(self, end: End) -> None:
        """An answer to this requester."""
        if end.last.status == STATUS_BEGINS_LATER:
            now = trio.current_time()
            self.resends.on_begins(end.last.address, end.last.sequence, end.store, now)
            self.order.on_start(end.last.address, end.last.sequence, now)
