"""ListOffsets 2-11 by isolation: the latest, times, the largest time."""

from __future__ import annotations

from kafka.protocol.consumer import ListOffsetsRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.cases.list_offsets import T0, ask, partition
from tests.differential.requests import produce
from tests.differential.side import Side
from tests.differential.transactions import ABORT, COMMIT, Producer, begun, inside, own_topic

WITH_ISOLATION = range(2, 12)
LEVELS = {"read_uncommitted": 0, "read_committed": 1}
MARKERS_TIME = T0 + 10**10  # between the samples' times and now: only a marker is later
TIMES = {"latest": -1, "earliest": -2, "largest": -3, "before all": T0, "the second's": T0 + 20,
         "the third's": T0 + 30, "a marker's": MARKERS_TIME}  # fmt: skip


def plain(side: Side, topic: str, time: int) -> None:
    side.put(topic, batch([Record(b"plain", timestamp=T0 + time)]))


def timed(producer: Producer, topic: str, time: int, sequence: int = 0) -> None:
    """One record of a time within the producer's transaction."""

    def build(producer_id: int) -> object:
        records = inside(
            b"x", producer_id=producer_id, epoch=producer.epoch, sequence=sequence, timestamp=T0 + time
        )
        return produce(producer.side, 11, {topic: {0: records}}, transactional_id=producer.name)

    producer.ask(build, f"at {time}")


def look(side: Side, version: int, topic: str, label: str) -> None:
    for name, level in LEVELS.items():
        for meaning, timestamp in TIMES.items():
            what = f"{label}, {name}, {meaning}"
            ask(side, version, {topic: [partition(0, timestamp)]}, what, level=level)


@case(ListOffsetsRequest, WITH_ISOLATION)
def open_and_ended(side: Side, version: int) -> None:
    """0 plain at 10 | 1 at 20, open | 2 plain at 30 | 3 its end."""
    for result, committed in {"commit": COMMIT, "abort": ABORT}.items():
        topic = own_topic(side, result)
        producer = begun(side, f"tx-{result}")
        look(side, version, topic, f"{result}, empty")
        plain(side, topic, 10)
        producer.add({topic: [0]})
        timed(producer, topic, 20)
        plain(side, topic, 30)
        look(side, version, topic, f"{result}, open")
        producer.finish(committed)
        look(side, version, topic, f"{result}, ended")


@case(ListOffsetsRequest, WITH_ISOLATION)
def open_from_the_start(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    timed(producer, topic, 20)
    timed(producer, topic, 30, sequence=1)
    look(side, version, topic, "open")


@case(ListOffsetsRequest, WITH_ISOLATION)
def two_open(side: Side, version: int) -> None:
    """The older one holds the last stable offset, though the younger one has ended."""
    topic = own_topic(side, "t")
    first, second = begun(side, "first"), begun(side, "second")
    plain(side, topic, 10)
    for producer, time in ((first, 20), (second, 30)):
        producer.add({topic: [0]})
        timed(producer, topic, time)
    second.finish(COMMIT)
    look(side, version, topic, "the second ended")
    first.finish(ABORT)
    look(side, version, topic, "both ended")
