"""What a store remembers of the gateways' catalog: where its history is, and some of its entries.

The entries are on the disk alone, in generations: a whole copy is written beside what is kept, in pieces, and
takes its place with its last piece, by the one record that says which generation counts. A copy that was
never finished is no harm: the next one begins by deleting it.

Rule: a store takes a higher sequence of its own lineage and nothing else. Another lineage it takes only from
who names the one that it has as its parent. What it says is what is on its disk.

A sequence that no catalog can have reached since is refused, or one forged KEEP would leave no higher number
to any catalog. Who reaches the mesh can still forge a lower one, which the gateway then finds to be more than
its catalog has: a mesh has no keys by which a store could know its gateway.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_QUESTION,
    KEPT_DONE,
    KEPT_FOREIGN_CLUSTER,
    KEPT_OTHER_HISTORY,
    KEPT_OUT_OF_TURN,
    KEPT_STORAGE_ERROR,
    KEPT_TOO_LARGE,
    NOTHING_REMEMBERED,
    Keep,
    Kept,
    Remembered,
)
from wireproto.dafka.fields import Cursor

MAX_COPY_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of entries in a whole copy. A catalog of 20,000 partitions has some megabytes."""

MAX_CHANGED_BYTES: Final = 256 * 1024 * 1024
"""Bytes of changes since the last whole copy; then the store asks for another one, so that what it keeps is
bounded whatever the changes replace."""

MAX_JUMP: Final = 1 << 40
"""By how much a sequence may be above the one that the store remembers: 34 years of a thousand transactions a
second."""

_HEAD: Final = struct.Struct(">BQQ")
_HEAD_VERSION: Final = 1

NO_CLUSTER: Final = ""

logger = logging.getLogger(__name__)


class MemoryHead(NamedTuple):
    """The one record that says what counts.

    generation: of the entries. bytes_changed: since the last whole copy.
    """

    memory: Remembered = NOTHING_REMEMBERED
    generation: int = 0
    bytes_changed: int = 0

    def pack(self) -> bytes:
        """For the disk."""
        return _HEAD.pack(_HEAD_VERSION, self.generation, self.bytes_changed) + self.memory.pack()

    @classmethod
    def unpack(cls, value: bytes) -> MemoryHead:
        """Raises ValueError or struct.error for what `pack` did not write."""
        version, generation, bytes_changed = _HEAD.unpack_from(value)
        if version != _HEAD_VERSION:
            raise ValueError(f"what is remembered of the catalog has version {version}")
        cursor = Cursor(value, _HEAD.size)
        memory = Remembered.take(cursor)
        cursor.finish()
        return cls(memory, generation, bytes_changed)


class Keeping(NamedTuple):
    """What one KEEP changes on the disk, and what is answered when that is durable.

    generation: where the entries go. emptied: generations that are deleted first, from the first of these
    numbers to before the second. head: None where it stays.
    """

    answer: Kept
    head: MemoryHead | None = None
    generation: int = 0
    emptied: tuple[int, int] = (0, 0)
    puts: Mapping[str, bytes] = {}
    deletes: Sequence[str] = ()


class _Transfer(NamedTuple):
    """A whole copy that is under way."""

    at: Remembered
    pieces: int
    bytes: int


