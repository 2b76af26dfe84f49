"""What a replay is asked to put back. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.ranges import Span
from dafka_pipeline.units import milliseconds

KEEP, BY_KEY = "keep", "by-key"
PARTITIONING: Final = (KEEP, BY_KEY)
_OFFSETS: Final = re.compile(r"(?:(?P<topic>[^/:]+)/)?(?P<partition>\d+):(?P<start>\d*)-(?P<end>\d*)")


class Offsets(NamedTuple):
    """A part of a partition, from `start` up to but without `end`; None is as far as the archive goes.

    topic: empty for any of those that are replayed.
    """

    topic: str
    partition: int
    start: int | None
    end: int | None


@dataclass(frozen=True)
class Selection:
    """Which records go where.

    targets: for each archived topic the topic that it goes to.
    partitions: KEEP, each record into the partition that it was in; BY_KEY, as Java's producers place it.
    offsets: parts of partitions; where there are any, nothing else.
    start_ms, end_ms: times of records, from `start` up to but without `end`.
    topic_ids: of a topic that was deleted and made again: which one of the archive.
    zero_as_ms: with which time records of 1970-01-01T00:00:00.000 are sent; None refuses them.
    """

    targets: Mapping[str, str]
    partitions: str = KEEP
    offsets: tuple[Offsets, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    zero_as_ms: int | None = None

    def to_json(self) -> str:
        """The same text for the same selection."""
        return json.dumps(asdict(self), sort_keys=True)

    def spans(self, there: Sequence[Span]) -> list[Span]:
        """The offsets that are asked for, of what the archive has, at most one span a partition.

        Raises UsageFailure for parts of a partition that the archive has not.
        """
        if not self.offsets:
            return [span for span in there if span.length > 0]
        found: list[Span] = []
        for one in self.offsets:
            those = [
                span for span in there if span.partition == one.partition and one.topic in {"", span.topic}
            ]
            if not those:
                raise UsageFailure(f"--offsets {shown(one)}: the archive has no such partition.")
            for span in those:
                start = span.start if one.start is None else max(one.start, span.start)
                end = span.end if one.end is None else min(one.end, span.end)
                if start >= end:
                    raise UsageFailure(
                        f"--offsets {shown(one)}: the archive has {span.start} up to but without "
                        f"{span.end} of {span.topic}-{span.partition}."
                    )
                found.append(span._replace(start=start, end=end))
        places = [(span.topic, span.partition) for span in found]
        if len(set(places)) < len(places):
            raise UsageFailure("--offsets: one part of each partition, not several.")
        return sorted(found)


def shown(one: Offsets) -> str:
    """As a user writes it."""
    topic = f"{one.topic}/" if one.topic else ""
    start, end = ("" if number is None else str(number) for number in (one.start, one.end))
    return f"{topic}{one.partition}:{start}-{end}"


def parse_offsets(text: str) -> Offsets:
    """`PARTITION:FROM-TO` or `TOPIC/PARTITION:FROM-TO`, FROM and TO each may be left out. Raises
    UsageFailure.
    """
    found = _OFFSETS.fullmatch(text)
    if found is None:
        raise UsageFailure(f"--offsets {text}: give PARTITION:FROM-TO, e.g. 0:1000-2000, 0:1000- or 0:-2000.")
    start, end = (int(found[name]) if found[name] else None for name in ("start", "end"))
    if end is not None and end <= (start or 0):
        raise UsageFailure(
            f"--offsets {text}: there is nothing between these offsets; TO itself is left out."
        )
    return Offsets(found["topic"] or "", int(found["partition"]), start, end)


def parse_times(text: str) -> tuple[int | None, int | None]:
    """`FROM..TO` in milliseconds since 1970; each may be left out. Raises UsageFailure."""
    start, dots, end = text.partition("..")
    if not dots or not (start or end):
        raise UsageFailure(f"--times {text}: give FROM..TO, e.g. 2026-01-31T12:00Z..2026-01-31T13:00Z.")
    first, last = (milliseconds(one, "--times") if one else None for one in (start, end))
    if first is not None and last is not None and first >= last:
        raise UsageFailure(f"--times {text}: there is nothing between these times.")
    return first, last


def targets_of(topics: Sequence[str], to: str | None, prefix: str | None) -> dict[str, str]:
    """For each archived topic the one that it goes to. Raises UsageFailure."""
    if to is not None and prefix is not None:
        raise UsageFailure("Give --to or --to-prefix, not both.")
    if to is not None and len(topics) != 1:
        raise UsageFailure(f"--to {to}: {len(topics)} topics cannot go into one; use --to-prefix.")
    if to is not None:
        return {topics[0]: to}
    return {topic: f"{prefix or ''}{topic}" for topic in topics}


def default_id(
    archive: str, selection: Selection, bootstrap: str, *, append: bool, version: int | None
) -> str:
    """The same id for the same command, so that it goes on with what it has begun."""
    what = json.dumps([archive, selection.to_json(), bootstrap, append, version])
    return f"replay-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
