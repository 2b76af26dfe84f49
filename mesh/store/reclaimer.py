"""Gives the space of deleted addresses back, one at a time, so that nobody else waits for it.

RocksDB frees what `delete_range` hid when it next compacts there, which may be never; a compaction of the
address's range does it now. It reads and writes the disk, so it has a task and a thread of its own and rests
between two addresses; what is left at shutdown, or finds no place in the queue, RocksDB's own compactions get
to later.
"""

import logging

import trio

from mesh.store.db import Database

MAX_QUEUED_RECLAIMS = 4096
"""Deleted addresses that wait; further ones are left to RocksDB's own compactions."""

REST_SHARE = 4
"""After an address the reclaimer rests so many times as long as it worked: a fifth of a disk at most."""

REST_LEAST_SECONDS = 0.1
"""Shortest rest between two addresses."""

logger = logging.getLogger(__name__)


class Reclaimer:
    """The queue of one store, and the task that works it off."""

    def __init__(self, database: Database) -> None:
        self.reclaimed = 0
        self.dropped = 0
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
        async for address in self._waiting:
            started = trio.current_time()
            try:
                await trio.to_thread.run_sync(self._database.reclaim, address, abandon_on_cancel=True)
                self.reclaimed += 1
            except Exception:
                logger.exception("the space of address %s is not given back now", address)
            await trio.sleep(max(REST_LEAST_SECONDS, REST_SHARE * (trio.current_time() - started)))
