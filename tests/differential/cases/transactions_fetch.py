"""Fetch 4-18 by isolation: what is visible, the last stable offset, and which transactions were aborted."""

from __future__ import annotations

from kafka.protocol.consumer import FetchRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.requests import fetch, fetch_partition
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Producer,
    begun,
    inside,
    own_topic,
    read,
    read_both,
)

# The first, the last without sessions, with topics' names, by their ids, the last.
VERSIONS = [4, 6, 12, 13, 18]
LEVELS = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
TV1, TV2 = 3, 5


def interleaved(side: Side, topic: str) -> None:
    """0 a | 1 b | 2 c | 3 c aborts | 4 plain | 5 a | 6 a aborts | 7 b | 8 b commits | 9 c | 10 plain."""
    a, b, c = (begun(side, name) for name in "abc")
    for producer in (a, b, c):
        producer.add({topic: [0]})
        producer.send(topic)
    c.finish(ABORT)
    side.put(topic, batch_of(b"plain"))
    a.send(topic, sequence=1)
    a.finish(ABORT)
    b.send(topic, sequence=1)
    b.finish(COMMIT)
    c.add({topic: [0]}, "again")
    c.send(topic, sequence=1)
    side.put(topic, batch_of(b"plain"))


@case(FetchRequest, VERSIONS)
def from_every_offset(side: Side, version: int) -> None:
    """Of interleaved transactions, the last of which is open: also from the middle of one."""
    topic = own_topic(side, "t")
    interleaved(side, topic)
    for offset in range(13):
        for label, level in LEVELS.items():
            read(side, topic, f"from {offset}, {label}", level=level, offset=offset, version=version)


@case(FetchRequest, VERSIONS)
def cut_by_size(side: Side, version: int) -> None:
    """What began behind the data returned is not listed, though it was aborted.

    Kafka takes the end of the data from its index, to the next entry: here it has one for every batch.
    """
    topic = own_topic(side, "t", index_interval_bytes="0")
    interleaved(side, topic)
    size = len(inside(b"x", producer_id=0, epoch=0, sequence=0))
    for offset, batches in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1), (5, 1), (7, 1)]:
        read(
            side,
            topic,
            f"from {offset}, {batches} batches",
            offset=offset,
            version=version,
            partition_max_bytes=batches * size,
        )


@case(FetchRequest, VERSIONS)
def step_by_step(side: Side, version: int) -> None:
    """The last stable offset stays at the oldest open transaction. (The index: see `cut_by_size`.)"""
    topic = own_topic(side, "t", index_interval_bytes="0")
    first, second = begun(side, "first"), begun(side, "second")

    def look(label: str) -> None:
        read_both(side, topic, label, version=version)

    look("empty")
    side.put(topic, batch_of(b"plain"))
    look("plain")
    first.add({topic: [0]})
    look("added, without records")
    first.send(topic)
    look("the first has records")
    side.put(topic, batch_of(b"plain"))
    second.add({topic: [0]})
    second.send(topic)
    look("the second, too")
    second.finish(ABORT)
    look("the second aborted")
    first.send(topic, sequence=1)
    first.finish(COMMIT)
    look("the first committed")
    first.add({topic: [0]})
    first.finish(ABORT)
    look("an empty one")


@case(FetchRequest, VERSIONS)
def beside_the_end(side: Side, version: int) -> None:
    """From the last stable offset on, with records behind it."""
    topic = own_topic(side, "t")
    producer = begun(side)
    side.put(topic, batch_of(b"plain"))
    producer.add({topic: [0]})
    producer.send(topic, b"a", b"b")
    for offset in (0, 1, 2, 3, 4, -1):
        for label, level in LEVELS.items():
            read(side, topic, f"from {offset}, {label}", level=level, offset=offset, version=version)


