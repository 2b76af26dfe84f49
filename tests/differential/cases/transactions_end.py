"""EndTxn 0-5 in every state: up to version 4 the epoch stays (TV1), version 5 gives the next one (TV2)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from kafka.protocol.admin import DeleteTopicsRequest
from kafka.protocol.producer import EndTxnRequest

from tests.differential.case import case
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    END_BUMPS,
    RESULTS,
    STRANGER,
    Producer,
    await_deletion,
    begun,
    end,
    held,
    own_topic,
    read_both,
)

TV1, TV2 = 3, 5


def in_epoch_one(side: Side, suffix: str) -> Producer:
    """Nothing open, and an epoch before it."""
    producer = begun(side, suffix)
    producer.init("its successor")
    return producer


def every_end(side: Side, version: int, make: Callable[[str], Producer]) -> None:
    """Of each epoch around the current one both ends, each of a producer that `make` has made for it."""
    for result, committed in RESULTS.items():
        for label, off in {"before": -1, "current": 0, "after": 1}.items():
            producer = make(f"{result}-{label}")
            producer.end(committed, f"{result}, epoch {label}", version=version, epoch=producer.epoch + off)
            producer.settle()
            producer.describe()


@case(EndTxnRequest)
def of_nothing(side: Side, version: int) -> None:
    every_end(side, version, lambda suffix: in_epoch_one(side, suffix))


@case(EndTxnRequest)
def of_an_open_one(side: Side, version: int) -> None:
    topic = side.topic("t")

    def opened(suffix: str) -> Producer:
        producer = in_epoch_one(side, suffix)
        producer.add({topic: [0]})
        return producer

    every_end(side, version, opened)


def ended(side: Side, topic: str, committed: bool, version: int) -> Callable[[str], Producer]:
    """Makes producers with a transaction behind them, ended as clients of that version do."""

    def make(suffix: str) -> Producer:
        producer = in_epoch_one(side, f"tv{version}-{suffix}")
        producer.add({topic: [0]})
        producer.finish(committed, version=version)
        return producer

    return make


@case(EndTxnRequest)
def of_a_committed_one(side: Side, version: int) -> None:
    topic = side.topic("t")
    for end_version in (TV1, TV2):
        every_end(side, version, ended(side, topic, COMMIT, end_version))


@case(EndTxnRequest)
def of_an_aborted_one(side: Side, version: int) -> None:
    topic = side.topic("t")
    for end_version in (TV1, TV2):
        every_end(side, version, ended(side, topic, ABORT, end_version))


@case(EndTxnRequest)
def while_one_ends(side: Side, version: int) -> None:
    """As long as markers are not written."""
    topic = own_topic(side, "t")
    for first, first_committed in RESULTS.items():
        for end_version in (TV1, TV2):
            producer = held(side, f"tv{end_version}-{first}", topic, first_committed, version=end_version)
            for result, committed in RESULTS.items():
                for off in (-1, 0, 1):
                    producer.end(
                        committed, f"{result}, epoch {off:+}", version=version, epoch=producer.epoch + off
                    )
            producer.describe("as it was")


@case(EndTxnRequest)
def as_another(side: Side, version: int) -> None:
    topic = side.topic("t")
    producer, other = begun(side), begun(side, "other")
    producer.add({topic: [0]})
    for result, committed in RESULTS.items():
        for label, name, producer_id, epoch in [
            ("unknown", side.own_name("no-such"), STRANGER, 0),
            ("the empty name", "", STRANGER, 0),
            ("an unknown id", producer.name, STRANGER, 0),
            ("no id", producer.name, -1, -1),
        ]:
            side.ask(end(name, producer_id, epoch, committed, version=version), f"{result}, {label}")
        stolen = copy(producer)
        stolen.id = other.id
        stolen.end(committed, f"{result}, another's id", version=version)
    producer.describe("still open")


@case(EndTxnRequest)
def of_one_without_records(side: Side, version: int) -> None:
    """Its partitions get their markers all the same."""
    topic = own_topic(side, "t", partitions=2)
    for result, committed in RESULTS.items():
        producer = begun(side, result)
        producer.add({topic: [0]})
        producer.finish(committed, version=version)
        read_both(side, topic, result)
    read_both(side, topic, "a partition outside", partition=1)


@case(EndTxnRequest)
def of_one_without_partitions(side: Side, version: int) -> None:
    for result, committed in RESULTS.items():
        producer = begun(side, result)
        producer.add({})
        producer.finish(committed, version=version)
        producer.describe()


@case(EndTxnRequest)
def of_a_deleted_topic(side: Side, version: int) -> None:
    """Its partitions need no markers; the others get theirs."""
    for result, committed in RESULTS.items():
        topic, gone = own_topic(side, f"t-{result}"), own_topic(side, f"gone-{result}", 2)
        producer = begun(side, result)
        producer.add({topic: [0], gone: [0, 1]})
        for name in (topic, gone):
            producer.send(name)
        deleted = DeleteTopicsRequest(version=5, topic_names=[gone], timeout_ms=10_000)
        side.ask(deleted, f"{result}, deleted")
        await_deletion(side, gone)
        producer.finish(committed, version=version)
        producer.describe()
        producer.add({topic: [0]}, "the next")
        read_both(side, topic, result)


@case(EndTxnRequest)
def one_after_the_other(side: Side, version: int) -> None:
    """Three transactions, as a client of that version does it: markers, offsets, epochs."""
    topic = own_topic(side, "t", partitions=2)
    producer = begun(side)
    sequence = 0
    for number, committed in enumerate([COMMIT, ABORT, COMMIT]):
        producer.add({topic: [0, 1]})
        for partition in (0, 1):
            producer.send(topic, b"%d" % number, partition=partition, sequence=sequence)
        producer.finish(committed, version=version)
        # A new epoch begins at sequence 0; within one they go on.
        sequence = 0 if version >= END_BUMPS else sequence + 1
    producer.describe()
    for partition in (0, 1):
        read_both(side, topic, f"partition {partition}", partition=partition)


@case(EndTxnRequest, [TV2])
def empty_aborts(side: Side, version: int) -> None:
    """An abort of nothing gives the next epoch, again and again; a retry the same one."""
    producer = begun(side)
    for number in range(3):
        producer.finish(ABORT, f"number {number}", version=version)
    producer.end(ABORT, "a retry", version=version, epoch=producer.epoch - 1)
    producer.end(COMMIT, "a commit's retry", version=version, epoch=producer.epoch - 1)
    producer.describe()
    producer.init("and then")


@case(EndTxnRequest, [TV2])
def retries(side: Side, version: int) -> None:
    """A lost answer of EndTxn 5 is asked for again with the epoch that it was asked with."""
    topic = side.topic("t")
    for result, committed in RESULTS.items():
        producer = begun(side, result)
        producer.add({topic: [0]})
        producer.finish(committed, version=version)
        producer.end(committed, "again", version=version, epoch=0)
        producer.end(committed, "once more", version=version, epoch=0)
        producer.add({topic: [0]}, "the next")
        producer.end(committed, "late", version=version, epoch=0)
        producer.finish(committed, version=version)


@case(EndTxnRequest)
def after_the_server_aborted(side: Side, version: int) -> None:
    """A successor's InitProducerId has ended it: its owner learns that it is fenced."""
    topic = side.topic("t")
    for result, committed in RESULTS.items():
        producer = begun(side, result)
        producer.add({topic: [0]})
        producer.init("a successor")
        producer.settle()
        producer.end(committed, "the owner", version=version)
        producer.describe()


@case(EndTxnRequest, [4, 5])
def after_its_time(side: Side, version: int) -> None:
    """What takes longer than its timeout is aborted within ten seconds, and whoever owns it is fenced."""
    topic = own_topic(side, "t", partitions=2)
    slow = {committed: Producer(side, result, timeout_ms=1) for result, committed in RESULTS.items()}
    for partition, producer in enumerate(slow.values()):
        producer.init()
        producer.add({topic: [partition]})
        producer.send(topic, partition=partition)
    for committed, producer in slow.items():
        producer.await_abort()
        producer.describe("swept")
        producer.end(committed, "the owner", version=version)
        producer.settle()
        producer.end(committed, "the next epoch", version=version, epoch=1)
        producer.settle()
        producer.describe("and then")
    for partition in (0, 1):
        read_both(side, topic, f"partition {partition}", partition=partition)
