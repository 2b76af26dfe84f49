"""Recovery of one open segment: where it ends, when its writer is gone.

Rule: the end is the highest durable head among n-w+1 sealed members of the segment. Any w members intersect
any n-w+1, so what was acknowledged by w is at or below that head; a sealed member takes nothing more from the
old writer, so the answer cannot grow stale. Answers of others never count, and n comes from the catalog, not
from who answers.
"""

from collections.abc import Sequence


class Seal:
    """The answers to SEAL of one address."""

    __slots__ = ("_heads", "_rows", "address", "members", "w")

    def __init__(self, address: str, members: Sequence[str], w: int) -> None:
        self.address = address
        self.members = tuple(members)
        self.w = w
        self._heads: dict[str, int] = {}
        self._rows: dict[str, bytes] = {}

    @property
    def needed(self) -> int:
        """Answers that are enough: n-w+1."""
        return len(self.members) - self.w + 1

    def on_sealed(self, member: str, head: int, row: bytes) -> None:
        """A member persisted the seal and reports its durable head and the row there."""
        if member in self.members:
            self._heads[member] = head
            self._rows[member] = row

    @property
    def decidable(self) -> bool:
        return len(self._heads) >= self.needed

    @property
    def complete(self) -> bool:
        """All members answered: no grace needs to be waited for."""
        return len(self._heads) == len(self.members)

    def missing(self) -> tuple[str, ...]:
        """The members that have not answered."""
        return tuple(member for member in self.members if member not in self._heads)

    def end(self) -> tuple[int, bytes]:
        """(end, its row): -1 and b"" without a record. Raises ValueError while not `decidable`."""
        if not self.decidable:
            raise ValueError(f"{len(self._heads)} of {self.needed} members answered")
        member = max(self._heads, key=lambda name: self._heads[name])
        return self._heads[member], self._rows[member]

    def copies(self) -> tuple[str, ...]:
        """The members that hold the whole of it, up to the end."""
        end = self.end()[0]
        return tuple(member for member, head in self._heads.items() if head == end)
