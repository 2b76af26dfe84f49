"""The markers of transactions that end: every partition of one gets its own, and then it is complete.

Markers wait in the lines of their partitions. Those that are on their way together are bounded for the whole
gateway, since each is waited for by a task; lines have turns, and in each line the clients whose transactions
wait there. So neither many transactions nor many partitions of one client hold up those of others.

A partition that does not take a marker now is probed with one marker at a time, with a pause in between: its
leader may be another one by then, or its stores may be away. Whoever waits for it waits for that; when it
works again all of them go on. Probes have a bound of their own. One whose topic is gone needs no marker.

A leader that knows of a later epoch of the producer, or of a later coordinator, ends it: somebody else has
taken over, and this gateway waits until the partition of the id is loaded anew. (But where a coordinator has
lost the end of what it knew, the later epoch is that of a later transaction.)
"""

from __future__ import annotations

import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Protocol

import trio

from gateway.common.clients import NOBODY
from gateway.common.costs import COUNTED
from gateway.common.log_limit import LogLimit
from gateway.common.marker import Marker
from gateway.common.printable import printable
from gateway.common.waiting import Waiter
from gateway.common.work import Work
from gateway.transactions.metadata import TopicPartition
from wireproto.kafka.errors import ErrorCode

MARKERS_AT_ONCE: Final = 1024
"""Markers of all transactions that are on their way together: each is waited for by a task."""

MARKERS_OF_A_PARTITION: Final = 64
"""Those of them that one partition may have: it may answer late."""

PROBES_AT_ONCE: Final = 256
"""Partitions that have refused a marker and are asked again at one time, beside those that work."""

QUEUED_AT_ONCE: Final = 64
"""Partitions of a transaction that join their lines in one step. Larger ones take turns."""

FIRST_PAUSE_SECONDS: Final = 0.02
"""Pause after the first answer that is not the last; it doubles up to LAST_PAUSE_SECONDS. The producer waits
for the end of it with its next transaction."""

LAST_PAUSE_SECONDS: Final = 1.0
"""Longest pause: a partition may be away for hours."""

MISSING_SECONDS: Final = 1.0
"""So long a topic is not there before its partitions count as deleted: what a gateway sees of the catalog
may be so old."""

GIVES_UP: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
"""Answers after which the marker is not sent again (``TransactionMarkerRequestCompletionHandler``)."""

logger = logging.getLogger(__name__)


class MarkerTarget(Protocol):
    """Who has markers written."""

    def exists(self, partition: TopicPartition) -> bool:
        """Whether the partition is there, as far as this gateway sees."""

    async def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        """Have it appended by the partition's leader; how that went, as soon as it is durable or refused."""


class Ending:
    """A transaction whose end is decided. It is one of `client`."""

    __slots__ = (
        "client",
        "finished",
        "is_over",
        "left",
        "marker",
        "may_be_old",
        "on_their_way",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        finished: Callable[[], None] = lambda: None,
        client: str = NOBODY,
        *,
        may_be_old: bool = False,
    ) -> None:
        """`finished` is called, from a task, once every partition has its marker, or is gone. It neither
        blocks nor raises. `may_be_old`: partitions may have a later epoch, and need no marker then.
        """
        self.transactional_id = transactional_id
        self.marker = marker
        self.left = set(partitions)
        """Those that have no marker yet."""
        self.finished = finished
        self.client = client
        self.may_be_old = may_be_old
        self.on_their_way: set[trio.CancelScope] = set()
        """Of the tasks that wait for its markers."""
        self.is_over = False
        """Nobody is interested any more."""


