"""Topics, groups and lags of a server, of ours or any other Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dafka.commands.asking import report
from dafka.commands.cluster import Cluster
from dafka.commands.groups_session import Session
from dafka.commands.kafka_reader import KafkaReader, StoredRecord
from wireproto.kafka.api_keys import ApiKey

REQUEST_TIMEOUT_MS = 8_000
LED_SECONDS = 10.0
"""How long a new topic may be without leaders: another Kafka takes a moment for them."""


class Admin:
    """Each call has a connection of its own: a test may keep this, and use it from any thread.

    Everything raises `dafka.commands.exits.CommandFailed`, which says why.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Make a topic; `configs` are Kafka's with underscores for dots. It can be used on return."""
        wanted = [(key.replace("_", "."), str(value)) for key, value in configs.items()]
        with Session(self.bootstrap) as session:
            answer = session.client.ask(
                ApiKey.CREATE_TOPICS,
                7,
                topics=[(name, partitions, -1, [], wanted)],
                timeout_ms=REQUEST_TIMEOUT_MS,
            )
            report("cannot create", answer.topics)
            deadline = time.monotonic() + LED_SECONDS
            while not _is_led(session.cluster, name) and time.monotonic() < deadline:
                time.sleep(0.02)

    def delete_topic(self, name: str) -> None:
        with Session(self.bootstrap) as session:
            new = session.client.version(ApiKey.DELETE_TOPICS, 6) >= 6
            named = {"topics": [(name, None)]} if new else {"topic_names": [name]}
            answer = session.client.ask(ApiKey.DELETE_TOPICS, 6, timeout_ms=REQUEST_TIMEOUT_MS, **named)
        report("cannot delete", answer.responses)

    def topics(self) -> list[str]:
        """The names of all topics but Kafka's own."""
        with Session(self.bootstrap) as session:
            there = session.cluster.metadata(None).topics
        return sorted(topic.name for topic in there if not topic.is_internal)

    def groups(self) -> list[str]:
        """The names of all groups."""
        with Session(self.bootstrap) as session:
            return [name for name, *_ in session.groups.list()]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """(topic, partition) -> the offset that a group committed."""
        with Session(self.bootstrap) as session:
            return session.groups.committed(group)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """(topic, partition) -> the records that a group has not committed, where it has committed any."""
        with Session(self.bootstrap) as session:
            committed = session.groups.committed(group)
            ends: dict[tuple[str, int], int] = {}
            for topic in session.cluster.metadata(sorted({name for name, _ in committed})).topics:
                if not topic.error_code:
                    latest = session.cluster.offsets(topic, Cluster.LATEST)
                    ends |= {(topic.name, index): end for index, end in latest.items()}
        return {where: max(0, ends[where] - offset) for where, offset in committed.items() if where in ends}

    def records(self, topic: str, last: int | None = None) -> list[StoredRecord]:
        """All records that are there now, by partition and offset; or of each partition about the `last`."""
        found: list[StoredRecord] = []
        with self.reader(topic, last) as reader:
            while not reader.at_end():
                found += reader.poll(0)
        return sorted(found, key=lambda one: (one.partition, one.offset))

    @contextmanager
    def reader(self, topic: str, last: int | None = None) -> Iterator[KafkaReader]:
        """Reads a topic from its beginning, or from `last` before the end of each partition."""
        with Session(self.bootstrap) as session:
            (described,) = session.cluster.metadata([topic]).topics
            report("cannot read", [described])
            starts = session.cluster.offsets(described, Cluster.EARLIEST)
            if last is not None:
                ends = session.cluster.offsets(described, Cluster.LATEST)
                starts = {index: max(start, ends[index] - last) for index, start in starts.items()}
            yield KafkaReader(session.cluster, {(topic, index): start for index, start in starts.items()})


def _is_led(cluster: Cluster, name: str) -> bool:
    (topic,) = cluster.metadata([name]).topics
    return not topic.error_code and all(one.leader_id >= 0 for one in topic.partitions)
