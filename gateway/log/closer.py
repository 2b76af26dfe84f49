"""CLOSE, repeated to every member of a closed segment until it has all of it and has confirmed the end.

Rule: a member hears of an end only after the catalog has it. What some member has not confirmed is kept in
the catalog (`/closing/<address>`), written with the end itself, so that a restart goes on with it. Until a
store hears the end it keeps the segment as sealed or open; nothing reads it beyond the catalog's end.

Rule: before a segment that follows another one of the same epoch holds its first record, w members have heard
where the one before it ended: only that tells a catalog from before the roll
(`gateway.log.recovery.verification`).

A member that answers that it has not all of it copies the rest from the others (`gateway.log.copier`), a few
segments at a time, and is told the end again. One that says that it has all of it up to another end was told
that by another catalog, or by a store that lies: it has confirmed nothing, and is told again, later. Each one
is told at its own pace. What a recovery has closed is told when the recoveries are over: nobody waits for it.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.log.notes import Note, take_notes
from mesh.segment_requests import REASONS
from wireproto.dafka.additions import (
    NOTHING_REMEMBERED,
    STATUS_DONE,
    STATUS_INCOMPLETE,
    STATUS_OTHER_END,
    AddressStatus,
    CloseEntry,
)

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.segment import Segment

CLOSES_AT_ONCE = 256
"""Segments that are told in one turn of the loop, and that leave the catalog's list in one transaction."""

COPIES_AT_ONCE = 16
"""Segments that one member copies at the same time."""

NO_HEAD = -1
"""What a member says of a segment that it was told to delete: it needs no end any more."""

logger = logging.getLogger(__name__)


class _Closing:
    """A closed segment whose end some `members` have not confirmed."""

    __slots__ = ("all", "at", "end", "heard", "members", "w", "when_heard")

    def __init__(self, end: int, members: Iterable[str], everybody: Iterable[str], w: int) -> None:
        self.end = end
        self.at = NOTHING_REMEMBERED
        """Where the catalog got the end, or the members that are to be told."""
        self.members = dict.fromkeys(members)
        self.all = tuple(everybody)
        self.w = w
        self.heard: set[str] = set()
        """Members that have answered, whatever it was."""
        self.when_heard: Callable[[], None] | None = None
        """Called once, when w members have."""


