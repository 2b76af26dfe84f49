"""Has memory be as the catalog says: topics, broker configs, the stores that count, the levels of features,
and where there are several gateways who leads what.

Rule: these change in memory here and nowhere else, after what is durable in the catalog, whoever has changed
it there. So a gateway's own changes and those of others come in one order, the catalog's. Who has made a
change itself calls `take` and finds it done; `run` takes those of others.

What is taken is not the change but what there is now: several changes of a key are one, and a topic that was
deleted and made again is another one, by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from gateway.catalog import keys
from gateway.catalog.interface import HistoryLost
from gateway.cluster.topics import apply_configs, maker_of, topic_of
from gateway.log.partition import Partition

if TYPE_CHECKING:
    from gateway.catalog.interface import Entry
    from gateway.cluster.dynamic_configs import DynamicConfigs
    from gateway.cluster.features import Features
    from gateway.cluster.leading import Leading
    from gateway.cluster.stores import Stores
    from gateway.cluster.topics import Topics
    from gateway.log.context import LogContext
    from gateway.log.recovery.recovery import Recovery
    from gateway.log.topic import Topic

FOLLOWED = (keys.TOPICS, keys.BROKER_CONFIGS, keys.STORES, keys.FEATURES)
"""What the keys begin with."""

OF_LEADERSHIP = (
    keys.SLOTS,
    keys.ALIVE,
    keys.DRAINING,
    keys.LEAVING,
    keys.LIVES,
    keys.GATEWAYS,
    keys.PREFERRED,
)
"""The same of what several gateways go by."""


class Followed(Protocol):
    """What is kept in memory of keys that begin alike."""

    def known_keys(self) -> Iterable[str]:
        """Of all that it has."""

    def take(self, key: str) -> None:
        """This one may be different. It never raises: one that cannot be read is left out, and said."""


class Following:
    """Of one gateway: made when all of that was just read."""

    def __init__(
        self,
        context: LogContext,
        topics: Topics,
        dynamic: DynamicConfigs,
        stores: Stores,
        recovery: Recovery,
        leading: Leading | None = None,
        features: Features | None = None,
        others: Mapping[str, Followed] | None = None,
    ) -> None:
        self._context = context
        self._topics = topics
        self._dynamic = dynamic
        self._stores = stores
        self._recovery = recovery
        self._leading = leading
        self._features = features
        self._others = others or {}
        """By what their keys begin with."""
        self._at = context.catalog.revision
        """Up to here memory is as the catalog is."""
        self._turn = trio.Lock()
        self._made: dict[str, Topic] = {}
        """By id: what this gateway puts into the catalog at this moment."""
        self._on_configs: list[Callable[[], None]] = []
        self._on_deleted: list[Callable[[], None]] = []

    def on_configs(self, tell: Callable[[], None]) -> None:
        """Have this called when broker configs are different."""
        self._on_configs.append(tell)

    def on_deleted(self, tell: Callable[[], None]) -> None:
        """Have this called when a topic is gone."""
        self._on_deleted.append(tell)

    async def run(self) -> None:
        """Take what others change, for ever."""
        while True:
            watch = self._context.catalog.watch("", self._at + 1)
            try:
                async for change in watch:
                    if change.revision > self._at:
                        await self.take()
            except HistoryLost:
                await self.take()

    @contextmanager
    def making(self, topic: Topic) -> Iterator[None]:
        """For the length of the block, which puts this topic into the catalog, or more partitions of it, and
        takes them: whoever takes them first takes this one, and asks no store, since none can know of them.
        """
        self._made[topic.id.hex()] = topic
        try:
            yield
        finally:
            del self._made[topic.id.hex()]

    async def take(self) -> None:
        """Return when memory is as the catalog shows it now."""
        async with self._turn:
            changed = self._changed_keys()
            for key in changed:
                if key.startswith(OF_LEADERSHIP):
                    self._take_preferred(key)
                    continue
                if key.startswith(keys.SEGMENTS):
                    self._take_segment(key)
                    continue
                if key.startswith(keys.TOPICS):
                    await self._take_topic(key.removeprefix(keys.TOPICS))
                elif key.startswith(keys.BROKER_CONFIGS):
                    self._take_configs(key)
                elif key == keys.FEATURES:
                    if self._features is not None:
                        self._features.read()
                elif others := self._others.get(key[: key.find("/", 1) + 1]):
                    others.take(key)
                elif self._stores.presence is not None:
                    self._stores.load()
            if self._leading is not None and not all(key.startswith(keys.SEGMENTS) for key in changed):
                self._leading.follow()

    def _changed_keys(self) -> list[str]:
        catalog, at = self._context.catalog, self._at
        self._at = catalog.revision
        try:
            changed: Iterable[str] = (change.key for change in catalog.changes(at + 1))
        except HistoryLost:
            there = (entry.key for prefix in (*FOLLOWED, *self._others) for entry in catalog.range(prefix))
            changed = [*there, *(keys.topic_key(topic.name) for topic in self._topics.all()), keys.SLOTS]
            changed.append(keys.PREFERRED)
            changed += (key for others in self._others.values() for key in others.known_keys())
        followed = (*FOLLOWED, *self._others)
        if self._leading is not None:
            followed += (*OF_LEADERSHIP, keys.SEGMENTS)
        return [key for key in dict.fromkeys(changed) if key.startswith(followed)]

    def _take_preferred(self, key: str) -> None:
        if self._leading is None or not key.startswith(keys.PREFERRED):
            return
        if key == keys.PREFERRED:
            self._leading.preferred.load()
        else:
            self._leading.preferred.take(key)

    def _take_segment(self, key: str) -> None:
        """Where partitions are kept that others lead is told by each gateway."""
        entry = self._context.catalog.get(key)
        topic_id, index = keys.partition_of_segment(key)
        topic = self._topics.by_id(topic_id)
        if entry is not None and topic is not None and index < len(topic.partitions):
            topic.partitions[index].kept_elsewhere(key, entry.value)

    # topics -----------------------------------------------------------------------------------------------

    async def _take_topic(self, name: str) -> None:
        entry = self._context.catalog.get(keys.topic_key(name))
        topic = self._topics.get(name)
        if topic is not None and (entry is None or keys.unpack(entry.value)["id"] != topic.id.hex()):
            self._remove(topic)
            topic = None
        if entry is None:
            return
        if topic is None:
            made = self._made.get(keys.unpack(entry.value)["id"])
            topic = made or topic_of(self._context, entry, self._dynamic.in_force)
            topic.revision = entry.mod_revision
            self._place(topic.partitions)
            await self._begin(topic.partitions, new=topic is made)
            self._topics.add(topic)
            self._recovery.begin(self._place(topic.partitions))
        else:
            await self._alter(topic, entry, new=topic.id.hex() in self._made)

    def _remove(self, topic: Topic) -> None:
        for partition in topic.partitions:
            if not partition.deleted:
                partition.delete()
        self._topics.remove(topic)
        for tell in self._on_deleted:
            tell()

    async def _alter(self, topic: Topic, entry: Entry, *, new: bool) -> None:
        value = keys.unpack(entry.value)
        topic.revision = entry.mod_revision
        self._topics.is_of(topic, maker_of(value))
        if (count := value["partitions"]) > len(topic.partitions):
            added = [Partition(self._context, topic, index) for index in range(len(topic.partitions), count)]
            self._place(added)
            await self._begin(added, new=new)
            # Another list: who goes through the partitions at this moment sees those from before.
            topic.partitions = [*topic.partitions, *added]
            self._recovery.begin(self._place(added))
            for partition in topic.partitions:
                partition.settings_changed(announce=True)
            self._topics.grew(topic, len(added))
        if value["configs"] != topic.configs:
            topic.configs = value["configs"]
            apply_configs([topic], self._dynamic.in_force, announce=True)
            self._topics.changed()

    def _place(self, partitions: list[Partition]) -> list[Partition]:
        """Where several gateways share the catalog: by the table that there is at this moment. Gives those
        that this gateway leads since a moment ago.
        """
        return [] if self._leading is None else self._leading.place(partitions)

    async def _begin(self, partitions: list[Partition], *, new: bool) -> None:
        if new:
            await self._recovery.recover(partitions, new=True)
        else:
            self._recovery.begin(partitions)

    # configs ----------------------------------------------------------------------------------------------

    def _take_configs(self, key: str) -> None:
        if self._dynamic.read(key):
            apply_configs(self._topics.all(), self._dynamic.in_force, announce=False)
            for tell in self._on_configs:
                tell()
