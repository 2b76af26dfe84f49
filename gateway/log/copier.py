"""COPY: has a store fetch what it lacks of a segment from those that have it, and waits until it has.

The announcement comes from one of these, because the store may never have heard of the segment. It is asked
for again and again, at growing intervals, and at once when the store says that it is done; whoever no longer
needs it cancels the wait.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from mesh.reader import NotServed
from wireproto.dafka.additions import (
    NOTHING_REMEMBERED,
    STATUS_DONE,
    STATUS_INCOMPLETE,
    AddressStatus,
    Announcement,
    Copy,
    Remembered,
)

if TYPE_CHECKING:
    from gateway.log.context import LogContext

FIRST_SECONDS = 0.1
LAST_SECONDS = 2.0
"""A store that is copying is asked at these intervals whether it has all; it says so by itself, too."""

STALLED_SECONDS = 60.0
"""A copy that gets nothing for so long begins anew, with what the sources say then. A store that answers
nothing for so long may be gone for ever: who can do without it does."""

REFUSED_SECONDS = 10.0
"""Pause before a store is asked again that would not copy, or before sources are asked again that gave no
announcement."""

NO_ROWS = -1
"""The last row that is wanted when only the announcement is."""

logger = logging.getLogger(__name__)


class Copier:
    """Copies for all partitions of one gateway."""

    def __init__(self, context: "LogContext") -> None:
        self.copied = 0
        """Segments that a store said to have whole, after COPY."""
        self.refused = 0
        self._context = context
        self._under_way: dict[tuple[str, str], trio.CancelScope] = {}
        """(member, address) -> the pause before it is asked again."""

    async def copy(
        self,
        member: str,
        address: str,
        end: int,
        sources: Sequence[str],
        *,
        members: Sequence[str] = (),
        at: Remembered = NOTHING_REMEMBERED,
        wanted: Callable[[], bool] = lambda: True,
        once: bool = False,
    ) -> bool:
        """Return when `member` has everything up to sequence `end`, for ever if it must be; false when it is
        no longer `wanted`, or with `once` when it cannot be done now.

        `members`: those of the segment, where they are to be others than were announced. `at`: where the
        catalog has what is told, if the caller knows.
        """
        key = member, address
        while wanted():
            entry = await self._entry(address, end, sources, members, at)
            if entry is not None and await self._ask(key, entry, wanted, once=once):
                self.copied += 1
                return True
            if once:
                return False
            await self._pause(key, REFUSED_SECONDS)
        return False

    async def _pause(self, key: tuple[str, str], seconds: float) -> None:
        """Wait so long, or until the store says that it is done."""
        with trio.move_on_after(seconds) as scope:
            self._under_way[key] = scope
            try:
                await trio.sleep_forever()
            finally:
                if self._under_way.get(key) is scope:
                    del self._under_way[key]

    async def _entry(
        self, address: str, end: int, sources: Sequence[str], members: Sequence[str], at: Remembered
    ) -> bytes | None:
        try:
            announcement = await self.announcement(sources, address)
        except NotServed as error:
            logger.warning("segment %s cannot be copied yet: %s", address, error)
            return None
        if members:
            announcement = announcement._replace(members=tuple(members))
        return Copy(announcement, end, tuple(sources), at).pack()

    async def announcement(self, members: Sequence[str], address: str) -> Announcement:
        """A segment's announcement from one of these. Raises NotServed."""
        context = self._context
        members = context.stores.live_first(members, address)
        return (await context.reader.beginning(members, address, NO_ROWS)).announcement

    async def _ask(
        self, key: tuple[str, str], entry: bytes, wanted: Callable[[], bool], *, once: bool
    ) -> bool:
        """True once it has all; false when it refuses, gets nothing, or nobody wants it any more, and with
        `once` when it does not answer.
        """
        member, address = key
        pause, head = FIRST_SECONDS, -2
        last_progress = trio.current_time()
        while wanted() and trio.current_time() < last_progress + STALLED_SECONDS:
            status = await self._answer(member, address, entry)
            if status is None:
                if once:
                    return False
                last_progress = trio.current_time()  # it is away, and has not said that it gets nothing
                continue
            if status.status == STATUS_DONE:
                return True
            if status.status != STATUS_INCOMPLETE:
                self.refused += 1
                logger.warning("store %s does not copy segment %s: status %d", member, address, status.status)
                return False
            if status.sequence > head:
                pause, head, last_progress = FIRST_SECONDS, status.sequence, trio.current_time()
            else:
                pause = min(2 * pause, LAST_SECONDS)
            await self._pause(key, pause)
        return False

    async def _answer(self, member: str, address: str, entry: bytes) -> AddressStatus | None:
        """What the store says; None if it says nothing for `STALLED_SECONDS`."""
        with trio.move_on_after(STALLED_SECONDS):
            return await self._context.producer.segments.copies.answer(member, address, entry)
        return None

    def hurry(self, member: str, address: str) -> None:
        """A store says that it is done: ask it now."""
        scope = self._under_way.get((member, address))
        if scope is not None:
            scope.cancel()
