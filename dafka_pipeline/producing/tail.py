"""The last own record of target partitions, read back from their ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dafka_pipeline.failures import KafkaAway, PipelineError
from dafka_pipeline.kafka.cluster import ANSWER_SECONDS, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing.positions import own_position
from dafka_pipeline.producing.stream_file import Tail

__all__ = ["Found", "Tail", "read_tails"]

STEPS: Final = (1, 100, 10_000, 1_000_000)
"""How many records before the end are looked at, step by step; after the last step all of them."""
FETCHED_KILOBYTES: Final = 16_384
"""What the consumer holds at most."""
AT_ONCE: Final = 1000
"""Records taken from the consumer by one call."""

logger = logging.getLogger("dafka_pipeline.producing")


class Found(NamedTuple):
    """What the end of a target partition looks like.

    tail: the last own record, None where there is none from the floor on.
    end: behind the last record of anybody.
    foreign_after: whether a foreign record lies behind the last own one (or behind the floor where there
        is none).
    """

    tail: Tail | None
    end: int
    foreign_after: bool
    begins: int = 0
    """Where the log begins now."""


@dataclass
class _Scan:
    start: int
    tail: Tail | None = None
    last: int = -1
    done: bool = False


def read_tails(
    options: KafkaOptions,
    header: str,
    prefix: bytes,
    floors: Mapping[TopicPartition, int],
    *,
    steps: tuple[int, ...] = STEPS,
) -> dict[TopicPartition, Found]:
    """For each partition the last record at or above its floor that carries a position of the stream.

    Committed records alone are looked at. Raises KafkaAway when no broker answers.
    """
    consumer = _consumer(options)
    try:
        ends = {at: _watermarks(consumer, at) for at in floors}
        starts = {at: max(floor, ends[at][0]) for at, floor in floors.items()}
        empty = [at for at in floors if starts[at] >= ends[at][1]]
        found = {at: Found(None, ends[at][1], False, ends[at][0]) for at in empty}
        for step in (*steps, None):
            left = [at for at in floors if at not in found]
            if not left:
                break
            scans = {
                at: _Scan(starts[at] if step is None else max(starts[at], ends[at][1] - step)) for at in left
            }
            _scan(consumer, header, prefix, scans)
            for at, scan in scans.items():
                if scan.tail is not None or scan.start == starts[at]:
                    behind = scan.last > (scan.tail.offset if scan.tail else -1)
                    end = scan.last + 1 if scan.last >= 0 else ends[at][1]
                    found[at] = Found(scan.tail, end, behind, ends[at][0])
        return found
    finally:
        consumer.close()


def _consumer(options: KafkaOptions) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "client.id": "dafka-pipeline",
            **options.for_librdkafka(),
            "group.id": "dafka-pipeline-tail",  # librdkafka wants one; nobody joins or commits
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": str(FETCHED_KILOBYTES),
            "fetch.wait.max.ms": "10",
        },
        logger=logger,
    )


def _watermarks(consumer: Any, at: TopicPartition) -> tuple[int, int]:
    from confluent_kafka import KafkaException
    from confluent_kafka import TopicPartition as Asked

    try:
        low, high = consumer.get_watermark_offsets(Asked(*at), timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise KafkaAway(f"The end of {at.topic}-{at.partition} could not be read: {error}") from error
    return low, high


def _scan(consumer: Any, header: str, prefix: bytes, scans: Mapping[TopicPartition, _Scan]) -> None:
    """Reads each partition from its start to its end."""
    from confluent_kafka import KafkaError
    from confluent_kafka import TopicPartition as Assigned

    consumer.assign([Assigned(at.topic, at.partition, scan.start) for at, scan in scans.items()])
    heard = time.monotonic()
    while not all(scan.done for scan in scans.values()):
        for message in consumer.consume(AT_ONCE, timeout=0.5):
            heard = time.monotonic()
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                if not error.retriable():
                    raise PipelineError(f"Reading the target's end failed: {error.str()}")
                continue
            scan = scans[TopicPartition(message.topic(), message.partition())]
            if error is not None:
                scan.done = True
                continue
            scan.last = message.offset()
            position = own_position(message.headers(), header, prefix)
            if position is not None:
                scan.tail = Tail(position, message.offset())
        if time.monotonic() > heard + ANSWER_SECONDS:
            raise KafkaAway("The targets' ends could not be read: no broker answers.")
    consumer.unassign()
