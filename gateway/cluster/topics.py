"""The topics of this gateway by name and by id, as the catalog has them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.catalog import keys
from gateway.catalog.interface import MAX_VALUE_BYTES, Entry
from gateway.common.shares import Shares
from gateway.common.topic_names import collision_key, has_collision_characters, is_internal
from gateway.configs.effective import EffectiveTopicConfigs, effective_topic_configs
from gateway.configs.internal import COMPACTED_TOPICS, MIN_INTERNAL_MESSAGE_BYTES
from gateway.log.context import LogContext
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.security.principal import MAX_NAME_CHARS, USER, Principal
from wireproto.kafka.errors import ErrorCode, KafkaError

INTERNAL_SEGMENT_BYTES: Final = 4 * 1024 * 1024
"""Size at which the open segment of one of Kafka's internal topics is closed, whatever larger one its configs
have: all of a partition is read before its groups are served, and the open segment is never compacted. With
50 dirty partitions this leaves some hundred MB to read, and not gigabytes."""


MAX_PARTITIONS: Final = 20_000
"""Partitions of all topics together. Each takes some kilobytes of memory and has to be recovered at start;
Kafka advises against more than 4,000 per broker. Beyond it a topic is POLICY_VIOLATION. Where there are ACLs,
the topics that one principal has made, or was the last to add partitions to, may have half of what others
leave."""

MAX_MAKER_CHARS: Final = len(str(Principal(USER, ""))) + MAX_NAME_CHARS
"""Characters of a maker that are believed: "User:" and the longest name that somebody may have."""


class Topics:
    """In memory. `gateway.cluster.following` has them be as the catalog says."""

    def __init__(self) -> None:
        self.shares = Shares(MAX_PARTITIONS)
        """Whose partitions they are, by the makers of their topics."""
        self.revision = 0
        """Goes up with every change: for caches of what is derived from the topics."""
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._sorted: list[Topic] | None = None
        self._partitions = 0
        self._by_collision_key: dict[str, str] = {}
        """The names that others could collide with."""

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
        self._count(topic, len(topic.partitions))
        if has_collision_characters(topic.name):
            self._by_collision_key[collision_key(topic.name)] = topic.name
        self.changed()

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        self._count(topic, -len(topic.partitions))
        if self._by_collision_key.get(collision_key(topic.name)) == topic.name:
            del self._by_collision_key[collision_key(topic.name)]
        self.changed()

    def changed(self) -> None:
        """Something that clients see of the topics is different now."""
        self.revision += 1
        self._sorted = None

    def grew(self, topic: Topic, partitions: int) -> None:
        """A topic that is there has so many partitions more."""
        self._count(topic, partitions)
        self.changed()

    def is_of(self, topic: Topic, maker: str) -> None:
        """A topic that is there is on somebody's account from now on."""
        self.shares.move(topic.maker, maker, len(topic.partitions))
        topic.maker = maker

    def check_room(self, maker: str, partitions: int) -> None:
        """Whether there may be so many partitions more, on the account of `maker` ("": of nobody). Raises
        KafkaError: POLICY_VIOLATION.
        """
        if self._partitions + partitions > self.shares.total:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._partitions} partitions already and {partitions} more would exceed the "
                f"limit of {self.shares.total}.",
            )
        self._check_share(maker, partitions)

    def check_growth(self, topic: Topic, asker: str, count: int) -> None:
        """Whether `asker` ("": nobody, who may) may have a topic of `count` partitions, which is on his
        account then, whoever has made it: he can use up nobody else's share, and has no more by what others
        have made. Raises KafkaError: POLICY_VIOLATION.
        """
        self.check_room("", count - len(topic.partitions))
        if not asker:
            return
        before = topic.maker
        self.is_of(topic, asker)
        try:
            self._check_share(asker, count - len(topic.partitions))
        finally:
            self.is_of(topic, before)

    def _check_share(self, maker: str, partitions: int) -> None:
        """Whether the topics of `maker` may have so many partitions more. Raises KafkaError:
        POLICY_VIOLATION.
        """
        shares = self.shares
        if maker and not shares.has_room(maker, partitions):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The topics that {maker} has made or extended have {shares.held(maker)} partitions, and "
                f"{partitions} more would be too many: they may have {shares.share(maker)}, half of what "
                f"others leave of {shares.total}. Delete topics that are not needed, or ask a super user to "
                "make these partitions.",
            )

    def _count(self, topic: Topic, partitions: int) -> None:
        self._partitions += partitions
        self.shares.charge(topic.maker, partitions)

    def partition_count(self) -> int:
        """How many partitions all topics have together."""
        return self._partitions

    def collision(self, name: str) -> str | None:
        """The topic that a new one of this name would collide with (`a.b` with `a_b`), if there is one."""
        other = self._by_collision_key.get(collision_key(name))
        return None if other == name else other


