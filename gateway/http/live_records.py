"""Records as they are written, for a page that looks on: the newest ones, where there are more than one can
read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.http.failures import bad_parameter
from gateway.http.limits import MIB
from gateway.http.live import Event, Source
from gateway.http.reading import Budget, PartitionRead, merged, read, shown
from gateway.http.routes.records import MAX_PARTITIONS_READ, Place, read_row
from gateway.http.routes.topics import find_partition, find_topic
from gateway.http.shown_records import Preview
from gateway.http.view import now_ms

if TYPE_CHECKING:
    from gateway.http.view import View
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

MAX_LIVE_RECORDS: Final = 200
"""Records of one second: more than anybody reads."""

LIVE_BYTES: Final = 1 * MIB
"""Bytes of log that are read in one second."""

_ID: Final = re.compile(r"p(\d{1,9}):(\d{1,18})", re.ASCII)


class LiveRecords(Source):
    """The records of a topic, or of one partition of it, from some places on.

    `positions` are the next offset of each partition; those of partitions that come later are their starts.
    """

    def __init__(self, view: View, topic: str, partition: str, positions: dict[int, int]) -> None:
        self._view = view
        self._name = topic
        self._partition = partition
        self._positions = positions
        self._topic_id = find_topic(view, topic).id
        self._is_new = True

    async def events(self) -> list[Event]:
        """See `Source`."""
        view, topic = self._view, find_topic(self._view, self._name)
        if topic.id != self._topic_id:
            # Made anew under its name: its offsets begin again.
            self._topic_id = topic.id
            self._positions = {}
        reads = []
        for partition in followed(topic, self._partition):
            start, end = partition.log_start_offset, partition.high_watermark
            # Beyond the end: what a client had seen was of another log.
            position = min(self._positions.setdefault(partition.index, start), end)
            self._positions[partition.index] = position
            if position < end:
                reads.append(PartitionRead(partition, max(start, position), end, MAX_LIVE_RECORDS))
        events = []
        if skipped := _skip(reads):
            events.append(Event("skipped", {"offsets": str(skipped)}))
        budget, preview = Budget(LIVE_BYTES), Preview(hidden=view.hide_values)
        async with view.reads:
            for one in reads:
                if not budget.is_spent():
                    await read(view, one, budget, preview)
            async with view.turns.working():
                found = merged(reads, MAX_LIVE_RECORDS, newest=False)
                items = await shown(found, view.turns)
        for one in reads:
            self._positions[one.partition.index] = one.next
        # The first one tells where the view begins: who comes again goes on there.
        if found or self._is_new or any(one.error for one in reads):
            self._is_new = False
            data = {"as_of": now_ms(), **items, "partitions": [read_row(one) for one in reads]}
            events.append(Event("records", data, event_id(self._positions)))
        return events


def followed(topic: Topic, text: str) -> list[Partition]:
    """The partitions that a live view follows. Raises Failure."""
    if text != "all":
        return [find_partition(topic, text)]
    if len(topic.partitions) > MAX_PARTITIONS_READ:
        wanted = (
            f"a number: of {len(topic.partitions)} partitions no more than {MAX_PARTITIONS_READ} are followed"
        )
        raise bad_parameter("partition", text, wanted)
    return topic.partitions


async def begin(topic: Topic, partition: str, where: Place | None) -> dict[int, int]:
    """The positions from which a view begins: the ends, or another place. Raises Failure, KafkaError."""
    return {
        one.index: one.high_watermark if where is None else await where.begin(one)
        for one in followed(topic, partition)
    }


def event_id(positions: dict[int, int]) -> str:
    """Positions as a client names them when it comes again."""
    return ",".join(f"p{index}:{offset}" for index, offset in sorted(positions.items()))


def parse_event_id(text: str) -> dict[int, int] | None:
    """The positions that `event_id` wrote; None if it did not write this."""
    positions = {}
    parts = text.split(",", MAX_PARTITIONS_READ)
    for part in parts[:MAX_PARTITIONS_READ]:
        found = _ID.fullmatch(part)
        if found is None:
            return None
        positions[int(found[1])] = int(found[2])
    return positions if len(parts) <= MAX_PARTITIONS_READ else None


def _skip(reads: list[PartitionRead]) -> int:
    """Leave out the oldest offsets where there are too many, of each partition in its measure; how many."""
    waiting = sum(one.end - one.begin for one in reads)
    if waiting <= MAX_LIVE_RECORDS:
        return 0
    skipped = 0
    for one in reads:
        kept = max(1, MAX_LIVE_RECORDS * (one.end - one.begin) // waiting)
        skipped += max(0, one.end - kept - one.begin)
        one.begin = one.next = max(one.begin, one.end - kept)
    return skipped
