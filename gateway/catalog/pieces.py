"""Cuts what is to be changed into transactions that are not too large. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gateway.catalog.interface import MAX_OPERATIONS, MAX_TRANSACTION_BYTES

if TYPE_CHECKING:
    from gateway.catalog.interface import Compare

ADDED_OPERATIONS: Final = 4
"""What is added to a transaction on its way: the gateway's life, that it is alive, and the counter of leader
epochs."""

ADDED_BYTES: Final = 8 * 1024
"""Bytes of that."""


class Room:
    """What a transaction may still have."""

    def __init__(self) -> None:
        self._compares = self._writes = MAX_OPERATIONS - ADDED_OPERATIONS
        self._bytes = MAX_TRANSACTION_BYTES - ADDED_BYTES
        self._compared: set[Compare] = set()
        """Compared already: many parts have the same topic, slot, or stores."""

    def take(
        self, compares: Iterable[Compare], puts: Mapping[str, bytes], deletes: Sequence[str] = ()
    ) -> bool:
        """Whether these go into it as well; then they do."""
        more = set(compares) - self._compared
        keys = [compare.key for compare in more]
        size = sum(2 * len(key.encode()) for key in (*keys, *puts, *deletes)) + sum(map(len, puts.values()))
        writes = len(puts) + len(deletes)
        if len(keys) > self._compares or writes > self._writes or size > self._bytes:
            return False
        self._compared |= more
        self._compares -= len(keys)
        self._writes -= writes
        self._bytes -= size
        return True


def in_transactions(entries: Iterable[tuple[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """The entries in as few transactions as may be, where each needs little besides."""
    room, piece = Room(), dict[str, bytes]()
    for key, value in entries:
        if not room.take((), {key: value}) and piece:
            yield piece
            room, piece = Room(), {}
            room.take((), {key: value})
        piece[key] = value
    if piece:
        yield piece
