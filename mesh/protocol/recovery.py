"""Recovery of one open segment: where it ends when its writer is gone, and who must have it before it counts.

Rule: the end is the highest durable head among n-w+1 sealed members of the segment. Any w members intersect
any n-w+1, so what was acknowledged by w is at or below that head; a sealed member takes nothing more from the
old writer, so the answer cannot grow stale. Answers of others never count, and n comes from the catalog, not
from who answers.

A member that has never heard of the segment seals it all the same, and counts as one that holds nothing,
unless it is known to have confirmed the announcement: then it has lost what it had, and its answer would say
less than it acknowledged. If no member has heard of a segment that was announced to them, the stores are not
those that they were.

Rule: who accepts a loss (`give_up`) says which members will never answer again. If fewer than n-w+1 are left,
all of those that are must answer, and the highest head among them is the end: what only the others had is
gone. Members that are left and silent are waited for as ever.

Rule: once decided, the end stays, whoever answers later. It counts when w members have everything up to it:
those that have more or just that (`holders`) are the sources, those that answered and have less (`lacking`)
are to copy it. Then the catalog closes the segment, and only then members are told the end.
"""

from collections.abc import Collection, Sequence


class Seal:
    """The answers to SEAL of one address, and to COPY after it.

    `confirmed` are members that are known to have had the announcement on their disks.
    """

    __slots__ = (
        "_confirmed",
        "_end",
        "_given_up",
        "_heads",
        "_known",
        "_refused",
        "_rows",
        "address",
        "members",
        "w",
    )

    def __init__(self, address: str, members: Sequence[str], w: int, confirmed: Collection[str] = ()) -> None:
        self.address = address
        self.members = tuple(members)
        self.w = w
        self._confirmed = frozenset(confirmed)
        self._given_up: frozenset[str] = frozenset()
        self._heads: dict[str, int] = {}
        self._rows: dict[str, bytes] = {}
        self._known: set[str] = set()
        self._refused: dict[str, int | None] = {}
        self._end: tuple[int, bytes] | None = None

    def give_up(self, gone: Collection[str]) -> None:
        """These members will never answer again, and what only they have is given up."""
        self._given_up = frozenset(gone)

    @property
    def has_given_up(self) -> bool:
        return not self._given_up.isdisjoint(self.members)

    @property
    def _left(self) -> int:
        """How many members have answered or may still do so."""
        return sum(member not in self._given_up or member in self._heads for member in self.members)

    @property
    def needed(self) -> int:
        """Answers that are enough: n-w+1, or all that are left if those are fewer."""
        return min(len(self.members) - self.w + 1, self._left)

    def on_sealed(self, member: str, head: int, row: bytes, *, known: bool = True) -> None:
        """A member persisted the seal: its durable head, the row there, whether it knew the segment."""
        if member not in self.members:
            return
        if known:
            self._known.add(member)
        elif member in self._confirmed:
            self._refused[member] = None
            return
        self._refused.pop(member, None)
        self._heads[member] = head
        self._rows[member] = row

    def on_refused(self, member: str, status: int) -> None:
        """A member cannot seal it (`status` as in its answer)."""
        if member in self.members and member not in self._heads:
            self._refused[member] = status

    @property
    def decidable(self) -> bool:
        return len(self._heads) >= self.needed

    @property
    def complete(self) -> bool:
        """All members answered: no grace needs to be waited for."""
        return len(self._heads) + len(self._refused) >= len(self.members)

    @property
    def hopeless(self) -> bool:
        """Too few members can ever answer: the others have lost what they had. One that could not seal may do
        so later.
        """
        return len(self.members) - len(self.lost) < self.needed

    @property
    def known(self) -> bool:
        """Whether some member had heard of the segment."""
        return bool(self._known)

    @property
    def refused(self) -> dict[str, int]:
        """The members that could not seal it, with their statuses."""
        return {member: status for member, status in self._refused.items() if status is not None}

    @property
    def lost(self) -> tuple[str, ...]:
        """The members that have lost what they had: they had confirmed the segment, and do not know it."""
        return tuple(member for member, status in self._refused.items() if status is None)

    def missing(self) -> tuple[str, ...]:
        """The members that have not answered."""
        return tuple(m for m in self.members if m not in self._heads and m not in self._refused)

    def end(self) -> tuple[int, bytes]:
        """(end, its row): -1 and b"" without a record. The same from the first call on.

        Raises ValueError while not `decidable`.
        """
        if self._end is None:
            if not self.decidable:
                raise ValueError(f"{len(self._heads)} of {self.needed} members answered")
            member = max(self._heads, key=lambda name: self._heads[name], default=None)
            self._end = (-1, b"") if member is None else (self._heads[member], self._rows[member])
        return self._end

    # after the end ----------------------------------------------------------------------------------------

    def on_copied(self, member: str, head: int) -> None:
        """A sealed member has copied what it lacked, up to `head`."""
        if member in self._heads:
            self._heads[member] = max(self._heads[member], head)

    def holders(self) -> tuple[str, ...]:
        """The sealed members that have everything up to the end. Raises ValueError as `end`."""
        end, _ = self.end()
        return tuple(member for member in self.members if self._heads.get(member, -2) >= end)

    def lacking(self) -> tuple[str, ...]:
        """The sealed members that have less: they are to copy it from the `holders`."""
        end, _ = self.end()
        return tuple(member for member in self.members if self._heads.get(member, end) < end)

    @property
    def enough(self) -> bool:
        """The end is durable on w members, or all that are left, or there is nothing to keep: the catalog may
        close the segment.
        """
        return self.end()[0] < 0 or len(self.holders()) >= min(self.w, self._left)
