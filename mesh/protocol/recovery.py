"""Recovery of one open segment: where it ends, when its writer is gone.

Rule: the end is the highest durable head among n-w+1 sealed members of the segment. Any w members intersect
any n-w+1, so what was acknowledged by w is at or below that head; a sealed member takes nothing more from the
old writer, so the answer cannot grow stale. Answers of others never count, and n comes from the catalog, not
from who answers.

A member that has never heard of the segment seals it all the same, and counts as one that holds nothing. If
no member has heard of a segment that was announced to them, the stores are not those that they were.
"""

from collections.abc import Sequence


class Seal:
    """The answers to SEAL of one address."""

    __slots__ = ("_heads", "_known", "_refused", "_rows", "address", "members", "w")

    def __init__(self, address: str, members: Sequence[str], w: int) -> None:
        self.address = address
        self.members = tuple(members)
        self.w = w
        self._heads: dict[str, int] = {}
        self._rows: dict[str, bytes] = {}
        self._known = False
        self._refused: dict[str, int] = {}

    @property
    def needed(self) -> int:
        """Answers that are enough: n-w+1."""
        return len(self.members) - self.w + 1

    def on_sealed(self, member: str, head: int, row: bytes, *, known: bool = True) -> None:
        """A member persisted the seal: its durable head, the row there, whether it knew the segment."""
        if member in self.members:
            self._heads[member] = head
            self._rows[member] = row
            self._known = self._known or known

    def on_refused(self, member: str, status: int) -> None:
        """A member cannot seal it (`status` as in its answer)."""
        if member in self.members:
            self._refused[member] = status

    @property
    def decidable(self) -> bool:
        return len(self._heads) >= self.needed

    @property
    def complete(self) -> bool:
        """All members answered: no grace needs to be waited for."""
        return len(self._heads) + len(self._refused) >= len(self.members)

    @property
    def known(self) -> bool:
        """Whether some member had heard of the segment."""
        return self._known

    @property
    def refused(self) -> dict[str, int]:
        """The members that could not seal it, with their statuses."""
        return self._refused

    def missing(self) -> tuple[str, ...]:
        """The members that have not answered."""
        return tuple(m for m in self.members if m not in self._heads and m not in self._refused)

    def end(self) -> tuple[int, bytes]:
        """(end, its row): -1 and b"" without a record. Raises ValueError while not `decidable`."""
        if not self.decidable:
            raise ValueError(f"{len(self._heads)} of {self.needed} members answered")
        member = max(self._heads, key=lambda name: self._heads[name])
        return self._heads[member], self._rows[member]
