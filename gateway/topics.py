"""The topics of this gateway by name and by id, as the catalog has them."""

from gateway.configs.effective import effective_topic_configs
from gateway.log import catalog_keys as keys
from gateway.log.context import LogContext
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.topic_names import is_internal


class Topics:
    """In memory; whoever changes the catalog changes this after its transaction."""

    def __init__(self) -> None:
        self.revision = 0
        """Goes up with every change: for caches of what is derived from the topics."""
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._sorted: list[Topic] | None = None

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        if self._sorted is None:
            self._sorted = [topic for _, topic in sorted(self._by_name.items())]
        return self._sorted

    def add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self.changed()

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        self.changed()

    def changed(self) -> None:
        """Something that clients see of the topics is different now."""
        self.revision += 1
        self._sorted = None

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())


def build_topic(
    context: LogContext,
    name: str,
    topic_id: bytes,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
) -> Topic:
    """A topic with its partitions, which are not recovered yet."""
    settings = effective_topic_configs(configs)
    topic = Topic(name, topic_id, configs, settings, replication_factor, is_internal(name))
    topic.partitions = [Partition(context, topic, index) for index in range(partitions)]
    return topic


def load_topics(context: LogContext) -> Topics:
    """All topics of the catalog."""
    topics = Topics()
    for entry in context.catalog.range(keys.TOPICS):
        value = keys.unpack(entry.value)
        topics.add(
            build_topic(
                context,
                entry.key.removeprefix(keys.TOPICS),
                bytes.fromhex(value["id"]),
                value["partitions"],
                value["replication_factor"],
                value["configs"],
            )
        )
    return topics


def topic_record(topic: Topic) -> bytes:
    """The catalog's value of a topic."""
    return keys.pack(
        {
            "id": topic.id.hex(),
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "configs": topic.configs,
        }
    )
