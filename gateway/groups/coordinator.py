"""The group coordinator of this gateway: which groups there are, and who may ask them what.

It has the groups of the partitions that it leads. Groups live in `__consumer_offsets`, each in the partition
that its id chooses, and are served when that partition is loaded (`gateway.journal.coordinator`).

What groups may hold is bounded (`gateway.groups.room`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from gateway.groups.internal_topic import OFFSETS, OFFSETS_TOPIC
from gateway.groups.journal import Journal
from gateway.groups.member import MAX_MEMBERS
from gateway.groups.metadata import GroupMetadata
from gateway.groups.notes import GroupNotes
from gateway.groups.offsets import OffsetTable, TopicPartition
from gateway.groups.room import Room
from gateway.groups.served import Group
from gateway.groups.transactional import TransactionalOffsets
from gateway.journal.coordinator import PartitionedCoordinator
from gateway.journal.internal_topic import partition_for
from gateway.security.principal import Principal
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.common.settings import LogSettings
    from gateway.groups.records import CommittedOffset
    from gateway.groups.replay import LoadedGroup

NO_OFFSETS: Final[Mapping[TopicPartition, CommittedOffset]] = {}
"""Of a commit that names none."""

logger = logging.getLogger(__name__)


class Coordinator(PartitionedCoordinator["dict[str, LoadedGroup]"]):
    """All groups of this gateway. `run` is its background work."""

    def __init__(self, cluster: Cluster, settings: LogSettings) -> None:
        self.groups: dict[str, Group] = {}
        super().__init__(cluster, OFFSETS, "group", self.groups)
        self.room = Room(self.groups, self._room_is_short)
        self.rebalances = 0
        """Generations that began in this life."""
        self.journal = Journal(cluster, self._lost)
        self.transactional = TransactionalOffsets(self.journal, self.groups.get, self.has_loaded)
        self.expiry = OffsetExpiry(self, cluster.topics, settings.offsets_retention_minutes)
        self.limits = GroupLimits(
            settings.group_initial_rebalance_delay_ms, min(settings.group_max_size, MAX_MEMBERS)
        )
        self._session_timeouts_ms = (
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
        )
        self._notes = GroupNotes(logger)

    async def run(self) -> None:
        """Load what there is, and serve groups until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.expiry.run)
            nursery.start_soon(self.journal.run)
            await self._serve(nursery)

    # where groups are served -------------------------------------------------------------------------------

    def states(self) -> dict[tuple[str, ...], int]:
        """How many groups are in which state."""
        counted = Counter(group.machine.state.value for group in self.groups.values())
        return {(state.value,): counted[state.value] for state in GroupState if state is not GroupState.DEAD}

    async def _load(self, index: int) -> dict[str, LoadedGroup]:
        return await self.journal.load(index)

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
            self.transactional.loaded(group)
            group.carry_out(effects)

    def _forget(self, index: int | None = None) -> None:
        for group in [one for one in self.groups.values() if index in {None, one.partition}]:
            del self.groups[group.group_id]
            group.unload(ErrorCode.NOT_COORDINATOR)
        self.transactional.forget(index)

    async def place_of(self, group_id: str) -> TopicPartition:
        """The partition that a group's offsets are in, wherever it is led. Raises KafkaError:
        COORDINATOR_NOT_AVAILABLE, the topic cannot be made.
        """
        await self.ensure_topic()
        topic = self._cluster.topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {OFFSETS_TOPIC} yet")
        return OFFSETS_TOPIC, partition_for(group_id, len(topic.partitions))

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
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        principal: Principal | None = None,
    ) -> ErrorCode:
        """Heartbeat: what to answer. `principal` is who asks, if that makes a difference."""
        try:
            group = self._group_of_member(group_id)
        except KafkaError as error:
            # While a group is loaded its members keep calm (`GroupCoordinatorService.heartbeat`).
            return ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
        seconds = trio.current_time()
        return group.machine.heartbeat(member_id, group_instance_id, generation, seconds, principal)

    def leave(
        self, group_id: str, leaving: Sequence[Leaving], principal: Principal | None = None
    ) -> list[ErrorCode]:
        """LeaveGroup: what to answer for each member. Without `principal` static members of all are removed.
        Raises KafkaError.
        """
        group = self._group_of_member(group_id)
        if group.machine.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        results, effects = group.machine.leave(leaving, self.now(), principal)
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
        principal: Principal | None = None,
    ) -> Group:
        """The group whose `offsets` `client` wants to commit; made if it is new and nobody manages it.
        `now` is trio's clock, where the caller has looked at it. `principal` is who asks, if that makes a
        difference.

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
        group.machine.validate_commit(member_id, group_instance_id, generation, seconds, principal)
        group.belongs_to(client)
        if (growth := group.offsets.growth(offsets)) > 0:
            self.room.check_commit(group_id, group, growth, client)
        return group

    def for_transactional_commit(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        client: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        principal: Principal | None = None,
    ) -> Group:
        """As `for_commit`, of offsets that are part of a transaction: who names neither member nor generation
        may always commit. Raises KafkaError: ILLEGAL_GENERATION for one of a group that is not there;
        COORDINATOR_NOT_AVAILABLE, on which clients try again, while there is no room for the offsets.
        """
        self.check_served(group_id)
        group = self.groups.get(group_id)
        names_member = generation >= 0 or member_id or group_instance_id is not None
        growth = OffsetTable.growth_in_transaction(offsets)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            self._check_room_in_transaction(group_id, None, growth, client)
            return self._new_group(group_id, client)
        _check_not_deleting(group)
        if names_member and not (generation < 0 and group.machine.state is GroupState.EMPTY):
            group.machine.check_generation(member_id, group_instance_id, generation, principal)
        group.belongs_to(client)
        self._check_room_in_transaction(group_id, group, growth, client)
        return group

    def _check_room_in_transaction(
        self, group_id: str, group: Group | None, growth: int, client: str
    ) -> None:
        """A producer that is told POLICY_VIOLATION is over for good, and room there may be later. Raises
        KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        try:
            self.room.check_commit(group_id, group, growth, client)
        except KafkaError as refused:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, refused.message) from None

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
