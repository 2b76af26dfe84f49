"""Who is in a group: members by id and by instance id, the leader, and the vote for a protocol.

The data of `ClassicGroup`, without its state. Where Kafka takes whichever a hash table gives, here it is the
one who came first: the same events give the same group.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from gateway.groups.events import JoinedMember, Protocol
from gateway.groups.member import Member


class Roster:
    """Members in the order in which they came. `leader` is a member's id, None when there is none."""

    __slots__ = ("_supporters", "by_id", "by_instance", "leader", "size", "waiting")

    def __init__(self) -> None:
        # The first one is found at once however many before it have gone, which a dict cannot: members that
        # go one after the other would take quadratic time.
        self.by_id: OrderedDict[str, Member] = OrderedDict()
        self.by_instance: dict[str, str] = {}
        self.leader: str | None = None
        self.size = 0
        """Bytes of memory of all members, about."""
        self.waiting = 0
        """How many members wait for the answer to their JoinGroup."""
        self._supporters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.by_id)

    def members(self) -> Iterable[Member]:
        return self.by_id.values()

    def find(self, member_id: str, group_instance_id: str | None) -> Member | None:
        """Whose place somebody takes who joins so: its own, or a static member's that comes back without its
        id.
        """
        if not member_id and group_instance_id is not None:
            member_id = self.by_instance.get(group_instance_id, "")
        return self.by_id.get(member_id)

    def add(self, member: Member) -> None:
        """A new member; the first one leads."""
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self.by_instance[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """The member is gone, its requests are answered; somebody else leads if it was the leader."""
        del self.by_id[member.member_id]
        if member.group_instance_id is not None:
            self.by_instance.pop(member.group_instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.by_id), None)
        self._count(member, -1)

    def update(
        self,
        member: Member,
        protocols: tuple[Protocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """The member joins again and may support something else now."""
        self._count(member, -1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._count(member, 1)

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Give each member what the leader chose for it; nothing to whom it forgot."""
        for member in self.by_id.values():
            self.size -= len(member.assignment)
            member.assignment = assignments.get(member.member_id, b"")
            self.size += len(member.assignment)

    def replace(self, old: Member, new_member_id: str) -> Member:
        """A static member that came back under another id, in the place of the old one."""
        new = Member(
            new_member_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        new.principal = old.principal
        leads = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if leads:
            self.leader = new_member_id
        return new

    def rebalance_timeout_ms(self) -> int:
        """The longest of all members'; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def take_join_ticket(self, member: Member, new: object | None = None) -> object | None:
        """The ticket of the member's JoinGroup that waited until now, if any; from now on `new` waits."""
        old, member.join_ticket = member.join_ticket, new
        self.waiting += (new is not None) - (old is not None)
        return old

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is somebody who has joined this time; False if nobody has."""
        leader = self.by_id.get(self.leader or "")
        if leader is not None and leader.join_ticket is not None:
            return True
        for member in self.by_id.values():
            if member.join_ticket is not None:
                self.leader = member.member_id
                return True
        return False

    def supports_any(self, names: Iterable[str]) -> bool:
        """Whether all members support one of these protocols."""
        return any(self._supporters[name] == len(self.by_id) for name in names)

    def select_protocol(self) -> str | None:
        """The protocol that most members like best among those that all support (KIP-62's vote)."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.by_id)}
        if not candidates:
            return None
        # Of equals the one that was voted for first.
        return Counter(member.vote(candidates) for member in self.by_id.values()).most_common(1)[0][0]

    def for_leader(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """All members, as the leader needs them to assign."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata_of(protocol))
            for member in self.by_id.values()
        )

    def _count(self, member: Member, sign: int) -> None:
        self.size += sign * member.size
        for name in {protocol.name for protocol in member.protocols}:
            self._supporters[name] += sign
            if not self._supporters[name]:
                del self._supporters[name]
