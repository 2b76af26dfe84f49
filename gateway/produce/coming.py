"""A request waits a moment for partitions that are about to serve, as those of a new topic are, for some
hundredths of a second, where there are several gateways.

Why: where a batch is refused, and what its producer has sent behind it is taken, one without an id
(`enable.idempotence=false`) sends it again after that, and its records have changed places. Kafka's brokers
may do that, too, but seldom; here each new partition's leader asks the stores first.

Rule: once a request has waited for a partition in vain, nothing waits for it until it serves
(`Partition.takes_long`): what is behind that request on its connection is refused like it, and comes again
behind it. So it is with one that is known to wait for stores, half a second after it has begun to if they are
away. Nor does anything wait for other partitions for a while, `AGAIN_SECONDS`: where very much has to be
recovered, or stores are slow, a connection is held up for a second in that time, and not for one second after
the other.
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
"""Requests that time out earlier do not wait: what is appended has to become durable in what is left."""

AGAIN_SECONDS = 10.0
"""How long no request waits once one has waited in vain."""


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
        waits = now >= self._again_at and now + COMING_SECONDS <= until
        if waits:
            for partition in reversed(partitions):  # who is asked for last comes first
                partition.asked_for()
            with trio.move_on_after(COMING_SECONDS):
                for partition in partitions:
                    await partition.wait_until_it_comes()
        late = [partition for partition in partitions if partition.is_coming]
        for partition in late:
            partition.recovery_takes_long()
        if late and waits:
            self._again_at = trio.current_time() + AGAIN_SECONDS
