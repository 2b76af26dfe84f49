"""Gives the space of deleted addresses back, one at a time, so that nobody else waits for it.

RocksDB frees what `delete_range` hid when it next compacts there, which may be never; a compaction of the
address's range does it now. It reads and writes the disk, so it has a task and a thread of its own and rests
between two addresses; what is left at shutdown, or finds no place in the queue, RocksDB's own compactions get
to later.

That frees keys. The contents lie in blob files, each with what was written in a moment, of all addresses, and
a file goes when nothing in it is left. Once `GARBAGE_SHARE` of them is garbage, what is left of every address
is read, and then written to new files, one address after the other. So a store takes at most
1 / (1 - GARBAGE_SHARE) of what it keeps, and writes (1 - GARBAGE_SHARE) / GARBAGE_SHARE bytes for each that
it gives back.
"""

import logging
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from mesh.protocol.disk import StoreCorrupt
from mesh.store import keys
from mesh.store.db import Database

MAX_QUEUED_RECLAIMS = 4096
"""Deleted addresses that wait; further ones are left to RocksDB's own compactions."""

REST_SHARE = 4
"""After an address the reclaimer rests so many times as long as it worked: a fifth of a disk at most."""

REST_LEAST_SECONDS = 0.1
"""Shortest rest between two addresses."""

GARBAGE_SHARE = 0.4
"""Share of the blob files that is garbage, from where on they are rewritten."""

GARBAGE_LEAST_BYTES = 64 * 1024 * 1024
"""Garbage that is not worth the work."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Reclaimer:
    """The queue of one store, and the task that works it off."""

    def __init__(self, database: Database) -> None:
        self.reclaimed = 0
        self.dropped = 0
        self.collections = 0
        """How often the garbage of blob files was collected."""
        self.garbage_bytes = 0
        """Bytes of garbage in blob files at the last look."""
        self._stuck_bytes = 0
        """Those that the last collection left, or could not begin with."""
        self._database = database
        self._queue: trio.MemorySendChannel[str]
        self._waiting: trio.MemoryReceiveChannel[str]
        self._queue, self._waiting = trio.open_memory_channel(MAX_QUEUED_RECLAIMS)

    def add(self, address: str) -> None:
        """Give the space of this deleted address back when its turn comes."""
        try:
            self._queue.send_nowait(address)
        except trio.WouldBlock:
            self.dropped += 1

    async def run(self) -> None:
        """Work for ever. Nothing that goes wrong here ends the store.

        Cancelled, it leaves its thread behind: `Database.close` cuts that one short.
        """
        await self._collect_if_worth_it()  # the last run may have been ended before it had done so
        async for address in self._waiting:
            if await self._work(self._database.reclaim, address):
                self.reclaimed += 1
            if not self._waiting.statistics().current_buffer_used:
                await self._collect_if_worth_it()

    async def _collect_if_worth_it(self) -> None:
        try:
            if await self._is_worth_it():
                await self._collect()
        except Exception:
            logger.exception("the garbage in the blob files is not collected now")

    async def _is_worth_it(self) -> bool:
        """Whether there is enough garbage, not counting what the last collection could not free."""
        self.garbage_bytes, size = await _in_thread(self._database.garbage)
        self._stuck_bytes = min(self._stuck_bytes, self.garbage_bytes)
        found = self.garbage_bytes - self._stuck_bytes
        return found >= max(GARBAGE_LEAST_BYTES, GARBAGE_SHARE * size)

    async def _collect(self) -> None:
        before = self._stuck_bytes = self.garbage_bytes
        logger.info("%d MB of the blob files are garbage: what is left is written to new ones", before >> 20)
        # All of it is read before anything is moved: what cannot be read would end the store, at every start.
        if not await self._all(self._database.check_contents):
            logger.error("no garbage is collected while there are contents that cannot be read")
            return
        await self._all(self._database.rewrite)
        self.garbage_bytes, _ = await _in_thread(self._database.garbage)
        self._stuck_bytes = self.garbage_bytes
        self.collections += 1
        logger.info("%d MB of garbage were collected", (before - self.garbage_bytes) >> 20)

    async def _all(self, work: Callable[[str], None]) -> bool:
        """Do it to every address that has records, until it fails."""
        start = keys.RECORDS
        while (found := await _in_thread(self._database.names_from, keys.RECORDS, start)) is not None:
            address, start = found
            if not await self._work(work, address):
                return False
        return True

    async def _work(self, work: Callable[[str], None], address: str) -> bool:
        """Have a thread do it, and rest; false if it failed."""
        started = trio.current_time()
        done = False
        try:
            await _in_thread(work, address)
            done = True
        except StoreCorrupt as error:
            logger.error("%s", error)
        except Exception:
            logger.exception("the space of address %s is not given back now", address)
        await trio.sleep(max(REST_LEAST_SECONDS, REST_SHARE * (trio.current_time() - started)))
        return done


async def _in_thread(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
