"""The machine of one group, classic protocol: requests and time in, answers and records out.

The rules are those of Kafka 4.3's `GroupMetadataManager` (its `classicGroup*` methods) and `ClassicGroup`.
Who may join, who has left and whose time is over is decided here; the rebalance that follows is in
:mod:`gateway.groups.group_rebalance`.

Nothing here blocks, and every ticket is answered exactly once: also where Kafka leaves a request hanging (a
second JoinGroup or SyncGroup of a member whose first one waits; a member removed while its SyncGroup waits).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.groups.events import NO_MEMBER_ID, Effect, Join, JoinReply, Leaving, Now, Sync, SyncReply
from gateway.groups.group_rebalance import RebalancingGroup
from gateway.groups.group_state import GroupLimits, GroupState
from gateway.groups.member import Member
from gateway.groups.metadata import GroupMetadata
from gateway.security.principal import Principal
from wireproto.kafka.errors import ErrorCode, KafkaError

NEW_MEMBER_JOIN_TIMEOUT_SECONDS: Final = 300.0
"""How long the first JoinGroup of a member may wait: Kafka's `CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS`. A
client that went away does not know its id and comes again under another; the defunct one must go."""


EXPIRED_AT_ONCE: Final = 1_000
"""Members that one tick gives up: ten milliseconds. The others go with the next one, which is due at once."""


@dataclass(frozen=True, slots=True)
class _Replacing:
    """A static member that came back, which is on its way to the log; and what it was before."""

    number: int
    generation: int
    member: Member
    join: Join
    old_member_id: str
    old_leader: str | None
    before: Member


class GroupMachine(RebalancingGroup):
    """One group. Methods that return effects want them carried out in order, before the next event."""

    __slots__ = ("_replacing",)

    def __init__(self, group_id: str, limits: GroupLimits, now: Now) -> None:
        super().__init__(group_id, limits, now)
        self._replacing: dict[int, _Replacing] = {}

    # events ------------------------------------------------------------------------------------------------

    def loaded(self, metadata: GroupMetadata, now: Now) -> list[Effect]:
        """The group as the log has it, in a new machine."""
        self.load(metadata, now)
        if len(self.roster) > self.limits.max_size:
            self._prepare_rebalance(f"it has {len(self.roster)} members, more than group.max.size", now)
        return self._done()

    def join(self, join: Join, now: Now) -> list[Effect]:
        """A JoinGroup request (`classicGroupJoinToClassicGroup`)."""
        if self.state is GroupState.DEAD:
            self._refuse(join, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self.accepts(join.member_id):
            self._forget(join.member_id)
            self._refuse(join, ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=NO_MEMBER_ID)
        elif not self.supports(join.protocol_type, [protocol.name for protocol in join.protocols]):
            self._refuse(join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif join.member_id == NO_MEMBER_ID:
            self._join_new(join, now)
        elif join.member_id in self.pending and join.group_instance_id is None:
            self._add(join, join.member_id, now)
        else:
            self._join_known(join, now)
        return self._done()

    def sync(self, sync: Sync) -> list[Effect]:
        """A SyncGroup request (`classicGroupSyncToClassicGroup`)."""
        try:
            member = self._check_sync(sync)
        except KafkaError as error:
            self._answer(sync.ticket, SyncReply(error.code))
            return self._done()
        self._take_sync(member, sync)
        return self._done()

    def heartbeat(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        seconds: float,
        principal: Principal | None = None,
    ) -> ErrorCode:
        """A Heartbeat request; what to answer (`classicGroupHeartbeatToClassicGroup`)."""
        try:
            member = self.check_generation(member_id, group_instance_id, generation, principal)
        except KafkaError as error:
            return error.code
        self.heard_of(member, seconds)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(
        self, leaving: Sequence[Leaving], now: Now, principal: Principal | None = None
    ) -> tuple[list[ErrorCode], list[Effect]]:
        """A LeaveGroup request: what to answer for each member (`classicGroupLeaveToClassicGroup`)."""
        results = [self._leave(one, principal) for one in leaving]
        if ErrorCode.NONE in results:
            if self.state in {GroupState.STABLE, GroupState.COMPLETING_REBALANCE}:
                self._prepare_rebalance("members left", now)
            else:
                self._complete_join_if_all_came(now)
        return results, self._done()

    def written(self, number: int, error: ErrorCode, now: Now) -> list[Effect]:
        """The record of that `Write` is durable, or will not be for certain: `error`."""
        replacing = self._replacing.pop(number, None)
        if replacing is not None:
            self._replaced(replacing, error, now)
        elif not self._assignments_written(number, error, now) and error is not ErrorCode.NONE:
            self._note(f"a record of generation {self.generation} was not written: {error.name}")
        return self._done()

    def tick(self, now: Now) -> list[Effect]:
        """Time has passed. Due at `wake`; at any other time it does no harm."""
        for member_id in [one for one, deadline in self.pending.items() if deadline <= now.seconds]:
            self.take_back(member_id)
            if self.state is GroupState.PREPARING_REBALANCE and self.all_joined:
                self._complete_join(now)
        over = (one for one in self.roster.members() if one.deadline <= now.seconds)
        for member in list(islice(over, EXPIRED_AT_ONCE)):
            self._session_over(member, now)
        if self.join_deadline <= now.seconds:
            self._join_time_over(now)
        if self.sync_deadline <= now.seconds:
            self._sync_time_over(now)
        self.wake = self.first_deadline()
        return self._done()

    def unload(self, error: ErrorCode, now: Now) -> list[Effect]:
        """The group is no longer served here (or deleted): every request that waits gets `error`."""
        for member in self.roster.members():
            self._answer_join(member, JoinReply(error, member.member_id))
            self._answer_sync(member, SyncReply(error))
            member.deadline = math.inf
        self.pending.clear()
        self.pending_bytes = 0
        self.join_deadline = self.sync_deadline = self.wake = math.inf
        self._assigning = None
        self._replacing.clear()
        self.transition(GroupState.DEAD, now)
        return self._done()

    # join --------------------------------------------------------------------------------------------------

    def _join_new(self, join: Join, now: Now) -> None:
        instance = join.group_instance_id
        if instance is not None and (old := self.roster.by_instance.get(instance)) is not None:
            if self.roster.by_id[old].admits(join.principal):
                self._replace_static(join, self.roster.by_id[old], now)
            else:
                self._note(f"{join.principal} may not have the place of static member {old}, another's")
                self._refuse(join, ErrorCode.FENCED_INSTANCE_ID)
        elif instance is None and join.needs_known_member_id:
            self.give_out(join.new_member_id, now.seconds + join.session_timeout_ms / 1000)
            self._answer(join.ticket, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))
        else:
            self._add(join, join.new_member_id, now)

    def _join_known(self, join: Join, now: Now) -> None:
        """`classicGroupJoinExistingMember`."""
        try:
            member = self.check_member(join.member_id, join.group_instance_id, join.principal)
        except KafkaError as error:
            self._refuse(join, error.code)
            return
        same = member.protocols == join.protocols
        if self.state is GroupState.COMPLETING_REBALANCE and same:
            # It did not get the answer to its JoinGroup, most likely.
            self._answer(join.ticket, self._joined(member))
        elif self.state is GroupState.STABLE and same and member.member_id != self.roster.leader:
            self._answer(join.ticket, self._joined(member))
        else:
            # The leader may join again because something else has changed, as the number of partitions.
            self.roster.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
            self._wait_to_join(member, join.ticket)
            self._rebalance(f"{member.member_id} joined again; client reason: {join.reason}", now)

    def _add(self, join: Join, member_id: str, now: Now) -> None:
        """`addMemberThenRebalanceOrCompleteJoin`."""
        member = Member(
            member_id,
            join.group_instance_id,
            join.client_id,
            join.client_host,
            join.rebalance_timeout_ms,
            join.session_timeout_ms,
            join.protocols,
        )
        member.is_new = True
        member.principal = join.principal
        if self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY:
            self.new_member_added = True
        if not self.roster:
            self.protocol_type = join.protocol_type
        self.take_back(member_id)
        self.roster.add(member)
        self.roster.take_join_ticket(member, join.ticket)
        member.deadline = self.due(now.seconds + NEW_MEMBER_JOIN_TIMEOUT_SECONDS)
        self._rebalance(f"{member_id} came; client reason: {join.reason}", now)

    def _replace_static(self, join: Join, old: Member, now: Now) -> None:
        """A static member was started again: it takes the place of the old one, which is fenced (KIP-345).

        `updateStaticMemberThenRebalanceOrCompleteJoin`.
        """
        self._answer_join(old, JoinReply(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        self._answer_sync(old, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
        self.pending_sync.discard(old.member_id)
        old_leader = self.roster.leader
        member = self.roster.replace(old, join.new_member_id)
        self.expect(member, now)
        self.roster.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        self._wait_to_join(member, join.ticket)
        if self.state is GroupState.STABLE and self.roster.select_protocol() == self.protocol:
            # Its assignment stays as it is: nobody else has to notice (the point of static members).
            number = self._write(self.record())
            self._replacing[number] = _Replacing(
                number, self.generation, member, join, old.member_id, old_leader, old
            )
        else:
            # In CompletingRebalance the leader may have been told of the old member id.
            self._rebalance(f"static member {join.group_instance_id} came back changed", now)

    def _replaced(self, replacing: _Replacing, error: ErrorCode, now: Now) -> None:
        """The record with a static member's new id is written, or not."""
        member, join = replacing.member, replacing.join
        waits = self.roster.by_id.get(member.member_id) is member and member.join_ticket is join.ticket
        if not waits or self.state is not GroupState.STABLE or self.generation != replacing.generation:
            return  # it has left, was replaced itself, or the rebalance that began meanwhile answers it
        if error is ErrorCode.NONE:
            is_leader = member.member_id == self.roster.leader
            if join.can_skip_assignment:
                self._answer_join(member, self._joined(member, skip_assignment=is_leader))
            else:
                # Such a client would assign anew if it took itself for the leader.
                leader = replacing.old_leader or ""
                self._answer_join(member, self._joined(member, leader=leader, with_members=False))
            self.expect(member, now)
            return
        self._note(f"static member {join.group_instance_id} stays {replacing.old_member_id}: {error.name}")
        self.roster.take_join_ticket(member)
        before = self.roster.replace(member, replacing.old_member_id)
        self.roster.update(
            before,
            replacing.before.protocols,
            replacing.before.rebalance_timeout_ms,
            replacing.before.session_timeout_ms,
        )
        self.expect(before, now)
        self._refuse(join, error, member_id=NO_MEMBER_ID)

    # end of members ----------------------------------------------------------------------------------------

    def _leave(self, leaving: Leaving, principal: Principal | None) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        member_id = leaving.member_id
        if member_id == NO_MEMBER_ID:  # an administrator removes a static member by its instance
            owner = self.roster.by_instance.get(leaving.group_instance_id or "")
            if owner is None or leaving.group_instance_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if not self.roster.by_id[owner].admits(principal):
                return ErrorCode.FENCED_INSTANCE_ID
            member_id = owner
        elif member_id not in self.pending:
            try:
                self.check_member(member_id, leaving.group_instance_id, principal)
            except KafkaError as error:
                return error.code
        self._forget(member_id)
        self._note(f"{member_id} left; client reason: {leaving.reason}")
        return ErrorCode.NONE

    def _session_over(self, member: Member, now: Now) -> None:
        """`expireClassicGroupMemberHeartbeat`."""
        if self.roster.by_id.get(member.member_id) is not member:
            return  # went with another one
        if member.may_be_silent:
            member.deadline = math.inf
            return
        self._note(f"{member.member_id} was not heard of for its session timeout and is removed")
        self._remove(member)
        if self.state in {GroupState.STABLE, GroupState.COMPLETING_REBALANCE}:
            self._prepare_rebalance("a member's session ended", now)
        elif self.state is GroupState.PREPARING_REBALANCE and self.all_joined:
            self._complete_join(now)
