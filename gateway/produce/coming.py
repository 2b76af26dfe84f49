"""A request waits a moment for partitions that are about to serve, as those of a new topic are where another
gateway has just made it.

Why: where a batch is refused, and what its producer has sent behind it is taken, one without an id
(`enable.idempotence=false`) sends it again after that, and its records have changed places. Kafka's producers
meet that, too, and it is rare there; here each new topic's leader has to ask the stores first.

One that waits for stores is not waited for: it may take as long as they are away, and its client's other
partitions would wait with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from gateway.log.partition import Partition

COMING_SECONDS = 1.0
"""How long a request waits at the most, for all its partitions together. A new topic's take some hundredths
of a second."""


class Coming:
    """What one request waits for, from now on. `timeout_ms`: how long its client waits for an answer; half of
    that is left for what is appended to become durable.
    """

    __slots__ = ("_until",)

    def __init__(self, timeout_ms: int) -> None:
        self._until = trio.current_time() + min(COMING_SECONDS, max(0, timeout_ms) / 2000)

    @property
    def has_time(self) -> bool:
        """Whether it may wait longer."""
        return trio.current_time() < self._until

    async def wait_for(self, partition: Partition) -> None:
        """Return when this one is coming no more, or the time is over."""
        with trio.move_on_at(self._until):
            await partition.wait_until_it_comes()


def ask_for(partitions: Iterable[Partition]) -> None:
    """Have those of them that are coming recovered before those that nobody has asked for."""
    for partition in partitions:
        if partition.is_coming:
            partition.asked_for()
