"""What compactions of earlier lives have begun, and what the catalog has in no chain.

A compaction notes each new segment in the catalog before it writes it, and takes the note away in the
transaction that puts the segment into the chain. What has a note at a start was given up with its life, and
is to be forgotten. But a catalog that is older than it was has notes of compactions that went well since, and
their sources are deleted already: to forget what they wrote would lose the records for good.

Rule: nothing that an earlier life has noted is deleted before so many of its members that any w of them meet
one of these have said that they never heard its end. A member that has heard it proves that the catalog is
older than the stores; then the note stays, and an operator has to say how to go on.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Entry
from gateway.log.notes import Note, take_notes, tombstone
from gateway.log.recovery.verification import RESTORE
from mesh.protocol.address_state import Phase
from wireproto.dafka.additions import NO_EPOCH, STATUS_DONE, Verified

if TYPE_CHECKING:
    from gateway.log.context import LogContext

ANSWER_SECONDS = 20.0
"""How long members may take to say what they know; who does not answer is asked again with the next look."""

logger = logging.getLogger(__name__)


class Noted(NamedTuple):
    """A new segment of a compaction, as its note in the catalog has it. `log` is the partition's name for
    stores, `w` how many members must have what counts, `epoch` the segment's own (-1: not known).
    """

    address: str
    members: tuple[str, ...]
    w: int
    log: str
    epoch: int

    @classmethod
    def unpack(cls, entry: Entry) -> "Noted":
        value = keys.unpack(entry.value)
        members = tuple(value["members"])
        return cls(
            entry.key.removeprefix(keys.COMPACTING),
            members,
            value.get("w", len(members) // 2 + 1),
            value.get("log", ""),
            value.get("epoch", NO_EPOCH),
        )

    def put(self) -> dict[str, bytes]:
        """Its note."""
        value = {"members": self.members, "w": self.w, "log": self.log, "epoch": self.epoch}
        return {keys.compacting_key(self.address): keys.pack(value)}

    @property
    def needed(self) -> int:
        """So many members that any w of all meet one of them."""
        return len(self.members) - self.w + 1


def noted_outputs(context: "LogContext", log: str = "") -> list[Noted]:
    """All that is noted, or what is of one log."""
    noted = map(Noted.unpack, context.catalog.range(keys.COMPACTING))
    return [one for one in noted if not log or one.log == log]


async def forget_outputs(context: "LogContext", outputs: Sequence[Noted]) -> None:
    """Have the stores forget new segments that were never put into a chain, of this life or judged."""
    notes = []
    for one in outputs:
        entry = context.catalog.get(keys.compacting_key(one.address))
        if entry is not None:
            puts = tombstone(one.address, one.log, one.epoch, one.members)
            notes.append(Note(entry.key, entry.mod_revision, one.log, puts))
    if notes:
        await take_notes(context, notes)
        context.segments_dropped()


class LeftOver:
    """What was noted when this life began, or came to it with what it leads, until it is forgotten."""

    def __init__(self, context: "LogContext") -> None:
        self._context = context
        self._left = {one.address: one for one in noted_outputs(context)}
        self._refuted: set[str] = set()

    def look_again(self) -> None:
        """Another gateway's may be this one's now; and what this one has given up when it lost the log is
        noted still. None is under way at this moment.
        """
        for one in noted_outputs(self._context):
            self._left.setdefault(one.address, one)

    @property
    def is_empty(self) -> bool:
        """Nothing is left to be judged, or it is other gateways' to judge."""
        return not self._undecided()

    def _undecided(self) -> list[Noted]:
        """What another gateway was writing then may be in the chain by now: its note is gone."""
        context = self._context
        gone = [one for one in self._left if context.catalog.get(keys.compacting_key(one)) is None]
        for address in gone:
            del self._left[address]
        return [
            one
            for address, one in self._left.items()
            if address not in self._refuted and context.leads_log(one.log)
        ]

    async def forget(self) -> None:
        """Ask the members, and forget what may be forgotten. What cannot be judged yet stays."""
        undecided = self._undecided()
        heard: dict[str, dict[str, Verified]] = {one.address: {} for one in undecided}
        with trio.move_on_after(ANSWER_SECONDS):
            async with trio.open_nursery() as nursery:
                for store in sorted({member for one in undecided for member in one.members}):
                    asked = [one for one in undecided if store in one.members]
                    nursery.start_soon(self._ask, store, asked, heard)
        may_go = [one for one in undecided if self._may_go(one, heard[one.address])]
        await forget_outputs(self._context, may_go)
        for one in may_go:
            self._left.pop(one.address, None)

    async def _ask(self, store: str, asked: Sequence[Noted], heard: dict[str, dict[str, Verified]]) -> None:
        answers = await self._context.reader.verify(store, [(one.log, one.address) for one in asked])
        for one, answer in zip(asked, answers, strict=True):
            heard[one.address][store] = answer

    def _may_go(self, one: Noted, heard: dict[str, Verified]) -> bool:
        known = {store: answer for store, answer in heard.items() if answer.status == STATUS_DONE}
        for store, answer in known.items():
            if answer.phase >= Phase.CLOSED:
                self._refuted.add(one.address)
                logger.error(
                    "the catalog is older than store %s, which knows how the compaction of log %s ended that "
                    "wrote segment %s; it is not forgotten: %s",
                    self._context.stores.name(store), one.log or "?", one.address, RESTORE,
                )  # fmt: skip
                return False
        return len(known) >= one.needed
