"""What an audit found. Pure: made by `job`, told by `report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dafka_pipeline.audit.coverage import Absent, NotCompared
from dafka_pipeline.kafka.cluster import TopicPartition

MISSING_LEFT: Final = "missing left"
MISSING_RIGHT: Final = "missing right"
DOUBLED_LEFT: Final = "doubled left"
DOUBLED_RIGHT: Final = "doubled right"
ALTERED: Final = "altered"
SWAPPED: Final = "swapped"
MOVED: Final = "moved"
KINDS: Final = (MISSING_LEFT, MISSING_RIGHT, DOUBLED_LEFT, DOUBLED_RIGHT, ALTERED, SWAPPED, MOVED)
"""What can be wrong with a record. SWAPPED: two records have each other's contents. MOVED: a record that is
missing at its place on the right is at another one."""

FIELDS: Final = ("key", "value", "headers", "timestamp", "timestamp_type")


class Place(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


@dataclass(frozen=True)
class Difference:
    """One thing that is wrong with one record, or with two (`other`) where it is SWAPPED or MOVED.

    fields: which of FIELDS differ. times: how often the record is there on the left and on the right.
    details: for each of `fields`, how it differs, as text; only of the differences that are named.
    """

    kind: str
    place: Place
    fields: tuple[str, ...] = ()
    times: tuple[int, int] = (1, 1)
    other: Place | None = None
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Compared:
    """One partition: records that were compared on each side, and its span."""

    start: int
    end: int
    left: int = 0
    right: int = 0


@dataclass
class Verdict:
    """The whole of it.

    counts: how many records each of KINDS concerns; pairs count once. None is left out by a limit.
    named: some of the differences, in the order of their places.
    compared: what was, by partition. not_compared: what only one side can have, in offsets.
    absent: topics and partitions that one side lacks.
    strays: records of a side where it says itself that it has none yet: side, partition, how many.
    known_gaps: records that one side is known not to have, with the reason that it gives; no differences.
    compacted: records that only compaction explains, by why (`--compacted`); no differences.
    pins: what repeats this audit, by side. notes: what else should be known.
    read_again: ranges that differed, and their offsets.
    """

    left: str
    right: str
    pins: Mapping[str, Mapping[str, Any]]
    range_offsets: int
    strong: bool = False
    ignore_type: bool = False
    compacted_mode: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    named: list[Difference] = field(default_factory=list)
    compared: dict[TopicPartition, Compared] = field(default_factory=dict)
    not_compared: list[NotCompared] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    strays: list[tuple[str, TopicPartition, int]] = field(default_factory=list)
    known_gaps: dict[str, int] = field(default_factory=dict)
    compacted: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ranges: int = 0
    read_again: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def differences(self) -> int:
        """How many records; a pair that was swapped or moved is one."""
        return sum(self.counts.values())

    @property
    def equal(self) -> bool:
        """Whether nothing differs in all that is compared."""
        return not self.differences and not self.absent and not self.strays