class CatalogMemory:
    """One store's. `begin` tells it what is on the disk."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._head: MemoryHead | None = MemoryHead()
        """None: it cannot be read."""
        self._transfer: _Transfer | None = None
        self._said = False
        """Of the first KEEP that cannot be a gateway's it was said."""

    @property
    def memory(self) -> Remembered:
        """What is remembered, or will be with the next commit."""
        return NOTHING_REMEMBERED if self._head is None else self._head.memory

    def begin(self, head: MemoryHead | None) -> None:
        """What the disk has at a start; None if that cannot be read."""
        self._head = head

    def keep(self, keep: Keep, cluster_id: str) -> Keeping:
        """What becomes of a KEEP at a store of this cluster ("": of none yet). It counts at once, and is
        answered when it is durable.
        """
        status = self._judge(keep, cluster_id)
        cluster_id = cluster_id or (keep.cluster_id if status is None else NO_CLUSTER)
        if status is not None:
            return Keeping(self._answer(keep, status, cluster_id))
        if keep.kind == KEEP_CHANGES:
            return self._change(keep, cluster_id)
        return self._take_piece(keep, cluster_id)

    def _answer(self, keep: Keep, status: int, cluster_id: str) -> Kept:
        pieces = self._transfer.pieces if self._transfer is not None and self._transfer.at == keep.at else 0
        return Kept(keep.requester, self._incarnation, status, cluster_id, self.memory, pieces)

    def _judge(self, keep: Keep, cluster_id: str) -> int | None:
        """What is answered at once; None if something is to be kept."""
        if cluster_id and keep.cluster_id != cluster_id:
            return KEPT_FOREIGN_CLUSTER
        if self._head is None and keep.kind in (KEEP_QUESTION, KEEP_CHANGES):
            return KEPT_STORAGE_ERROR
        known = self.memory
        if keep.kind == KEEP_QUESTION or (self._head is not None and known == keep.at):
            return KEPT_DONE
        if not keep.at.lineage or not self._may_become(known, keep) or self._is_beyond_reach(known, keep):
            return KEPT_OTHER_HISTORY
        if keep.kind == KEEP_CHANGES:
            return None if self._follows(known, keep) else KEPT_OUT_OF_TURN
        return self._judge_piece(keep)

    @staticmethod
    def _may_become(known: Remembered, keep: Keep) -> bool:
        if known.lineage and known.lineage != keep.at.lineage:
            return known.lineage == keep.parent
        return keep.at.sequence > known.sequence

    def _is_beyond_reach(self, known: Remembered, keep: Keep) -> bool:
        if keep.at.sequence - known.sequence <= MAX_JUMP:
            return False
        if not self._said:
            self._said = True
            logger.error(
                "%s has asked to keep sequence %d of the catalog, and %d is remembered: none gets so far. "
                "Refused. (Others will not be mentioned.) Find out who else reaches the mesh's ports",
                keep.requester, keep.at.sequence, known.sequence,
            )  # fmt: skip
        return True

    def _follows(self, known: Remembered, keep: Keep) -> bool:
        assert self._head is not None
        return (
            known.lineage == keep.at.lineage
            and known.sequence == keep.base
            and self._head.bytes_changed <= MAX_CHANGED_BYTES
        )

    def _judge_piece(self, keep: Keep) -> int | None:
        if keep.base == 0:
            return None
        transfer = self._transfer
        if transfer is None or transfer.at != keep.at or keep.base > transfer.pieces:
            return KEPT_OUT_OF_TURN
        if keep.base < transfer.pieces:
            return KEPT_DONE  # it came before
        return KEPT_TOO_LARGE if transfer.bytes + _size(keep) > MAX_COPY_BYTES else None

    def _change(self, keep: Keep, cluster_id: str) -> Keeping:
        head = self._head
        assert head is not None
        self._transfer = None
        self._head = MemoryHead(keep.at, head.generation, head.bytes_changed + _size(keep))
        answer = self._answer(keep, KEPT_DONE, cluster_id)
        return Keeping(answer, self._head, head.generation, puts=keep.puts, deletes=keep.deletes)

    def _take_piece(self, keep: Keep, cluster_id: str) -> Keeping:
        head = self._head or MemoryHead()
        generation = head.generation + 1
        before = self._transfer if keep.base else None
        size = _size(keep) + (before.bytes if before is not None else 0)
        self._transfer = _Transfer(keep.at, keep.base + 1, size)
        emptied = (0, 0)
        if not keep.base:
            # What an earlier copy left there; of a head that cannot be read, all that there is.
            emptied = (generation, generation + 1) if self._head is not None else (0, 1 << 63)
        new_head: MemoryHead | None = None
        if keep.kind == KEEP_LAST_PIECE:
            new_head = self._head = MemoryHead(keep.at, generation)
            if emptied == (0, 0):
                emptied = (0, generation)
            elif emptied[1] == generation + 1:
                emptied = (0, generation + 1)
        answer = self._answer(keep, KEPT_DONE, cluster_id)
        if new_head is not None:
            self._transfer = None
        return Keeping(answer, new_head, generation, emptied, keep.puts)


def _size(keep: Keep) -> int:
    return sum(len(key) + len(value) for key, value in keep.puts.items()) + sum(map(len, keep.deletes))
