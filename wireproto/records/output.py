"""Where inflated bytes go: memory is used as it is filled and never moved, so that it stays within the limit.

A growing ``bytearray``, or pieces that are joined at the end, need twice the size for a moment. Anonymous
pages do not: the whole limit is reserved as address space, and a page costs memory once something is written
to it.
"""

import mmap
from typing import Final

from wireproto.kafka.errors import ErrorCode
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import Buffer

PIECE_BYTES: Final = 256 * 1024
"""Bytes to ask from a codec at a time. Most batches inflate to less, and stay the one piece that the codec
made; a bomb costs one piece beyond the limit."""


def reserve(size: int) -> memoryview:
    """``size`` writable bytes, all zero; above ``PIECE_BYTES`` they cost nothing until they are written to.

    Raises :class:`MemoryError`: there is no room for them.
    """
    if size <= PIECE_BYTES:
        return memoryview(bytearray(size))
    try:
        return memoryview(mmap.mmap(-1, size))
    except OSError as error:
        raise MemoryError(f"no room for {size} bytes") from error


def too_large(limit: int) -> InvalidBatch:
    """The exception for records that inflate to more than ``limit`` bytes: MESSAGE_TOO_LARGE."""
    return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"the records inflate to more than {limit} bytes")


class Output:
    """Pieces of output, put together as they come, of at most ``limit`` bytes."""

    __slots__ = ("_first", "_limit", "_pages", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._first: bytes = b""
        self._pages: memoryview | None = None

    @property
    def next_piece_bytes(self) -> int:
        """How many bytes to ask for: one more than may come at the end, so that too much is noticed."""
        return min(PIECE_BYTES, self._limit - self._size + 1)

    def append(self, piece: bytes) -> None:
        """Take the next piece.

        Raises :class:`InvalidBatch`: MESSAGE_TOO_LARGE; it is more than the limit.
        """
        if not piece:
            return
        end = self._size + len(piece)
        if end > self._limit:
            raise too_large(self._limit)
        if not self._size:
            self._first = piece
        else:
            if self._pages is None:
                self._pages = reserve(self._limit)
                self._pages[: self._size] = self._first
                self._first = b""
            self._pages[self._size : end] = piece
        self._size = end

    def result(self) -> Buffer:
        """All of it: the first piece if there was no other."""
        return self._first if self._pages is None else self._pages[: self._size]
