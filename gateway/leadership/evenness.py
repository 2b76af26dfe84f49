"""When a gateway checks whether what it leads could be shared more evenly. Pure: it is told the time.

It looks when gateways come, go or drain, when somebody wants partitions elsewhere or no longer does (a wish
ends with its topic, too), and after every move of partitions, until a look finds nothing more to move.
Besides that it looks every `PERIOD_SECONDS`.

Rule: nothing moves at once because a topic is created or deleted, or partitions are added. A new topic's
leaders stay who they are while its first clients find them, and clients that do not ask again when a leader
has moved (librdkafka's query of watermarks, for one) meet no error. What topics have left uneven waits for
the next look, as it does under Kafka's `auto.leader.rebalance.enable`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.leadership.balance import Gateway
from gateway.leadership.slots import Occupancy

PERIOD_SECONDS: Final = 300.0
"""Kafka's default of `leader.imbalance.check.interval.seconds`."""


class Evenness:
    """One gateway life's."""

    def __init__(self) -> None:
        self.next_look = math.inf
        """When to look although nothing is different; infinite while a look is due, as at first."""
        self._gateways: Sequence[Gateway] = ()
        self._wishes: Mapping[int, object] = {}
        self._owners: Sequence[int] = ()
        self._weights: Sequence[int] = ()

    def at(self, now: float) -> None:
        """It is so late."""
        if now >= self.next_look:
            self.next_look = math.inf

    def is_due(self, owners: Sequence[int], gateways: Sequence[Gateway], occupancy: Occupancy) -> bool:
        """Whether to look now, by the id of each slot's leader, who is alive, and what is in the slots.

        It stays due until `looked`. A slot that moves with nothing in it is no reason, nor is one into which
        a topic has come since.
        """
        wishes, weights = occupancy.wishes, occupancy.weights
        moved = any(
            before != now and had and has
            for before, now, had, has in zip(self._owners, owners, self._weights, weights, strict=False)
        )
        if moved or (gateways, wishes) != (self._gateways, self._wishes):
            self.next_look = math.inf
        self._owners, self._weights, self._gateways, self._wishes = owners, weights, gateways, wishes
        return self.next_look == math.inf

    def looked(self, now: float) -> None:
        """There is nothing to move."""
        self.next_look = now + PERIOD_SECONDS
