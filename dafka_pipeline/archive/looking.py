"""A look at Kafka: which topics there are, and where their logs begin and end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dafka_pipeline.archive.plan import Look
from dafka_pipeline.archive.settings import ArchiveSettings
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.kafka.cluster import Cluster, Topic, TopicPartition


def look_at(cluster: Cluster, settings: ArchiveSettings) -> Look:
    """The topics that are asked for, as they are now. Raises KafkaAway."""
    names = settings.chosen(cluster.names() if settings.pattern else [])
    topics = cluster.topics(names)
    places = places_of(topics.values())
    first = cluster.first_offsets(places)
    return Look(topics, first, cluster.end_offsets(places))


def places_of(topics: Collection[Topic]) -> list[TopicPartition]:
    """All partitions of topics."""
    return [TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)]


def starting_offsets(
    cluster: Cluster, look: Look, new: Collection[str], start: str | int
) -> Mapping[TopicPartition, int]:
    """Where to begin in topics that the archive has never seen."""
    places = places_of([look.topics[name] for name in new])
    if start == "earliest":
        return {}
    if start == "latest":
        return {place: look.end[place] for place in places}
    found = cluster.offsets_at(places, int(start))
    return {place: look.end[place] if found[place] < 0 else found[place] for place in places}


def missing_topics(settings: ArchiveSettings, look: Look, known: Collection[str]) -> UsageFailure | None:
    """What to say when a topic that was named is neither in Kafka nor in the archive."""
    missing = [name for name in settings.topics if name not in look.topics and name not in known]
    if not missing:
        return None
    return UsageFailure(
        f"There is no topic {', '.join(missing)}. Create it first, or archive by --pattern, which takes "
        "topics up when they come."
    )
