"""How many connections there may be, of all and of each address, and how fast they may be made
(`max.connections`, `max.connections.per.ip`, its overrides, `max.connection.creation.rate`).

These are Kafka's, and unlimited unless somebody sets them. What a gateway has room for is bounded besides,
by client (`gateway.front.clients`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.quotas.rate import KAFKAS_WINDOWS, Rate, Windows

UNLIMITED: Final = 2**31 - 1


class PlaceLimits(NamedTuple):
    """Connections; those of one address, and of some by address; those made in a second."""

    all: int = UNLIMITED
    of_address: int = UNLIMITED
    of_some: Mapping[str, int] = MappingProxyType({})
    per_second: int = UNLIMITED


class Places:
    """Those that are taken in one gateway."""

    def __init__(self, windows: Windows = KAFKAS_WINDOWS) -> None:
        self.limits = PlaceLimits()
        self._windows = windows
        self._made = Rate(windows)
        self._taken: dict[str, int] = {}
        self._count = 0

    def refusal(self, address: str) -> str | None:
        """Why there is no place for a connection of an address: a word; None: there is one."""
        limits = self.limits
        if self._count >= limits.all:
            return "all"
        if self._taken.get(address, 0) >= limits.of_some.get(address, limits.of_address):
            return "ip"
        return None

    def take(self, address: str) -> None:
        """A connection has come."""
        self._taken[address] = self._taken.get(address, 0) + 1
        self._count += 1

    def leave(self, address: str) -> None:
        """A connection that had one has ended."""
        self._count -= 1
        left = self._taken.pop(address) - 1
        if left:
            self._taken[address] = left

    def rest_ms(self, now_ms: int) -> int:
        """A connection was made: for how long no other is to be, one window at most."""
        if self.limits.per_second == UNLIMITED:
            return 0
        self._made.record(1, now_ms)
        if not self.limits.per_second:
            return self._windows.each_ms
        return min(self._made.excess_ms(self.limits.per_second, now_ms), self._windows.each_ms)
