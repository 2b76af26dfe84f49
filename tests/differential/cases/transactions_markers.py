"""WriteTxnMarkers 1-2 as tools send it, past the coordinator: `kafka-transactions.sh abort`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.producer import WriteTxnMarkersRequest

from tests.differential.case import case
from tests.differential.cases.describe_producers import of as describe_producers
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    RESULTS,
    STRANGER,
    Partitions,
    Producer,
    begun,
    marker,
    own_topic,
    read,
    read_both,
    write_markers,
)

LAST_EPOCH = 32_767
WITH_TRANSACTION_VERSION = 2


def levels(version: int) -> list[int | None]:
    """What a marker may say of the transaction's version."""
    return [0, 1, 2] if version >= WITH_TRANSACTION_VERSION else [None]


def opened(side: Side, suffix: str, topic: str) -> Producer:
    """A producer of epoch 1 with an open transaction of one record."""
    producer = begun(side, suffix)
    producer.init("epoch 1")
    producer.add({topic: [0]})
    producer.send(topic)
    return producer


def look(side: Side, topic: str, label: str) -> None:
    read_both(side, topic, label)
    side.ask(describe_producers({topic: [0]}), f"{label}, producers")


@case(WriteTxnMarkersRequest)
def ends_an_open_one(side: Side, version: int) -> None:
    for level in levels(version):
        for result, committed in RESULTS.items():
            topic = own_topic(side, f"{result}{level}")
            producer = opened(side, f"tx-{result}-{level}", topic)
            epoch = producer.epoch + (level == 2)
            producer.mark(committed, {topic: [0]}, version=version, epoch=epoch, transaction_version=level)
            look(side, topic, f"{result}, level {level}")
            producer.mark(
                committed, {topic: [0]}, "again", version=version, epoch=epoch, transaction_version=level
            )
            look(side, topic, f"{result}, level {level}, again")
            producer.describe("the coordinator knows nothing of it")
            producer.send(topic, sequence=1, label="it goes on")
            look(side, topic, f"{result}, level {level}, it goes on")


@case(WriteTxnMarkersRequest)
def epochs(side: Side, version: int) -> None:
    """Of an open transaction of epoch 1."""
    for level in levels(version):
        for epoch in (0, 1, 2, 9, LAST_EPOCH):
            topic = own_topic(side, f"t{level}-{epoch}")
            producer = opened(side, f"tx{level}-{epoch}", topic)
            producer.mark(ABORT, {topic: [0]}, version=version, epoch=epoch, transaction_version=level)
            look(side, topic, f"level {level}, epoch {epoch}")


@case(WriteTxnMarkersRequest)
def epochs_with_nothing_open(side: Side, version: int) -> None:
    """Of a producer that the partition knows with epoch 1, whose transaction is over."""
    for level in levels(version):
        for epoch in (0, 1, 2, LAST_EPOCH):
            topic = own_topic(side, f"t{level}-{epoch}")
            producer = opened(side, f"tx{level}-{epoch}", topic)
            producer.finish(COMMIT)
            producer.mark(ABORT, {topic: [0]}, version=version, epoch=epoch, transaction_version=level)
            look(side, topic, f"level {level}, epoch {epoch}")


@case(WriteTxnMarkersRequest)
def of_a_stranger(side: Side, version: int) -> None:
    """A producer id that the partition has never seen."""
    for level in levels(version):
        topic = own_topic(side, f"t{level}")
        for number, (result, committed) in enumerate(RESULTS.items()):
            one = marker(STRANGER + number, 3, committed, {topic: [0]}, transaction_version=level)
            side.ask(write_markers(one, version=version), f"level {level}, {result}")
        look(side, topic, f"level {level}")


@case(WriteTxnMarkersRequest)
def nonsense(side: Side, version: int) -> None:
    """Ids and epochs below zero, and a version of transactions that nobody knows."""
    topic = own_topic(side, "t")
    for label, producer_id, epoch in [("no id", -1, -1), ("id -2", -2, 0), ("no epoch", STRANGER, -1)]:
        one = marker(producer_id, epoch, ABORT, {topic: [0]})
        side.ask(write_markers(one, version=version), label)
    for level in (3, -1) if version >= WITH_TRANSACTION_VERSION else ():
        one = marker(STRANGER, 0, ABORT, {topic: [0]}, transaction_version=level)
        side.ask(write_markers(one, version=version), f"level {level}")


