"""Whether a segment may be written to: what its members said to OPEN.

Rule: nothing is published before max(w, n-w+1) members have the announcement on their disks: w, so that a
write can be acknowledged at all, and n-w+1, so that w members of another life's segment meet one of them.

A refusal by single members is weighed: a member that knows more than this gateway (a newer epoch, a seal),
belongs to another cluster or cannot write its disk does not confirm. Final is only that too few can.
"""

from collections.abc import Sequence

from wireproto.dafka.additions import STATUS_DONE, STATUS_NOT_HERE, STATUS_STORAGE_ERROR, SealedHead

PASSING = frozenset((STATUS_STORAGE_ERROR, STATUS_NOT_HERE))
"""What a member may get over: its disk, its room. It is asked again as long as others make the segment go on.
"""


class Opening:
    """The answers to OPEN of one segment."""

    __slots__ = ("address", "confirmed", "members", "refused", "sealed", "w")

    def __init__(self, address: str, members: Sequence[str], w: int) -> None:
        self.address = address
        self.members = tuple(members)
        self.w = w
        self.confirmed: set[str] = set()
        self.refused: dict[str, int] = {}
        """Members that cannot confirm, with their statuses."""
        self.sealed: dict[str, Sequence[SealedHead]] = {}
        """Members that had something open, or sealed, of an earlier life, and what."""

    @property
    def needed(self) -> int:
        """Confirmations that are enough."""
        return max(self.w, len(self.members) - self.w + 1)

    def on_status(self, member: str, status: int, sealed: Sequence[SealedHead] = ()) -> None:
        """A member's answer; others' do not count."""
        if member not in self.members:
            return
        if sealed:
            self.sealed[member] = sealed
        if status == STATUS_DONE:
            self.confirmed.add(member)
            self.refused.pop(member, None)
        elif member not in self.confirmed:
            self.refused[member] = status

    @property
    def enough(self) -> bool:
        """The segment may be written to."""
        return len(self.confirmed) >= self.needed

    @property
    def hopeless(self) -> bool:
        """Too few members can confirm."""
        return len(self.members) - len(self.refused) < self.needed

    def missing(self) -> tuple[str, ...]:
        """The members that have not answered."""
        return tuple(m for m in self.members if m not in self.confirmed and m not in self.refused)
