"""Makes partitions ready to be led by another gateway, so that nobody waits for it longer than he must.

Rule: what was appended is durable before its partition is given away, as far as that takes `DURABLE_SECONDS`
at most; then its open segment is closed, with its end, while this gateway still leads it. So the next leader
finds no segment whose end it has to agree on with the stores, nothing is sent again that may be in the log,
and what comes meanwhile is answered when it is known who leads.

What is not durable by then is slow for a reason: a store is away, or a disk. Its partition stays, and is
served as before; one whose gateway stops is given away all the same, as if that had died.

The next leader reads a row of each batch of the newest segment, to know the idempotent producers. So one that
has many is left for a new one first, if somebody writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.log.context import LogContext
    from gateway.log.partition import Partition

DURABLE_SECONDS: Final = 0.15
"""What producers wait at most for nothing."""

MANY_BATCHES: Final = 5000
"""Of one segment: their rows are some 350 KB, which the next leader reads in some milliseconds."""

ROLL_SECONDS: Final = 0.1
"""How long a partition with so many goes on before it is given away, so that a new segment begins."""


class HandingOver:
    """One gateway life's."""

    def __init__(self, context: LogContext) -> None:
        self._context = context

    async def prepare(self, partitions: Sequence[Partition]) -> set[Partition]:
        """Have these ready to be given away: they take nothing any more. Gives those that are not, for whose
        records the stores are too slow: they are to be given away as they are, or to `Partition.stay`.

        One that is not served, since it is being recovered or has failed, is as ready as it can be.
        """
        await self._begin_new_segments(partitions)
        for partition in partitions:
            partition.leave()
        with trio.move_on_after(DURABLE_SECONDS):
            for partition in partitions:
                await partition.wait_durable()
        slow = {partition for partition in partitions if not partition.is_durable}
        await self._context.opener.end_all([one for one in partitions if one.is_leaving and one not in slow])
        return slow

    @staticmethod
    async def _begin_new_segments(partitions: Sequence[Partition]) -> None:
        open_ones = [one.chain.current for one in partitions if one.available]
        many = [one for one in open_ones if one is not None and one.writer.next_sequence > MANY_BATCHES]
        for opened in many:
            opened.outdate()
        if many:
            await trio.sleep(ROLL_SECONDS)
