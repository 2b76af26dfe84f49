"""A request waits a moment for partitions that are about to serve: with several gateways, all of a new topic
for some hundredths of a second; and others after a start, or when another gateway has led them.

Why: where a batch is refused, and what its producer has sent behind it is taken, a producer without an id
(`enable.idempotence=false`) sends it again afterwards, and its records end up out of order. That can happen
with Kafka too, but rarely; here each new partition's leader asks the stores first.

Rule: once a request that waits for a partition, or has no time to, is refused because of it, nothing waits
for that partition until it serves (`Partition.takes_long`): what is behind the request on its connection is
refused like it, and comes again behind it. The same goes for a partition that is known to wait for stores: if
they are away, that is known after half a second.

And after a wait in vain no request begins to wait for any other partition for a while (`AGAIN_SECONDS`):
where very much has to be recovered, or stores are slow, connections are not held up for one second after the
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import trio

from gateway.log.partition import Partition

COMING_SECONDS = 1.0
"""How long a request waits at the most, for all its partitions together."""

LEAST_TIMEOUT_MS: Final = 2000
"""Requests with a shorter timeout do not wait: what is appended has to become durable in what is left."""

AGAIN_SECONDS = 10.0
"""After a wait in vain no request begins to wait for this long."""


class Coming:
    """The waits of one gateway's requests."""

    __slots__ = ("_again_at",)

    def __init__(self) -> None:
        self._again_at = -inf

    async def wait_for(self, partitions: Sequence[Partition], until: float) -> None:
        """Return when none of them is coming any more: each serves, or does not and nobody waits for it. By
        `until` the request is to be appended.
        """
        now = trio.current_time()
        waits = now >= self._again_at and now < until
        if waits:
            for partition in reversed(partitions):  # who is asked for last comes first
                partition.asked_for()
            with trio.move_on_at(min(now + COMING_SECONDS, until)):
                for partition in partitions:
                    await partition.wait_until_it_comes()
        for partition in partitions:
            if partition.is_coming:
                partition.recovery_takes_long()
        if waits and any(partition.takes_long for partition in partitions):
            self._again_at = trio.current_time() + AGAIN_SECONDS
