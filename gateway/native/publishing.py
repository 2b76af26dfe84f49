"""Topics whose values native programs can read: what stores are told that they may show.

Rule: what is told of a partition lies below its last stable offset, comes with the aborted transactions that
are in it, and is told by who leads the partition while it serves. So it is true for good, and no store needs
to be asked to forget it (`mesh.protocol.publications`).

Theory of operation: a partition is told in pieces. A piece lies in one segment, begins where the segment does
or the piece before it ends, and grows with the log until it has `PIECE_ABORTED` aborted transactions. All
members of the segment are told; the one that has acknowledged most, or for a closed segment the first that
is there, is to answer readers. Everything is told again after `AGAIN_SECONDS`, to stores that have started
since, and because what nobody tells any more is forgotten.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.cluster.subject_names import published_subject
from gateway.common.log_limit import LogLimit
from gateway.log.transactions.open_transactions import UNDECIDED
from mesh.address_requests import AddressRequests
from mesh.protocol.published_address import published_address
from wireproto.dafka import ids
from wireproto.dafka.additions import STATUS_DONE, AbortedSpan, AddressStatus, PublishEntry
from wireproto.dafka.fields import MAX_LIST_ENTRIES
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gateway.cluster.cluster import Cluster
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from gateway.log.segment import Segment
    from gateway.log.topic import Topic
    from mesh.requests import Requests

REST_SECONDS: Final = 0.02
"""Pause after stores were told something: what comes meanwhile goes together."""

LOOK_SECONDS: Final = 1.0
"""How often is looked which topics are published."""

AGAIN_SECONDS: Final = 10.0
"""After so long stores are told everything again."""

MAX_PUBLISHED_PARTITIONS: Final = 1_000
"""Of topics that are published, which one gateway leads: stores are told of each as it grows."""

TOLD_AT_ONCE: Final = 100
"""Partitions of which stores are told something in one turn; others have the next."""

SEGMENTS_AT_ONCE: Final = 20
"""Segments whose stores are told in one stretch."""

PIECE_ABORTED: Final = 1_000
"""Aborted transactions of a piece; then the next one begins."""

logger = logging.getLogger(__name__)

Key = tuple[bytes, int]
"""Topic id and partition."""


class Piece(NamedTuple):
    """Offsets from `first` to `last` of one segment."""

    segment: Segment
    first: int
    last: int
    aborted: tuple[AbortedSpan, ...]

    @property
    def name(self) -> str:
        """No other piece has it."""
        return f"{self.segment.address}.{self.first}"

    def with_more(self, following: Piece) -> Piece:
        """This one and the one behind it in one."""
        aborted = self.aborted + tuple(one for one in following.aborted if one not in self.aborted)
        return Piece(self.segment, self.first, following.last, aborted)


class Publishing:
    """Of one gateway."""

    def __init__(self, cluster: Cluster, requests: Requests) -> None:
        self._cluster = cluster
        self._asks = AddressRequests(requests, ids.PUBLISH)
        self._partitions: dict[Key, PublishedPartition] = {}
        self._limit = LogLimit(logger)
        self._news = trio.Event()
        """Something may be new since the last turn."""
        self._moved: dict[Partition, None] = {}
        """Those of which something is, and that are to be watched again."""

    def advanced(self, partition: Partition, /) -> None:
        """Something of a partition is another (`gateway.log.listeners`)."""
        self._moved[partition] = None
        self._news.set()

    @property
    def partitions(self) -> Collection[PublishedPartition]:
        """Those that are published and led here."""
        return self._partitions.values()

    async def run(self) -> None:
        """Tell the stores, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._asks.run)
            look_due = trio.current_time()
            while True:
                if trio.current_time() >= look_due:
                    look_due = trio.current_time() + LOOK_SECONDS
                    self._look()
                self._news = trio.Event()
                has_moved = self._watch_again()
                if self._tell(nursery) or has_moved:
                    await trio.sleep(REST_SECONDS)
                with trio.move_on_after(LOOK_SECONDS):
                    await self._news.wait()

    def _watch_again(self) -> bool:
        """Whether there were some to watch. The high watermark moves with nothing to tell, too, as long as a
        transaction is open.
        """
        moved, self._moved = self._moved, {}
        for partition in moved:
            if (partition.topic.id, partition.index) in self._partitions:
                partition.listeners.watch(self)
        return bool(moved)

    def _look(self) -> None:
        topics = self._cluster.topics
        self._cluster.subject_names.look(topics.all())
        wanted: dict[Key, tuple[Partition, str]] = {}
        subjects: dict[bytes, str] = {}
        for topic in topics.all():
            if topic.settings.publishes_values and not self._is_refused(topic):
                subject = subjects[topic.id] = published_subject(topic.name, topic.settings)
                for partition in topic.partitions:
                    if partition.available and len(wanted) < MAX_PUBLISHED_PARTITIONS:
                        wanted[topic.id, partition.index] = partition, subject
                    elif partition.available:
                        self._limit.warning(
                            "partition %s-%d is not published: %d are, and no more may be",
                            topic.name, partition.index, MAX_PUBLISHED_PARTITIONS,
                        )  # fmt: skip
        for key, known in list(self._partitions.items()):
            if wanted.get(key) == (known.partition, known.subject):
                continue
            known.partition.listeners.unwatch(self)
            del self._partitions[key]
            # What is led elsewhere the next leader tells, and it is the same.
            known.end(withdraw=known.subject != subjects.get(key[0]))
        for key, (partition, subject) in wanted.items():
            if key not in self._partitions:
                made = PublishedPartition(self._cluster.context, self._asks, partition, subject, self._limit)
                self._partitions[key] = made
                partition.listeners.watch(self)

    def _is_refused(self, topic: Topic) -> bool:
        names = self._cluster.subject_names
        why = "" if topic.internal else names.why_not(self._cluster.topics, topic.name, topic.settings)
        if why:
            self._limit.warning("topic %s is not published: %s", topic.name, why)
        return bool(why) or topic.internal

    def _tell(self, nursery: trio.Nursery) -> bool:
        """Whether there was something to tell. What has to be read first holds up nobody else."""
        now = trio.current_time()
        due = [one for one in self._partitions.values() if one.is_due(now)]
        if len(due) > TOLD_AT_ONCE:
            self._news.set()
        for one in due[:TOLD_AT_ONCE]:
            one.busy = True
            nursery.start_soon(self._tell_one, one, now)
            # Others first the next time.
            key = one.partition.topic.id, one.partition.index
            self._partitions[key] = self._partitions.pop(key)
        return bool(due)

    async def _tell_one(self, one: PublishedPartition, now: float) -> None:
        try:
            await one.tell(now)
        except (KafkaError, ValueError) as error:
            one.put_off(now)
            self._limit.info("%s is published later: %s", one.name, error)
        finally:
            one.busy = False
            if one.is_due(trio.current_time()):
                self._news.set()  # what has come meanwhile woke nobody


