"""What of a backup is restored: all of it, or what was there at an earlier time, segment by segment. Pure.

Groups' offsets are kept whatever the time is, and those beyond what is left are set to the ends
(`dafka.backup.commits`). Their segments say nothing of single commits; without any a group begins anew.
Transactional ids are kept as well: without them nobody would end what is open, and producers would come back
with epochs that the data is ahead of (`dafka.backup.transactions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from dafka.backup.commits import COMMITS_TOPIC
from dafka.backup.manifest import Gap, Manifest, SavedPartition, SavedSegment
from dafka.backup.transactions import TRANSACTIONS_TOPIC

KEPT_WHOLE: Final = frozenset((COMMITS_TOPIC, TRANSACTIONS_TOPIC))
"""Topics of which nothing is left out, whatever the time is."""


class CannotRestore(Exception):
    """The backup is not restored as it is asked for; the text says why and what to do."""

    exit_code = 3


@dataclass(frozen=True, eq=False)
class PlannedPartition:
    """What becomes of one partition: its segments, where it starts and ends."""

    saved: SavedPartition
    segments: tuple[SavedSegment, ...]
    log_start: int
    end: int

    @property
    def epochs(self) -> list[list[int]]:
        """The leader epochs that wrote something of it."""
        return [[epoch, start] for epoch, start in self.saved.epochs if start < self.end]

    @property
    def lost(self) -> int:
        """Offsets at the end that are in the backup and not restored."""
        return max(0, self.saved.end - self.end)

    @property
    def lacks_end(self) -> bool:
        """Whether something was there behind its end, or may have been."""
        return self.lost > 0 or any(gap.end < 0 or gap.end > self.end for gap in self.saved.gaps)

    def record(self) -> Mapping[str, Any]:
        """The catalog's record of it."""
        used = [segment_epoch(segment) for segment in self.segments] + [epoch for epoch, _ in self.epochs]
        return {
            "next_epoch": max(used, default=-1) + 1,
            "epochs": self.epochs,
            "log_start": self.log_start,
            **({} if self.segments else {"end": self.end}),
        }


def segment_epoch(segment: SavedSegment) -> int:
    """The epoch that a restored segment is announced with. That of a compacted one may be newer than those of
    the segments after it, and stores take a log's epochs in their order: its last batch's will do.
    """
    return segment.parts[-1].epoch if segment.is_compacted and segment.parts else segment.epoch


def plan(manifest: Manifest, before_ms: int | None, *, accept_loss: bool) -> list[PlannedPartition]:
    """What is restored of each partition that was ever written to. Raises CannotRestore for gaps, unless
    `accept_loss` is set: then a log begins after its last gap.
    """
    planned = [_planned(each, before_ms) for each in manifest.partitions if each.record is not None]
    holes = [(each, hole) for each in planned for hole in _holes(each)]
    if holes and not accept_loss:
        named = "; ".join(
            f"{each.saved.name} from offset {hole.start} to {_end(hole)}" for each, hole in holes[:5]
        )
        more = f" and {len(holes) - 5} others" if len(holes) > 5 else ""
        raise CannotRestore(
            f"backup {manifest.id} lacks something: {named}{more}. Restore another backup, or this one with "
            "--accept-loss: a log with a hole begins after it then"
        )
    return [_without_holes(each) for each in planned]


def _end(hole: Gap) -> str:
    return "its end" if hole.end < 0 else f"{hole.end}"


def _planned(saved: SavedPartition, before_ms: int | None) -> PlannedPartition:
    segments = saved.segments
    if before_ms is not None and saved.topic not in KEPT_WHOLE:
        segments = segments[: _count_before(segments, before_ms)]
    if len(segments) == len(saved.segments):
        end = saved.end
    else:
        end = segments[-1].end if segments else saved.segments[0].start
    return PlannedPartition(saved, segments, min(saved.log_start, end), end)


def _count_before(segments: Sequence[SavedSegment], before_ms: int) -> int:
    """How many of these, from the first one on, have nothing that was appended later."""
    for count, segment in enumerate(segments):
        if _closed_ms(segments, count, segment) > before_ms:
            return count
    return len(segments)


def _closed_ms(segments: Sequence[SavedSegment], place: int, segment: SavedSegment) -> float:
    """When the last batch may have come into it: when it was closed, or else when the next one was opened."""
    if segment.is_compacted:
        return segment.max_timestamp  # it was written when it was compacted
    if segment.closed_ms:
        return segment.closed_ms
    return segments[place + 1].opened_ms if place + 1 < len(segments) else float("inf")


def _holes(planned: PlannedPartition) -> list[Gap]:
    """What is lacking of it above its log start."""
    gaps = planned.saved.gaps
    holes = [
        Gap(before.end, after.start, "")
        for before, after in pairwise(planned.segments)
        if before.end != after.start and after.start > planned.log_start
    ]
    if planned.segments and planned.segments[0].start > planned.log_start:
        holes.insert(0, Gap(planned.log_start, planned.segments[0].start, ""))
    if not planned.lost:
        holes += [gap for gap in gaps if gap.end < 0 or gap.end > planned.end]
    return holes


def _without_holes(planned: PlannedPartition) -> PlannedPartition:
    """It begins after its last hole."""
    segments = planned.segments
    for place in range(len(segments) - 1, 0, -1):
        if segments[place - 1].end != segments[place].start:
            segments = segments[place:]
            break
    log_start = max(planned.log_start, segments[0].start) if segments else planned.end
    return replace(planned, segments=segments, log_start=log_start)
