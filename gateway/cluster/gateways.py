"""The gateways of a cluster as clients see them: the brokers of Metadata, and which of them leads what.

A gateway that is alone is the only broker, at the address that the client has come in on. Where several share
a catalog each has put a record there (`/gateways/<id>`: `gateway.leadership.records.GatewayRecord`) that says
how it is reached by each of its listeners; a client is told the others' addresses of the listener of the same
name as the one that it has come in on. A gateway counts while its key says that it is alive
(`gateway.cluster.alive`); one without a record, or without such a listener, is told to nobody, and what it
leads has no leader for those who cannot reach it, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.catalog import keys
from gateway.catalog.interface import CompareFailed, unchanged
from gateway.leadership.records import (
    Address,
    AliveRecord,
    BadRecord,
    GatewayRecord,
    pack_gateway,
    unpack_alive,
    unpack_gateway,
)
from gateway.leadership.slots import SLOTS, first_slot, slot_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from gateway.catalog.interface import Catalog
    from gateway.cluster.slot_leadership import SlotLeadership
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

NOBODY: Final = -1
"""Kafka's node id for no leader."""

MAX_ADDRESSES: Final = 256
"""Addresses of this gateway that clients may have reached it by, for which it is remembered what they are
told."""

logger = logging.getLogger(__name__)


class BrokerAddress(NamedTuple):
    """A gateway as Metadata tells of it; a rack that nobody has given is None."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Gateways(Protocol):
    """Who leads, and where clients find them."""

    @property
    def version(self) -> Hashable:
        """Another one when an answer may be another."""

    def controller(self, local_address: tuple[str, int], /) -> int:
        """The id of the one that clients who have come in there send changes of the cluster to: any of them
        would do.
        """

    def brokers(self, local_address: tuple[str, int], /) -> Sequence[BrokerAddress]:
        """All of them, as a client is told who has come in on this advertised address of this one."""

    def reached(self, local_address: tuple[str, int], /) -> Collection[int]:
        """The ids of these."""

    def leaders(self, topic: Topic, /) -> Sequence[int]:
        """The ids of the gateways that lead a topic's partitions, `NOBODY` where the last one is gone."""

    def leader(self, topic_id: bytes, index: int, /) -> int:
        """The same for one partition."""

    def leads(self, partition: Partition, /) -> bool:
        """Whether this gateway leads it."""

    def is_missed(self, partition: Partition, /) -> bool:
        """Whether nobody leads it, and this gateway is the one that says so where all are asked."""

    @property
    def others(self) -> Sequence[int]:
        """The ids of the others that are alive."""


class OneGateway:
    """The only one, which leads everything."""

    version = 0

    def __init__(self, node_id: int, rack: str = "") -> None:
        self._node_id = node_id
        self._rack = rack or None
        self._reached = frozenset({node_id})

    def controller(self, _local_address: tuple[str, int], /) -> int:
        return self._node_id

    def brokers(self, local_address: tuple[str, int], /) -> Sequence[BrokerAddress]:
        return [BrokerAddress(self._node_id, *local_address, self._rack)]

    def reached(self, _local_address: tuple[str, int], /) -> Collection[int]:
        return self._reached

    def leaders(self, topic: Topic, /) -> Sequence[int]:
        return [self._node_id] * len(topic.partitions)

    def leader(self, _topic_id: bytes, _index: int, /) -> int:
        return self._node_id

    def leads(self, _partition: Partition, /) -> bool:
        return True

    def is_missed(self, _partition: Partition, /) -> bool:
        return False

    @property
    def others(self) -> Sequence[int]:
        return ()


class Living(NamedTuple):
    """A gateway that is alive; `leaving` while it stops, and `draining` while an operator wants others to
    lead what it leads. `record` is None until it has said how it is reached, or where it has said so in words
    of a later release. `has_begun`: enough stores have told it that this catalog is the newest
    (`gateway.cluster.remembering`), so that it reaches them.
    """

    life: str
    leaving: bool
    record: GatewayRecord | None
    has_begun: bool = True
    draining: bool = False

    @property
    def stays(self) -> bool:
        """Whether it may be given something to lead."""
        return self.has_begun and not self.leaving and not self.draining

    @property
    def rack(self) -> str:
        return "" if self.record is None else self.record.rack


