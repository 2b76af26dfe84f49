"""The two servers under measure, started on empty directories at a given durability."""

from collections.abc import Callable
from enum import Enum

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone

# Kafka's own start script gives its broker this much.
KAFKA_HEAP = "1g"


class Durability(Enum):
    """What stands behind an acknowledgement, and how each server is told."""

    FSYNC = "fsync"
    CACHED = "cached"


def apache_kafka(durability: Durability) -> ApacheKafka:
    return ApacheKafka(heap=KAFKA_HEAP, flush_every_message=durability is Durability.FSYNC)


def dafka(durability: Durability) -> Standalone:
    return Standalone(None, "--fsync", "always" if durability is Durability.FSYNC else "never")


Server = ApacheKafka | Standalone
SERVERS: dict[str, Callable[[Durability], Server]] = {"kafka": apache_kafka, "dafka": dafka}
