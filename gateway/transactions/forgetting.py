"""Room for a new transactional id: those that nobody has used for long go first.

Rule: at the bound a client's own ids make room for its new ones, and those of an earlier life, which are
nobody's; never another client's. Only ids go that are at rest and were not used for `IDLE_MS`: whose producer
still lives would be told INVALID_PRODUCER_ID_MAPPING, with which some end for good. (Kafka has no bound, and
keeps every id for a week. Flink's sink may make a new one for each checkpoint.)
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

import trio

from gateway.common.clients import NOBODY
from gateway.common.costs import COUNTED
from gateway.common.work import Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gateway.transactions.served import Transaction

IDLE_MS: Final = 3_600_000
"""Milliseconds without use after which an id may make room for another one."""

FORGOTTEN_AT_ONCE: Final = 256
"""Ids that go together: all are looked through for them."""


class Forgetting:
    """`loaded` gives all ids; `forget` has one forgotten, and returns when that is durable, if it can be."""

    def __init__(
        self, loaded: Callable[[], Sequence[Transaction]], forget: Callable[[Transaction], Awaitable[None]]
    ) -> None:
        self._loaded = loaded
        self._forget = forget
        self._one_at_a_time = trio.Lock()

    async def make_room(self, client: str, now_ms: int, has_room: Callable[[], bool]) -> None:
        """Forget ids of this client until it `has_room`, as far as there are some that may go."""
        async with self._one_at_a_time:
            if has_room():
                return
            async with trio.open_nursery() as nursery:
                for one in await self._idle(client, now_ms):
                    nursery.start_soon(self._forget, one)

    async def _idle(self, client: str, now_ms: int) -> list[Transaction]:
        """Those that may go, the longest idle first."""
        work, found = Work(), []
        for one in self._loaded():
            await work.before(COUNTED)
            metadata = one.machine.metadata
            if one.client in (client, NOBODY) and metadata is not None and metadata.is_idle(now_ms, IDLE_MS):
                found.append((metadata.last_update_ms, one.transactional_id, one))
        return [one for _, _, one in nsmallest(FORGOTTEN_AT_ONCE, found)]
