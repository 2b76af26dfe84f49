"""How much memory groups may take: one account for the groups themselves, one for their offsets, and a bound
for each group.

All are for what clients send in JoinGroup and OffsetCommit. What is loaded from the log is taken in any case.
A group and its offsets count as its client's: who made it, or was the first to come after it was loaded. One
client may hold half of what others leave (`gateway.common.shares`), so that nobody shuts others out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from gateway.common.shares import Shares
from gateway.groups.events import Join
from gateway.groups.group_state import GroupData, empty_group_bytes
from gateway.groups.member import newcomer_bytes, protocols_bytes
from wireproto.kafka.errors import ErrorCode, KafkaError

MAX_GROUPS_BYTES: Final = 192 * 1024 * 1024
"""Memory of all groups without their offsets: 135,000 members with a usual subscription, or 64,000 groups of
offsets alone; half of it for the groups of one client. Beyond it nobody new may join or commit
(POLICY_VIOLATION). Kafka has no such limit."""

MAX_OFFSETS_BYTES: Final = 512 * 1024 * 1024
"""Memory of all committed offsets: 1,600,000 without metadata, half of it for the groups of one client.
Beyond it no further offset is taken, nor longer metadata (POLICY_VIOLATION); what is there may be committed
anew. Kafka has no such limit."""

MAX_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Memory of one group: the leader is sent all of its members' metadata at once. Its record, which has one
protocol of each member, may have `max.message.bytes` of the topic anyway (1 MiB). Beyond it nobody new may
join (GROUP_MAX_SIZE_REACHED)."""


class Held(Protocol):
    """A group, as far as its client is concerned."""

    @property
    def client(self) -> str:
        """Whose it is."""

    @property
    def machine(self) -> GroupData:
        """What is known of it."""


class Room:
    """What all groups hold, and who gets nothing more.

    `groups` are those that there are; `short` is told which group was refused, and what all of them hold.
    """

    def __init__(self, groups: Collection[str], short: Callable[[str, str], None]) -> None:
        self.groups = Shares(MAX_GROUPS_BYTES)
        """Memory of all groups, about, without their offsets."""
        self.offsets = Shares(MAX_OFFSETS_BYTES)
        """Memory of their offsets, about."""
        self.refused = 0
        """Requests that found no room for another group, member or offset."""
        self._ids = groups
        self._short = short

    def check_join(self, group_id: str, group: Held | None, join: Join, client: str) -> None:
        """Raises KafkaError: POLICY_VIOLATION or GROUP_MAX_SIZE_REACHED. `group` is None if it is new, and
        would be `client`'s.

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
            client, machine = group.client, group.machine
            held = machine.size
            known = machine.roster.find(join.member_id, join.group_instance_id)
            if known is not None:
                size = protocols_bytes(join.protocols) - protocols_bytes(known.protocols)
                if size <= 0:
                    return
        self._check_groups(group_id, client, size)
        if held + size > MAX_GROUP_BYTES:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group holds {held} bytes, {MAX_GROUP_BYTES} may be"
            )

    def check_commit(self, group_id: str, group: Held | None, growth: int, client: str) -> None:
        """Whether the offsets of a group may take `growth` more bytes; it is None if it is new, and would be
        `client`'s. Raises KafkaError: POLICY_VIOLATION.
        """
        if group is None:
            self._check_groups(group_id, client, empty_group_bytes(group_id))
        else:
            client = group.client
        if not self.offsets.has_room(client, growth):
            self._refuse(group_id, _said("the offsets of", self.offsets, client))

    def _check_groups(self, group_id: str, client: str, size: int) -> None:
        if not self.groups.has_room(client, size):
            self._refuse(group_id, f"{len(self._ids)} groups: {_said('those of', self.groups, client)}")

    def _refuse(self, group_id: str, held: str) -> None:
        self.refused += 1
        self._short(group_id, held)
        raise KafkaError(ErrorCode.POLICY_VIOLATION, held)


def _said(what: str, account: Shares, client: str) -> str:
    return (
        f"{what} client {client or 'unknown'} hold {account.held(client)} bytes, {account.share(client)} may"
        f" be; those of all clients {account.used} of {account.total}"
    )
