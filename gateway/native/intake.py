"""The records of one subject on their way into one topic: each once, in the order of its address.

Rules:

* an address goes on in a log behind what the log has of it, at the moment when its partition serves: whatever
  was under way before, in this process or another, is in the log by then, or never will be;
* what this gateway has appended counts only as long as the partition is led under the same leader epoch;
  after that the log is asked anew;
* nothing of an address is appended that is not behind all of it that is there (`Partition.append_native`
  looks).

Theory of operation: `mesh.native.hearing` gives the records of an address in order, from where `begin` says.
They wait here for some milliseconds, and go into their partition's log in batches of one address each. What a
partition does not take now waits and is tried again; beyond `MAX_WAITING_BYTES` nothing more is taken from
the hearing, whose own memory is bounded, so what comes then stays in the stores and is fetched later.

An address that the catalog does not know is told to `unknown`; it is not heard until the catalog knows it.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.common.log_limit import LogLimit
from gateway.native.batches import batch_of
from gateway.native.positions import MAX_NATIVE_SEQUENCE, next_of
from mesh.protocol.address_state import life_of
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.cluster.native_addresses import KnownAddress, NativeAddresses
    from gateway.log.appends import Append
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic
    from mesh.native.hearing import Hearing
    from mesh.native.subjects import NativeSubjects
    from mesh.protocol.native_order import Delivery

LINGER_SECONDS: Final = 0.005
"""How long records of all addresses gather before they are made batches."""

RETRY_SECONDS: Final = 0.1
"""After this a partition is tried again that has refused a batch for now."""

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Taken from the hearing and not appended, all addresses of one topic together, with their overhead."""

logger = logging.getLogger(__name__)


class Fed:
    """One address that this gateway takes up, as long as it leads its partition under one leader epoch."""

    __slots__ = ("known", "last", "leader_epoch", "next", "partition", "used", "waiting")

    def __init__(self, known: KnownAddress, partition: Partition, following: int, now: float) -> None:
        self.known = known
        self.used = now
        """When something of it was appended last, or it began: trio's clock."""
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.next = following
        """The native sequence that is appended next, or a later one."""
        self.waiting: deque[Delivery] = deque()
        self.last: Append | None = None
        """The last batch that was appended."""

    @property
    def holds(self) -> bool:
        """Whether what is known of it here is true."""
        return self.partition.available and self.partition.leader_epoch == self.leader_epoch

    def reached_since(self, known: KnownAddress, before: float) -> bool:
        """Whether it has come further in its log than the catalog knows, durably, and not after `before`."""
        last = self.last
        is_durable = last is None or (last.done and last.error is ErrorCode.NONE)
        return (
            self.used <= before and not self.waiting and self.next > known.next and is_durable and self.holds
        )