@case(FetchRequest, VERSIONS)
def batches_of_several_records(side: Side, version: int) -> None:
    """From inside a batch of an aborted transaction."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    producer.send(topic, b"a", b"b", b"c")
    producer.send(topic, b"d", b"e", sequence=3)
    producer.finish(ABORT)
    side.put(topic, batch_of(b"plain", b"plain"))
    for offset in range(8):
        read(side, topic, f"from {offset}", offset=offset, version=version)


@case(FetchRequest, VERSIONS)
def many_of_one(side: Side, version: int) -> None:
    """Each aborted transaction of a producer is listed, also under another epoch."""
    topic = own_topic(side, "t")
    producer = begun(side)
    for number in range(6):
        producer.add({topic: [0]})
        producer.send(topic, sequence=0 if number % 2 == 0 else 1)
        producer.finish(ABORT if number != 3 else COMMIT, version=TV2 if number % 2 else TV1)
    for offset in range(13):
        read(side, topic, f"from {offset}", offset=offset, version=version)


@case(FetchRequest, VERSIONS)
def several_partitions(side: Side, version: int) -> None:
    topic, other = own_topic(side, "t", 3), own_topic(side, "u")
    producer = begun(side)
    producer.add({topic: [0, 2], other: [0]})
    producer.send(topic)
    producer.send(other)
    producer.send(topic, partition=2)
    side.put(topic, batch_of(b"plain"), partition=1)
    for label in ("open", "aborted"):
        for name, level in LEVELS.items():
            wanted = {topic: [fetch_partition(n, 0) for n in range(3)], other: [fetch_partition(0, 0)]}
            side.ask(fetch(side, version, wanted, isolation_level=level), f"{label}, {name}")
        if label == "open":
            producer.finish(ABORT)


def wait_for(side: Side, version: int, topic: str, offset: int, **fields: int) -> object:
    return fetch(
        side,
        version,
        {topic: [fetch_partition(0, offset)]},
        isolation_level=READ_COMMITTED,
        max_wait_ms=10_000,
        **fields,
    )


@case(FetchRequest, VERSIONS)
def waits_for_the_marker(side: Side, version: int) -> None:
    """Records of an open transaction do not wake a read_committed fetch, nor do they count for min_bytes."""
    for result, committed in {"commit": COMMIT, "abort": ABORT}.items():
        topic = own_topic(side, result)
        producer = begun(side, f"tx-{result}")
        producer.add({topic: [0]})
        waiting = side.start(wait_for(side, version, topic, 0), f"{result}, from the beginning")
        producer.send(topic)
        producer.send(topic, sequence=1)
        producer.finish(committed)
        waiting.answer()


@case(FetchRequest, VERSIONS)
def waits_behind_an_open_one(side: Side, version: int) -> None:
    """A fetch from its own first record on, until another's end lets it go."""
    topic = own_topic(side, "t")
    first, second = begun(side, "first"), begun(side, "second")
    for producer in (first, second):
        producer.add({topic: [0]})
        producer.send(topic)
    waiting = side.start(wait_for(side, version, topic, 0), "from the beginning")
    second.finish(COMMIT)
    first.finish(ABORT)
    waiting.answer()


def _of_level(side: Side, version: int, topic: str, level: int, label: str) -> None:
    wanted = {topic: [fetch_partition(0, 0)]}
    side.ask(fetch(side, version, wanted, isolation_level=level), label)


@case(FetchRequest, [12, 18])
def sessions(side: Side, version: int) -> None:
    """A partition is told of again when its last stable offset moves."""
    topic = own_topic(side, "t")
    producer: Producer = begun(side)
    producer.add({topic: [0]})
    producer.send(topic)
    _of_level(side, version, topic, READ_COMMITTED, "without a session")
    wanted = {topic: [fetch_partition(0, 0)]}
    opened = side.ask(
        fetch(side, version, wanted, isolation_level=READ_COMMITTED, session_id=0, session_epoch=0), "opened"
    )
    for epoch, label in enumerate(["nothing new", "committed", "nothing new again"], 1):
        if label == "committed":
            producer.finish(COMMIT)
        side.ask_own_id(
            fetch(
                side,
                version,
                {},
                isolation_level=READ_COMMITTED,
                session_id=opened.session_id,
                session_epoch=epoch,
            ),
            label,
        )
