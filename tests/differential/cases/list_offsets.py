"""ListOffsets 1-11: the special timestamps, exact times, epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.side import Side

T0 = 1_700_000_000_000
SPECIAL = {-1: "latest", -2: "earliest", -3: "largest timestamp", -4: "earliest local", -5: "latest tiered",
           -6: "earliest pending upload", -7: "unknown", -100: "far below"}  # fmt: skip
WITH_EPOCHS = range(4, 12)


def partition(index: int, timestamp: int, epoch: int = -1) -> Any:
    one = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    return one(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)


def ask(
    side: Side,
    version: int,
    wanted: Mapping[str, Sequence[Any]],
    label: str = "",
    replica: int = -1,
    level: int = 0,
) -> None:
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=n, partitions=list(p)) for n, p in wanted.items()]
    fields: dict[str, Any] = {"replica_id": replica, "topics": topics, "isolation_level": level}
    if version >= 10:
        fields["timeout_ms"] = 5_000
    side.ask(ListOffsetsRequest(version=version, **fields), label)


def timed(side: Side) -> str:
    """Batches whose times go up, back and up again: 10,20 | 5,30,25 | 30 | 40,15."""
    topic = side.topic("t", partitions=2)

    def at(*times: int, codec: str = "none") -> bytes:
        return batch([Record(b"v%d" % t, timestamp=T0 + t) for t in times], codec=codec)

    side.once(topic, at(10, 20), at(5, 30, 25, codec="gzip"), at(30), at(40, 15))
    return topic


@case(ListOffsetsRequest)
def special(side: Side, version: int) -> None:
    topic = timed(side)
    for timestamp, meaning in SPECIAL.items():
        ask(side, version, {topic: [partition(0, timestamp), partition(1, timestamp)]}, meaning)


@case(ListOffsetsRequest)
def by_time(side: Side, version: int) -> None:
    """The first record at or after the time, wherever it is; offset and timestamp -1 when there is none."""
    topic = timed(side)
    for time in [0, 5, 6, 10, 11, 15, 20, 21, 25, 26, 30, 31, 39, 40, 41]:
        ask(side, version, {topic: [partition(0, T0 + time)]}, f"time {time}")
    ask(side, version, {topic: [partition(0, 0)]}, "the beginning of time")
    ask(side, version, {topic: [partition(0, 2**62)]}, "the end of time")
    ask(side, version, {topic: [partition(1, T0)]}, "an empty log")


@case(ListOffsetsRequest)
def unknown(side: Side, version: int) -> None:
    topic, nowhere = timed(side), side.name("nowhere")
    ask(side, version, {nowhere: [partition(0, -1)]}, "topic")
    ask(side, version, {topic: [partition(7, -1), partition(-1, -2), partition(0, -1)]}, "partitions")
    ask(side, version, {nowhere: [partition(0, T0)], topic: [partition(0, -1)]}, "beside a known one")
    ask(side, version, {"": [partition(0, -1)]}, "no name")


@case(ListOffsetsRequest)
def twice_in_one_request(side: Side, version: int) -> None:
    """Spark and others ask for earliest and latest apart, because this is an error."""
    topic = timed(side)
    ask(side, version, {topic: [partition(0, -1), partition(0, -2), partition(1, -1)]})


@case(ListOffsetsRequest)
def nothing(side: Side, version: int) -> None:
    ask(side, version, {}, "no topics")
    ask(side, version, {timed(side): []}, "no partitions")


@case(ListOffsetsRequest, WITH_EPOCHS)
def leader_epoch(side: Side, version: int) -> None:
    topic = timed(side)
    for epoch in [-1, 0, 1, 1000, -2]:
        for timestamp in [-1, -2, T0 + 20]:
            ask(side, version, {topic: [partition(0, timestamp, epoch)]}, f"epoch {epoch} time {timestamp}")


@case(ListOffsetsRequest, range(2, 12))
def isolation(side: Side, version: int) -> None:
    topic = timed(side)
    for level in [1, 2, -1]:
        for timestamp in [-1, -2, -3, T0 + 20, T0 + 100]:
            ask(
                side,
                version,
                {topic: [partition(0, timestamp)]},
                f"level {level} time {timestamp}",
                level=level,
            )


@case(ListOffsetsRequest)
def replicas(side: Side, version: int) -> None:
    """-2 is the debugging consumer; other brokers' ids ask as followers."""
    topic = timed(side)
    for replica in [-2, 4711, -3]:
        ask(side, version, {topic: [partition(0, -1)]}, f"replica {replica}", replica=replica)


@case(ListOffsetsRequest, [1, 5, 11])
def append_times(side: Side, version: int) -> None:
    """Under LogAppendTime the producers' times mean nothing."""
    topic = side.topic("t", message_timestamp_type="LogAppendTime")
    side.once(topic, batch([Record(b"a", timestamp=T0), Record(b"b", timestamp=T0 + 1)]))
    for timestamp in [0, T0, -3 if version >= 7 else -1, 2**62]:
        ask(side, version, {topic: [partition(0, timestamp)]}, f"time {timestamp}")
