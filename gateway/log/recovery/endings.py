"""Puts the agreed ends of many partitions into the catalog with few transactions.

Stores answer for hundreds of partitions in one message, and each of those then has its part of the catalog to
change. What comes in one turn of the loop goes in together: one transaction for 20 partitions costs little
more than one for a single partition. Who comes meanwhile goes with the next ones.

Rule: all of a transaction happens or nothing. If something that it compares has changed, each part is tried
by itself, so that no partition suffers from what another gateway did to one of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog.interface import CompareFailed
from gateway.catalog.pieces import Room
from gateway.log.fences import Overtaken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.catalog.interface import Compare
    from gateway.log.context import LogContext
    from gateway.log.fences import Fences
    from gateway.log.partition import Partition

AT_ONCE: Final = 8
"""Transactions that are under way at once; a catalog makes them durable together."""


class _Part:
    """What one partition changes; `error` is set if that failed."""

    __slots__ = ("compares", "deletes", "epoch", "error", "over", "partition", "puts")

    def __init__(
        self,
        partition: Partition,
        puts: Mapping[str, bytes],
        deletes: Sequence[str],
        compares: Sequence[Compare],
    ) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.puts = puts
        self.deletes = deletes
        self.compares = compares
        self.over = False
        self.error: BaseException | None = None

    def goes_into(self, room: Room, fences: Fences) -> bool:
        return room.take([*self.compares, *fences.fenced([self.partition])], self.puts, self.deletes)


class Endings:
    """The transactions of one gateway's recoveries."""

    def __init__(self, context: LogContext) -> None:
        self.transactions = 0
        """How many were made of parts of several partitions, or of one."""
        self._context = context
        self._parts: list[_Part] = []
        self._putting: trio.Event | None = None
        """Set when the transaction that is under way is over; None while there is none."""

    async def put(
        self,
        partition: Partition,
        puts: Mapping[str, bytes],
        deletes: Sequence[str],
        compares: Sequence[Compare],
    ) -> None:
        """Return when this is durable in the catalog. The partition is being recovered by who calls, and uses
        its leader epoch.

        Raises CompareFailed and Overtaken, as `Fences.transact`; both are the partition's own.
        """
        part = _Part(partition, puts, deletes, compares)
        self._parts.append(part)
        while self._putting is not None and not part.over:
            await self._putting.wait()
        if not part.over:
            over = self._putting = trio.Event()
            try:
                # Others rely on who puts: it goes on to its end, cancelled or not.
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()  # what others bring in this turn goes along
                    while not part.over:
                        async with trio.open_nursery() as nursery:
                            for _ in range(AT_ONCE):
                                if self._parts:
                                    nursery.start_soon(self._put_some, self._take())
            finally:
                self._putting = None
                over.set()
        if part.error is not None:
            raise part.error

    def _take(self) -> list[_Part]:
        """The first ones, as many as go together."""
        room, fences = Room(), self._context.fences
        taken: list[_Part] = []
        while self._parts and (self._parts[0].goes_into(room, fences) or not taken):
            taken.append(self._parts.pop(0))
        return taken

    async def _put_some(self, parts: Sequence[_Part]) -> None:
        try:
            await self._transact(parts)
        except (CompareFailed, Overtaken) as error:
            if isinstance(error, Overtaken) and not error.partitions:
                await self._put_some(parts)  # only their topic has changed meanwhile
            elif len(parts) == 1:
                parts[0].error = error
            else:
                for part in parts:
                    await self._put_some([part])
        except BaseException as error:  # noqa: BLE001 - all who wait for it hear of it, and raise it
            for part in parts:
                part.error = error
        finally:
            for part in parts:
                part.over = True

    async def _transact(self, parts: Sequence[_Part]) -> None:
        partitions = [part.partition for part in parts]
        await self._context.fences.free(partitions)
        self.transactions += 1
        await self._context.fences.transact(
            partitions,
            {key: value for part in parts for key, value in part.puts.items()},
            [key for part in parts for key in part.deletes],
            list(dict.fromkeys(compare for part in parts for compare in part.compares)),
            epochs={part.epoch for part in parts},
        )
