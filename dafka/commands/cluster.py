"""Questions that go to the leaders of partitions: offsets and records, each to the right node."""

from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import KafkaClient, error_name
from wireproto.kafka.api_keys import ApiKey

METADATA_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 9
FETCH_VERSION: Final = 17
"""The newest versions that Spark's Kafka client (kafka-clients 3.9) uses."""

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Kafka's isolation levels of Fetch and ListOffsets."""

FETCH_WAIT_MS: Final = 500
FETCH_BYTES: Final = 1024 * 1024
"""Kafka's defaults for a consumer (`fetch.max.wait.ms`, `max.partition.fetch.bytes`)."""


class Cluster:
    """A cluster, found through its bootstrap connection, which stays the caller's. A context manager."""

    EARLIEST: Final = -2
    LATEST: Final = -1

    def __init__(self, bootstrap: KafkaClient) -> None:
        self._bootstrap = bootstrap
        self._nodes: dict[int, tuple[str, int]] = {}
        self._clients: dict[int, KafkaClient] = {}

    def metadata(self, names: Sequence[str] | None) -> Any:
        """The Metadata answer for these topics (None: all), which are never created by it."""
        topics = None if names is None else [(None, name) for name in names]
        answer = self._bootstrap.ask(
            ApiKey.METADATA, METADATA_VERSION, topics=topics, allow_auto_topic_creation=False
        )
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return answer

    def leader(self, node_id: int) -> KafkaClient:
        """A connection to a node at its advertised address, made when first needed.

        Raises:
            KafkaTrouble: It cannot be talked to.
            CommandFailed: There is no such node, so the partition has no leader.
        """
        if node_id not in self._clients:
            if node_id not in self._nodes:
                raise CommandFailed(f"no broker is the leader (node {node_id}): try again in a moment")
            client = KafkaClient(*self._nodes[node_id], self._bootstrap.security)
            self._clients[node_id] = client
            client.negotiate()
        return self._clients[node_id]

    def offsets(self, topic: Any, timestamp: int, isolation_level: int = READ_UNCOMMITTED) -> dict[int, int]:
        """Per partition the offset for a timestamp or one of the special ones; with READ_COMMITTED the latest
        one is where the oldest open transaction begins.

        Raises:
            KafkaTrouble, CommandFailed: A leader cannot be asked, or refuses.
        """
        by_leader = defaultdict(list)
        for partition in topic.partitions:
            by_leader[partition.leader_id].append(partition.partition_index)
        found: dict[int, int] = {}
        for node_id, indexes in by_leader.items():
            answer = self.leader(node_id).ask(
                ApiKey.LIST_OFFSETS,
                LIST_OFFSETS_VERSION,
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[(topic.name, [(index, -1, timestamp) for index in indexes])],
            )
            for partition in answer.topics[0].partitions:
                if partition.error_code:
                    raise CommandFailed(
                        f"{topic.name}-{partition.partition_index}: {error_name(partition.error_code)}"
                    )
                found[partition.partition_index] = partition.offset
        return found

    def fetch(self, topic: Any, index: int, node_id: int, offset: int) -> bytes:
        """The batches from `offset` of a partition on, whole; none if there are none within half a second.

        Raises:
            KafkaTrouble, CommandFailed: The leader cannot be asked, or refuses.
        """
        client = self.leader(node_id)
        version = client.version(ApiKey.FETCH, FETCH_VERSION)
        if topic.topic_id is None:  # as Kafka's clients do when a topic has no id
            version = min(version, 12)
        answer = client.ask(
            ApiKey.FETCH,
            version,
            replica_id=-1,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=50 * FETCH_BYTES,
            isolation_level=READ_UNCOMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[_fetch_topic(topic, index, offset)],
            forgotten_topics_data=[],
            rack_id="",
        )
        partition = answer.responses[0].partitions[0] if answer.responses else None
        code = partition.error_code if partition is not None else answer.error_code
        if code or partition is None:
            raise CommandFailed(f"{topic.name}-{index} from offset {offset}: {error_name(code)}")
        return bytes(partition.records or b"")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _fetch_topic(topic: Any, index: int, offset: int) -> Any:
    from wireproto.kafka.schemas import REQUEST_CLASSES

    request: Any = REQUEST_CLASSES[ApiKey.FETCH]
    partition = request.FetchTopic.FetchPartition(
        partition=index, current_leader_epoch=-1, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
    )
    return request.FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])
