"""What clients have the gateway keep: one bound for all of them, and a fair share of it for each.

Rule: one client may hold half of what the others leave. Alone it gets half; a second one as greedy gets a
quarter; and whoever comes with little finds room, however greedy others are. Nothing that is held is ever
taken away for it: an account refuses, and what is kept was promised.

What was there before this life (`clients.NOBODY`) counts against the bound and against nobody's share.
"""

from __future__ import annotations

from typing import Final

from gateway.common.clients import NOBODY

SHARE_OF_THE_REST: Final = 2
"""One client may hold one part of so many of what others leave."""


class Shares:
    """An account of `total` units: bytes, or whatever its owner counts."""

    __slots__ = ("_held", "total", "used")

    def __init__(self, total: int) -> None:
        if total <= 0:
            raise ValueError(f"an account of {total}")
        self.total = total
        self.used = 0
        """What all clients hold."""
        self._held: dict[str, int] = {}

    def held(self, client: str) -> int:
        """What this client holds."""
        return self._held.get(client, 0)

    def share(self, client: str) -> int:
        """What this client may hold now; of what is nobody's, all that is left."""
        if client == NOBODY:
            return self.total - self.used
        return max(0, self.total - (self.used - self.held(client))) // SHARE_OF_THE_REST

    def has_room(self, client: str, size: int) -> bool:
        """Whether this client may hold so much more. Nothing more is always allowed."""
        return size <= 0 or self.held(client) + size <= self.share(client)

    def charge(self, client: str, size: int) -> None:
        """This client holds so much more, or less, in any case: what is loaded is taken beyond the bound."""
        self.used += size
        if client == NOBODY:
            return
        held = self._held.get(client, 0) + size
        if held < 0:
            raise RuntimeError(f"{client} gives back {-held} more than it holds")
        if held:
            self._held[client] = held
        else:
            self._held.pop(client, None)

    def move(self, client: str, other: str, size: int) -> None:
        """What one client held, another one holds from now on."""
        self.charge(client, -size)
        self.charge(other, size)
