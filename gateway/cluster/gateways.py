"""The gateways of a cluster as clients see them: the brokers of Metadata, and which of them leads what.

A gateway that is alone is the only broker, at the address that the client has come in on. Where several share
a catalog each has put a record there (`/gateways/<id>`: `gateway.leadership.records.GatewayRecord`) that says
how it is reached by each of its listeners; a client is told the others' addresses of the listener of the same
name as the one that it has come in on. A gateway counts while its key says that it is alive
(`gateway.cluster.alive`); one without a record, or without such a listener, is told to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.catalog import keys
from gateway.catalog.interface import CompareFailed, unchanged
from gateway.leadership.records import (
    Address,
    AliveRecord,
    GatewayRecord,
    pack_gateway,
    unpack_alive,
    unpack_gateway,
)
from gateway.leadership.slots import SLOTS, first_slot, slot_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from gateway.catalog.interface import Catalog
    from gateway.cluster.slot_leadership import SlotLeadership
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

NOBODY: Final = -1
"""Kafka's node id for no leader."""


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

    @property
    def controller(self) -> int:
        """The id of the one that clients send changes of the cluster to: any of them would do."""

    def brokers(self, local_address: tuple[str, int], /) -> Sequence[BrokerAddress]:
        """All of them, as a client is told who has come in on this advertised address of this one."""

    def leaders(self, topic: Topic, /) -> Sequence[int]:
        """The ids of the gateways that lead a topic's partitions, `NOBODY` where the last one is gone."""

    def leader(self, topic_id: bytes, index: int, /) -> int:
        """The same for one partition."""

    def leads(self, partition: Partition, /) -> bool:
        """Whether this gateway leads it."""

    @property
    def others(self) -> Sequence[int]:
        """The ids of the others that are alive."""


class OneGateway:
    """The only one, which leads everything."""

    version = 0

    def __init__(self, node_id: int) -> None:
        self.controller = node_id

    def brokers(self, local_address: tuple[str, int], /) -> Sequence[BrokerAddress]:
        return [BrokerAddress(self.controller, *local_address)]

    def leaders(self, topic: Topic, /) -> Sequence[int]:
        return [self.controller] * len(topic.partitions)

    def leader(self, _topic_id: bytes, _index: int, /) -> int:
        return self.controller

    def leads(self, _partition: Partition, /) -> bool:
        return True

    @property
    def others(self) -> Sequence[int]:
        return ()


class Living(NamedTuple):
    """A gateway that is alive; `record` is None until it has said how it is reached."""

    life: str
    leaving: bool
    record: GatewayRecord | None

    @property
    def rack(self) -> str:
        return "" if self.record is None else self.record.rack


class SharedGateways:
    """Those that share this one's catalog, as of the last `read`."""

    def __init__(self, catalog: Catalog, leadership: SlotLeadership) -> None:
        self.living: Mapping[int, Living] = {}
        """By id."""
        self.version = 0
        self._catalog = catalog
        self._leadership = leadership
        self._by_slot = [NOBODY] * SLOTS
        self._listeners: dict[int, str] = {}
        """The names of this one's own, by the port that clients are told."""

    def read(self) -> None:
        """Take what the catalog says of them, and the table as it was read last. Raises BadRecord."""
        living = {}
        for entry in self._catalog.range(keys.ALIVE):
            number = int(entry.key.removeprefix(keys.ALIVE))
            alive: AliveRecord = unpack_alive(entry.value)
            record = self._catalog.get(keys.gateway_key(number))
            living[number] = Living(
                alive.life, alive.leaving, None if record is None else unpack_gateway(record.value)
            )
        by_slot = [
            leader.gateway
            if leader is not None and self._goes_on(living, leader.gateway, leader.life)
            else NOBODY
            for leader in self._leadership.table.slots
        ]
        if living != self.living or by_slot != self._by_slot:
            self.living, self._by_slot = living, by_slot
            self.version += 1

    @staticmethod
    def _goes_on(living: Mapping[int, Living], gateway: int, life: str) -> bool:
        return gateway in living and living[gateway].life == life

    async def tell(self, listeners: Mapping[str, Address], name: str, release: str) -> None:
        """Say how clients reach this one, by the names of its listeners. Raises BadRecord: what it was
        started with cannot be said.
        """
        self._listeners = {address.port: listener for listener, address in listeners.items()}
        value = pack_gateway(GatewayRecord(name, "", listeners, {}, release))
        key = keys.gateway_key(self._leadership.gateway)
        while (there := self._catalog.get(key)) is None or there.value != value:
            try:
                await self._catalog.transact(unchanged(self._catalog, [key]), {key: value})
            except CompareFailed:
                continue

    @property
    def controller(self) -> int:
        return min((number for number, one in self.living.items() if one.record), default=NOBODY)

    def brokers(self, local_address: tuple[str, int], /) -> Sequence[BrokerAddress]:
        listener = self._listeners.get(local_address[1], "")
        own = self._leadership.gateway
        found = [BrokerAddress(own, *local_address)]
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

    @property
    def others(self) -> Sequence[int]:
        return sorted(self.living.keys() - {self._leadership.gateway})
