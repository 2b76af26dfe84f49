"""The group coordinator of this gateway: which groups there are, and who may ask them what.

It has the groups of the partitions that it leads. Groups live in `__consumer_offsets`, each in the partition
that its id chooses, and are served when that partition is loaded. As long as the topic does not exist no
group does; FindCoordinator makes it.

What groups may hold is bounded (`gateway.groups.room`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from gateway.common.clients import NOBODY
from gateway.common.costs import LOADED_GROUP, LOADED_MEMBER
from gateway.common.work import Work
from gateway.groups.events import Effect, Join, Leaving, Now, Sync
from gateway.groups.expiry import OffsetExpiry
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupLimits, GroupState
from gateway.groups.internal_topic import OFFSETS_TOPIC, ensure_offsets_topic, partition_for
from gateway.groups.journal import Journal
from gateway.groups.member import MAX_MEMBERS
from gateway.groups.metadata import GroupMetadata
from gateway.groups.notes import GroupNotes
from gateway.groups.offsets import OffsetTable, TopicPartition
from gateway.groups.partition_loads import PartitionLoads
from gateway.groups.room import Room
from gateway.groups.served import Group
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.common.settings import LogSettings
    from gateway.groups.records import CommittedOffset
    from gateway.groups.replay import LoadedGroup
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

LOAD_PATIENCE_SECONDS: Final = 2.0
"""How long FindCoordinator waits for a partition that is being loaded, so that most clients never see
COORDINATOR_LOAD_IN_PROGRESS."""

NO_OFFSETS: Final[Mapping[TopicPartition, CommittedOffset]] = {}
"""Of a commit that names none."""

logger = logging.getLogger(__name__)


class Coordinator:
    """All groups of this gateway. `run` is its background work."""

    def __init__(self, cluster: Cluster, settings: LogSettings) -> None:
        self.groups: dict[str, Group] = {}
        self.room = Room(self.groups, self._room_is_short)
        self.rebalances = 0
        """Generations that began in this life."""
        self.journal = Journal(cluster, self._lost)
        self.expiry = OffsetExpiry(self, cluster.topics, settings.offsets_retention_minutes)
        self.limits = GroupLimits(
            settings.group_initial_rebalance_delay_ms, min(settings.group_max_size, MAX_MEMBERS)
        )
        self._session_timeouts_ms = (
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
        )
        self._cluster = cluster
        self._topic: Topic | None = None
        self._loading: PartitionLoads | None = None
        self._tasks: trio.Nursery | None = None
        self._stopped = False
        self._notes = GroupNotes(logger)

    async def run(self) -> None:
        """Load what there is, and serve groups until cancelled."""
        async with trio.open_nursery() as nursery:
            self._tasks = nursery
            nursery.start_soon(self.expiry.run)
            nursery.start_soon(self.journal.run)
            self._look_at_topic()
            try:
                await trio.sleep_forever()
            finally:
                self._tasks = None  # the log may have something to say until the last moment

    def stop(self) -> None:
        """The gateway stops: whoever waits is told to look for the coordinator again."""
        self._stopped = True
        self._forget_groups()

    # where groups are served -------------------------------------------------------------------------------

    async def find(self, group_id: str) -> None:
        """Make sure that the group can be served; its partition may still be loading then.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        if self._cluster.topics.get(OFFSETS_TOPIC) is None:
            await ensure_offsets_topic(self._cluster)
        self._look_at_topic()
        if self._loading is not None and not self._loading.all_loaded:
            index = self._partition_of(group_id)
            if not self._loading.is_elsewhere(index):
                with trio.move_on_after(LOAD_PATIENCE_SECONDS):
                    await self._loading.wait(index)

    def node_of(self, group_id: str) -> int:
        """The id of the gateway that serves a group, as far as is known; -1 while nobody does."""
        if self._loading is None or self._topic is None or self._loading.all_loaded:
            return self._cluster.node_id
        return self._cluster.gateways.leader(self._topic.id, self._partition_of(group_id))

    def check_served(self, group_id: str) -> None:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the gateway stops")
        self._look_at_topic()
        if self._loading is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"there is no topic {OFFSETS_TOPIC} yet")
        if group_id in self.groups or self._loading.all_loaded:
            # A group that is there was loaded, or made, and is forgotten when its partition is. The hash of
            # a long id takes milliseconds, and a request may ask for hundreds of them.
            return
        index = self._partition_of(group_id)
        if self._loading.is_elsewhere(index):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another gateway serves the group")
        if not self._loading.is_loaded(index):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def check_all_served(self) -> None:
        """As `check_served`, for what asks for every group; without the topic there are none."""
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the gateway stops")
        self._look_at_topic()
        if self._loading is not None and self._loading.left:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @property
    def partitions_loading(self) -> int:
        """Partitions that are not loaded yet."""
        return 0 if self._loading is None else self._loading.left

    def states(self) -> dict[tuple[str, ...], int]:
        """How many groups are in which state."""
        counted = Counter(group.machine.state.value for group in self.groups.values())
        return {(state.value,): counted[state.value] for state in GroupState if state is not GroupState.DEAD}

    def _partition_of(self, group_id: str) -> int:
        assert self._loading is not None
        return partition_for(group_id, self._loading.partitions)

    def _look_at_topic(self) -> None:
        """The topic may have been made, deleted, or made again."""
        topic = self._cluster.topics.get(OFFSETS_TOPIC)
        if topic is self._topic or self._tasks is None:
            return
        self._topic = topic
        if self._loading is not None:
            self._loading.close()
            self._loading = None
            self._forget_groups()
        if topic is not None:
            self._loading = PartitionLoads(len(topic.partitions), self.journal.load, self._loaded)
            self.moved([one for one in topic.partitions if self._cluster.gateways.leads(one)], [])

    def moved(self, came: Iterable[Partition], went: Iterable[Partition]) -> None:
        """This gateway leads the partitions that came, or leads them anew; and no more those that went."""
        if self._loading is None or self._tasks is None:
            return
        for partition in went:
            if partition.topic is self._topic and partition.index < self._loading.partitions:
                self._loading.went(partition.index)
                self._forget_groups(partition.index)
        for partition in came:
            if partition.topic is self._topic and partition.index < self._loading.partitions:
                self._forget_groups(partition.index)
                self._loading.came(partition.index)
                self._tasks.start_soon(self._loading.run, partition.index)

    def _lost(self, index: int) -> None:
        """What was written last to the partition may be kept or not: ask the log."""
        if self._loading is None or self._tasks is None or not self._loading.lost(index):
            return
        self._forget_groups(index)
        self._tasks.start_soon(self._loading.run, index)

    async def _loaded(self, index: int, found: dict[str, LoadedGroup], is_old: Callable[[], bool]) -> None:
        """Take over the groups of a partition, while others have their turns; none if its topic, or the
        partition, goes meanwhile.
        """
        now, work = self.now(), Work()
        made: list[tuple[GroupMachine, LoadedGroup, list[Effect]]] = []
        for group_id, loaded in found.items():
            metadata = loaded.metadata
            members = 0 if metadata is None else len(metadata.members)
            await work.before(LOADED_GROUP + LOADED_MEMBER * members)
            machine = GroupMachine(group_id, self.limits, now)
            made.append((machine, loaded, [] if metadata is None else machine.loaded(metadata, now)))
        if is_old():
            return
        # All at once: a group that is there counts as served.
        for machine, loaded, effects in made:
            recorded = loaded.metadata is not None
            group = Group(self, index, machine, loaded.offsets, recorded=recorded)
            self.groups[machine.group_id] = group
            group.carry_out(effects)

    def _forget_groups(self, index: int | None = None) -> None:
        """Those of one partition, or all."""
        for group in [one for one in self.groups.values() if index in {None, one.partition}]:
            del self.groups[group.group_id]
            group.unload(ErrorCode.NOT_COORDINATOR)

    # membership --------------------------------------------------------------------------------------------

    def join(self, group_id: str, join: Join, client: str = NOBODY) -> None:
        """JoinGroup: the ticket in `join` will be answered; or KafkaError is raised. `client` is who asks."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shortest, longest = self._session_timeouts_ms
        if not shortest <= join.session_timeout_ms <= longest:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        self.check_served(group_id)
        group = self.groups.get(group_id)
        self.room.check_join(group_id, group, join, client)
        if group is None:
            if join.member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._new_group(group_id, client)
        else:
            _check_not_deleting(group)
            group.belongs_to(client)
        group.carry_out(group.machine.join(join, self.now()))

    def sync(self, group_id: str, sync: Sync) -> None:
        """SyncGroup: the ticket in `sync` will be answered. Raises KafkaError as `join`."""
        group = self._group_of_member(group_id)
        group.carry_out(group.machine.sync(sync))

    def leads(self, group_id: str, member_id: str) -> bool:
        """Whether the member leads the group now."""
        group = self.groups.get(group_id)
        return group is not None and group.machine.roster.leader == member_id

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Heartbeat: what to answer."""
        try:
            group = self._group_of_member(group_id)
        except KafkaError as error:
            # While a group is loaded its members keep calm (`GroupCoordinatorService.heartbeat`).
            return ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
        return group.machine.heartbeat(member_id, group_instance_id, generation, trio.current_time())

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> list[ErrorCode]:
        """LeaveGroup: what to answer for each member. Raises KafkaError."""
        group = self._group_of_member(group_id)
        if group.machine.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        results, effects = group.machine.leave(leaving, self.now())
        group.carry_out(effects)
        return results

    def _group_of_member(self, group_id: str) -> Group:
        """The group of a request that only a member sends. Raises KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        self.check_served(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _new_group(self, group_id: str, client: str) -> Group:
        machine = GroupMachine(group_id, self.limits, self.now())
        index = self._partition_of(group_id)
        group = Group(self, index, machine, OffsetTable(), recorded=False, client=client)
        self.groups[group_id] = group
        group.carry_out()
        return group

    def _room_is_short(self, group_id: str, held: str) -> None:
        """Operators are told, and groups that nothing is left of go now and not at the next look."""
        self.expiry.room_is_short()
        self._notes.no_room(group_id, held)

    # offsets and all groups --------------------------------------------------------------------------------

    def for_commit(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        client: str = NOBODY,
        offsets: Mapping[TopicPartition, CommittedOffset] = NO_OFFSETS,
        now: float | None = None,
    ) -> Group:
        """The group whose `offsets` `client` wants to commit; made if it is new and nobody manages it.
        `now` is trio's clock, where the caller has looked at it.

        A good commit counts as a heartbeat. Raises KafkaError as `check_served` and
        `GroupData.validate_commit`, GROUP_ID_NOT_FOUND for a generation of a group that is not there, and
        POLICY_VIOLATION if there is no room for the offsets.
        """
        self.check_served(group_id)
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            self.room.check_commit(group_id, None, OffsetTable().growth(offsets), client)
            return self._new_group(group_id, client)
        _check_not_deleting(group)
        seconds = trio.current_time() if now is None else now
        group.machine.validate_commit(member_id, group_instance_id, generation, seconds)
        group.belongs_to(client)
        if (growth := group.offsets.growth(offsets)) > 0:
            self.room.check_commit(group_id, group, growth, client)
        return group

    def for_fetch(self, group_id: str) -> Group | None:
        """The group, or None: there is no such group. Raises KafkaError as `check_served`."""
        self.check_served(group_id)
        return self.groups.get(group_id)

    def for_offset_delete(self, group_id: str) -> Group:
        """The group some of whose offsets are to be deleted. Raises KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        self.check_served(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        _check_not_deleting(group)
        group.machine.validate_offset_delete()
        return group

    def loaded(self) -> list[Group]:
        """Every group that is served now."""
        return list(self.groups.values())

    def for_delete(self, group_id: str) -> Group:
        """The group, if it may be deleted now.

        Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and as `check_served`.
        """
        self.check_served(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        _check_not_deleting(group)
        group.machine.validate_delete()
        return group

    async def drop_if_unused(self, group: Group) -> None:
        """A group without members and offsets is deleted. Raises KafkaError if that cannot be written."""
        if self.groups.get(group.group_id) is group and group.is_unused and not group.deleting:
            await self.delete(group)

    def drop_soon_if_unused(self, group: Group) -> None:
        """As `drop_if_unused`, behind the caller's back."""
        if group.is_unused:
            self.start(partial(self._try_to_drop, group))

    async def _try_to_drop(self, group: Group) -> None:
        with contextlib.suppress(KafkaError):
            await self.drop_if_unused(group)

    async def delete(self, group: Group) -> None:
        """Delete what `for_delete` gave, with its offsets; durable on return. Raises KafkaError."""
        # What comes to the group meanwhile is told to try again: only the log decides whether it is deleted.
        group.deleting = True
        try:
            if group.recorded or not group.offsets.is_empty():
                # A client that goes away in the middle must not leave memory and log apart.
                with trio.CancelScope(shield=True):
                    await self.journal.delete_group(group.group_id, group.offsets)
        except KafkaError:
            group.carry_out()  # records that were held back
            raise
        finally:
            group.deleting = False
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            group.unload(ErrorCode.UNKNOWN_MEMBER_ID)

    # what groups need (Home) -------------------------------------------------------------------------------

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """See `gateway.groups.served.Home`."""
        if self._tasks is not None:  # else the gateway stops
            self._tasks.start_soon(task)

    async def write(self, group_id: str, metadata: GroupMetadata) -> None:
        """See `gateway.groups.served.Home`."""
        await self.journal.write_group(group_id, metadata)

    def generation_began(self) -> None:
        """See `gateway.groups.served.Home`."""
        self.rebalances += 1

    def note(self, group: Group, text: str) -> None:
        """See `gateway.groups.served.Home`."""
        self._notes.info(group.group_id, text)

    def failed(self, group: Group) -> None:
        """See `gateway.groups.served.Home`."""
        self._lost(group.partition)

    @staticmethod
    def now() -> Now:
        """See `gateway.groups.served.Home`."""
        return Now(trio.current_time(), time.time_ns() // 1_000_000)


def _check_not_deleting(group: Group) -> None:
    if group.deleting:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the group is being deleted")
