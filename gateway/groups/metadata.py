"""What a group keeps across restarts: the value of its group metadata record in `__consumer_offsets`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """One member as the record has it (`GroupMetadataValue.MemberMetadata`).

    `subscription` is what the member sent for the protocol that was chosen, `assignment` what the leader
    gave it: bytes that only clients understand.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """One generation of a group (`GroupMetadataValue`).

    `protocol_type` is empty for a group that nobody ever joined. `current_state_timestamp_ms` is when the
    group came to its state, Unix ms; -1 in records of before Kafka 2.1.
    """

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...]
