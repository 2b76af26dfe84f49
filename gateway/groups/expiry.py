"""Forgets offsets that nobody needs: whose time is over, and those of topics that are gone.

What is to be forgotten is decided by `gateway.groups.offsets` and the group's machine; this looks at all
groups now and then, writes the tombstones, and has groups deleted that nothing is left of
(`GroupCoordinatorShard.cleanupGroupMetadata`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from gateway.groups.events import Now
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupState
from gateway.groups.journal import Journal, pieces
from gateway.groups.offsets import OffsetTable, TopicPartition
from gateway.groups.records import NO_TOPIC_ID
from wireproto.kafka.errors import KafkaError

if TYPE_CHECKING:
    from gateway.cluster.topics import Topics

CHECK_SECONDS: Final = 600.0
"""Kafka's `offsets.retention.check.interval.ms`: how often all groups are looked at."""

ROOM_SECONDS: Final = 10.0
"""How often they are looked at because there is no room for more: who is refused over and over must not keep
the gateway looking."""

OFFSETS_AT_ONCE: Final = 500
"""Offsets of a group that are looked at in one turn, if their tombstones fit into one batch, and forgotten
with it. Each is looked at right before it is forgotten, since the group may have committed meanwhile."""

logger = logging.getLogger(__name__)


class ServedGroup(Protocol):
    """A group, as far as it is looked at here (`gateway.groups.served.Group`)."""

    group_id: str
    machine: GroupMachine
    offsets: OffsetTable


class Groups(Protocol):
    """All groups (`gateway.groups.coordinator.Coordinator`)."""

    journal: Journal

    def loaded(self) -> Sequence[ServedGroup]:
        """Those that are served now."""

    async def drop_if_unused(self, group: Any) -> None:
        """Delete a group without members and offsets. Raises KafkaError."""

    def now(self) -> Now:
        """The time."""


class OffsetExpiry:
    """The offsets of all groups."""

    def __init__(self, coordinator: Groups, topics: Topics, retention_minutes: int) -> None:
        self.forgotten = 0
        """Offsets that were forgotten in this life."""
        self._coordinator = coordinator
        self._topics = topics
        self._retention_ms = retention_minutes * 60 * 1000
        self._look_now = trio.Event()
        self._looked = -math.inf

    def topic_deleted(self) -> None:
        """A topic is gone: its offsets go soon."""
        self._look_now.set()

    def room_is_short(self) -> None:
        """There is no room for another group: those that nothing is left of go soon."""
        if trio.current_time() - self._looked >= ROOM_SECONDS:
            self._look_now.set()

    async def run(self) -> None:
        """Look after all groups, for ever."""
        while True:
            with trio.move_on_after(CHECK_SECONDS):
                await self._look_now.wait()
            self._look_now = trio.Event()
            self._looked = trio.current_time()
            for group in self._coordinator.loaded():
                await self._look_after(group)

    async def _look_after(self, group: ServedGroup) -> None:
        """Forget what is to be forgotten of a group. What cannot be written now can be the next time."""
        try:
            for some in pieces(group.group_id, group.offsets.keys(), OFFSETS_AT_ONCE):
                await trio.lowlevel.checkpoint()
                if group.machine.state is GroupState.DEAD:
                    return
                if keys := self._outlived(group, some):
                    await self._coordinator.journal.delete_offsets(group.group_id, group.offsets, keys)
                    self.forgotten += len(keys)
                    logger.info(
                        "group %s: %d offsets are forgotten, %s among them",
                        group.group_id,
                        len(keys),
                        keys[0],
                    )
            await trio.lowlevel.checkpoint()
            await self._coordinator.drop_if_unused(group)
        except KafkaError as error:
            logger.warning("group %s: offsets cannot be forgotten now: %s", group.group_id, error)

    def _outlived(self, group: ServedGroup, among: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those of these offsets of a group that are to be forgotten now."""
        now_ms = self._coordinator.now().unix_ms
        machine, offsets = group.machine, group.offsets
        gone = offsets.of_lost_topics(self._exists, among)
        expired = offsets.expired(
            now_ms, self._retention_ms, machine.offset_expires_from, machine.is_subscribed, among
        )
        return list(dict.fromkeys([*gone, *expired]))

    def _exists(self, name: str, topic_id: bytes) -> bool:
        topic = self._topics.get(name)
        return topic is not None and topic_id in {NO_TOPIC_ID, topic.id}
