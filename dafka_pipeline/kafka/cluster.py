"""What a driver asks a Kafka itself, beside Spark: topics with their ids, offsets, configs.

Spark knows topics by name only. A topic that was deleted and made again under its name has another id, and
that is seen here alone (KIP-516).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dafka_pipeline.failures import KafkaAway, PipelineError, UsageFailure
from dafka_pipeline.kafka.options import KafkaOptions

ANSWER_SECONDS: Final = 15.0
"""How long one question may take before the cluster counts as away."""
NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id of a server that knows none, in the form that Kafka's tools print."""


logger = logging.getLogger("dafka_pipeline.kafka")
# What librdkafka logs is for its developers: what concerns a user is in its errors, too.
logger.addHandler(logging.NullHandler())


class TopicPartition(NamedTuple):
    """A partition, by name and number."""

    topic: str
    partition: int


@dataclass(frozen=True)
class Topic:
    """A topic as its cluster describes it.

    topic_id: 22 characters as Kafka's tools print it; None where the server has no ids.
    """

    name: str
    topic_id: str | None
    partitions: int


class Cluster:
    """Questions to one Kafka, each answered or failed within ANSWER_SECONDS.

    Every method raises KafkaAway when no broker answers; the caller decides whether to wait.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self._client: Any = None
        self._refusal: Any = None

    @property
    def admin(self) -> Any:
        """The `AdminClient`, made at its first use. Raises UsageFailure for options that it does not take."""
        if self._client is None:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient

            try:
                settings = {**self.options.for_librdkafka(), "error_cb": self._hear}
                self._client = AdminClient(settings, logger=logger)
            except KafkaException as error:
                raise UsageFailure(
                    f"librdkafka refuses the options of --kafka: {error.args[0].str()}"
                ) from error
        return self._client

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """As `asked`, and a Kafka that does not let us in is told from one that is away.

        Raises UsageFailure where the user, the password or the certificates are refused.
        """
        try:
            with asked(what, self.options):
                yield
        except KafkaAway as away:
            # What librdkafka heard from the brokers meanwhile waits to be asked for.
            self.admin.poll(0)
            refusal, self._refusal = self._refusal, None
            # What it remembers of leaders may be older than a restart, and it asks again after minutes only.
            self._client = None
            if refusal is not None:
                raise UsageFailure(
                    f"{self.options.bootstrap} does not let this client in: {refusal.str()}. Look at --kafka "
                    "security.protocol, sasl.mechanism, sasl.jaas.config, and ssl.truststore.location."
                ) from away
            raise

    def _hear(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}:
            self._refusal = error

    def names(self) -> list[str]:
        """All topics that are not internal, sorted."""
        with self.asking("for its topics"):
            metadata = self.admin.list_topics(timeout=ANSWER_SECONDS)
        return sorted(name for name in metadata.topics if not name.startswith("__"))

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of the named topics that exist. Asking creates none."""
        if not names:
            return {}
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        with self.asking("about its topics"):
            futures = self.admin.describe_topics(
                TopicCollection(sorted(names)), request_timeout=ANSWER_SECONDS
            )
            found = {}
            for name, future in futures.items():
                try:
                    one = future.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                    continue
                topic_id = str(one.topic_id)
                found[name] = Topic(name, None if topic_id == NO_ID else topic_id, len(one.partitions))
        return found

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log begins now."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.earliest(), committed=False)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log ends now for readers of committed records (the last stable offset)."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.latest(), committed=True)

    def offsets_at(
        self, partitions: Collection[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int]:
        """The first offset whose timestamp is that or later; -1 where there is none."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.for_timestamp(milliseconds), committed=False)

    def configs(self, topic: str) -> dict[str, str]:
        """The configs that were set on the topic itself, without defaults."""
        from confluent_kafka.admin import ConfigResource, ConfigSource

        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with self.asking(f"for the configs of {topic}"):
            entries = self.admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[
                resource
            ].result()
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            name: entry.value
            for name, entry in entries.items()
            if entry.source == own and not entry.is_sensitive
        }

    def config(self, topic: str, name: str) -> str | None:
        """The value of one config as it is in force for the topic."""
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with self.asking(f"for the configs of {topic}"):
            entries = self.admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[
                resource
            ].result()
        entry = entries.get(name)
        return None if entry is None else entry.value

    def _offsets(
        self, partitions: Collection[TopicPartition], which: Any, *, committed: bool
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        import confluent_kafka
        from confluent_kafka import IsolationLevel

        wanted: Mapping[Any, Any] = {confluent_kafka.TopicPartition(*one): which for one in partitions}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        with self.asking("for offsets"):
            futures = self.admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER_SECONDS)
            return {
                TopicPartition(one.topic, one.partition): done.result().offset
                for one, done in futures.items()
            }


@contextmanager
def asked(what: str, options: KafkaOptions) -> Iterator[None]:
    """Turns librdkafka's failure into one of ours."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        if error.retriable() or error.code() in {
            KafkaError._TRANSPORT,  # its names for errors on this side of the wire
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
            KafkaError._RESOLVE,
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.BROKER_NOT_AVAILABLE,
            KafkaError.FENCED_LEADER_EPOCH,
            KafkaError.UNKNOWN_LEADER_EPOCH,
        }:
            away = KafkaAway(
                f"{options.bootstrap} does not answer when asked {what} ({error.str()}). Is it started, "
                f"is the address right, does the listener want TLS or a password (--kafka security.protocol)?"
            )
            away.bootstrap = options.bootstrap
            raise away from exception
        refused = PipelineError(
            f"{options.bootstrap} refused when asked {what}: {error.str()} ({error.name()}). Is the name "
            "right, and may this user do so?"
        )
        # A topic that was there a moment ago: the next look sees what is there now.
        refused.retriable = error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        raise refused from exception
