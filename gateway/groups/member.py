"""One member of a group, and the requests of it that wait for an answer."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from gateway.groups.events import Protocol
from gateway.groups.metadata import MemberMetadata
from gateway.security.principal import Principal

MAX_MEMBERS: Final = 5_000
"""Members of one group, whatever `--group-max-size` allows: a step of a rebalance goes through all of them,
at five microseconds each. Kafka has no such limit; its largest groups have hundreds."""

MEMBER_BYTES: Final = 1152
"""Memory of a member beside the bytes that clients sent: its object, its strings, its places in tables."""

PROTOCOL_BYTES: Final = 192
"""Memory of a protocol that it supports, beside its name and metadata. Usual members have one or two."""


def text_bytes(text: str | None) -> int:
    """Memory of a text's characters, at most."""
    if text is None:
        return 0
    return len(text) if text.isascii() else 4 * len(text)


def protocols_bytes(protocols: Collection[Protocol]) -> int:
    """Memory of what a member supports, about."""
    return sum(PROTOCOL_BYTES + text_bytes(each.name) + len(each.metadata) for each in protocols)


def newcomer_bytes(
    member_id: str, group_instance_id: str | None, client_id: str, protocols: Collection[Protocol]
) -> int:
    """Memory of a member without an assignment, about. Clients choose how long their names are."""
    names = text_bytes(member_id) + text_bytes(group_instance_id) + text_bytes(client_id)
    return MEMBER_BYTES + names + protocols_bytes(protocols)


class Member:
    """A member. `join_ticket` and `sync_ticket` are its requests that wait; None: no such request.

    `deadline` is when it is given up unless something is heard of it, in seconds of the machine's clock.
    `is_new` until the first rebalance that it takes part in is over. `principal` is whose static member it
    is: None if nobody's, or if that is not known, since the group was loaded and nothing was heard of it yet.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "principal",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_ticket: object | None = None
        self.sync_ticket: object | None = None
        self.deadline = math.inf
        self.is_new = False
        self.principal: Principal | None = None

    @property
    def may_be_silent(self) -> bool:
        """Whether it need not send heartbeats now: it waits for an answer of ours.

        A new member is given up even so: it does not know its id yet, and comes again under another
        (`ClassicGroupMember.hasSatisfiedHeartbeat`).
        """
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def admits(self, principal: Principal | None) -> bool:
        """Whether who asks (None: nobody is asked who he is) may act as this member. Of a static one of which
        it is not known yet this one is the owner from now on.
        """
        if principal is None or self.group_instance_id is None:
            return True
        if self.principal is None:
            self.principal = principal
        return self.principal == principal

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        newcomer = newcomer_bytes(self.member_id, self.group_instance_id, self.client_id, self.protocols)
        return newcomer + len(self.assignment)

    def metadata_of(self, protocol: str | None) -> bytes:
        """What it sent for this protocol; empty if it does not support it."""
        for supported in self.protocols:
            if supported.name == protocol:
                return supported.metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """Its favourite among `candidates`, which are supported by all members."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """As the group's record has it."""
        return MemberMetadata(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata_of(protocol),
            assignment,
        )


def loaded_member(record: MemberMetadata, protocol: str | None) -> Member:
    """The member that a record tells of: of what it supports only the chosen protocol is known."""
    # Records of before Kafka 0.10.1 have no rebalance timeout.
    rebalance = record.rebalance_timeout_ms if record.rebalance_timeout_ms >= 0 else record.session_timeout_ms
    return Member(
        record.member_id,
        record.group_instance_id,
        record.client_id,
        record.client_host,
        rebalance,
        record.session_timeout_ms,
        (Protocol(protocol or "", record.subscription),),
        record.assignment,
    )
