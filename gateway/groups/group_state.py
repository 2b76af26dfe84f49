"""What is known of one group: state, generation, members, deadlines; and what may be asked of it.

No clock, no task, nothing of the network: see :mod:`gateway.groups.group` for what changes it. The rules are
those of `org.apache.kafka.coordinator.group.classic.ClassicGroup`; the checks below bear the names of its
methods in their docstrings.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...   Dead: gone
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gateway.common.settings import LogSettings
from gateway.groups.consumer_protocol import topics_of_all
from gateway.groups.events import Now
from gateway.groups.member import MAX_MEMBERS, Member, loaded_member, text_bytes
from gateway.groups.metadata import GroupMetadata
from gateway.groups.roster import Roster
from gateway.security.principal import Principal
from wireproto.kafka.errors import ErrorCode, KafkaError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

GROUP_BYTES: Final = 3072
"""Memory of a group without members and offsets: its objects, its task, its place in tables. Measured with
1,000 groups of three: 7,200 bytes each, 7,500 counted."""

PENDING_BYTES: Final = 256
"""Memory of a member id, beside its characters, that was given out and has not joined yet."""


MAX_GENERATION: Final = 2**31 - 1
"""A generation is a number of 32 bits with a sign. Kafka's next one after it is -2**31, and works (4.3.1 ran:
members sync, heartbeat and commit with it)."""


def next_generation(generation: int) -> int:
    """The generation after this one (`ClassicGroup.initNextGeneration`)."""
    return generation + 1 if generation < MAX_GENERATION else -MAX_GENERATION - 1


def empty_group_bytes(group_id: str) -> int:
    """Memory of a group of that id without members and offsets, about."""
    return GROUP_BYTES + text_bytes(group_id)


class GroupState(Enum):
    """The states of a classic group, with the names that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the gateway's settings say about groups."""

    initial_rebalance_delay_ms: int = LogSettings.group_initial_rebalance_delay_ms
    """How long the first rebalance of an empty group waits for more members: Kafka's
    `group.initial.rebalance.delay.ms`."""

    max_size: int = MAX_MEMBERS
    """Members of one group: Kafka's `group.max.size`, and at most MAX_MEMBERS."""


