"""What a restore appends to logs that it cuts short: commits that are set to the ends, and the ends of
transactions.

Each log gets it as one segment of its own, under a leader epoch above all that the backup has. A restore of
all that a backup has needs none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import trio

from dafka.backup.commits import COMMITS_TOPIC, Commits, batches_of
from dafka.backup.manifest import Part, SavedSegment
from dafka.backup.plan import CannotRestore, PlannedPartition
from dafka.backup.transactions import (
    TRANSACTIONS_TOPIC,
    Cut,
    End,
    Endings,
    States,
    abort_batches,
    endings,
    state_batches,
)
from gateway.log.idempotence.snapshot import InvalidSnapshot
from gateway.log.idempotence.state import ProducerState
from gateway.transactions.metadata import TopicPartition
from wireproto.records.header import read_header


class Tail(NamedTuple):
    """What comes behind a log, and the producers that are known there."""

    snapshot: bytes
    batches: list[bytes]


class Tails:
    """Finds them. `read_part` gives the batches of an object, and `read_snapshot` the producers that a
    segment begins with; both raise CannotRestore.
    """

    def __init__(
        self,
        planned: Sequence[PlannedPartition],
        before_ms: int | None,
        taken_ms: int,
        leader_epoch: int,
        read_part: Callable[[Part], Awaitable[list[memoryview]]],
        read_snapshot: Callable[[str], Awaitable[bytes]],
        say: Callable[[str], None],
    ) -> None:
        """What is appended has the time `taken_ms` and the `leader_epoch`, however often a restore is
        repeated.
        """
        self._planned = planned
        self._before_ms = before_ms
        self._taken_ms = taken_ms
        self._leader_epoch = leader_epoch
        self._read_part = read_part
        self._read_snapshot = read_snapshot
        self._say = say

    async def find(self) -> dict[PlannedPartition, Tail]:
        """The tails of the logs that get one. Raises CannotRestore."""
        if not any(each.lost or each.saved.gaps for each in self._planned):
            return {}
        ends = {_place(each): await self._producers(each) for each in self._planned}
        found = await self._endings(ends)
        tails: dict[PlannedPartition, Tail] = {}
        changed = 0
        for each in self._planned:
            batches = await self._commits(each)
            changed += sum(map(_count, batches))
            if states := found.states.get(each.saved.index) if _is_of_states(each) else None:
                batches += state_batches(states, each.end, self._leader_epoch, self._taken_ms)
            base_offset = each.end + sum(map(_count, batches))
            aborted = found.aborted.get(_place(each), ())
            batches += abort_batches(aborted, base_offset, self._leader_epoch, self._taken_ms)
            if batches:
                tails[each] = Tail(_snapshot(ends[_place(each)], self._taken_ms), batches)
        self._tell(changed, found)
        return tails

    def _tell(self, changed: int, found: Endings) -> None:
        if changed:
            self._say(f"committed offsets set to the end of their partition, or to what they were: {changed}")
        for (topic, index), producers in found.aborted.items():
            self._say(f"{topic}-{index}: open transactions aborted at its end: {len(producers)}")
        if changed := sum(map(len, found.states.values())):
            self._say(
                f"transactional ids fenced, with what they had open or decided later aborted: {changed}"
            )

    # what the logs say ------------------------------------------------------------------------------------

    async def _feed(self, feed: Callable[[list[memoryview]], None], segments: Sequence[SavedSegment]) -> None:
        """The batches of these segments, in a thread: there may be many."""
        for segment in segments:
            for part in segment.parts:
                await trio.to_thread.run_sync(feed, await self._read_part(part))

    async def _producers(self, planned: PlannedPartition) -> ProducerState:
        """Those at its end."""
        if not planned.segments:
            return ProducerState()
        last = planned.segments[-1]
        try:
            end = End(await self._read_snapshot(last.producers), self._taken_ms)
        except InvalidSnapshot as error:
            raise CannotRestore(f"{planned.saved.name}: its producers cannot be read: {error}") from None
        if not last.is_compacted:
            await self._feed(end.feed, [last])
        return end.producers

    async def _endings(self, ends: Mapping[TopicPartition, ProducerState]) -> Endings:
        of_ids = [each for each in self._planned if _is_of_states(each)]
        states: dict[int, States] = {}
        for each in of_ids:
            states[each.saved.index] = found = States()
            await self._feed(found.feed, each.segments)
        cut = Cut(
            frozenset(_place(each) for each in self._planned if each.lacks_end),
            frozenset(each.saved.index for each in of_ids if each.lacks_end),
            self._before_ms,
            self._taken_ms,
            self._begun_before(ends),
        )
        return endings({index: found.by_id for index, found in states.items()}, ends, cut)

    def _begun_before(self, ends: Mapping[TopicPartition, ProducerState]) -> frozenset[int]:
        """The producers with a transaction of which a part lies before where a log with a hole begins."""
        return frozenset(
            producer_id
            for each in self._planned
            if each.log_start > each.saved.log_start
            for producer_id, first_offset in ends[_place(each)].open_transactions().items()
            if first_offset < each.log_start
        )

    async def _commits(self, planned: PlannedPartition) -> list[bytes]:
        """What groups have committed beyond the ends, as it is to be."""
        if planned.saved.topic != COMMITS_TOPIC:
            return []
        ends = {_place(each): each.end for each in self._planned}
        cleaned_to = max((segment.cleaned_to for segment in planned.segments), default=-1)
        commits = Commits(self._before_ms, cleaned_to)
        await self._feed(commits.feed, planned.segments)
        return batches_of(commits.beyond(ends), planned.end, self._leader_epoch, self._taken_ms)


def _place(planned: PlannedPartition) -> TopicPartition:
    return planned.saved.topic, planned.saved.index


def _is_of_states(planned: PlannedPartition) -> bool:
    return planned.saved.topic == TRANSACTIONS_TOPIC


def _snapshot(producers: ProducerState, now_ms: int) -> bytes:
    return producers.snapshot(now_ms) if producers.count else b""


def _count(batch: bytes) -> int:
    """The offsets that a batch takes."""
    header = read_header(batch)
    return header.last_offset_delta + 1