def build_topic(
    context: LogContext,
    name: str,
    topic_id: bytes,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    defaults: Mapping[str, str] | None = None,
    maker: str = "",
) -> Topic:
    """A topic with its partitions, which are not recovered yet. `maker`: see `Topic`.

    `defaults` are the broker configs that were set while a gateway ran: defaults of topic configs are among
    them.
    """
    settings = effective_topic_configs(configs, defaults)
    topic = Topic(name, topic_id, configs, settings, replication_factor, is_internal(name), maker=maker)
    _bound_internal(topic)
    topic.partitions = [Partition(context, topic, index) for index in range(partitions)]
    return topic


def apply_configs(topics: Iterable[Topic], defaults: Mapping[str, str], *, announce: bool) -> None:
    """Have topics go by their configs, and by these broker configs where they have none of their own.

    `announce`: it is the topics' own that are new.
    """
    known: dict[frozenset[tuple[str, str]], EffectiveTopicConfigs] = {}
    for topic in topics:
        configs = frozenset(topic.configs.items())
        if configs not in known:
            known[configs] = effective_topic_configs(topic.configs, defaults)
        topic.settings = known[configs]
        _bound_internal(topic)
        for partition in topic.partitions:
            partition.settings_changed(announce=announce)


def _bound_internal(topic: Topic) -> None:
    """Have the gateway's own topics be what they must be, whatever the broker's configs say."""
    if topic.internal and topic.settings.segment_bytes > INTERNAL_SEGMENT_BYTES:
        topic.settings = replace(topic.settings, segment_bytes=INTERNAL_SEGMENT_BYTES)
    if topic.name in COMPACTED_TOPICS and topic.settings.max_message_bytes < MIN_INTERNAL_MESSAGE_BYTES:
        topic.settings = replace(topic.settings, max_message_bytes=MIN_INTERNAL_MESSAGE_BYTES)


def load_topics(context: LogContext, defaults: Mapping[str, str] | None = None) -> Topics:
    """All topics of the catalog; `defaults` as for `build_topic`."""
    topics = Topics()
    for entry in context.catalog.range(keys.TOPICS):
        topics.add(topic_of(context, entry, defaults))
    return topics


def topic_of(context: LogContext, entry: Entry, defaults: Mapping[str, str] | None = None) -> Topic:
    """A topic as the catalog's entry says, with partitions that are not recovered yet; `defaults` as for
    `build_topic`.
    """
    value = keys.unpack(entry.value)
    topic = build_topic(
        context,
        entry.key.removeprefix(keys.TOPICS),
        bytes.fromhex(value["id"]),
        value["partitions"],
        value["replication_factor"],
        value["configs"],
        defaults,
        maker_of(value),
    )
    topic.revision = entry.mod_revision
    return topic


def maker_of(record: Mapping[str, Any]) -> str:
    """Who is written down as the maker of a topic: since there are makers, and where there was one."""
    maker = record.get("maker", "")
    return maker if isinstance(maker, str) and len(maker) <= MAX_MAKER_CHARS else ""


def pack_topic(
    topic_id: str, partitions: int, replication_factor: int, configs: Mapping[str, str], maker: str
) -> bytes:
    """The catalog's value of a topic; its id in hex, its maker "" where it is on nobody's account."""
    record: dict[str, Any] = {
        "id": topic_id,
        "partitions": partitions,
        "replication_factor": replication_factor,
        "configs": configs,
    }
    if maker:
        record["maker"] = maker  # who does not know the field passes it over
    return keys.pack(record)


def topic_record(
    topic: Topic,
    *,
    partitions: int | None = None,
    configs: Mapping[str, str] | None = None,
    maker: str = "",
) -> bytes:
    """The catalog's value of a topic, with another number of partitions, other configs or another maker if
    they are given.

    Raises KafkaError: INVALID_CONFIG; the configs are too large together.
    """
    record = pack_topic(
        topic.id.hex(),
        len(topic.partitions) if partitions is None else partitions,
        topic.replication_factor,
        topic.configs if configs is None else configs,
        maker or topic.maker,
    )
    if len(record) > MAX_VALUE_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the configs of a topic take {len(record)} bytes together, more than {MAX_VALUE_BYTES}",
        )
    return record
