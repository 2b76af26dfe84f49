"""One transactional id as it is served: its machine, and what is on its way to the log for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.transactions.markers import Ending
from gateway.transactions.metadata import TopicPartition, TransactionMetadata, TransactionState
from gateway.transactions.room import ENDING_BYTES, MARKER_BYTES, Room, size_of

if TYPE_CHECKING:
    from gateway.log.partition import Partition
    from gateway.transactions.machine import TransactionMachine


class Home(Protocol):
    """What an id needs of its coordinator."""

    room: Room

    def prepared(self, transaction: Transaction) -> None:
        """Its end is decided, durably: its markers are to be written."""

    def marked(self, transaction: Transaction) -> None:
        """Every partition of it has its marker."""

    def not_complete(self, transaction: Transaction) -> None:
        """Its markers are written, and that could not be said in the log."""

    def unloaded(self, transaction: Transaction) -> None:
        """It is served no more, while its markers are written."""

    def unused(self, transaction: Transaction) -> None:
        """Nothing is known of it any more, or never was."""


class Transaction:
    """A transactional id. It is told what becomes of its writes (`gateway.journal.group_commit.Effect`)."""

    __slots__ = (
        "_charged",
        "_gone",
        "_home",
        "_waiting",
        "client",
        "coordinator_epoch",
        "ending",
        "machine",
        "number",
        "partition",
        "transactional_id",
    )

    def __init__(
        self,
        home: Home,
        transactional_id: str,
        partition: Partition,
        machine: TransactionMachine,
        coordinator_epoch: int,
        client: str = NOBODY,
        number: int = 0,
    ) -> None:
        """`partition` keeps it. `coordinator_epoch`: that one's leader epoch when it was loaded. `number` of
        the transaction that it has, if that is known from the log.
        """
        self.transactional_id = transactional_id
        self.partition = partition
        self.machine = machine
        self.coordinator_epoch = coordinator_epoch
        self.client = client
        self.number = number
        """Of the transaction that ends: larger for each later one. It is not above the offset of the record
        that decides its end, plus 1; so who loads that gives it this number, or a larger one."""
        self.ending: Ending | None = None
        """While its markers are written."""
        self._home = home
        self._gone = False
        self._charged = 0
        self._waiting: set[trio.Event] | None = None  # a set takes 200 bytes, and few ids have one
        """Of those who wait until it is busy no more."""
        self._charge()

    @property
    def partitions_left(self) -> frozenset[TopicPartition]:
        """Those of its transaction, and once that ends, those without a marker."""
        if self.ending is not None:
            return frozenset(self.ending.left)
        return frozenset() if self.machine.metadata is None else self.machine.metadata.partitions

    def belongs_to(self, client: str) -> None:
        """It is this client's from now on, if it is nobody's."""
        if self.client == NOBODY:
            self.becomes_of(client)

    def becomes_of(self, client: str) -> None:
        """It is this client's from now on, if that is known, and it may have as much. Else two could have
        everything, and leave others nothing: one makes ids, the other one takes them over. What was nobody's
        takes from nobody.
        """
        if client in {NOBODY, self.client}:
            return
        held = self._home.room.held
        if self.client == NOBODY or held.has_room(client, self._charged):
            held.move(self.client, client, self._charged)
            self.client = client

    @property
    def is_busy(self) -> bool:
        """Something is on its way for it, or its transaction has to end: requests are told to come again."""
        metadata = self.machine.metadata
        return self.machine.pending is not None or (metadata is not None and metadata.is_prepared)

    def wait_with(self, event: trio.Event) -> None:
        """Have it set when this is busy no more, or is served no more."""
        if self._waiting is None:
            self._waiting = set()
        self._waiting.add(event)

    def wait_no_more(self, event: trio.Event) -> None:
        """It waits no more, for whatever reason."""
        if self._waiting is None:
            return
        self._waiting.discard(event)
        if not self._waiting:
            self._waiting = None

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        for event in waiting or ():
            event.set()

    def unload(self) -> None:
        """It is served no more."""
        self._gone = True
        self._wake()
        if self.ending is not None:
            self._home.unloaded(self)
        self._home.room.held.charge(self.client, -self._charged)
        self._charged = 0

    # what becomes of a write -------------------------------------------------------------------------------

    def start(self) -> None:
        """What the machine decided is on its way."""
        metadata = None if self.machine.pending is None else self.machine.pending.metadata
        if metadata is not None and metadata.is_prepared:
            self.number = self.partition.next_offset + 1
        self._charge()

    def settled(self, durable: bool) -> None:
        """It is durable, or it never will be; or nobody knows, and then the id is loaded anew."""
        if self._gone:
            return
        if durable:
            self.machine.durable()
        else:
            self.machine.failed()
        metadata = self.machine.metadata
        if metadata is None:
            self._home.unused(self)
            return
        if not metadata.is_prepared:
            self.ending = None
        elif durable:
            self.begin_to_end(metadata)
        elif self.ending is not None:
            self._home.not_complete(self)
        self._charge()
        if not self.is_busy:
            self._wake()

    def begin_to_end(self, metadata: TransactionMetadata) -> None:
        """Have the markers of its transaction written, whose end is durable."""
        marker = Marker(
            metadata.producer_id,
            metadata.producer_epoch,
            self.coordinator_epoch,
            metadata.state is TransactionState.PREPARE_COMMIT,
            self.number,
            metadata.client_version,
        )
        self.ending = Ending(
            self.transactional_id,
            marker,
            metadata.partitions,
            lambda: self._home.marked(self),
            self.client,
            may_be_old=metadata.is_after_loss,
        )
        self._charge()
        self._home.prepared(self)

    def _charge(self) -> None:
        """Have its memory counted: that of what is there, or is about to be."""
        machine = self.machine
        size = size_of(self.transactional_id, machine.metadata)
        if machine.pending is not None and machine.pending.metadata is not None:
            size = max(size, size_of(self.transactional_id, machine.pending.metadata))
        if self.ending is not None and machine.metadata is not None:
            size += ENDING_BYTES + MARKER_BYTES * len(machine.metadata.partitions)
        self._home.room.held.charge(self.client, size - self._charged)
        self._charged = size