class _Line:
    """A partition, and the transactions whose markers wait for it."""

    __slots__ = ("_waiting", "in_flight", "is_paused", "missing_since", "partition", "pause")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self._waiting: OrderedDict[str, OrderedDict[Ending, None]] = OrderedDict()
        """By client; the first one is next."""
        self.in_flight = 0
        self.pause = 0.0
        """Seconds before it is asked again; 0 while it works."""
        self.is_paused = False
        self.missing_since: float | None = None

    @property
    def may_start(self) -> bool:
        """Whether one that waits may be sent, as far as the line is concerned."""
        most = 1 if self.pause else MARKERS_OF_A_PARTITION
        return bool(self._waiting) and not self.is_paused and self.in_flight < most

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self.in_flight

    def add(self, ending: Ending) -> None:
        self._waiting.setdefault(ending.client, OrderedDict())[ending] = None

    def remove(self, ending: Ending) -> None:
        of_client = self._waiting.get(ending.client)
        if of_client is not None:
            of_client.pop(ending, None)
            if not of_client:
                del self._waiting[ending.client]

    def take(self) -> Ending:
        """The next one, taken out; then it is another client's turn."""
        client, of_client = next(iter(self._waiting.items()))
        ending, _ = of_client.popitem(last=False)
        if of_client:
            self._waiting.move_to_end(client)
        else:
            del self._waiting[client]
        return ending

    def take_all(self) -> list[Ending]:
        taken = [ending for of_client in self._waiting.values() for ending in of_client]
        self._waiting.clear()
        return taken