class Intake:
    """One topic's. `unknown` is told of an address of which the catalog knows nothing."""

    def __init__(
        self,
        context: LogContext,
        subjects: NativeSubjects,
        addresses: NativeAddresses,
        topic: Topic,
        unknown: Callable[[str], None],
    ) -> None:
        """Raises ValueError for what is no subject."""
        self.topic = topic
        self.subject = topic.settings.native_subject
        self.records = 0
        self.refused = 0
        """Records that no batch of the topic may have."""
        self.fed: dict[str, Fed] = {}
        self._context = context
        self._subjects = subjects
        self._addresses = addresses
        self._unknown = unknown
        self.waiting_bytes = 0
        """Taken from the hearing and not appended, with `RECORD_OVERHEAD_BYTES` each."""
        self._arrived = trio.Event()
        self._limit = LogLimit(logger)
        self._hearing: Hearing = subjects.hear(self.subject, self._begin, self._arrive)

    def _arrive(self) -> None:
        self._arrived.set()

    @property
    def lost(self) -> int:
        """Records that no store had any more when their turn came."""
        return self._hearing.order.skipped

    async def run(self) -> None:
        """Take up records, for ever."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hearing.run)
                nursery.start_soon(self._feed)
        finally:
            self._subjects.leave(self._hearing)

    def more_are_known(self) -> None:
        """The catalog knows more addresses: what they have published is asked for."""
        self._hearing.ask_for_heads()

    def silent_since(self, before: float) -> dict[str, int]:
        """Addresses of which nothing came after this, by trio's clock, with how far they have come, if the
        catalog does not know that.
        """
        found: dict[str, int] = {}
        for address, fed in self.fed.items():
            known = self._addresses.get(self.topic.id, address)
            if known is not None and fed.reached_since(known, before):
                found[address] = fed.next
        return found

    # where an address begins -------------------------------------------------------------------------------

    def _begin(self, address: str, _following: int) -> int | None:
        # A topic's own segments are published under its name, which may be the subject. Stores tell of none
        # of them, but for one that has not yet heard of the gateway.
        if address not in self._hearing.of_stores or self._is_gateways(address):
            return None
        known = self._addresses.get(self.topic.id, address)
        if known is None:
            self._unknown(address)
            return None
        if known.partition >= len(self.topic.partitions):
            return None
        partition = self.topic.partitions[known.partition]
        if not partition.available or partition.is_leaving:
            return None
        following = next_of(known, partition.producers.state.find(known.producer_id))
        self.fed[address] = Fed(known, partition, following, trio.current_time())
        return following

    def _is_gateways(self, address: str) -> bool:
        life = life_of(address)
        return life == self._subjects.life or self._context.catalog.get(keys.LIVES + life) is not None

    def _forget(self, address: str) -> None:
        """Its partition is led elsewhere, or anew: it is heard again from where the log says."""
        fed = self.fed.pop(address, None)
        if fed is not None:
            self.waiting_bytes -= sum(map(_held, fed.waiting))
        self._hearing.order.forget(address)

    # into the log ------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        while True:
            with trio.move_on_after(RETRY_SECONDS):
                await self._arrived.wait()
            await trio.sleep(LINGER_SECONDS)
            self._arrived = trio.Event()
            self._take()
            self._hearing.look()
            for address in [address for address, fed in self.fed.items() if fed.waiting or not fed.holds]:
                self._append(address, self.fed[address])
                await trio.lowlevel.checkpoint()
            if self._hearing.order.ready and self._has_room():
                self._arrived.set()

    def _has_room(self) -> bool:
        return self.waiting_bytes < MAX_WAITING_BYTES

    def _take(self) -> None:
        order = self._hearing.order
        while order.ready and self._has_room():
            delivery = order.take()
            fed = self.fed.get(delivery.address)
            if fed is not None:
                fed.waiting.append(delivery)
                self.waiting_bytes += _held(delivery)

    def _append(self, address: str, fed: Fed) -> None:
        """What waits of an address, as far as its partition takes it."""
        if not fed.holds:
            self._forget(address)
            return
        now_ms = self._context.now_ms()
        while fed.waiting:
            if fed.waiting[0].sequence > MAX_NATIVE_SEQUENCE:
                self._refuse(fed, "its sequence is above what a topic can have")
                continue
            batch = batch_of(
                list(fed.waiting), fed.known.producer_id, now_ms, self.topic.settings.max_message_bytes
            )
            if batch is None:
                self._refuse(fed, "it is larger than max.message.bytes of the topic")
                continue
            view = memoryview(batch.content)
            try:
                fed.last = fed.partition.append_native(read_header(view), view, now_ms, self._client)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS:
                    self._forget(address)
                return
            for _ in range(batch.records):
                self._done(fed)
            self.records += batch.records

    @property
    def _client(self) -> str:
        return f"native {self.topic.name}"

    def _refuse(self, fed: Fed, why: str) -> None:
        delivery = self._done(fed)
        self.refused += 1
        self._limit.warning(
            "record %d of native address %s does not come into topic %s: %s",
            delivery.sequence, delivery.address, self.topic.name, why,
        )  # fmt: skip

    def _done(self, fed: Fed) -> Delivery:
        delivery = fed.waiting.popleft()
        fed.next, fed.used = delivery.sequence + 1, trio.current_time()
        self.waiting_bytes -= _held(delivery)
        return delivery


def _held(delivery: Delivery) -> int:
    return len(delivery.content) + RECORD_OVERHEAD_BYTES
