"""Deleting topics: the tombstone first, then the stores, for as long as it takes.

Rule: the tombstone is in the catalog before any DELETE is sent, and stays until every member has confirmed;
absence from a catalog never deletes anything. A deleted topic's name may be used again at once: its segments'
addresses and its id are never used again.
"""

import logging

import trio

from gateway.log import catalog_keys as keys
from gateway.log.context import LogContext
from gateway.log.topic import Topic

ADDRESSES_AT_ONCE = 256

logger = logging.getLogger(__name__)


class Deletion:
    """Owns the task that empties the stores of deleted topics."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._work = trio.Event()
        self._work.set()

    async def bury(self, topic: Topic) -> None:
        """Take a topic out of the catalog, for good. Its partitions have stopped taking appends."""
        catalog, prefix = self._context.catalog, keys.segments_prefix(topic.id)
        members: dict[str, list[str]] = {}
        deletes = [keys.topic_key(topic.name)]
        for entry in catalog.range(prefix):
            segment = keys.unpack(entry.value)
            for member in segment["members"]:
                members.setdefault(member, []).append(segment["address"])
            deletes.append(entry.key)
        deletes += [entry.key for entry in catalog.range(f"{keys.PARTITIONS}{topic.id.hex()}/")]
        puts = {}
        if members:
            puts[keys.tombstone_key(topic.id)] = keys.pack({"name": topic.name, "members": members})
        await catalog.transact([], puts, deletes)
        self._work.set()

    async def run(self) -> None:
        """Work on the tombstones, those of earlier lives first, for ever."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            for entry in self._context.catalog.range(keys.TOMBSTONES):
                value = keys.unpack(entry.value)
                for member, addresses in value["members"].items():
                    for start in range(0, len(addresses), ADDRESSES_AT_ONCE):
                        await self._context.producer.delete(
                            member, addresses[start : start + ADDRESSES_AT_ONCE]
                        )
                await self._context.catalog.transact([], {}, [entry.key])
                logger.info("topic %s is gone from the stores", value["name"])