class Markers:
    """Writes them to `target`; `exists` knows whether a partition is there. `run` has to run."""

    def __init__(self, target: MarkerTarget, exists: Callable[[TopicPartition], bool]) -> None:
        self.written = 0
        """Markers that are durable, in this life."""
        self.on_their_way = 0
        """Markers that are waited for, without probes."""
        self.probes = 0
        """Partitions that are asked whether they take markers again."""
        self._target = target
        self._exists = exists
        self._lines: dict[TopicPartition, _Line] = {}
        self._ready: OrderedDict[_Line, None] = OrderedDict()
        """Lines that may send, in their turns."""
        self._to_probe: OrderedDict[_Line, None] = OrderedDict()
        self._pauses: list[tuple[float, int, _Line]] = []
        """A heap, by when they end."""
        self._numbers = count()
        self._has_pauses = Waiter()
        self._nursery: trio.Nursery | None = None
        self._limit = LogLimit(logger)

    async def run(self) -> None:
        """Write what is begun, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                self._start_some()
                await self._end_pauses()
            finally:
                self._nursery = None

    def begin(self, ending: Ending) -> None:
        """Have its markers written."""
        if self._nursery is None:
            return  # the gateway stops
        if 0 < len(ending.left) <= QUEUED_AT_ONCE:
            for partition in sorted(ending.left):
                self._join(ending, partition)
            self._start_some()
        else:
            self._nursery.start_soon(self._begin_large, ending)

    def forget(self, ending: Ending) -> None:
        """Nobody is interested any more, or waits for what is on its way."""
        ending.is_over = True
        for scope in ending.on_their_way:
            scope.cancel()
        for partition in ending.left:
            line = self._lines.get(partition)
            if line is not None:
                line.remove(ending)
                self._look_at(line)

    # lines -------------------------------------------------------------------------------------------------

    async def _begin_large(self, ending: Ending) -> None:
        """One with many partitions, or with none: that is finished, but not before `begin` has returned."""
        await trio.lowlevel.checkpoint()
        if not ending.left and not ending.is_over:
            ending.finished()
        work = Work()
        for number, partition in enumerate(sorted(ending.left)):
            await work.before(COUNTED)
            if ending.is_over:
                return
            self._join(ending, partition)
            if number % QUEUED_AT_ONCE == 0:
                self._start_some()
        self._start_some()

    def _join(self, ending: Ending, partition: TopicPartition) -> None:
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = _Line(partition)
        line.add(ending)
        self._look_at(line)

    def _look_at(self, line: _Line) -> None:
        """Something about it has changed."""
        turns, others = (self._to_probe, self._ready) if line.pause else (self._ready, self._to_probe)
        others.pop(line, None)
        if line.may_start:
            turns.setdefault(line)
        else:
            turns.pop(line, None)
        if line.is_empty and self._lines.get(line.partition) is line:
            del self._lines[line.partition]

    def _start_some(self) -> None:
        """Send what may be sent, a marker of each line in turn."""
        if self._nursery is None:
            return
        while self._ready and self.on_their_way < MARKERS_AT_ONCE:
            self.on_their_way += 1
            self._start(self._ready, self._nursery)
        while self._to_probe and self.probes < PROBES_AT_ONCE:
            self.probes += 1
            self._start(self._to_probe, self._nursery)

    def _start(self, turns: OrderedDict[_Line, None], nursery: trio.Nursery) -> None:
        line, _ = turns.popitem(last=False)
        ending = line.take()
        line.in_flight += 1
        is_probe = line.pause > 0
        self._look_at(line)
        nursery.start_soon(self._write, line, ending, is_probe)

    # one marker --------------------------------------------------------------------------------------------

    async def _write(self, line: _Line, ending: Ending, is_probe: bool) -> None:
        with trio.CancelScope() as scope:
            if ending.is_over:
                scope.cancel()
            ending.on_their_way.add(scope)
            error: ErrorCode | None = None
            if self._exists(line.partition):
                error = await self._target.write(line.partition, ending.marker)
        ending.on_their_way.discard(scope)
        line.in_flight -= 1
        if is_probe:
            self.probes -= 1
        else:
            self.on_their_way -= 1
        if not scope.cancelled_caught:
            self._take(line, ending, error)
        self._look_at(line)
        self._start_some()

    def _take(self, line: _Line, ending: Ending, error: ErrorCode | None) -> None:
        """What came of a marker; no error code: its partition is not there."""
        if error is None:
            self._missing(line, ending)
            return
        line.missing_since = None
        if error is ErrorCode.NONE:
            line.pause = 0.0
            self.written += 1
            self._has_its_marker(ending, line.partition)
        elif error is ErrorCode.INVALID_PRODUCER_EPOCH and ending.may_be_old:
            line.pause = 0.0
            self._has_its_marker(ending, line.partition)
        elif error in GIVES_UP:
            line.pause = 0.0
            if not ending.is_over:
                self._give_up(ending, line.partition, error)
        else:
            self._pause(line, ending)

    def _has_its_marker(self, ending: Ending, partition: TopicPartition) -> None:
        """It has, or needs none."""
        ending.left.discard(partition)
        if not ending.left and not ending.is_over:
            ending.finished()

    def _missing(self, line: _Line, ending: Ending) -> None:
        now = trio.current_time()
        if line.missing_since is None:
            line.missing_since = now
        if now - line.missing_since < MISSING_SECONDS:
            self._pause(line, ending)
            return
        for one in (ending, *line.take_all()):
            self._has_its_marker(one, line.partition)

    def _pause(self, line: _Line, ending: Ending) -> None:
        """Ask the partition again after a while, with another marker if there is one."""
        if not ending.is_over:
            line.add(ending)
        if not line.is_paused:
            line.is_paused = True
            line.pause = min(max(FIRST_PAUSE_SECONDS, line.pause * 2), LAST_PAUSE_SECONDS)
            until = trio.current_time() + line.pause
            heapq.heappush(self._pauses, (until, next(self._numbers), line))
            self._has_pauses.wake()

    async def _end_pauses(self) -> None:
        while True:
            if not self._pauses:
                await self._has_pauses.wait()
            elif self._pauses[0][0] > trio.current_time():
                with trio.move_on_at(self._pauses[0][0]):
                    await self._has_pauses.wait()
            else:
                _, _, line = heapq.heappop(self._pauses)
                line.is_paused = False
                self._look_at(line)
                self._start_some()

    def _give_up(self, ending: Ending, partition: TopicPartition, error: ErrorCode) -> None:
        self._limit.warning(
            "transactional id %s: %s-%d refuses the marker of producer %d, epoch %d: %s. Another coordinator "
            "has the id, or a later producer; the transaction stays as it is here until the partition of %s "
            "is loaded anew",
            printable(ending.transactional_id),
            *partition,
            ending.marker.producer_id,
            ending.marker.producer_epoch,
            error.message,
            "the id",
        )