@case(WriteTxnMarkersRequest)
def coordinator_epochs(side: Side, version: int) -> None:
    """A marker of an older coordinator than the last one's is refused; data do not count."""
    topic = own_topic(side, "t")
    producer = opened(side, "tx", topic)
    for coordinator_epoch in (5, 4, 5, 6, 0, -1):
        producer.mark(
            ABORT,
            {topic: [0]},
            f"coordinator epoch {coordinator_epoch}",
            version=version,
            coordinator_epoch=coordinator_epoch,
        )
    look(side, topic, "then")
    producer.send(topic, sequence=1, label="it goes on")
    producer.mark(COMMIT, {topic: [0]}, "an older coordinator", version=version, coordinator_epoch=5)
    producer.mark(COMMIT, {topic: [0]}, "the same coordinator", version=version, coordinator_epoch=6)
    look(side, topic, "at last")


@case(WriteTxnMarkersRequest)
def unknown_partitions(side: Side, version: int) -> None:
    topic = own_topic(side, "t", 2)
    producer = opened(side, "tx", topic)
    places: dict[str, Partitions] = {
        "no such topic": {side.name("nowhere"): [0]},
        "no such partition": {topic: [2]},
        "one beside them": {topic: [0, 7], side.name("nowhere"): [0]},
        "odd names": {"a/b": [0], "": [0]},
        "no partitions": {topic: []},
        "nothing": {},
    }
    for label, wanted in places.items():
        producer.mark(ABORT, wanted, label, version=version)
    side.ask(write_markers(version=version), "no markers")
    for partition in (0, 1):
        read(side, topic, f"partition {partition}", partition=partition)


@case(WriteTxnMarkersRequest)
def several_markers(side: Side, version: int) -> None:
    """Of two producers, over two partitions each; each partition answers for itself."""
    topic = own_topic(side, "t", 2)
    first, second = begun(side, "first"), begun(side, "second")
    for producer in (first, second):
        producer.add({topic: [0, 1]})
        for partition in (0, 1):
            producer.send(topic, partition=partition)

    def both(ids: Sequence[int]) -> Any:
        return write_markers(
            marker(ids[0], 0, COMMIT, {topic: [0, 1]}),
            marker(ids[1], 0, ABORT, {topic: [1, 0], side.name("nowhere"): [0]}),
            version=version,
        )

    side.ask_with_ids(both, [first.id, second.id], "two")
    for partition in (0, 1):
        read_both(side, topic, f"partition {partition}", partition=partition)


@case(WriteTxnMarkersRequest)
def one_producer_twice(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    producer = opened(side, "tx", topic)

    def twice(producer_id: int) -> Any:
        markers = [marker(producer_id, 1, committed, {topic: [0]}) for committed in (COMMIT, ABORT)]
        return write_markers(*markers, version=version)

    producer.ask(twice, "commit and abort")
    read(side, topic, "then")


@case(WriteTxnMarkersRequest)
def beside_the_coordinator(side: Side, version: int) -> None:
    """A tool has aborted what the coordinator still has open: the coordinator's own marker comes after it."""
    for end_version in (3, 5):
        topic = own_topic(side, f"t{end_version}")
        producer = begun(side, f"tx{end_version}")
        producer.add({topic: [0]})
        producer.send(topic)
        producer.mark(ABORT, {topic: [0]}, "a tool", version=version)
        producer.send(topic, sequence=1, label="more")
        producer.finish(COMMIT, version=end_version)
        look(side, topic, f"ended with {end_version}")


@case(WriteTxnMarkersRequest)
def raises_the_epoch(side: Side, version: int) -> None:
    """Nothing of a lower epoch is taken after a marker, and the new one begins at sequence 0."""
    topic = own_topic(side, "t")
    producer = opened(side, "tx", topic)
    level = 2 if version >= WITH_TRANSACTION_VERSION else None
    producer.mark(ABORT, {topic: [0]}, version=version, epoch=2, transaction_version=level)
    producer.send(topic, sequence=1, label="of the epoch before")
    producer.init("a fence of it")
    producer.settle()
    producer.init("epoch 3")
    producer.add({topic: [0]})
    producer.send(topic, sequence=1, label="not from 0")
    producer.send(topic, label="from 0")
    producer.finish(COMMIT)
    look(side, topic, "then")


@case(WriteTxnMarkersRequest)
def to_the_groups_log(side: Side, version: int) -> None:
    """Where the groups' offsets lie a marker ends what is pending there."""
    side.settle("__consumer_offsets", -1)
    producer = begun(side)
    producer.mark(ABORT, {"__consumer_offsets": [0]}, version=version)
    producer.mark(ABORT, {"__consumer_offsets": [99]}, "no such partition", version=version)