class PublishedPartition:
    """One partition, as long as it is led here and published under this subject."""

    def __init__(
        self,
        context: LogContext,
        asks: AddressRequests,
        partition: Partition,
        subject: str,
        limit: LogLimit,
    ) -> None:
        self.partition = partition
        self.subject = subject
        self._address = published_address(partition.topic.id, partition.index)
        self._context = context
        self._asks = asks
        self._limit = limit
        self._pieces: dict[str, list[Piece]] = {}
        """What was told, by the addresses of segments."""
        self._told: dict[tuple[str, str], PublishEntry] = {}
        """(store, piece) -> what it was told last."""
        self._answering: dict[str, str] = {}
        """Segment -> the store that is to answer."""
        self._end = -1
        self._start = -1
        self._closed: Sequence[Segment] | None = None
        """What the chain had before its segments with windows: another list once some have left it or were
        replaced.
        """
        self._again = -math.inf
        """When everything is told again."""
        self._put_off = False
        self._ended = False
        self.busy = False
        """Stores are being told something."""

    @property
    def told_to(self) -> int:
        """The offset below which stores were told everything."""
        return max(0, self._end)

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.partition.topic.name}-{self.partition.index}"

    def is_due(self, now: float) -> bool:
        """Whether stores are to be told something."""
        partition = self.partition
        if self.busy or not partition.available or partition.withheld:
            return False
        if partition.last_stable_offset == UNDECIDED:
            return False
        return now >= self._again or (not self._put_off and self._has_changed())

    def _has_changed(self) -> bool:
        partition = self.partition
        return (
            self._end != partition.visible_end(True)
            or self._start != partition.log_start_offset
            or self._closed is not partition.chain.closed
        )

    def put_off(self, now: float) -> None:
        """Something cannot be known now: tried again a while later."""
        self._put_off = True
        self._again = now + LOOK_SECONDS

    async def tell(self, now: float) -> None:
        """Tell stores what is new, and everything when that is due. Raises KafkaError: what is to be told
        cannot be known now.
        """
        partition, closed = self.partition, self.partition.chain.closed
        everything = now >= self._again or self._closed is not closed
        end, start = partition.visible_end(True), partition.log_start_offset
        # Where the chain is as it was, what is new is in the segment that was told last, or behind it.
        following = 0 if everything else self._end - 1
        for segment, first, last in self._covered(end, following):
            await self._extend(segment, first, last)
        covered = [segment for segment, _, _ in self._covered(end, following)]
        if self._ended or not partition.available or partition.chain.closed is not closed:
            return  # it is another chain: looked at anew
        if everything:
            self._drop_others({segment.address for segment in covered})
        if now >= self._again:
            self._told.clear()
            self._again, self._put_off = now + AGAIN_SECONDS, False
        self._end, self._start, self._closed = end, start, closed
        for number, segment in enumerate(covered, 1):
            self._tell_segment(segment, start)
            if number % SEGMENTS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
                if self._ended:
                    return

    def _covered(self, end: int, following: int) -> list[tuple[Segment, int, int]]:
        """The segments with offsets below `end`, and the first and the last such offset of each, from the one
        on that holds `following`. An offset that no segment has any more belongs to the one before it, or
        before all to the first.
        """
        segments = self.partition.chain.segments()
        found: list[tuple[Segment, int, int]] = []
        behind = end
        for number in range(len(segments) - 1, -1, -1):
            segment = segments[number]
            first, last = segment.start_offset, min(behind, end) - 1
            if last < following:
                break
            if not number:
                first = min(first, self.partition.log_start_offset)
            if first <= last:
                found.append((segment, first, last))
            behind = first
        found.reverse()
        return found

    async def _extend(self, segment: Segment, first: int, last: int) -> None:
        """Know the pieces of a segment from `first` to `last`. Raises KafkaError."""
        pieces = self._pieces.get(segment.address, [])
        if pieces and pieces[-1].last > last:
            # A loss was accepted: what was told is there no more.
            for piece in self._pieces.pop(segment.address):
                self._withdraw(piece)
            pieces = []
        following = pieces[-1].last + 1 if pieces else first
        if following > last:
            return
        closed = self.partition.chain.closed
        found = await self._context.aborted.spans(self.partition, following, last + 1)
        if self.partition.chain.closed is not closed:
            return  # what was found may be of segments in the place of these
        await trio.lowlevel.checkpoint()
        pieces = self._pieces.setdefault(segment.address, [])
        made = _cut(segment, following, last, [AbortedSpan(*span) for span in found])
        if pieces and len(pieces[-1].aborted) + len(made[0].aborted) <= PIECE_ABORTED:
            made[0] = pieces.pop().with_more(made[0])
        pieces += made

    def _drop_others(self, addresses: set[str]) -> None:
        for address in self._pieces.keys() - addresses:
            for piece in self._pieces.pop(address):
                self._withdraw(piece)
            self._answering.pop(address, None)

    def _withdraw(self, piece: Piece) -> None:
        for member in piece.segment.members:
            told = self._told.pop((member, piece.name), None)
            if told is not None:
                entry = told._replace(last=-1, aborted=())
                self._asks.ask(member, entry.piece, entry.pack(), self._answered)

    def _tell_segment(self, segment: Segment, start: int) -> None:
        """Tell its members what they do not know of it: the newest pieces, or after a while all."""
        answering = self._who_answers(segment)
        for piece in reversed(self._pieces.get(segment.address, [])):
            known = True
            for member in segment.members:
                entry = PublishEntry(
                    piece.name,
                    self._address,
                    self.subject,
                    segment.address,
                    piece.first,
                    piece.last,
                    start,
                    member == answering,
                    piece.aborted,
                )
                if self._told.get((member, piece.name)) != entry:
                    known = False
                    self._told[member, piece.name] = entry
                    self._asks.ask(member, entry.piece, entry.pack(), self._answered)
            if known:
                break

    def _who_answers(self, segment: Segment) -> str:
        """The store that is to answer at once; the one that was, as long as it is there."""
        known, stores = self._answering.get(segment.address), self._context.stores
        if known is not None and known in segment.members and stores.live(known):
            return known
        opened = next(
            (one for one in self.partition.chain.open_segments() if one.segment.address == segment.address),
            None,
        )
        order = segment.members if opened is None else opened.writer.furthest()
        chosen = stores.live_first(order, self.partition.log)[0] if opened is None else order[0]
        self._answering[segment.address] = next((one for one in (chosen, *order) if stores.live(one)), chosen)
        return self._answering[segment.address]

    def _answered(self, member: str, status: AddressStatus) -> None:
        if status.status != STATUS_DONE:
            # Told again with everything else.
            self._told.pop((member, status.address), None)
            self._limit.warning(
                "store %s has no room for a piece of %s, which native programs do not read there",
                self._context.stores.name(member), self.name,
            )  # fmt: skip

    def end(self, *, withdraw: bool) -> None:
        """It is not published any more, and `withdraw` what was told; or it is not led here."""
        self._ended = True
        for pieces in self._pieces.values():
            for piece in pieces:
                self._asks.drop(piece.name)
                if withdraw:
                    self._withdraw(piece)


def _cut(segment: Segment, first: int, last: int, found: list[AbortedSpan]) -> list[Piece]:
    """Pieces from `first` to `last`, each with the transactions of `found` (by their first offsets) that are
    in it. Raises KafkaError: more are at one place than can be told.
    """
    pieces: list[Piece] = []
    while len(found) > (most := max(PIECE_ABORTED, sum(span.first <= first for span in found))):
        following = found[most].first
        pieces.append(_piece(segment, first, following - 1, found[:most]))
        first, found = following, [one for one in found if one.last >= following]
    pieces.append(_piece(segment, first, last, found))
    return pieces


def _piece(segment: Segment, first: int, last: int, aborted: list[AbortedSpan]) -> Piece:
    """Raises KafkaError."""
    if len(aborted) > MAX_LIST_ENTRIES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{len(aborted)} aborted transactions are at offset {first}, and no more than {MAX_LIST_ENTRIES} "
            "can be told",
        )
    return Piece(segment, first, last, tuple(aborted))
