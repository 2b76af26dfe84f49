"""Which stores keep a partition's newest segment and would keep the next one, and whether they are there."""

from typing import TYPE_CHECKING

from gateway.log.segment import Segment

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from gateway.log.pending import PendingAppends


class Placement:
    """The placement of one partition's segments. All methods return at once."""

    __slots__ = ("_context", "_elsewhere", "_first_members", "_partition", "_pending")

    def __init__(self, context: "LogContext", partition: "Partition", pending: "PendingAppends") -> None:
        self._context = context
        self._partition = partition
        self._pending = pending
        self._first_members: tuple[int, tuple[str, ...]] = -1, ()
        """A version of the list of stores, and the members that it gives."""
        self._elsewhere: tuple[str, tuple[str, ...]] | None = None
        """While another gateway leads it: its newest segment's key in the catalog, and the members."""

    @property
    def members(self) -> tuple[str, ...]:
        """The stores that keep its newest segment, or would keep the first one."""
        newest = self._partition.chain.newest
        if newest is not None:
            return newest.members
        if self._elsewhere is not None:
            return self._elsewhere[1]
        version = self._context.stores.version
        if self._first_members[0] != version:
            self._first_members = version, self._context.members_for(self._partition)
        return self._first_members[1]

    def elsewhere(self, key: str, members: tuple[str, ...]) -> None:
        """Another gateway has a segment of this key: the newest one counts."""
        if self._elsewhere is None or key >= self._elsewhere[0]:
            self._elsewhere = key, members

    def here(self) -> None:
        """This gateway leads it: the chain says where it is kept."""
        self._elsewhere = None

    def why_too_few(self, wanted: int) -> str:
        """Why fewer than `wanted` stores keep the partition, "" if as many do: Kafka looks before it appends
        with acks=all (`Partition.appendRecordsToLeader`).
        """
        members = self._context.members_for(self._partition)
        if wanted <= len(members):
            return ""
        return f"{len(members)} stores keep this partition, and min.insync.replicas asks for {wanted}"

    def may_become_durable(self) -> bool:
        """Whether so many members are there of the segment that the next batch goes to that it can become
        durable: the open one, or the one that would follow it.
        """
        stores, current = self._context.stores, self._partition.chain.current
        if current is not None and stores.enough(current.segment.members, current.segment.w):
            return not current.outdated or self._next_has_stores()
        return (current is None or not self._pending.in_flight) and self._next_has_stores()

    def _next_has_stores(self) -> bool:
        """Whether a new segment could be written to now."""
        context = self._context
        members = context.members_for(self._partition)
        return bool(members) and context.stores.enough(members, context.w_for(self._partition, members))

    def who_is_away(self) -> str:
        """For an error's message."""
        context, current = self._context, self._partition.chain.current
        members = context.members_for(self._partition) if current is None else current.segment.members
        away = ", ".join(context.stores.name(member) for member in members if not context.stores.live(member))
        w = context.w_for(self._partition, members)
        return f"{w} stores must keep each record, and of {len(members)} these are not there: {away}"

    def should_move(self, segment: Segment) -> bool:
        """Whether another segment would have better members: one of these leaves, or too many are away."""
        stores = self._context.stores
        if stores.leaving(segment.members):
            return True
        if stores.enough(segment.members, len(segment.members)):
            return False
        if not stores.enough(segment.members, segment.w):
            return not self._pending.in_flight and self._next_has_stores()
        return stores.away_for_long(segment.members) and stores.enough(
            self._context.members_for(self._partition), len(segment.members)
        )
