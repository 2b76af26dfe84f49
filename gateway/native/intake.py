"""The records of one subject on their way into one topic: each once, in the order of its address.

Rules:

* an address goes on in a log behind what the log has of it, at the moment when its partition serves: whatever
  was under way before, in this process or another, is in the log by then, or never will be;
* what this gateway has appended counts only as long as the partition is led under the same leader epoch;
  after that the log is asked anew;
* nothing of an address is appended that is not behind all of it that is there (`Partition.append_native`
  looks).

Theory of operation: `mesh.native.hearing` gives the records of an address in order, from where `begin` says.
They wait here for some milliseconds, and go into their partition's log in batches of one address each. A
partition that does not take them now is tried again; what waits for it beyond its share is forgotten, and
asked of the stores when it takes records again. Beyond `MAX_WAITING_BYTES` nothing more is taken from the
hearing, whose own memory is bounded: what comes then stays in the stores and is fetched later.

An address that the catalog does not know is noted in `unknown`; it is not heard until the catalog knows it.
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable
from gateway.log.partition import NO_EPOCH
from gateway.native.batches import REWRITTEN_HEADER, batch_of
from gateway.native.positions import MAX_NATIVE_SEQUENCE, next_in
from mesh.protocol.address_state import life_of
from mesh.protocol.native_order import add_to_runs
from mesh.protocol.published_address import is_published
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gateway.cluster.native_addresses import KnownAddress, NativeAddresses
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic
    from mesh.native.hearing import Hearing
    from mesh.native.subjects import NativeSubjects
    from mesh.protocol.native_order import Run

LINGER_SECONDS: Final = 0.005
"""How long records of all addresses gather before they are made batches."""

RETRY_SECONDS: Final = 0.1
"""After this a partition is tried again that has refused a batch for now."""

LONGEST_PAUSE_SECONDS: Final = 5.0
"""And after this once it has refused many."""

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""Taken from the hearing and not appended, all addresses of one topic together, with their overhead. What
waits for a partition that refuses batches has its part of half of it: others of the topic go on meanwhile."""

MAX_UNKNOWN: Final = 1_000
"""New addresses of one topic that wait to be known; others are heard of again."""

MAX_FED_OF_PARTITION: Final = 1_000
"""Addresses that are taken up at once into one partition: its log has to remember each until it is silent,
and has `MAX_PRODUCERS` in all. Others come when some are silent."""

MAX_TAKEN_AT_ONCE: Final = 1_000
"""Runs of records that are taken from the hearing in one stretch."""

logger = logging.getLogger(__name__)


class Fed:
    """One address that this gateway takes up."""

    __slots__ = ("known", "led", "refused_before", "waiting")

    def __init__(self, known: KnownAddress, led: Led) -> None:
        self.known = known
        self.led = led
        self.waiting: deque[Run] = deque()
        """None of them is empty."""
        self.refused_before = 0
        """The sequence behind the last record that was refused; what came before that was appended."""


class Led:
    """A partition as long as it is led here under one leader epoch, and its addresses."""

    __slots__ = ("addresses", "leader_epoch", "partition", "pause", "refuses_until", "waiting_bytes")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.addresses: set[str] = set()
        self.waiting_bytes = 0
        self.refuses_until = 0.0
        """It has refused a batch, and is not tried before: trio's clock."""
        self.pause = RETRY_SECONDS
        """How long it is not tried when it refuses the next one."""

    @property
    def holds(self) -> bool:
        """Whether what is known here of its addresses is true."""
        return self.partition.available and self.partition.leader_epoch == self.leader_epoch


