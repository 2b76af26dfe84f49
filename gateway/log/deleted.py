"""The segments that this gateway life has had deleted, and of which the catalog says nothing any more.

A store says what it has of a log; the answer may come late, after the store was told to delete some of it,
has done that, and the tombstone has left the catalog. What it names then is no news: this catalog knew it.
"""

from collections.abc import Iterable
from typing import Final

MAX_DELETED: Final = 20_000
"""Addresses that are remembered, the newest: some megabytes. An answer would have to be later than so many
deletions."""


class Deleted:
    """Addresses, the newest of them."""

    def __init__(self) -> None:
        self._addresses: dict[str, None] = {}

    def add(self, addresses: Iterable[str]) -> None:
        """All who kept these have deleted them."""
        self._addresses |= dict.fromkeys(addresses)
        while len(self._addresses) > MAX_DELETED:
            del self._addresses[next(iter(self._addresses))]

    def __contains__(self, address: str) -> bool:
        return address in self._addresses
