"""Room for a new transactional id: those that nobody has used for long go first.

Rule: at the bound a client's own ids make room for its new ones, and those of an earlier life, which are
nobody's; never another client's. Only ids go that are at rest and were not used for `IDLE_MS`: whose producer
still lives would be told INVALID_PRODUCER_ID_MAPPING, with which some end for good. (Kafka has no bound, and
keeps every id for a week. Flink's sink may make a new one for each checkpoint.)

All ids are looked through at once for whoever wants room, and only now and then: a client at its bound asks
again and again, and each look takes a tenth of a second.
"""

from __future__ import annotations

import math
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.common.clients import NOBODY
from gateway.common.costs import COUNTED
from gateway.common.work import Work
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gateway.transactions.served import Transaction

IDLE_MS: Final = 3_600_000
"""Milliseconds without use after which an id may make room for another one."""

FORGOTTEN_AT_ONCE: Final = 256
"""Ids that go together; so many of each client are found in one look through all."""

LOOK_SECONDS: Final = 10.0
"""Between two looks through all ids, unless the last one has left some of the client that asks."""


class _Found(NamedTuple):
    """An id that may go. They sort by use, the last one first: a heap gives that up for another."""

    minus_used_ms: int
    transactional_id: str
    one: Transaction


class Forgetting:
    """`loaded` gives all ids; `forget` has one forgotten, and returns when that is durable, if it can be."""

    def __init__(
        self, loaded: Callable[[], Sequence[Transaction]], forget: Callable[[Transaction], Awaitable[None]]
    ) -> None:
        self.looks = 0
        """Through all ids, in this life."""
        self._loaded = loaded
        self._forget = forget
        self._one_at_a_time = trio.Lock()
        self._looked = -math.inf
        """When all were looked through last, by trio's clock."""
        self._idle: dict[str, list[_Found]] = {}
        """What is left of what that has found, by client."""
        self._had_more: set[str] = set()
        """Clients of which it has not taken all."""

    async def make_room(self, client: str, now_ms: int, has_room: Callable[[], bool]) -> None:
        """Forget ids of this client until it `has_room`, as far as there are some that may go, and within the
        time that a write may take: others may wait before it, for stores that are away.
        """
        with trio.move_on_after(WRITE_TIMEOUT_SECONDS):
            async with self._one_at_a_time:
                if has_room():
                    return
                if self._is_to_look(client):
                    # Not given up half way: who asks and hangs up would have it begun over and over.
                    with trio.CancelScope(shield=True):
                        await self._look(now_ms)
                await self._forget_all(client, self._take(client))

    async def _forget_all(self, client: str, some: Sequence[Transaction]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                for one in some:
                    nursery.start_soon(self._forget, one)
        finally:
            if all(one.machine.metadata is not None for one in some):
                self._had_more -= {client, NOBODY}  # no more of them can be written now

    def _is_to_look(self, client: str) -> bool:
        if trio.current_time() - self._looked >= LOOK_SECONDS:
            return True
        whose = {client, NOBODY}
        return whose.isdisjoint(self._idle) and not whose.isdisjoint(self._had_more)

    async def _look(self, now_ms: int) -> None:
        """Find those of all clients that may go, the longest idle ones."""
        work = Work()
        found: dict[str, list[_Found]] = {}
        had_more: set[str] = set()
        for one in self._loaded():
            await work.before(COUNTED)
            metadata = one.machine.metadata
            is_idle = metadata is not None and metadata.is_idle(now_ms, IDLE_MS)
            if metadata is None or not is_idle or one.machine.pending is not None:
                continue
            of_client = found.setdefault(one.client, [])
            this = _Found(-metadata.last_update_ms, one.transactional_id, one)
            if len(of_client) < FORGOTTEN_AT_ONCE:
                heappush(of_client, this)
            else:
                heappushpop(of_client, this)
                had_more.add(one.client)
        self._idle, self._had_more, self._looked = found, had_more, trio.current_time()
        self.looks += 1

    def _take(self, client: str) -> list[Transaction]:
        """The longest idle ones of what was found of this client, or is nobody's; taken out."""
        whose = client, NOBODY
        found = [this for one in whose for this in self._idle.pop(one, ()) if this.one.client in whose]
        found.sort(reverse=True)
        for left in found[FORGOTTEN_AT_ONCE:]:
            self._idle.setdefault(left.one.client, []).append(left)
        return [this.one for this in found[:FORGOTTEN_AT_ONCE]]
