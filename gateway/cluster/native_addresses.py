"""What the catalog knows of the native addresses of topics: to which partition each goes, as which producer.

Rule: an address keeps its partition and its producer id for good; they are in the catalog before its first
record is in a log. How far its records have come is in the log, as with any producer. `next` says so of an
address that has been silent, since a log forgets a producer in time; what both say is true, and the larger
counts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.catalog.interface import Catalog

MAX_NATIVE_ADDRESSES: Final = 20_000
"""Addresses of all topics together, as many as a store keeps: each start of a native producer makes one."""

MAX_FORGOTTEN: Final = 100
"""In one transaction."""


class KnownAddress(NamedTuple):
    """One address: `next` is the native sequence from which on nothing of it is in the log, as far as the
    catalog knows.
    """

    partition: int
    producer_id: int
    next: int = 0

    def pack(self) -> bytes:
        return keys.pack(self._asdict())

    @classmethod
    def unpack(cls, value: bytes) -> KnownAddress:
        """Raises ValueError, KeyError, TypeError."""
        fields = keys.unpack(value)
        return cls(int(fields["partition"]), int(fields["producer_id"]), int(fields["next"]))


class NativeAddresses:
    """All that the catalog has, as this gateway sees it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, KnownAddress] = {}
        """By their keys."""
        self._of_producers: dict[int, str] = {}
        """Producer id -> key."""
        self._not_kept: set[str] = set()
        """Keys that are in the catalog, and that stores may not have in their copies of it yet."""
        for entry in catalog.range(keys.NATIVE):
            self.take(entry.key)

    def __len__(self) -> int:
        return len(self._known)

    def take(self, key: str) -> None:
        """The catalog has this key changed."""
        entry = self._catalog.get(key)
        before = self._known.pop(key, None)
        if before is not None:
            self._of_producers.pop(before.producer_id, None)
        if entry is None:
            return
        with suppress(KeyError, TypeError, ValueError):
            known = self._known[key] = KnownAddress.unpack(entry.value)
            self._of_producers[known.producer_id] = key

    def known_keys(self) -> Iterable[str]:
        """Of what it has taken."""
        return list(self._known)

    def has(self, topic_id: bytes, address: str) -> bool:
        """Whether the catalog knows an address of a topic, in the stores' copies of it or not."""
        return keys.native_key(topic_id, address) in self._known

    def get(self, topic_id: bytes, address: str) -> KnownAddress | None:
        """What is known of an address of a topic, in the catalog and in the stores' copies of it."""
        key = keys.native_key(topic_id, address)
        return None if key in self._not_kept else self._known.get(key)

    def of_producer(self, producer_id: int) -> KnownAddress | None:
        """What is known of the address with this producer id."""
        key = self._of_producers.get(producer_id)
        return None if key is None else self._known.get(key)

    def all(self) -> list[tuple[bytes, str, KnownAddress]]:
        """(topic id, address, what is known of it) of all."""
        return [(*keys.native_address_of(key), known) for key, known in self._known.items()]

    @property
    def are_to_be_kept(self) -> bool:
        """Whether the stores' copies may lack some that `make` has put."""
        return bool(self._not_kept)

    def kept(self) -> None:
        """The stores' copies have all that `make` has put."""
        self._not_kept.clear()

    @property
    def room(self) -> int:
        """How many more can be known."""
        return max(0, MAX_NATIVE_ADDRESSES - len(self._known))

    async def make(self, topic_id: bytes, addresses: Mapping[str, KnownAddress]) -> None:
        """Have the catalog know these addresses, for use once they are `kept`; what it knows already stays.
        Raises CatalogFailed.
        """
        wanted = {keys.native_key(topic_id, address): known.pack() for address, known in addresses.items()}
        self._not_kept.update(wanted)
        puts = {key: value for key, value in wanted.items() if self._catalog.get(key) is None}
        while puts:
            try:
                await self._catalog.transact([Compare(key, 0) for key in puts], puts)
                break
            except CompareFailed as failed:
                del puts[failed.key]  # somebody else has made it known
        for key in wanted:
            self.take(key)

    async def reached(self, topic_id: bytes, addresses: Mapping[str, int]) -> None:
        """The records of these addresses before so many are durable in their logs. Raises CatalogFailed."""
        compares: list[Compare] = []
        puts: dict[str, bytes] = {}
        for address, following in addresses.items():
            key = keys.native_key(topic_id, address)
            entry = self._catalog.get(key)
            if entry is not None and (known := KnownAddress.unpack(entry.value)).next < following:
                compares.append(Compare(key, entry.mod_revision))
                puts[key] = known._replace(next=following).pack()
        if not puts:
            return
        try:
            await self._catalog.transact(compares, puts)
        except CompareFailed:
            return  # somebody else has said so: this one looks again
        for key in puts:
            self.take(key)

    async def forget_topics(self, there: Iterable[bytes]) -> None:
        """Of topics that are not there any more nothing is known. Raises CatalogFailed."""
        if not self._known:
            return
        topics = {keys.native_prefix(topic_id) for topic_id in there}
        prefix_length = len(keys.native_prefix(bytes(16)))
        gone = [key for key in self._known if key[:prefix_length] not in topics][:MAX_FORGOTTEN]
        entries = [entry for key in gone if (entry := self._catalog.get(key)) is not None]
        if entries:
            compares = [Compare(entry.key, entry.mod_revision) for entry in entries]
            try:
                await self._catalog.transact(compares, {}, [entry.key for entry in entries])
            except CompareFailed:
                return
        for key in gone:
            self.take(key)