class SharedGateways:
    """Those that share this one's catalog, as of the last `read`."""

    def __init__(self, catalog: Catalog, leadership: SlotLeadership, rack: str = "") -> None:
        self.living: Mapping[int, Living] = {}
        """By id."""
        self.version = 0
        self.own_listeners: Sequence[str] = ()
        """The names of this one's own, in the order in which they were given."""
        self.release = ""
        """This one's, once it has told how it is reached."""
        self._on_changed: list[Callable[[], None]] = []
        self._catalog = catalog
        self._leadership = leadership
        self._rack = rack
        self._by_slot = [NOBODY] * SLOTS
        self._listeners: dict[tuple[str, int], str] = {}
        """The names of this one's own, by the address that clients are told."""
        self._by_port: dict[int, str] = {}
        """The same by the port alone: who listens on every address tells each client the one it reached."""
        self._reached: dict[tuple[str, int], frozenset[int]] = {}
        self._reached_version = 0
        self._unreadable: set[str] = set()
        """Records that were complained of."""

    def read(self) -> None:
        """Take what the catalog says of them, and the table as it was read last. Raises BadRecord."""
        living = {}
        for entry in self._catalog.range(keys.ALIVE):
            number = keys.gateway_in(entry.key)
            if number is None:
                raise BadRecord(f"the key {entry.key[:64]!r} names no gateway")
            alive: AliveRecord = unpack_alive(entry.value)
            has_begun = self._catalog.get(keys.LIVES + alive.life) is not None
            leaving = self._is_leaving(number, alive.life)
            draining = self._catalog.get(keys.draining_key(number)) is not None
            living[number] = Living(alive.life, leaving, self._record(number), has_begun, draining)
        by_slot = [
            leader.gateway
            if leader is not None and self._goes_on(living, leader.gateway, leader.life)
            else NOBODY
            for leader in self._leadership.table.slots
        ]
        if living != self.living or by_slot != self._by_slot:
            self.living, self._by_slot = living, by_slot
            self.version += 1
            for tell in self._on_changed:
                tell()

    def on_changed(self, tell: Callable[[], None]) -> None:
        """Have this called when `living`, or who leads what, is another one."""
        self._on_changed.append(tell)

    def _is_leaving(self, number: int, life: str) -> bool:
        there = self._catalog.get(keys.leaving_key(number))
        return there is not None and unpack_alive(there.value).life == life

    def _record(self, number: int) -> GatewayRecord | None:
        """How a gateway is reached. One that cannot be read makes nobody end: clients find the others."""
        key = keys.gateway_key(number)
        entry = self._catalog.get(key)
        if entry is None:
            return None
        try:
            return unpack_gateway(entry.value)
        except BadRecord as error:
            if key not in self._unreadable:
                self._unreadable.add(key)
                logger.warning(
                    "how gateway %d is reached cannot be read (%s): clients are not told", number, error
                )
            return None

    @staticmethod
    def _goes_on(living: Mapping[int, Living], gateway: int, life: str) -> bool:
        return gateway in living and living[gateway].life == life

    async def tell(self, listeners: Mapping[str, Address], name: str, release: str) -> None:
        """Say how clients reach this one, by the names of its listeners. Raises BadRecord: what it was
        started with cannot be said.
        """
        self._listeners = {(address.host, address.port): listener for listener, address in listeners.items()}
        self._by_port = {address.port: listener for listener, address in listeners.items()}
        self.own_listeners, self.release = tuple(listeners), release
        self.version += 1
        key = keys.gateway_key(self._leadership.gateway)
        while True:
            there = self._catalog.get(key)
            # What it can has been said when it was registered (`gateway.cluster.features`).
            registered = None if there is None else unpack_gateway(there.value)
            features = {} if registered is None else registered.features
            record = GatewayRecord(
                name, self._rack, listeners, features, release, self._leadership.life if features else ""
            )
            value = pack_gateway(record)
            if there is not None and there.value == value:
                return
            try:
                await self._catalog.transact(unchanged(self._catalog, [key]), {key: value})
            except CompareFailed:
                continue

    def controller(self, local_address: tuple[str, int], /) -> int:
        reached = self.reached(local_address)
        stays = [number for number in reached if number in self.living and self.living[number].stays]
        return min(stays or reached)

    def reached(self, local_address: tuple[str, int], /) -> Collection[int]:
        if self._reached_version != self.version:
            self._reached, self._reached_version = {}, self.version
        found = self._reached.get(local_address)
        if found is None:
            found = frozenset(one.id for one in self.brokers(local_address))
            if len(self._reached) < MAX_ADDRESSES:
                self._reached[local_address] = found
        return found

    def brokers(self, local_address: tuple[str, int], /) -> Sequence[BrokerAddress]:
        listener = self._listeners.get(local_address) or self._by_port.get(local_address[1], "")
        own = self._leadership.gateway
        found = [BrokerAddress(own, *local_address, self._rack or None)]
        for number, one in self.living.items():
            if number != own and one.record is not None and listener in one.record.listeners:
                address = one.record.listeners[listener]
                found.append(BrokerAddress(number, address.host, address.port, one.rack or None))
        return sorted(found)

    def leaders(self, topic: Topic, /) -> Sequence[int]:
        first = first_slot(topic.id)
        return [self._by_slot[(first + index) % SLOTS] for index in range(len(topic.partitions))]

    def leader(self, topic_id: bytes, index: int, /) -> int:
        return self._by_slot[slot_of(topic_id, index)]

    def leads(self, partition: Partition, /) -> bool:
        return self._leadership.leads(partition.topic.id, partition.index)

    def records(self) -> Mapping[int, GatewayRecord]:
        """What each says of itself that was not removed, alive or not; not those that cannot be read."""
        numbers = (
            int(number)
            for entry in self._catalog.range(keys.GATEWAYS)
            if (number := entry.key.removeprefix(keys.GATEWAYS)).isdecimal()
        )
        return {number: record for number in numbers if (record := self._record(number)) is not None}

    @property
    def leaders_of_slots(self) -> Sequence[int]:
        """The ids of those that lead them, `NOBODY` where the last one is gone."""
        return self._by_slot

    @property
    def somebody_else_stays(self) -> bool:
        """Whether another gateway can be given what this one leads."""
        own = self._leadership.gateway
        others = (one for number, one in self.living.items() if number != own)
        return any(one.stays for one in others)

    @property
    def somebody_is_missed(self) -> bool:
        """Whether there is a slot that nobody leads."""
        return NOBODY in self._by_slot

    def is_missed(self, partition: Partition, /) -> bool:
        if self.leader(partition.topic.id, partition.index) != NOBODY:
            return False
        return self._leadership.gateway == min(self.living, default=NOBODY)

    @property
    def others(self) -> Sequence[int]:
        return sorted(self.living.keys() - {self._leadership.gateway})