class Intake:
    """One topic's. `run` it until it is to `stop`."""

    def __init__(
        self, context: LogContext, subjects: NativeSubjects, addresses: NativeAddresses, topic: Topic
    ) -> None:
        """Raises ValueError for what is no subject."""
        self.topic = topic
        self.subject = topic.settings.native_subject
        self.records = 0
        self.refused = 0
        """Records that no batch of the topic may have."""
        self._rewrites_said = 0
        """How many of the hearing's are in the log."""
        self._not_fed: dict[str, tuple[int, int]] = {}
        """Addresses that are not taken up at present: partition, and how many records of them are to come."""
        self.waiting = 0
        """Records that were taken from the hearing and not appended."""
        self.fed: dict[str, Fed] = {}
        self.waiting_bytes = 0
        """Taken from the hearing and not appended, as they are `counted`."""
        self._context = context
        self._subjects = subjects
        self._addresses = addresses
        self.unknown: dict[str, None] = {}
        """Addresses that were heard of, and of which the catalog knows nothing; MAX_UNKNOWN at most."""
        self._left_out: dict[str, None] = {}
        """Addresses that gateways have made, as their segments say; MAX_UNKNOWN at most."""
        self._scope = trio.CancelScope()
        self._led: dict[int, Led] = {}
        self._having: dict[str, None] = {}
        """Addresses of which something waits, those that wait for longest first."""
        self._arrived = trio.Event()
        self._limit = LogLimit(logger)
        self.hearing: Hearing = subjects.hear(self.subject, self._begin, self._arrive)

    def _arrive(self) -> None:
        self._arrived.set()

    @property
    def lost(self) -> int:
        """Records that no store had any more when their turn came."""
        return self.hearing.order.skipped

    @property
    def rewrites(self) -> Mapping[str, int]:
        """Addresses, and of each a record of which two contents are known."""
        return self.hearing.order.rewrites

    @property
    def lag(self) -> int:
        """Records that are not appended, as far as stores have told of them, of known addresses of partitions
        that are led here.
        """
        led = [one.check_leader_epoch(NO_EPOCH) is ErrorCode.NONE for one in self.topic.partitions]
        not_fed = sum(missing for index, missing in self._not_fed.values() if led[index])
        return self.waiting + self.hearing.order.behind + not_fed

    async def run(self) -> None:
        """Take up records until it is stopped."""
        try:
            with self._scope:
                await self._run()
        finally:
            self._subjects.leave(self.hearing)

    def stop(self) -> None:
        self._scope.cancel()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.hearing.run)
            nursery.start_soon(self._feed)

    def leave_out(self, address: str) -> None:
        """It is no native producer's, though the catalog may forget how that is known."""
        self._left_out[address] = None
        if len(self._left_out) > MAX_UNKNOWN:
            del self._left_out[next(iter(self._left_out))]

    def more_are_known(self) -> None:
        """The catalog knows more addresses: what they have published is asked for."""
        self.hearing.ask_for_heads()

    def rest(self, addresses: Iterable[str]) -> None:
        """They are silent, and the catalog knows how far they have come: nothing is kept of them here until
        they are heard of again.
        """
        silent = [address for address in addresses if (fed := self.fed.get(address)) and not fed.waiting]
        self._forget(silent)

    # where an address begins -------------------------------------------------------------------------------

    def _begin(self, address: str, following: int) -> int | None:
        # A topic's own segments are published under its name, which may be the subject. Stores tell of none
        # of them, but for one that has not yet heard of the gateway. What a topic publishes is no other's to
        # take up.
        if self._is_gateways(address) or is_published(address) or address in self._left_out:
            return None
        known = self._addresses.get(self.topic.id, address)
        if known is None:
            if len(self.unknown) < MAX_UNKNOWN:
                self.unknown[address] = None
            return None
        if known.partition >= len(self.topic.partitions):
            return None
        first = next_in(self.topic.partitions[known.partition], known)
        # Of one that has nothing new nothing is kept: stores tell of it for as long as they keep its records.
        if following <= first:
            self._not_fed.pop(address, None)
            return None
        led = self._led_now(known.partition)
        if (
            led is None
            or trio.current_time() < led.refuses_until
            or len(led.addresses) >= MAX_FED_OF_PARTITION
        ):
            self._not_fed[address] = known.partition, following - first
            return None
        self._not_fed.pop(address, None)
        self.fed[address] = Fed(known, led)
        led.addresses.add(address)
        return first

    def _led_now(self, index: int) -> Led | None:
        """A partition that takes records of new addresses."""
        partition = self.topic.partitions[index]
        if not partition.available or partition.is_leaving:
            return None
        led = self._led.get(index)
        if led is None:
            led = self._led[index] = Led(partition)
        # What is known under an earlier epoch goes first (`_feed`).
        return led if led.holds else None

    def _is_gateways(self, address: str) -> bool:
        life = life_of(address)
        return life == self._subjects.life or self._context.catalog.get(keys.LIVES + life) is not None

    def _forget(self, addresses: Collection[str]) -> None:
        """They are heard again from where the log says."""
        for address in addresses:
            fed = self.fed.pop(address, None)
            if fed is not None:
                for run in fed.waiting:
                    self._count(fed, -len(run.contents), -run.size)
                missing = self.hearing.order.following(address) - next_in(fed.led.partition, fed.known)
                if missing > 0:
                    self._not_fed[address] = fed.known.partition, missing
                fed.led.addresses.discard(address)
            self._having.pop(address, None)
        self.hearing.order.forget(addresses)

    # into the log ------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        while True:
            with trio.move_on_after(RETRY_SECONDS):
                await self._arrived.wait()
            await trio.sleep(LINGER_SECONDS)
            self._arrived = trio.Event()
            self._let_go()
            self._take()
            self._note_rewrites()
            for address in list(self._having):
                while self._may_append() and self._append(address):
                    await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
            if self.hearing.order.ready and self._has_room():
                self._arrived.set()

    def _may_append(self) -> bool:
        """Not while the windows of all partitions hold as much as they may: producers wait, too."""
        return self._context.window_gate.is_open

    def _let_go(self) -> None:
        """What is led elsewhere, or anew."""
        for index, led in list(self._led.items()):
            if not led.holds:
                del self._led[index]
                self._forget(list(led.addresses))

    def _has_room(self) -> bool:
        return self.waiting_bytes < MAX_WAITING_BYTES

    def _take(self) -> None:
        order = self.hearing.order
        for _ in range(MAX_TAKEN_AT_ONCE):
            if not order.ready or not self._has_room():
                return
            run = order.take_run()
            fed = self.fed.get(run.address)
            if fed is not None:
                size = add_to_runs(fed.waiting, run.address, run.sequence, run.contents)
                self._having[run.address] = None
                self._count(fed, len(run.contents), size)

    def _note_rewrites(self) -> None:
        for address, sequence in islice(self.rewrites.items(), self._rewrites_said, None):
            self._rewrites_said += 1
            self._limit.warning(
                "record %d of native address %s came with two contents: topic %s has the first that came, "
                "and what follows of that address has the header %s. Its producer sent others when it was "
                "asked for what it had sent: have it start when stores are there",
                sequence, printable(address), self.topic.name, REWRITTEN_HEADER,
            )  # fmt: skip

    def _count(self, fed: Fed, records: int, size: int) -> None:
        """So many more wait, or fewer."""
        self.waiting += records
        self.waiting_bytes += size
        fed.led.waiting_bytes += size

    def _append(self, address: str) -> bool:
        """A batch of what waits of an address, if its partition takes it; whether more of it may be taken."""
        fed = self.fed.get(address)
        if fed is None or not fed.waiting:
            self._having.pop(address, None)
            return False
        if not fed.led.holds or trio.current_time() < fed.led.refuses_until:
            return False
        run = fed.waiting[0]
        if run.sequence > MAX_NATIVE_SEQUENCE:
            return self._refuse(fed, "its sequence is above what a topic can have")
        now_ms, settings = self._context.now_ms(), self.topic.settings
        batch = batch_of(
            run,
            fed.known.producer_id,
            now_ms,
            settings.max_message_bytes,
            with_key=settings.native_key_is_address,
            rewritten=self.rewrites.get(address),
        )
        if batch is None:
            return self._refuse(fed, "it is larger than max.message.bytes of the topic")
        view = memoryview(batch.content)
        try:
            fed.led.partition.append_native(read_header(view), view, now_ms, self._client)
        except KafkaError as error:
            self._not_taken(fed.led, error)
            return False
        fed.led.pause = RETRY_SECONDS
        self._done(fed, batch.records)
        self.records += batch.records
        return True

    def _not_taken(self, led: Led, error: KafkaError) -> None:
        led.refuses_until = trio.current_time() + led.pause
        led.pause = min(2 * led.pause, LONGEST_PAUSE_SECONDS)
        share = MAX_WAITING_BYTES // (2 * len(self.topic.partitions))
        if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS or led.waiting_bytes > share:
            self._forget(list(led.addresses))

    @property
    def _client(self) -> str:
        return f"native {self.topic.name}"

    def _refuse(self, fed: Fed, why: str) -> bool:
        run = fed.waiting[0]
        address, sequence = run.address, run.sequence
        self._done(fed, 1)
        fed.refused_before = min(sequence, MAX_NATIVE_SEQUENCE) + 1
        self.refused += 1
        self._limit.warning(
            "record %d of native address %s does not come into topic %s: %s",
            sequence, printable(address), self.topic.name, why,
        )  # fmt: skip
        return True

    def _done(self, fed: Fed, records: int) -> None:
        """So many of the first run wait no more."""
        run = fed.waiting[0]
        before = run.size
        run.take(records)
        self._count(fed, -records, run.size - before)
        if not run.contents:
            del fed.waiting[0]
