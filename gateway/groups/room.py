"""How much memory groups may take: one bound for all of them together, and one for each.

Both are for what clients send in JoinGroup, and the first one also for groups that a commit makes. What is
loaded from the log is taken in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from gateway.groups.events import Join
from gateway.groups.group_state import GroupData, empty_group_bytes
from gateway.groups.member import newcomer_bytes, protocols_bytes
from wireproto.kafka.errors import ErrorCode, KafkaError

MAX_GROUPS_BYTES: Final = 128 * 1024 * 1024
"""Memory of all groups without their offsets: 90,000 members with a usual subscription, or 43,000 groups of
offsets alone. Beyond it nobody new may join or commit (POLICY_VIOLATION). Kafka has no such limit."""

MAX_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Memory of one group: the leader is sent all of its members' metadata at once. Its record, which has one
protocol of each member, may have `max.message.bytes` of the topic anyway (1 MiB). Beyond it nobody new may
join (GROUP_MAX_SIZE_REACHED)."""


class Room:
    """What all groups hold, and who gets nothing more.

    `groups` are those that there are; `short` is told which group was refused, and what all of them hold.
    """

    def __init__(self, groups: Collection[str], short: Callable[[str, str], None]) -> None:
        self.bytes = 0
        """Memory of all groups, about, without their offsets."""
        self.refused = 0
        """Requests that found no room for another group or member."""
        self._groups = groups
        self._short = short

    def check_join(self, group_id: str, group: GroupData | None, join: Join) -> None:
        """Raises KafkaError: POLICY_VIOLATION or GROUP_MAX_SIZE_REACHED. `group` is None if it is new.

        Who is in the group needs room only for what it asks beyond what it has: others who take all the
        room must not keep it from the next generation.
        """
        size = newcomer_bytes(
            join.member_id or join.new_member_id, join.group_instance_id, join.client_id, join.protocols
        )
        held = 0
        if group is None:
            size += empty_group_bytes(group_id)
        else:
            held = group.size
            known = group.roster.find(join.member_id, join.group_instance_id)
            if known is not None:
                size = protocols_bytes(join.protocols) - protocols_bytes(known.protocols)
                if size <= 0:
                    return
        self._check(group_id, size)
        if held + size > MAX_GROUP_BYTES:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group holds {held} bytes, {MAX_GROUP_BYTES} may be"
            )

    def check_new_group(self, group_id: str) -> None:
        """Whether there may be another group, without members. Raises KafkaError: POLICY_VIOLATION."""
        self._check(group_id, empty_group_bytes(group_id))

    def _check(self, group_id: str, size: int) -> None:
        if self.bytes + size > MAX_GROUPS_BYTES:
            self.refused += 1
            held = f"{len(self._groups)} groups hold {self.bytes} bytes, {MAX_GROUPS_BYTES} may be"
            self._short(group_id, held)
            raise KafkaError(ErrorCode.POLICY_VIOLATION, held)
