"""How a group comes to its next generation: a barrier for all members, then the leader's assignments.

    a member comes, leaves or changes      Stable -> PreparingRebalance: everybody has to JoinGroup again,
                                           within the longest rebalance timeout
    all have, or the time is over          -> CompletingRebalance, a new generation: the leader is told the
                                           members, everybody sends SyncGroup, the leader's with assignments
    the generation's record is durable     -> Stable: everybody gets its assignment

What begins a rebalance is in :mod:`gateway.groups.group`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gateway.groups.events import Now, Sync, SyncReply
from gateway.groups.group_answers import AnsweringGroup
from gateway.groups.group_state import GroupLimits, GroupState, next_generation
from gateway.groups.member import Member
from wireproto.kafka.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class _Assigning:
    """The leader's assignments of a generation, which are on their way to the log."""

    number: int
    assignments: dict[str, bytes]


class RebalancingGroup(AnsweringGroup):
    """A group whose members join, sync, and are given up when they do not in time."""

    __slots__ = ("_assigning",)

    def __init__(self, group_id: str, limits: GroupLimits, now: Now) -> None:
        super().__init__(group_id, limits, now)
        self._assigning: _Assigning | None = None

    # the barrier -------------------------------------------------------------------------------------------

    def _rebalance(self, reason: str, now: Now) -> None:
        """`maybePrepareRebalanceOrCompleteJoin`."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_came(now)
        else:
            self._prepare_rebalance(reason, now)

    def _prepare_rebalance(self, reason: str, now: Now) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._reset_assignments(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self.pending_sync.clear()
        self.sync_deadline = math.inf
        self._assigning = None  # what comes of it is of no interest any more
        initial = self.state is GroupState.EMPTY
        self._note(f"rebalancing in state {self.state.value}, generation {self.generation}: {reason}")
        self.transition(GroupState.PREPARING_REBALANCE, now)
        if initial:
            delay = self.limits.initial_rebalance_delay_ms
            self.initial_remaining_ms = max(self.roster.rebalance_timeout_ms() - delay, 0)
            self.new_member_added = False
            self.join_deadline = self.due(now.seconds + delay / 1000)
        elif self.all_joined:
            self._complete_join(now)
        else:
            self._wait_for_joins(now)

    def _wait_for_joins(self, now: Now) -> None:
        self.join_deadline = self.due(now.seconds + self.roster.rebalance_timeout_ms() / 1000)

    def _join_time_over(self, now: Now) -> None:
        """`tryCompleteInitialRebalanceElseSchedule`, and the end of any other rebalance's time."""
        delay, remaining = self.limits.initial_rebalance_delay_ms, self.initial_remaining_ms
        if remaining and self.new_member_added:
            self.new_member_added = False
            self.initial_remaining_ms = max(remaining - delay, 0)
            self.join_deadline = self.due(now.seconds + min(delay, remaining) / 1000)
        else:
            self._complete_join(now)

    def _complete_join_if_all_came(self, now: Now) -> None:
        """`maybeCompleteJoinPhase`: the initial delay runs to its end in any case."""
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and self.previous_state is not GroupState.EMPTY
            and self.all_joined
        ):
            self._complete_join(now)

    def _complete_join(self, now: Now) -> None:
        """The next generation begins (`completeClassicGroupJoin`)."""
        self.join_deadline = math.inf
        self.initial_remaining_ms = None
        missing = [
            member
            for member in self.roster.members()
            if member.join_ticket is None and member.group_instance_id is None
        ]
        for member in missing:
            self._remove(member)
        if missing:
            self._note(f"{len(missing)} members did not join again in time and are removed")
        if self.roster and not self.roster.elect_joined_leader():
            # Static members are given until their sessions end.
            self._wait_for_joins(now)
            return
        self.generation = next_generation(self.generation)
        self.pending_sync.clear()
        self.protocol = self.roster.select_protocol() if self.roster else None
        self.subscribed = self.compute_subscribed()
        if not self.roster:
            self.transition(GroupState.EMPTY, now)
            self._note(f"empty, generation {self.generation}")
            self._write(self.record())
            return
        self.transition(GroupState.COMPLETING_REBALANCE, now)
        self._note(
            f"generation {self.generation} with {len(self.roster)} members, protocol {self.protocol}, "
            f"leader {self.roster.leader}"
        )
        for member in self.roster.members():
            self._answer_join(member, self._joined(member))
            self.expect(member, now)
            member.is_new = False
            self.pending_sync.add(member.member_id)
        self.sync_deadline = self.due(now.seconds + self.roster.rebalance_timeout_ms() / 1000)

    # assignments -------------------------------------------------------------------------------------------

    def _check_sync(self, sync: Sync) -> Member:
        """`validateSyncGroup`. Raises KafkaError."""
        if self.state is GroupState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_generation(
            sync.member_id, sync.group_instance_id, sync.generation, sync.principal
        )
        for said, known in ((sync.protocol_type, self.protocol_type), (sync.protocol, self.protocol)):
            if said is not None and known is not None and said != known:
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def _take_sync(self, member: Member, sync: Sync) -> None:
        """A good SyncGroup: it waits for the assignments unless they are there; the leader's brings them."""
        self.pending_sync.discard(member.member_id)
        if not self.pending_sync:
            self.sync_deadline = math.inf
        if self.state is GroupState.STABLE:
            self._answer(sync.ticket, self._assigned(member))
            return
        self._answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))  # an earlier one of it
        member.sync_ticket = sync.ticket
        if member.member_id == self.roster.leader and self._assigning is None:
            assignments = {member_id: sync.assignments.get(member_id, b"") for member_id in self.roster.by_id}
            number = self._write(self.record(assignments))
            self._assigning = _Assigning(number, assignments)

    def _assignments_written(self, number: int, error: ErrorCode, now: Now) -> bool:
        """Hand out the assignments whose record is durable; or begin anew, with `error`.

        False if that `Write` was not of the assignments that are waited for.
        """
        assigning = self._assigning
        if assigning is None or assigning.number != number:
            return False
        self._assigning = None
        if error is not ErrorCode.NONE:
            self._reset_assignments(error, now)
            self._prepare_rebalance(f"the assignments were not written: {error.name}", now)
            return True
        self.roster.assign(assigning.assignments)
        self.transition(GroupState.STABLE, now)
        for member in self.roster.members():
            if self._answer_sync(member, self._assigned(member)):
                self.expect(member, now)
        return True

    def _reset_assignments(self, error: ErrorCode, now: Now) -> None:
        """`resetAndPropagateAssignmentWithError`."""
        self.roster.assign({})
        for member in self.roster.members():
            if self._answer_sync(member, SyncReply(error)):
                self.expect(member, now)

    def _sync_time_over(self, now: Now) -> None:
        """`expirePendingSync`: who has not sent SyncGroup by now is removed."""
        self.sync_deadline = math.inf
        if not self.pending_sync or self.state not in {GroupState.COMPLETING_REBALANCE, GroupState.STABLE}:
            return
        late = len(self.pending_sync)
        for member_id in list(self.pending_sync):
            self._forget(member_id)
        self._prepare_rebalance(f"{late} members sent no SyncGroup in time and are removed", now)
