"""What a publication is: its stream, its targets, how it is sent, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing.positions import Position, check_stream

COLUMNS: Final = (
    "target STRING",  # topic
    "target_partition INT",
    "position ARRAY<BIGINT>",  # total order and unique within a target partition
    "timestamp TIMESTAMP",  # null: the time of sending
    "key BINARY",
    "value BINARY",
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
)
"""The columns of a frame that is published, in any order; other columns are not looked at. The frame must be
deterministic: it is computed again after a failure, and the same position must be the same record."""

POSITION_HEADER: Final = "dafka.position"
"""The header that every record gets, as its last one. Its value is `ID|NUMBER[.NUMBER...]`."""

SPARK_SETTINGS: Final = {
    # A task that is started again could run beside its first attempt. Where Spark starts a task again by
    # itself, the task sees that and refuses; but it does not see that its whole stage was started again.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}
"""What a session needs that publishes without transactions (a local one but for the last)."""

AUTO, YES, NO = "auto", "yes", "no"
TRANSACTIONS: Final = (AUTO, YES, NO)


@dataclass(frozen=True)
class Timing:
    """How long things may take, in seconds.

    lease: a round's producers end so long after its beginning at the latest; what they did not send by
        half of it waits for the next round. After an unclean end nobody begins before the lease is over,
        so it is short.
    message: a record that was not acknowledged so long after it was queued is given up by librdkafka; a dead
        attempt's requests may land until then.
    stall: a task gives up when its oldest record waits so long, well before `message`: librdkafka drops
        records one by one, and a later one could still be sent behind the hole.
    spread: no more records are queued while the oldest waits so long: those in the queue are of nearly the
        same age.
    clocks: by how much the clocks of driver and executors may differ.
    """

    lease: float = 90.0
    message: float = 30.0
    stall: float = 20.0
    spread: float = 5.0
    clocks: float = 2.0


@dataclass(frozen=True)
class Plan:
    """One stream into one Kafka.

    stream: the id in the header of each record; two streams with one id must never write to the same topic.
    targets: the topics that are written to; they exist.
    append: whether the targets may hold records that are not this stream's.
    transactions: `auto` uses them where the server has them.
    records_per_second: of all targets together at most; 0 does not limit.
    compression: of batches: none, gzip, snappy, lz4, zstd.
    """

    stream: str
    kafka: KafkaOptions
    targets: tuple[str, ...]
    append: bool = False
    transactions: str = AUTO
    records_per_second: float = 0.0
    compression: str = "lz4"
    header: str = POSITION_HEADER
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        check_stream(self.stream)


class Sent(NamedTuple):
    """What one target partition got by one `publish`.

    records, size_bytes: sent now (keys and values). skipped: rows that the target had already.
    last: the position of its last own record, and last_offset where that is; None and -1 where it has none.
    """

    records: int = 0
    size_bytes: int = 0
    skipped: int = 0
    last: Position | None = None
    last_offset: int = -1


@dataclass(frozen=True)
class Published:
    """What one `publish` did. All rows of the frame are in their targets now, each once."""

    partitions: Mapping[TopicPartition, Sent]
    rounds: int
    seconds: float

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions.values())

    @property
    def skipped(self) -> int:
        return sum(one.skipped for one in self.partitions.values())

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.partitions.values())
