"""The topics of a transform as Kafka has them: there or not, and the same as before or made again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from dafka_pipeline.failures import KafkaAway, Refused, UsageFailure
from dafka_pipeline.kafka.cluster import Cluster, Topic
from dafka_pipeline.transform.binding import Binding
from dafka_pipeline.transform.settings import TransformSettings

LOOK_SECONDS: Final = 10.0
"""Between two looks at the topics' ids while the query runs; each is a request or two."""


def topics_of(cluster: Cluster, settings: TransformSettings) -> dict[str, Topic]:
    """All of a transform's topics. Raises UsageFailure for those that are missing, and KafkaAway."""
    found = cluster.topics({*settings.sources, *settings.targets})
    missing = [name for name in settings.sources if name not in found]
    if missing:
        raise UsageFailure(f"There is no topic {', '.join(missing)} to read from (--from). Create it first.")
    absent = [name for name in settings.targets if name not in found]
    if absent and settings.create_partitions:
        create_topics(cluster, absent, settings.create_partitions)
        return topics_of(cluster, settings)
    if absent:
        raise UsageFailure(
            f"There is no topic {', '.join(absent)} to write to (--to). Create it first, or give "
            "--create-to PARTITIONS."
        )
    return found


def create_topics(cluster: Cluster, names: list[str], partitions: int) -> None:
    """Make topics with the server's defaults. One that somebody else makes meanwhile is taken as it is."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    for name, future in cluster.admin.create_topics([NewTopic(name, partitions) for name in names]).items():
        try:
            future.result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UsageFailure(
                    f"Topic {name} could not be created: {failure.args[0].str()}. Create it yourself, or "
                    "leave --create-to out."
                ) from failure


def ids_of(topics: Mapping[str, Topic], names: tuple[str, ...]) -> dict[str, str | None]:
    return {name: topics[name].topic_id for name in names}


class Watch:
    """Looks now and then whether the topics are still those that the checkpoint belongs to."""

    def __init__(self, cluster: Cluster, binding: Binding) -> None:
        self._cluster = cluster
        self._wanted = {**binding.targets, **binding.sources}
        self._next = time.monotonic() + LOOK_SECONDS

    def look_if_due(self) -> None:
        """As `look`, if the last one is long enough ago. A Kafka that is away is for Spark to notice."""
        if time.monotonic() >= self._next:
            try:
                self.look()
            except KafkaAway:
                self._next = time.monotonic() + LOOK_SECONDS

    def look(self) -> None:
        """Raises Refused when a topic is another one than before or is gone, and KafkaAway."""
        found = self._cluster.topics(set(self._wanted))
        self._next = time.monotonic() + LOOK_SECONDS
        for name, wanted in self._wanted.items():
            if name not in found:
                raise Refused(
                    f"Topic {name} was deleted while the transform ran. Its checkpoint is of that topic: "
                    "where a new one "
                    "of the name is made, begin with a new --checkpoint."
                )
            if None not in {wanted, found[name].topic_id} and found[name].topic_id != wanted:
                raise Refused(
                    f"Topic {name} was deleted and made again while the transform ran (its id was {wanted} "
                    "and is "
                    f"{found[name].topic_id}). Its checkpoint is of the former: begin with a new "
                    "--checkpoint."
                )
