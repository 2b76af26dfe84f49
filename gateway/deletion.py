"""Deleting topics: the tombstone first, then the stores, for as long as it takes.

Rule: the tombstone is in the catalog before any DELETE is sent, and stays until every member has confirmed;
absence from a catalog never deletes anything. A deleted topic's name may be used again at once: its segments'
addresses and its id are never used again.

The transaction that deletes a topic is small: the topic's key goes, the tombstone comes. Everything else of
it in the catalog is the worker's list of what the stores have to forget, and goes piece by piece behind that.
Segments that recovery found empty take the same way.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence

import trio

from gateway.catalog.interface import Entry
from gateway.log import catalog_keys as keys
from gateway.log.context import LogContext
from gateway.log.topic import Topic

SEGMENTS_AT_ONCE = 256
"""Segments whose addresses are deleted, and then their keys, in one step."""

logger = logging.getLogger(__name__)


class Deletion:
    """Owns the task that empties the stores."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._work = trio.Event()
        self._work.set()
        context.segments_dropped = self._work_is_there

    def _work_is_there(self) -> None:
        self._work.set()

    async def bury(self, topic: Topic) -> None:
        """Take a topic out of the catalog, for good. Its partitions have stopped taking appends."""
        tombstone = {keys.tombstone_key(topic.id): keys.pack({"name": topic.name})}
        await self._context.catalog.transact([], tombstone, [keys.topic_key(topic.name)])
        self._work.set()

    async def run(self) -> None:
        """Work on the tombstones, those of earlier lives first, for ever."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            await self._delete_dropped()
            for entry in self._context.catalog.range(keys.TOMBSTONES):
                await self._delete_topic(entry)

    async def _delete_topic(self, tombstone: Entry) -> None:
        catalog = self._context.catalog
        topic_id = bytes.fromhex(tombstone.key.removeprefix(keys.TOMBSTONES))
        while segments := catalog.range(keys.segments_prefix(topic_id))[:SEGMENTS_AT_ONCE]:
            found = [keys.unpack(entry.value) for entry in segments]
            await self._delete([(segment["address"], segment["members"]) for segment in found])
            closings = [keys.closing_key(segment["address"]) for segment in found]
            await catalog.transact([], {}, [*(entry.key for entry in segments), *closings])
        prefix = f"{keys.PARTITIONS}{topic_id.hex()}/"
        while partitions := catalog.range(prefix)[:SEGMENTS_AT_ONCE]:
            await catalog.transact([], {}, [entry.key for entry in partitions])
        await catalog.transact([], {}, [tombstone.key])
        logger.info("topic %s is gone from the stores", keys.unpack(tombstone.value)["name"])

    async def _delete_dropped(self) -> None:
        catalog = self._context.catalog
        while dropped := catalog.range(keys.SEGMENT_TOMBSTONES)[:SEGMENTS_AT_ONCE]:
            await self._delete(
                [
                    (entry.key.removeprefix(keys.SEGMENT_TOMBSTONES), keys.unpack(entry.value)["members"])
                    for entry in dropped
                ]
            )
            await catalog.transact([], {}, [entry.key for entry in dropped])

    async def _delete(self, segments: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Have every member delete these addresses; returns when all have."""
        members: dict[str, list[str]] = defaultdict(list)
        for address, holders in segments:
            for member in holders:
                members[member].append(address)
        self._context.closer.drop([address for address, _ in segments])
        async with trio.open_nursery() as nursery:
            for member, addresses in members.items():
                nursery.start_soon(self._context.producer.delete, member, addresses)
