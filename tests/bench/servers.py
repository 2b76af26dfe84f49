"""The two servers under measure, started on empty directories at a given durability."""

from collections.abc import Callable
from enum import Enum

from tests.peers.apache_kafka import KAFKAS_JVM_OPTIONS, ApacheKafka
from tests.peers.standalone import Standalone

# Kafka's own start script gives its broker this much.
KAFKA_HEAP = "1g"
# How long the first rebalance of a group waits: long enough for a group's members to come, on both.
INITIAL_REBALANCE_DELAY_MS = 500
PROPERTIES = {
    "group.initial.rebalance.delay.ms": f"{INITIAL_REBALANCE_DELAY_MS}",
    # Its default, and ours.
    "offsets.topic.num.partitions": "50",
}


class Durability(Enum):
    """What stands behind an acknowledgement, and how each server is told."""

    FSYNC = "fsync"
    CACHED = "cached"


def apache_kafka(durability: Durability) -> ApacheKafka:
    flush = durability is Durability.FSYNC
    return ApacheKafka(
        heap=KAFKA_HEAP, flush_every_message=flush, properties=PROPERTIES, jvm_options=KAFKAS_JVM_OPTIONS
    )


def dafka(durability: Durability) -> Standalone:
    fsync = "always" if durability is Durability.FSYNC else "never"
    delay = f"{INITIAL_REBALANCE_DELAY_MS}"
    return Standalone(None, "--fsync", fsync, "--group-initial-rebalance-delay-ms", delay)


Server = ApacheKafka | Standalone
SERVERS: dict[str, Callable[[Durability], Server]] = {"kafka": apache_kafka, "dafka": dafka}
