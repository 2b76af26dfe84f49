"""What clients have the gateway keep: one bound for all of them, and a fair share of it for each.

Rule: one client may hold half of what the others leave. Alone it gets half; a second one as greedy gets a
quarter; and whoever comes with little finds room, however greedy others are. Nothing that is held is ever
taken away for it: an account refuses, and what is kept was promised. The clients of one network of IPv6
together may hold three quarters of what all others leave: as one and a half clients.

What was there before this life (`clients.NOBODY`) counts against the bound and against nobody's share.
"""

from __future__ import annotations

from typing import Final

from gateway.common.clients import NETWORK_CLIENTS, NOBODY, network_of

SHARE_OF_THE_REST: Final = 2
"""One client may hold one part of so many of what others leave."""


class Shares:
    """An account of `total` units: bytes, or whatever its owner counts."""

    __slots__ = ("_held", "_held_by_network", "total", "used")

    def __init__(self, total: int) -> None:
        if total <= 0:
            raise ValueError(f"an account of {total}")
        self.total = total
        self.used = 0
        """What all clients hold."""
        self._held: dict[str, int] = {}
        self._held_by_network: dict[str, int] = {}
        """What the clients of a network hold, where a network is not one client."""

    def held(self, client: str) -> int:
        """What this client holds."""
        return self._held.get(client, 0)

    def share(self, client: str) -> int:
        """What this client may hold now; of what is nobody's, all that is left."""
        if client == NOBODY:
            return self.total - self.used
        held = self.held(client)
        share = max(0, self.total - (self.used - held)) // SHARE_OF_THE_REST
        network = network_of(client)
        if network == client:
            return share
        of_network = self._held_by_network.get(network, 0)
        left_by_others = max(0, self.total - (self.used - of_network))
        room = int(left_by_others / SHARE_OF_THE_REST * NETWORK_CLIENTS) - of_network
        return min(share, held + max(0, room))

    def has_room(self, client: str, size: int) -> bool:
        """Whether this client may hold so much more. Nothing more is always allowed."""
        return size <= 0 or self.held(client) + size <= self.share(client)

    def charge(self, client: str, size: int) -> None:
        """This client holds so much more, or less, in any case: what is loaded is taken beyond the bound."""
        self.used += size
        if client == NOBODY:
            return
        _add(self._held, client, size)
        if (network := network_of(client)) != client:
            _add(self._held_by_network, network, size)

    def move(self, client: str, other: str, size: int) -> None:
        """What one client held, another one holds from now on."""
        self.charge(client, -size)
        self.charge(other, size)


def _add(held: dict[str, int], whose: str, size: int) -> None:
    holds = held.get(whose, 0) + size
    if holds < 0:
        raise RuntimeError(f"{whose} gives back {-holds} more than it holds")
    if holds:
        held[whose] = holds
    else:
        held.pop(whose, None)
