"""What goes into a group's machine and what comes out of it: plain values.

    join, sync, leave, heartbeat, written, tick   ->   Answer, Write, Note

A request that is answered later is known by its *ticket*, which the shell chooses: the machine keeps it and
gives it back with the answer, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from gateway.groups.metadata import GroupMetadata
from gateway.security.principal import Principal
from wireproto.kafka.errors import ErrorCode

NO_GENERATION = -1
"""The generation in answers without one (`AbstractCoordinator.Generation.NO_GENERATION`)."""

NO_MEMBER_ID = ""
"""The member id of who has none yet (`JoinGroupRequest.UNKNOWN_MEMBER_ID`)."""


class Now(NamedTuple):
    """The time of an event: on the clock of deadlines, and for records."""

    seconds: float
    """On a clock that never goes back."""

    unix_ms: int


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol that a member supports (for consumers: an assignor), with bytes for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request. `new_member_id` is the id that the member gets if it has none."""

    ticket: object
    member_id: str
    new_member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    needs_known_member_id: bool
    """The client can be told to come again with its new id (version 4 and later, KIP-394)."""

    can_skip_assignment: bool
    """The client knows `skip_assignment` (version 9, KIP-814)."""

    reason: str
    principal: Principal | None = None
    """To whom a static member that joins by this belongs, and nobody else; None: to nobody."""


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup request. `assignments` are the leader's, by member id."""

    ticket: object
    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]
    principal: Principal | None = None


@dataclass(frozen=True, slots=True)
class Leaving:
    """One member of a LeaveGroup request. An administrator names the instance and no member id."""

    member_id: str
    group_instance_id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The answer to a JoinGroup request; `members` for the leader only."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The answer to a SyncGroup request."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the request that came with `ticket`."""

    ticket: object
    reply: JoinReply | SyncReply


@dataclass(frozen=True, slots=True)
class Write:
    """Make `metadata` durable, in the order of these effects; then say so: `written(number, ...)`."""

    number: int
    metadata: GroupMetadata


@dataclass(frozen=True, slots=True)
class Note:
    """Something that an operator may want to read in the log."""

    text: str


Effect: TypeAlias = Answer | Write | Note
