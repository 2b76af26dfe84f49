"""What a look at Kafka means for an archive: what to read next, and what will never be in it. Pure.

The archive knows for each partition the offset that it does not have yet, and for each topic its id. A log
that begins after that offset has lost records before they were read. A topic with another id is another
topic under the same name (its offsets begin at 0 again), though Kafka's own reader would not notice. Both are
losses that somebody must hear of: `on_loss` says whether the job stops for them or writes them down and goes
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dafka_pipeline.kafka.cluster import Topic, TopicPartition
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.state import State, TopicEnds

RETENTION: Final = "retention"
"""The log had begun later when the archive came to read: retention, or somebody deleted records."""
RECREATED: Final = "re-created"
"""The topic was deleted and made again. What it had beyond the row's offset went with it."""
DOUBTFUL: Final = "doubtful"
"""The topic was made again while these were read: the archive has them, and they may be the new topic's."""
ERASED: Final = "erased"
"""Erased from the archive on purpose."""


@dataclass(frozen=True)
class Look:
    """What Kafka says at one moment.

    topics: those that are asked for and exist. first, end: where each log begins and ends (for readers of
    committed records).
    """

    topics: Mapping[str, Topic]
    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]


class Gap(NamedTuple):
    """Offsets that the archive does not have, and why. `span` may be empty: a place, with nothing known
    after it.
    """

    span: Span
    topic_id: str | None
    reason: str


@dataclass
class Plan:
    """What follows from a look.

    topics: the state's topics, with new ones, new partitions, and ends moved over what is lost.
    waiting: all that can be read now, at most one span for each partition.
    gaps: what is lost; each has a line in `losses`.
    went_back: partitions whose log ends before what is archived, as text.
    """

    topics: dict[str, TopicEnds] = field(default_factory=dict)
    waiting: list[Span] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    went_back: list[str] = field(default_factory=list)
    news: list[str] = field(default_factory=list)


def plan(state: State, look: Look, starts: Mapping[TopicPartition, int]) -> Plan:
    """Compare the archive's state with a look at Kafka.

    starts: where to begin in partitions of topics that the archive has never seen; one without an entry
        begins where its log begins.
    """
    made = Plan(topics=dict(state.topics))
    for name, topic in sorted(look.topics.items()):
        known = state.topics.get(name)
        if known is None:
            made.news.append(f"{name} is new: {topic.partitions} partitions.")
            known = TopicEnds(topic.topic_id, tuple(_starts(topic, look, starts)))
        elif None not in (known.topic_id, topic.topic_id) and known.topic_id != topic.topic_id:
            known = _recreated(made, name, known, topic)
        # One look at a server that does not tell ids (an upgrade, an old broker) makes no other topic of it.
        topic_id = known.topic_id if known.topic_id is not None or any(known.ends) else topic.topic_id
        made.topics[name] = TopicEnds(topic_id, tuple(_ends(made, look, topic, known)))
    return made


def _starts(topic: Topic, look: Look, starts: Mapping[TopicPartition, int]) -> list[int]:
    places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    return [max(look.first[place], starts.get(place, look.first[place])) for place in places]


def _recreated(made: Plan, name: str, known: TopicEnds, topic: Topic) -> TopicEnds:
    made.losses.append(
        f"{name} was deleted and made again: its id was {known.topic_id} and is {topic.topic_id}. What the "
        f"earlier topic had from offsets {list(known.ends)} on is not in the archive"
    )
    for partition, end in enumerate(known.ends):
        made.gaps.append(Gap(Span(name, partition, end, end), known.topic_id, RECREATED))
    return TopicEnds(topic.topic_id, ())


def _ends(made: Plan, look: Look, topic: Topic, known: TopicEnds) -> list[int]:
    ends = list(known.ends)
    if len(ends) > topic.partitions:
        made.went_back.append(f"{topic.name} has {topic.partitions} partitions and had {len(ends)}")
        return ends
    for partition in range(topic.partitions):
        place = TopicPartition(topic.name, partition)
        first, end = look.first[place], look.end[place]
        if partition >= len(ends):
            # A partition that came later is read from 0: what it had before its log's beginning now is lost.
            ends.append(0)
        at = ends[partition]
        if end < at:
            made.went_back.append(f"{topic.name}/{partition} ends at {end} and was archived up to {at}")
            continue
        if first > at:
            made.gaps.append(Gap(Span(topic.name, partition, at, first), topic.topic_id, RETENTION))
            made.losses.append(
                f"{topic.name}/{partition} begins at {first} now: offsets {at} to {first - 1} went before "
                "they were archived"
            )
            at = ends[partition] = first
        if end > at:
            made.waiting.append(Span(topic.name, partition, at, end))
    return ends
