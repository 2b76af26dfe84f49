"""OPEN, SEAL, CLOSE, COPY and PUBLISH: many addresses in one request, each member at its own pace.

What is to be asked of a member waits in its list, and goes out in as few requests as may be, one at a time. A
member that does not answer holds up nobody but itself, and costs one request that is repeated, however much
waits for it.
"""

import logging
from collections.abc import Callable
from functools import partial
from itertools import islice

import trio

from mesh.requests import REPEAT_LAST_SECONDS, Requests
from wireproto.dafka.additions import AddressStatus, Request

LIST_ENTRIES = 256
"""Entries in one request."""

MAX_LIST_BYTES = 8 * 1024 * 1024
"""Bytes of entries in one request, unless one alone is larger: announcements carry snapshots."""

RETRY_SECONDS = 5.0
"""Pause before a member is asked again for what it could not do."""

logger = logging.getLogger(__name__)

Answered = Callable[[str, AddressStatus], None]
"""Called with the member and what it said."""


class _Wanted:
    __slots__ = ("answered", "entry")

    def __init__(self, entry: bytes, answered: Answered) -> None:
        self.entry = entry
        self.answered = answered


class _Queue:
    """What one member is to be asked, by address."""

    def __init__(self) -> None:
        self.waiting: dict[str, _Wanted] = {}
        self.later: dict[str, _Wanted] = {}
        """What it could not do: asked again after a pause."""
        self.asked: dict[str, _Wanted] = {}
        self.scope = trio.CancelScope()
        """The scope of the request under way, which is about `asked`."""
        self.served = False
        self.pausing = False
        self.said = False


class AddressRequests:
    """The requests of one kind. `ask` may be called before `run` runs."""

    def __init__(self, requests: Requests, message_id: bytes) -> None:
        self._requests = requests
        self._id = message_id
        self._queues: dict[str, _Queue] = {}
        self._nursery: trio.Nursery | None = None

    def ask(self, member: str, address: str, entry: bytes, answered: Answered) -> None:
        """Ask a member about an address, until it answers. A later call for the same takes its place."""
        queue = self._queues.setdefault(member, _Queue())
        queue.later.pop(address, None)
        queue.waiting[address] = _Wanted(entry, answered)
        self._serve(member, queue)

    def ask_later(self, member: str, address: str, entry: bytes, answered: Answered) -> None:
        """As `ask`, after `RETRY_SECONDS` at most: the member could not do it."""
        queue = self._queues.setdefault(member, _Queue())
        queue.later[address] = _Wanted(entry, answered)
        self._wait(member, queue)

    async def answer(self, member: str, address: str, entry: bytes) -> AddressStatus:
        """As `ask`; what the member said."""
        found: list[AddressStatus] = []
        answered = trio.Event()

        def take(_member: str, status: AddressStatus) -> None:
            found.append(status)
            answered.set()

        self.ask(member, address, entry, take)
        try:
            await answered.wait()
        finally:
            # Unless somebody else asks the same by now.
            wanted = self._queues[member].waiting.get(address)
            if not found and wanted is not None and wanted.answered is take:
                self.drop(address, member)
        return found[0]

    def drop(self, address: str, only: str | None = None) -> None:
        """Nobody wants to know any more, of any member or of one."""
        for member, queue in self._queues.items():
            if only is None or member == only:
                queue.later.pop(address, None)
                queue.waiting.pop(address, None)
                if queue.asked.pop(address, None) is not None and not queue.asked:
                    queue.scope.cancel()

    def waiting(self) -> dict[str, int]:
        """How many addresses wait for which member's answer."""
        return {m: len(q.waiting) + len(q.later) for m, q in self._queues.items() if q.waiting or q.later}

    async def run(self) -> None:
        """Ask, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for member, queue in self._queues.items():
                self._serve(member, queue)
                self._wait(member, queue)
            try:
                await trio.sleep_forever()
            finally:
                # An answer may be handled yet, by a task that was woken in the same turn.
                self._nursery = None

    def _serve(self, member: str, queue: _Queue) -> None:
        if self._nursery is not None and queue.waiting and not queue.served:
            queue.served = True
            self._nursery.start_soon(self._ask_all, member, queue)

    def _wait(self, member: str, queue: _Queue) -> None:
        if self._nursery is not None and queue.later and not queue.pausing:
            queue.pausing = True
            self._nursery.start_soon(self._pause, member, queue)

    async def _ask_all(self, member: str, queue: _Queue) -> None:
        while queue.waiting:
            await trio.lowlevel.checkpoint()  # others may have something for the same request
            queue.asked = _first(queue.waiting)
            if not queue.asked:
                break
            entries = tuple(wanted.entry for wanted in queue.asked.values())
            with trio.CancelScope() as queue.scope:
                answer = await self._requests.ask(member, partial(_request, self._id, member, entries))
                self._take(member, queue, answer.statuses)
            if queue.asked:
                await self._left_out(member, queue)
        queue.asked = {}
        queue.served = False

    @staticmethod
    def _take(member: str, queue: _Queue, statuses: tuple[AddressStatus, ...]) -> None:
        for status in statuses:
            wanted = queue.asked.pop(status.address, None)
            if wanted is not None and queue.waiting.get(status.address) is wanted:
                del queue.waiting[status.address]
                wanted.answered(member, status)

    @staticmethod
    async def _left_out(member: str, queue: _Queue) -> None:
        """The answer does not tell of all that was asked: again, behind the others."""
        for address in queue.asked:
            if address in queue.waiting:
                queue.waiting[address] = queue.waiting.pop(address)
        if not queue.said:
            left_out = next(iter(queue.asked))
            logger.warning("store %s answers, and not for %s: it is asked again", member, left_out)
            queue.said = True
        await trio.sleep(REPEAT_LAST_SECONDS)

    async def _pause(self, member: str, queue: _Queue) -> None:
        await trio.sleep(RETRY_SECONDS)
        queue.pausing = False
        for address, wanted in queue.later.items():
            queue.waiting.setdefault(address, wanted)
        queue.later.clear()
        self._serve(member, queue)


def _first(waiting: dict[str, _Wanted]) -> dict[str, _Wanted]:
    """What goes into one request."""
    size = 0
    taken: dict[str, _Wanted] = {}
    for address, wanted in islice(waiting.items(), LIST_ENTRIES):
        size += len(wanted.entry)
        if taken and size > MAX_LIST_BYTES:
            break
        taken[address] = wanted
    return taken


def _request(message_id: bytes, member: str, entries: tuple[bytes, ...], requester: str) -> Request:
    return Request(message_id, member, requester, entries)
