"""What a log asks of the cluster around it; `gateway.cluster` answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.catalog.interface import Compare
    from gateway.log.topic import Topic


class LogStores(Protocol):
    """The stores that keep its segments, by incarnation (`gateway.cluster.stores.Stores`)."""

    version: int
    """Goes up with every change of the list."""

    @property
    def presence(self) -> object | None:
        """Who knows which of them are there; None: all of them are, always."""

    @property
    def incarnations(self) -> Iterable[str]:
        """The incarnations of the stores that get new segments."""

    def load(self) -> None:
        """Take what the catalog says now."""

    def disks(self) -> Mapping[str, int]:
        """The sizes of their disks in bytes, of those of which it is known."""

    def live(self, incarnation: str) -> bool:
        """Whether a store was heard of within the last seconds."""

    def enough(self, members: Iterable[str], w: int) -> bool:
        """Whether `w` of these are there."""

    def away_for_long(self, members: Iterable[str]) -> bool:
        """Whether one of these has been silent for so long that others should take its place."""

    def leaving(self, members: Iterable[str]) -> bool:
        """Whether one of these is about to leave."""

    def is_removed(self, incarnation: str) -> bool:
        """Whether a store was admitted once and counts no more."""

    def live_first(self, members: Sequence[str], log: str) -> Sequence[str]:
        """The order in which members are asked for what all of them have."""

    def choose(self, log: str, replication_factor: int) -> tuple[str, ...]:
        """The members of the next segment of this log."""

    def as_members(self, members: Iterable[str]) -> list[Compare] | None:
        """What a transaction compares that makes these members of a segment; None: one of them must not
        become one any more.
        """

    def name(self, incarnation: str) -> str:
        """What a message calls a store."""


class CatalogCopies(Protocol):
    """What the stores remember of the catalog (`gateway.cluster.remembering.Remembering`)."""

    @property
    def too_large(self) -> Mapping[str, int]:
        """The stores for which the catalog is too large, and the bytes of what is to be kept of it."""

    @property
    def is_full(self) -> bool:
        """Whether it is too large for so many of them that the others are no majority."""

    @property
    def is_compared(self) -> bool:
        """Whether `wait_compared` returns at once."""

    async def wait_compared(self) -> None:
        """Return when so many stores have vouched for the catalog that it may be acted upon."""

    async def keep(self, seconds: float) -> bool:
        """Whether so many stores remember what is in the catalog now that it can go back no more unnoticed;
        waits so long for it.
        """

    def hurry(self) -> None:
        """Have the stores remember what is in the catalog now as soon as may be, and wait for nobody."""


class NoCopies:
    """The copies of a catalog that no store remembers: there is nothing to wait for."""

    too_large: Mapping[str, int] = MappingProxyType({})
    is_full = False
    is_compared = True

    async def wait_compared(self) -> None:
        """At once."""

    async def keep(self, _seconds: float) -> bool:
        """At once."""
        return True

    def hurry(self) -> None:
        """Nobody is told."""


class Leadership(Protocol):
    """Which partitions this gateway leads (`gateway.cluster.slot_leadership.SlotLeadership`). It knows them
    by topic id and index, also those of topics that are deleted: what these have left is its leader's work.
    """

    def leads(self, topic_id: bytes, index: int, /) -> bool:
        """Whether this gateway leads a partition, as far as it knows."""

    def compares(self, topic_id: bytes, index: int, /) -> Sequence[Compare]:
        """What a transaction about a partition compares so that it counts only while this gateway leads
        it.
        """

    def lost(self, compared: Compare, /) -> None:
        """Such a compare did not hold."""

    def epoch(self, topic_id: bytes, index: int, /) -> int | None:
        """The leader epoch of a partition by the table of all gateways; None: there is no such table."""


class LeadsAll:
    """The leadership of a gateway that is alone: it leads everything, and nobody else may."""

    def leads(self, _topic_id: bytes, _index: int, /) -> bool:
        """Always."""
        return True

    def compares(self, _topic_id: bytes, _index: int, /) -> Sequence[Compare]:
        """Nothing: the gateway's own life is compared with every transaction."""
        return ()

    def lost(self, _compared: Compare, /) -> None:
        """That is never compared."""

    def epoch(self, _topic_id: bytes, _index: int, /) -> None:
        """Each life has its own number."""


class LogTopics(Protocol):
    """The topics that there are (`gateway.cluster.topics.Topics`)."""

    def all(self) -> Iterable[Topic]:
        """Every topic, by name."""