class GroupData:
    """The state of one group, the checks on it, and its deadlines."""

    __slots__ = (
        "generation",
        "group_id",
        "initial_remaining_ms",
        "join_deadline",
        "limits",
        "new_member_added",
        "pending",
        "pending_bytes",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "roster",
        "state",
        "state_changed_ms",
        "subscribed",
        "sync_deadline",
        "wake",
    )

    def __init__(self, group_id: str, limits: GroupLimits, now: Now) -> None:
        self.group_id = group_id
        self.limits = limits
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_changed_ms = now.unix_ms
        """When it came to its state, Unix ms; -1 if unknown."""
        self.generation = 0
        self.protocol_type: str | None = None
        """What kind of members it has, or had last; None for a group of offsets alone."""
        self.protocol: str | None = None
        """The protocol of this generation."""
        self.roster = Roster()
        self.pending: dict[str, float] = {}
        """Member ids that were given out and have not joined, with the time when they are forgotten."""
        self.pending_bytes = 0
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.subscribed: frozenset[str] | None = None
        """The topics that a consumer group reads; None if that is unknown."""
        self.new_member_added = False
        """Somebody came during the initial rebalance delay: it may be prolonged."""
        self.initial_remaining_ms: int | None = None
        """How much longer the initial delay may become; None outside of it."""
        self.join_deadline = math.inf
        self.sync_deadline = math.inf
        self.wake = math.inf
        """When `tick` is due at the latest, in seconds; it may turn out that nothing is due yet."""

    def load(self, metadata: GroupMetadata, now: Now) -> None:
        """Take over what the log says, in a new object. Members have their session timeout to be heard of."""
        self.generation = metadata.generation
        self.protocol_type = metadata.protocol_type or None
        self.protocol = metadata.protocol
        self.state_changed_ms = metadata.current_state_timestamp_ms
        self.state = GroupState.STABLE if metadata.members else GroupState.EMPTY
        for record in metadata.members:
            member = loaded_member(record, metadata.protocol)
            self.roster.add(member)
            self.expect(member, now)
        if metadata.leader in self.roster.by_id:
            self.roster.leader = metadata.leader
        self.subscribed = self.compute_subscribed()

    # views -------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of memory, about, without its offsets."""
        return empty_group_bytes(self.group_id) + self.roster.size + self.pending_bytes

    def give_out(self, member_id: str, deadline: float) -> None:
        """The member that is to come with this id is expected until `deadline`."""
        if member_id not in self.pending:
            self.pending_bytes += PENDING_BYTES + text_bytes(member_id)
        self.pending[member_id] = self.due(deadline)

    def take_back(self, member_id: str) -> None:
        """Nobody is expected with this id any more, if anybody was."""
        if self.pending.pop(member_id, None) is not None:
            self.pending_bytes -= PENDING_BYTES + text_bytes(member_id)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """`hasAllMembersJoined`: nobody is missing, and nobody is about to come."""
        return self.roster.waiting == len(self.roster) and not self.pending

    def is_subscribed(self, topic: str) -> bool:
        """Whether the group reads the topic now (`isSubscribedToTopic`): its offsets of it stay.

        A consumer group whose members' bytes cannot be read counts as reading everything.
        """
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts that was committed then, both Unix ms; None: it stays.

        `offsetExpirationCondition`, KIP-211: while a group has members nothing expires, but what a consumer
        group does not read any more; of an empty group everything, some time after the last member left.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            return commit_timestamp_ms if self.state_changed_ms < 0 else self.state_changed_ms
        if self.uses_consumer_protocol and self.subscribed is not None and self.state is GroupState.STABLE:
            return commit_timestamp_ms
        return None

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadata:
        """The group as its record has it, with these assignments or the members' own."""
        members = self.roster.by_id.values()
        return GroupMetadata(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.roster.leader,
            self.state_changed_ms,
            tuple(
                member.record(
                    self.protocol,
                    member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in members
            ),
        )

    def compute_subscribed(self) -> frozenset[str] | None:
        """The topics of all members (`computeSubscribedTopics`)."""
        if not self.uses_consumer_protocol:
            return None
        return topics_of_all({member.metadata_of(self.protocol) for member in self.roster.members()})

    # checks ------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Whether one with these protocols may join (`supportsProtocols`)."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and self.roster.supports_any(names)

    def accepts(self, member_id: str) -> bool:
        """Whether there is room (`acceptJoiningMember`)."""
        member = self.roster.by_id.get(member_id)
        if self.state in {GroupState.EMPTY, GroupState.DEAD}:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            # Those who wait are counted, not the members: the last ones to come back are left out if the
            # limit was lowered meanwhile.
            waits = member is not None and member.join_ticket is not None
            return waits or self.roster.waiting < self.limits.max_size
        return member is not None or len(self.roster) < self.limits.max_size

    def check_member(
        self, member_id: str, group_instance_id: str | None, principal: Principal | None = None
    ) -> Member:
        """The member (`validateMember`). Raises KafkaError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID, that one
        also if it is the static member of another `principal`.
        """
        if group_instance_id is not None:
            owner = self.roster.by_instance.get(group_instance_id)
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.roster.by_id.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not member.admits(principal):
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        return member

    def check_generation(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        principal: Principal | None = None,
    ) -> Member:
        """The member, if it is of this generation. Raises KafkaError, also ILLEGAL_GENERATION."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = self.check_member(member_id, group_instance_id, principal)
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def validate_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        seconds: float,
        principal: Principal | None = None,
    ) -> None:
        """Whether offsets may be committed (`validateOffsetCommit`); a good commit counts as a heartbeat.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.state is GroupState.EMPTY and generation < 0:
            return  # an administrator, or a consumer that chooses its partitions itself
        if generation < 0 and not member_id and group_instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_generation(member_id, group_instance_id, generation, principal)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.heard_of(member, seconds)

    def validate_offset_delete(self) -> None:
        """Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (`validateOffsetDelete`)."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        """Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (`validateDeleteGroup`)."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    # deadlines ---------------------------------------------------------------------------------------------

    def heard_of(self, member: Member, seconds: float) -> None:
        """The member lives: it has its session timeout again."""
        member.deadline = self.due(seconds + member.session_timeout_ms / 1000)

    def expect(self, member: Member, now: Now) -> None:
        """As `heard_of`, where the time is a `Now`."""
        self.heard_of(member, now.seconds)

    def due(self, deadline: float) -> float:
        """Note a deadline: `wake` is never later than the first one."""
        self.wake = min(self.wake, deadline)
        return deadline

    def first_deadline(self) -> float:
        """The first of all deadlines."""
        return min(
            self.join_deadline,
            self.sync_deadline,
            *self.pending.values(),
            *(member.deadline for member in self.roster.members()),
        )

    def transition(self, state: GroupState, now: Now) -> None:
        self.previous_state, self.state = self.state, state
        self.state_changed_ms = now.unix_ms
