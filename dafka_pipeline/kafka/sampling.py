"""How large a topic's records are, from a few of them: nobody knows before the first batch."""

from __future__ import annotations

import time
from typing import Final

from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.ranges import Span

RECORDS: Final = 200
"""Enough for an average, and a fetch or two."""
SECONDS: Final = 5.0
"""A sample that takes longer is not worth it: the first batch is small then."""


def average_bytes(cluster: Cluster, span: Span) -> float | None:
    """The average size in bytes of key and value at the beginning of a span.

    None when no record came in time: there may be none at the beginning.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {
        "group.id": "dafka-pipeline-sample",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "fetch.message.max.bytes": "1048576",
    }
    consumer = Consumer(cluster.options.for_librdkafka() | own)
    try:
        consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
        wanted = min(RECORDS, span.length)
        sizes: list[int] = []
        deadline = time.monotonic() + SECONDS
        while len(sizes) < wanted and (left := deadline - time.monotonic()) > 0:
            messages = consumer.consume(wanted - len(sizes), timeout=left)
            if not messages or any(message.error() for message in messages):
                break
            sizes += [len(message.key() or b"") + len(message.value() or b"") for message in messages]
        return max(1.0, sum(sizes) / len(sizes)) if sizes else None
    except KafkaException:
        return None
    finally:
        consumer.close()