class Closer:
    """Owns the task that tells the members."""

    def __init__(self, context: "LogContext") -> None:
        self._context = context
        self._waiting: dict[str, _Closing] = {}
        self._later: dict[str, _Closing] = {}
        """Of these, those whose members `tell_those_left` tells."""
        self._left = trio.Event()
        """Set when it is time for these."""
        self._expected: set[str] = set()
        """Segments whose ends are on their way into the catalog, and that something will wait for."""
        self._finished: list[str] = []
        self._lacking: dict[str, dict[str, None]] = {}
        """Member -> the segments that it is to copy."""
        self._copying: set[str] = set()
        """The members that a task has copy something."""
        self._work = trio.Event()

    @staticmethod
    def note(
        segment: "Segment", log: str, puts: dict[str, bytes], members: Sequence[str] | None = None
    ) -> None:
        """Put down, in the transaction that closes a segment of this log, that its members (or these) are to
        be told.
        """
        value = {
            "end": segment.last_sequence,
            "members": segment.members if members is None else members,
            "all": segment.members,
            "w": segment.w,
            "log": log,
        }
        puts[keys.closing_key(segment.address)] = keys.pack(value)

    @contextlib.contextmanager
    def expect(self, addresses: Iterable[str]) -> Iterator[None]:
        """For the transaction that puts the ends of these segments, and `begin` after it: who looks in
        between, when the catalog has them and nobody was told yet, is to see that something waits.
        """
        expected = set(addresses)
        self._expected |= expected
        try:
            yield
        finally:
            self._expected -= expected

    def begin(
        self,
        segments: Iterable["Segment"],
        when_heard: Callable[[], None] | None = None,
        members: Sequence[str] | None = None,
        *,
        later: bool = False,
    ) -> None:
        """The transaction is durable: tell the members, or some; those of a `later` one by `tell_those_left`.

        `when_heard` is called for each segment once w members have answered. What they answer does not matter
        there: one that cannot write its disk must not stop the log's other members, and is asked again.
        """
        for segment in segments:
            assert segment.last_sequence is not None
            told = segment.members if members is None else members
            closing = _Closing(segment.last_sequence, told, segment.members, segment.w)
            closing.when_heard = when_heard
            before = self._waiting.get(segment.address)
            if before is not None and when_heard is None:
                # Told anew because a member was replaced: who waits for the others goes on waiting.
                closing.heard, closing.when_heard = before.heard, before.when_heard
            # A member may be about to hear of another end than this.
            self._tell(segment.address, closing, later=later and before is None)

    def tell_those_left(self) -> None:
        """Tell the members of the segments that were to be told later."""
        self._left.set()

    async def _tell_left(self) -> None:
        """Tell them when it is time, some in each turn of the loop, for ever."""
        while True:
            await self._left.wait()
            self._left = trio.Event()
            while self._later:
                for address in list(islice(self._later, CLOSES_AT_ONCE)):
                    closing = self._later.pop(address)
                    if self._waiting.get(address) is closing:
                        self._send(address, closing)
                await trio.lowlevel.checkpoint()

    def load(self) -> None:
        """Take up what an earlier life, or another gateway, had not finished, of logs that this one leads."""
        for entry in self._context.catalog.range(keys.CLOSING):
            if entry.key.removeprefix(keys.CLOSING) in self._waiting:
                continue
            if not self._context.leads_log(keys.noted_log(entry.value)):
                continue
            value = keys.unpack(entry.value)
            everybody = value.get("all", value["members"])
            closing = _Closing(value["end"], value["members"], everybody, value.get("w", 1))
            closing.heard = set(everybody) - closing.members.keys()
            if len(closing.heard) < closing.w:
                # A compaction's sources may wait for it.
                closing.when_heard = self._context.segments_dropped
            self._tell(entry.key.removeprefix(keys.CLOSING), closing)

    def _tell(self, address: str, closing: _Closing, *, later: bool = False) -> None:
        self._waiting[address] = closing
        closing.at = self._context.place_of(keys.closing_key(address))
        if later:
            self._later[address] = closing
        else:
            self._send(address, closing)

    def _send(self, address: str, closing: _Closing) -> None:
        entry = CloseEntry(address, closing.end, closing.at)
        for member in closing.members:
            self._context.producer.segments.close(member, entry, self._on_answer)

    def untold_members(self, address: str, but: str) -> list[str]:
        """The members that have not confirmed the end of this segment; `but` is none of them any more."""
        self._context.producer.segments.closes.drop(address, but)
        closing = self._waiting.get(address)
        return [] if closing is None else [name for name in closing.members if name != but]

    def when_heard(self, address: str, call: Callable[[], None]) -> bool:
        """Have `call` called, besides who waits already, once w members have heard the end of this segment;
        false if nobody waits for that any more.
        """
        closing = self._waiting.get(address)
        if closing is None or (others := closing.when_heard) is None:
            return False

        def call_all() -> None:
            others()
            call()

        closing.when_heard = call_all
        return True

    def is_waited_for(self, address: str) -> bool:
        """Whether something waits until w members have heard the end of this one: the next segment of the
        log, or the deletion of what a compaction has left.
        """
        closing = self._waiting.get(address)
        return address in self._expected or (closing is not None and closing.when_heard is not None)

    def drop(self, addresses: Sequence[str]) -> None:
        """These are being deleted: nobody needs to know their ends, and nothing waits for them any more."""
        for address in addresses:
            closing = self._waiting.pop(address, None)
            if closing is None:
                continue
            self._context.producer.segments.closes.drop(address)
            if closing.when_heard is not None:
                self._context.segments_dropped()  # a compaction's sources may wait for it

    def untold(self) -> dict[str, int]:
        """Member -> how many closed segments it has not confirmed."""
        counts: dict[str, int] = {}
        for closing in self._waiting.values():
            for member in closing.members:
                counts[member] = counts.get(member, 0) + 1
        return counts

    def _on_answer(self, member: str, status: AddressStatus) -> None:
        closing = self._waiting.get(status.address)
        if closing is None:
            return
        if status.status == STATUS_DONE and status.sequence in (closing.end, NO_HEAD):
            closing.members.pop(member, None)
            if not closing.members:
                self._finished.append(status.address)
                self._work.set()
        elif status.status == STATUS_INCOMPLETE:
            self._lacking.setdefault(member, {})[status.address] = None
            self._work.set()
        else:
            said = STATUS_OTHER_END if status.status == STATUS_DONE else status.status
            logger.warning(
                "store %s does not close segment %s at %d, and has up to %d of it: %s",
                member, status.address, closing.end, status.sequence, REASONS.get(said, f"status {said}"),
            )  # fmt: skip
            entry = CloseEntry(status.address, closing.end, closing.at)
            self._context.producer.segments.close_again(member, entry, self._on_answer)
        closing.heard.add(member)
        if closing.when_heard is not None and len(closing.heard) >= closing.w:
            call, closing.when_heard = closing.when_heard, None
            call()

    async def run(self) -> None:
        """Tell members of ends, note what is finished, and have members copy what they lack, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_left)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                for member in self._lacking:
                    if member not in self._copying:
                        self._copying.add(member)
                        nursery.start_soon(self._copy_all, member)
                while self._finished:
                    await self._finish()

    async def _finish(self) -> None:
        finished, self._finished = self._finished[:CLOSES_AT_ONCE], self._finished[CLOSES_AT_ONCE:]
        done = [a for a in finished if a in self._waiting and not self._waiting[a].members]
        for address in done:
            del self._waiting[address]
        entries = [self._context.catalog.get(keys.closing_key(address)) for address in done]
        # One may be put anew meanwhile, for a member that took another one's place: it stays.
        notes = [Note.of(entry) for entry in entries if entry is not None]
        await take_notes(self._context, notes)
        if any(self._context.catalog.get(note.key) is not None for note in notes):
            self.load()  # its log was read anew meanwhile, or is another gateway's now

    async def _copy_all(self, member: str) -> None:
        lacking = self._lacking[member]
        slots = trio.Semaphore(COPIES_AT_ONCE)
        while lacking:
            async with trio.open_nursery() as nursery:
                while lacking:
                    await slots.acquire()
                    address = next(iter(lacking), None)
                    if address is None:
                        slots.release()
                        break
                    del lacking[address]
                    nursery.start_soon(self._copy, member, address, slots)
        del self._lacking[member]
        self._copying.discard(member)

    async def _copy(self, member: str, address: str, slots: trio.Semaphore) -> None:
        try:
            closing = self._waiting.get(address)
            if closing is None:
                return
            logger.info("store %s has not the whole of segment %s yet: it copies the rest", member, address)
            sources = [name for name in closing.all if name != member]

            def noted() -> bool:
                return self._context.catalog.get(keys.closing_key(address)) is not None

            def wanted() -> bool:
                return self._waiting.get(address) is closing and member in closing.members and noted()

            end, at = closing.end, closing.at
            if await self._context.copier.copy(member, address, end, sources, at=at, wanted=wanted):
                entry = CloseEntry(address, end, at)
                self._context.producer.segments.close(member, entry, self._on_answer)
            elif self._waiting.get(address) is closing and not noted():
                # Another gateway that has its log has told all members, and perhaps deleted it since.
                self.drop([address])
        finally:
            slots.release()
