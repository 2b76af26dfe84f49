"""CLOSE, repeated to every member of a closed segment until it has confirmed the end.

Rule: a member hears of an end only after the catalog has it. What some member has not confirmed is kept in
the catalog (`/closing/<address>`), written with the end itself, so that a restart goes on with it. Until a
store hears the end it keeps the segment as sealed or open; nothing reads it beyond the catalog's end.

Rule: before a segment that follows another one of the same life holds its first record, w members have heard
where the one before it ended. Both have the same epoch, so only that tells a catalog from before the roll
(`gateway.log.verification`).
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from gateway.log import catalog_keys as keys
from wireproto.dafka.additions import STATUS_DONE

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.segment import Segment

CLOSES_AT_ONCE = 256
"""Segments in one CLOSE."""

RETRY_SECONDS = 5.0
"""Pause before a member that has not the whole segment yet is asked again."""

logger = logging.getLogger(__name__)


class Closer:
    """Owns the task that tells the members."""

    def __init__(self, context: "LogContext") -> None:
        self._context = context
        self._waiting: dict[str, tuple[int, set[str]]] = {}
        self._work = trio.Event()

    @staticmethod
    def note(segment: "Segment", puts: dict[str, bytes]) -> None:
        """Put down, in the transaction that closes a segment, that its members are to be told."""
        value = {"end": segment.last_sequence, "members": segment.members}
        puts[keys.closing_key(segment.address)] = keys.pack(value)

    def begin(self, segments: Sequence["Segment"]) -> None:
        """The transaction is durable: tell the members."""
        for segment in segments:
            assert segment.last_sequence is not None
            self._waiting[segment.address] = segment.last_sequence, set(segment.members)
        if segments:
            self._work.set()

    async def begin_with_enough(self, segments: Sequence["Segment"]) -> None:
        """As `begin`; returns when w members of each have answered.

        What they answer does not matter here: one that cannot write its disk must not stop the log's other
        members, and is asked again.
        """
        batch = {segment.address: (segment.last_sequence or 0, set(segment.members)) for segment in segments}
        lacking = {segment.address: segment.w for segment in segments}
        enough = trio.Event()

        async def tell(member: str, addresses: list[str]) -> None:
            await self._tell(member, batch)
            for address in addresses:
                lacking[address] -= 1
            if max(lacking.values()) <= 0:
                enough.set()

        if not segments:
            return
        async with trio.open_nursery() as nursery:
            for member in sorted({member for segment in segments for member in segment.members}):
                mine = [segment.address for segment in segments if member in segment.members]
                nursery.start_soon(tell, member, mine)
            await enough.wait()
            nursery.cancel_scope.cancel()
        self._waiting.update(batch)
        self._work.set()

    def drop(self, addresses: Sequence[str]) -> None:
        """These are being deleted: nobody needs to know their ends."""
        for address in addresses:
            self._waiting.pop(address, None)

    def load(self) -> None:
        """Take up what an earlier life had not finished."""
        for entry in self._context.catalog.range(keys.CLOSING):
            value = keys.unpack(entry.value)
            self._waiting[entry.key.removeprefix(keys.CLOSING)] = value["end"], set(value["members"])
        if self._waiting:
            self._work.set()

    async def run(self) -> None:
        """Tell the members, for ever."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            unfinished = False
            waiting = list(self._waiting.items())
            for start in range(0, len(waiting), CLOSES_AT_ONCE):
                unfinished |= await self._tell_all(dict(waiting[start : start + CLOSES_AT_ONCE]))
            if unfinished:
                await trio.sleep(RETRY_SECONDS)
                self._work.set()

    async def _tell_all(self, batch: dict[str, tuple[int, set[str]]]) -> bool:
        """One round for these segments; true if some member has not got all of one yet."""
        async with trio.open_nursery() as nursery:
            for member in sorted({member for _, members in batch.values() for member in members}):
                nursery.start_soon(self._tell, member, batch)
        finished = [address for address, (_, members) in batch.items() if not members]
        if finished:
            deletes = [keys.closing_key(address) for address in finished]
            await self._context.catalog.transact([], {}, deletes)
            self.drop(finished)
        return len(finished) < len(batch)

    async def _tell(self, member: str, batch: dict[str, tuple[int, set[str]]]) -> None:
        ends = [(address, end) for address, (end, members) in batch.items() if member in members]
        for status in await self._context.producer.close(member, ends):
            if status.status == STATUS_DONE and status.address in batch:
                batch[status.address][1].discard(member)
            else:
                logger.info("store %s has not the whole of segment %s yet", member, status.address)
