"""What all coordinators have in common: each serves what lives in those partitions of its topic that this
gateway leads, once they are loaded.

As long as the topic does not exist nothing does; FindCoordinator makes it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from gateway.journal.internal_topic import InternalTopic, partition_for
from gateway.journal.partition_loads import PartitionLoads
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

LOAD_PATIENCE_SECONDS: Final = 2.0
"""How long FindCoordinator waits for a partition that is being loaded, so that most clients never see
COORDINATOR_LOAD_IN_PROGRESS."""

_Found = TypeVar("_Found")

logger = logging.getLogger(__name__)


class PartitionedCoordinator(ABC, Generic[_Found]):
    """What this gateway serves of one topic. `_Found` is what a load finds."""

    def __init__(self, cluster: Cluster, topic: InternalTopic, what: str, here: Mapping[str, object]) -> None:
        """`here` has by its key whatever is loaded, or made; `what` one of them is called."""
        self._cluster = cluster
        self._internal_topic = topic
        self._what = what
        self._here = here
        self._topic: Topic | None = None
        self._loading: PartitionLoads[_Found] | None = None
        self._tasks: trio.Nursery | None = None
        """While it runs."""
        self._stopped = False

    def stop(self) -> None:
        """The gateway stops: whoever waits is told to look for the coordinator again."""
        self._stopped = True
        self._forget()

    async def _serve(self, nursery: trio.Nursery) -> None:
        """Load what there is, and serve it until cancelled."""
        self._tasks = nursery
        self._look_at_topic()
        try:
            await trio.sleep_forever()
        finally:
            self._tasks = None  # the log may have something to say until the last moment

    @abstractmethod
    async def _load(self, index: int) -> _Found:
        """What a partition has. Raises KafkaError if it cannot be read now: to be tried again."""

    @abstractmethod
    async def _loaded(self, index: int, found: _Found, is_old: Callable[[], bool]) -> None:
        """Take over what a partition has, while others have their turns; nothing if `is_old` by then."""

    @abstractmethod
    def _forget(self, index: int | None = None) -> None:
        """Serve nothing of a partition any more, or nothing at all."""

    # who may ask -------------------------------------------------------------------------------------------

    async def find(self, key: str) -> None:
        """Make sure that a key can be served; its partition may still be loading then.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        await self.ensure_topic()
        self._look_at_topic()
        if self._loading is not None and not self._loading.all_loaded:
            index = self._partition_of(key)
            if not self._loading.is_elsewhere(index):
                with trio.move_on_after(LOAD_PATIENCE_SECONDS):
                    await self._loading.wait(index)

    async def ensure_topic(self) -> None:
        """Make the topic if it is not there. Raises KafkaError: COORDINATOR_NOT_AVAILABLE, or
        UNSUPPORTED_VERSION: the feature that it needs is not in effect.
        """
        name, partitions, configs, feature = self._internal_topic
        if self._cluster.topics.get(name) is not None:
            return
        copies = self._cluster.stores.default_replication_factor
        try:
            await self._cluster.create_topic(name, partitions, dict(configs), copies, feature=feature)
        except KafkaError as error:
            # Another client was faster, or the catalog refused.
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise
            if self._cluster.topics.get(name) is None:
                logger.warning("%s cannot be made: %s", name, error)
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None

    @property
    def node_id(self) -> int:
        """This gateway's."""
        return self._cluster.node_id

    def node_of(self, key: str) -> int:
        """The id of the gateway that serves a key, as far as is known; -1 while nobody does."""
        if self._loading is None or self._topic is None or self._loading.all_loaded:
            return self._cluster.node_id
        return self._cluster.gateways.leader(self._topic.id, self._partition_of(key))

    def check_served(self, key: str) -> None:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the gateway stops")
        self._look_at_topic()
        if self._loading is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"there is no topic {self._internal_topic.name} yet")
        if key in self._here or self._loading.all_loaded:
            # What is there was loaded, or made, and is forgotten when its partition is. The hash of a long
            # key takes milliseconds, and a request may ask for hundreds of them.
            return
        index = self._partition_of(key)
        if self._loading.is_elsewhere(index):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"another gateway serves the {self._what}")
        if not self._loading.is_loaded(index):
            self._loading.asked(index)
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def has_loaded(self, index: int) -> bool:
        """Whether this gateway serves what this partition of the topic has."""
        self._look_at_topic()
        return self._loading is not None and self._loading.is_loaded(index)

    def partition_of(self, key: str) -> Partition:
        """The partition that has what is known of this key. Raises KafkaError as `check_served`."""
        self.check_served(key)
        assert self._topic is not None
        return self._topic.partitions[self._partition_of(key)]

    def check_all_served(self) -> None:
        """As `check_served`, for what asks for everything; without the topic there is nothing."""
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the gateway stops")
        self._look_at_topic()
        if self._loading is not None and self._loading.left:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @property
    def has_everything(self) -> bool:
        """Whether all that the topic has is served here, or there is no topic; not before it runs."""
        if self._stopped or self._tasks is None:
            return False
        self._look_at_topic()
        return self._loading is None or self._loading.all_loaded

    @property
    def partitions_loading(self) -> int:
        """Partitions that are not loaded yet."""
        return 0 if self._loading is None else self._loading.left

    def _partition_of(self, key: str) -> int:
        assert self._loading is not None
        return partition_for(key, self._loading.partitions)

    # which partitions --------------------------------------------------------------------------------------

    def _look_at_topic(self) -> None:
        """The topic may have been made, deleted, or made again."""
        topic = self._cluster.topics.get(self._internal_topic.name)
        if topic is self._topic or self._tasks is None:
            return
        self._topic = topic
        if self._loading is not None:
            self._loading.close()
            self._loading = None
            self._forget()
        if topic is not None:
            self._loading = PartitionLoads(len(topic.partitions), f"{self._what}s", self._load, self._loaded)
            self.moved([one for one in topic.partitions if self._cluster.gateways.leads(one)], [])

    def moved(self, came: Iterable[Partition], went: Iterable[Partition]) -> None:
        """This gateway leads the partitions that came, or leads them anew; and no more those that went."""
        if self._loading is None or self._tasks is None:
            return
        for partition in went:
            if partition.topic is self._topic and partition.index < self._loading.partitions:
                self._loading.went(partition.index)
                self._forget(partition.index)
        for partition in came:
            if partition.topic is self._topic and partition.index < self._loading.partitions:
                self._forget(partition.index)
                self._loading.came(partition.index)
                self._tasks.start_soon(self._loading.run, partition.index)

    def _lost(self, index: int) -> None:
        """What was written last to the partition may be kept or not: ask the log."""
        if self._loading is None or self._tasks is None or not self._loading.lost(index):
            return
        self._forget(index)
        self._tasks.start_soon(self._loading.run, index)

    def _load_anew(self, index: int) -> None:
        """As `_lost`, also if it is being loaded: what that finds is old."""
        if self._loading is None or self._tasks is None or self._loading.is_elsewhere(index):
            return
        self._loading.anew(index)
        self._forget(index)
        self._tasks.start_soon(self._loading.run, index)
