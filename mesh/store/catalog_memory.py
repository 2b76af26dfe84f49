"""How what a store remembers of the catalog (`mesh.protocol.catalog_memory`) looks in RocksDB.

One record says what counts; the entries of a generation lie together, in the order of their keys.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from mesh.protocol.catalog_memory import Keeping, MemoryHead
from mesh.protocol.disk import StoreCorrupt
from wireproto.dafka.additions import PIECE_BYTES

if TYPE_CHECKING:
    from mesh.store.changes import Batch
    from mesh.store.db import Database

HEAD_KEY: Final = b"kh"
ENTRIES: Final = b"ke"
"""What the keys of entries start with: then the generation in eight bytes, then the entry's own key."""

PAGE_ENTRIES: Final = 1024
"""Entries in one answer, if they have fewer than `PIECE_BYTES`."""

logger = logging.getLogger(__name__)


class Page(NamedTuple):
    """Some entries, and what they belong to."""

    head: MemoryHead
    entries: dict[str, bytes]
    more: bool


def put_keeping(batch: Batch, keeping: Keeping) -> None:
    """What one KEEP changes."""
    first, end = keeping.emptied
    if first < end:
        batch.delete_range(_prefix(first), _prefix(end))
    prefix = _prefix(keeping.generation)
    for key, value in keeping.puts.items():
        batch.put(prefix + key.encode(), value)
    for key in keeping.deletes:
        batch.delete(prefix + key.encode())
    if keeping.head is not None:
        batch.put(HEAD_KEY, keeping.head.pack())


def read_head(database: Database) -> MemoryHead | None:
    """What is remembered; None if that cannot be read, which is logged."""
    try:
        return load_head(database)
    except StoreCorrupt as error:
        logger.error("%s", error)
        return None


def load_head(database: Database) -> MemoryHead:
    """What is remembered. Raises StoreCorrupt."""
    value = database.get(HEAD_KEY)
    if value is None:
        return MemoryHead()
    try:
        return MemoryHead.unpack(value)
    except (ValueError, struct.error) as error:
        raise StoreCorrupt(f"what is remembered of the catalog cannot be read: {error}") from None


def read_page(database: Database, after: str) -> Page:
    """The entries after this key, or from the first on, as many as go into one answer. Raises
    StoreCorrupt.
    """
    while True:
        head = load_head(database)
        page = _read_page(database, head, after)
        if load_head(database) == head:
            return page


def _read_page(database: Database, head: MemoryHead, after: str) -> Page:
    prefix = _prefix(head.generation)
    entries: dict[str, bytes] = {}
    size = 0
    first = prefix + after.encode() + b"\0" if after else prefix
    for key, value in database.scan(first, _prefix(head.generation + 1)):
        if len(entries) == PAGE_ENTRIES or size > PIECE_BYTES:
            return Page(head, entries, more=True)
        entries[key[len(prefix) :].decode()] = value
        size += len(key) + len(value)
    return Page(head, entries, more=False)


def _prefix(generation: int) -> bytes:
    return ENTRIES + struct.pack(">Q", generation)
