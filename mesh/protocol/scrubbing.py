"""What a store does about a range of a closed segment that it has read again: compare, fetch again, tell.

All members of a closed segment have the same records, so a digest of a range is the same on all of them. A
member gives a digest only for records that pass their checks as it reads them (batch CRC32C, epoch, offsets,
row): a digest stands for bytes that are good for themselves.

Rules:

* A record that passes its checks is never replaced. If another member's digest differs all the same, one of
  both is wrong and nobody here can say which: that is told, loudly, and nothing is changed.
* A range that fails them is taken again only from a member whose digest stands for good bytes, and only if
  all members that gave a digest gave the same one; and what was taken must have that digest.
* A member that is silent, has damage of its own, or not the whole range proves nothing.
* A member that has not the whole range of a closed segment is not good, though what is here is: it may have
  lost its copy, and is to make it again.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """What became of a range."""

    GOOD = "good"
    """Good here, and nobody has other bytes."""
    ABSENT = "absent"
    """Good here, and a member that should have it does not."""
    DIFFERS = "differs"
    """Good here for itself, and another member has other bytes that are good for themselves."""
    MENDABLE = "mendable"
    """Damaged here, and good bytes were taken from another member."""
    NO_COPY = "no copy"
    """Damaged here, and no other member has good bytes, or they have different ones."""
    LATER = "later"
    """Damaged here; members that may have good bytes did not answer."""


class AskDigests(NamedTuple):
    """These members are to be asked for their digest of the range."""

    members: tuple[str, ...]


class Take(NamedTuple):
    """The records are to be fetched from `source`; taken are they only if they have this digest."""

    source: str
    digest: bytes


class Decided(NamedTuple):
    """The end: `text` says what the members said, for people. `absent` are those that have not all of a range
    that is good here.
    """

    verdict: Verdict
    text: str
    absent: tuple[str, ...] = ()


Step = AskDigests | Take | Decided


class RangeScrub:
    """One range. `own` is the digest of what is here, b"" if that failed its checks.

    Do what `next_step` says, tell what came of it, and ask again, until it has decided.
    """

    def __init__(self, own: bytes, members: Sequence[str]) -> None:
        self._own = own
        self._waiting = dict.fromkeys(members)
        self._digests: dict[str, bytes] = {}
        self._sources: list[str] = []
        self._failed: dict[str, str] = {}
        """Member -> why it gave nothing good."""
        self._absent: list[str] = []
        self._silent: dict[str, None] = {}
        self._taken_from = ""

    # events -----------------------------------------------------------------------------------------------

    def on_digest(self, member: str, digest: bytes) -> None:
        """The member has all of the range, and it passes its checks there."""
        if self._answers(member):
            self._digests[member] = digest
            self._sources.append(member)

    def on_damaged(self, member: str) -> None:
        """The range fails its checks there, too."""
        if self._answers(member):
            self._failed[member] = "has it damaged"

    def on_absent(self, member: str) -> None:
        """The member has not all of it."""
        if self._answers(member):
            self._failed[member] = "does not have it"
            self._absent.append(member)

    def on_silent(self, member: str) -> None:
        """The member did not answer in time."""
        if self._answers(member):
            self._silent[member] = None

    def on_taken(self, source: str, digest: bytes) -> None:
        """What was fetched from `source` passed its checks and has this digest; b"": it did not come whole,
        or did not pass.
        """
        if not self._sources or source != self._sources[0]:
            return
        if digest and digest == self._digests[source]:
            self._taken_from = source
            return
        del self._sources[0]
        if digest:
            self._failed[source] = "gave other records than it told the digest of"
        else:
            self._silent[source] = None

    def _answers(self, member: str) -> bool:
        """Whether this is the first that is heard of a member that was asked."""
        if member not in self._waiting:
            return False
        del self._waiting[member]
        return True

    # what follows -----------------------------------------------------------------------------------------

    def next_step(self) -> Step:
        if self._waiting:
            return AskDigests(tuple(self._waiting))
        return self._compare() if self._own else self._restore()

    def _compare(self) -> Step:
        others = [member for member, digest in self._digests.items() if digest != self._own]
        absent = tuple(self._absent)
        if others:
            same = len(self._digests) - len(others)
            text = f"{', '.join(others)} differ, {same} others have what is here"
            return Decided(Verdict.DIFFERS, text, absent)
        if absent:
            text = ", ".join(f"store {member} does not have it" for member in absent)
            return Decided(Verdict.ABSENT, text, absent)
        return Decided(Verdict.GOOD, f"{len(self._digests)} others have the same")

    def _restore(self) -> Step:
        if self._taken_from:
            return Decided(Verdict.MENDABLE, f"as store {self._taken_from} keeps it")
        if len(set(self._digests.values())) > 1:
            names = ", ".join(self._digests)
            return Decided(Verdict.NO_COPY, f"the stores {names} differ, and each is good for itself")
        if self._sources:
            return Take(self._sources[0], self._digests[self._sources[0]])
        said = [f"store {member} {why}" for member, why in self._failed.items()]
        said += [f"store {member} gave no answer that could be used" for member in self._silent]
        verdict = Verdict.LATER if self._silent else Verdict.NO_COPY
        return Decided(verdict, ", ".join(said) or "no other store keeps it")
