"""Which offsets an archive has of each life of a topic, out of what its commits say and what lies in it.
Pure.

A topic that was deleted and made again is another topic under the same name, with offsets from 0 again: a
life.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.state import TopicEnds, parse_state


class Life(NamedTuple):
    """What lies in the table of one partition of one life of a topic."""

    topic: str
    topic_id: str | None
    partition: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True)
class Beginnings:
    """Where the archive began to read each partition of each life. complete: whether all commits are
    known.
    """

    offsets: Mapping[tuple[str, str | None, int], int]
    complete: bool

    def of(self, topic: str, topic_id: str | None, partition: int, first: int) -> int:
        """Where one partition begins; where the commits do not tell, the offset of its first record.

        Commits that are known in part tell of batches in the middle of a partition: those are no beginnings.
        """
        if self.complete:
            return self.offsets.get((topic, topic_id, partition), first)
        return first


def beginnings(commits: Collection[Commit]) -> Beginnings:
    """Out of commits, in whatever order; complete when the first commit of the table is among them."""
    offsets: dict[tuple[str, str | None, int], int] = {}
    for commit in sorted(commits, key=lambda one: one.version):
        state = parse_state(commit.said)
        if state is None:
            continue
        for span in state.spans:
            place = (span.topic, state.topics[span.topic].topic_id, span.partition)
            offsets.setdefault(place, span.start)
    return Beginnings(offsets, any(commit.version == 0 for commit in commits))


def ends_of(lives: Iterable[Life], known: TopicEnds | None, topic_id: str | None) -> dict[int, int]:
    """Up to where each partition of a life goes: as the archive's newest commit says; of an older life,
    which it says nothing about, up to its last record.
    """
    if known is not None and known.topic_id == topic_id:
        return dict(enumerate(known.ends))
    return {life.partition: life.last + 1 for life in lives}


def strays(lives: Iterable[Life], ends: Mapping[int, int]) -> dict[int, int]:
    """Partitions with records behind where they go, with the offset from which on none should be."""
    return {
        life.partition: ends.get(life.partition, 0)
        for life in lives
        if life.last >= ends.get(life.partition, 0)
    }
