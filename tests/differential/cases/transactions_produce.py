"""Produce 3-13 in transactions: a partition has to be added up to version 11, from version 12 on it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import CONTROL, TRANSACTIONAL
from tests.differential.case import case
from tests.differential.requests import produce
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    PRODUCE_ADDS,
    RESULTS,
    STRANGER,
    Producer,
    begun,
    held,
    inside,
    own_topic,
    read,
    read_both,
)

# The first, the last before TRANSACTION_ABORTABLE, one that knows it, one that adds, one with topics' ids.
VERSIONS = [3, 10, 11, 12, 13]
TV1, TV2 = 3, 5


@case(ProduceRequest)
def added(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    producer.send(topic, b"a", b"b", version=version)
    producer.send(topic, b"c", sequence=2, version=version)
    producer.describe()
    read_both(side, topic, "open")
    producer.finish(COMMIT)
    read_both(side, topic, "committed")


@case(ProduceRequest)
def not_added(side: Side, version: int) -> None:
    topic, other = own_topic(side, "t", partitions=2), own_topic(side, "u")
    producer = begun(side)
    producer.send(topic, version=version, label="no transaction is open")
    producer.describe()
    producer.add({topic: [0]})
    producer.send(topic, partition=1, version=version, label="another partition")
    producer.send(other, version=version, label="another topic")
    producer.describe("and then")
    producer.finish(COMMIT, version=TV2)
    read(side, topic, "topic")
    read(side, other, "other topic")


@case(ProduceRequest, VERSIONS)
def after_each_end(side: Side, version: int) -> None:
    """With the sequence and epoch that each kind of client goes on with."""
    topic = own_topic(side, "t")
    sequences = {TV1: 1, TV2: 0}
    for end_version, sequence in sequences.items():
        for result, committed in RESULTS.items():
            producer = begun(side, f"{result}{end_version}")
            producer.add({topic: [0]})
            producer.send(topic, version=version, label="inside")
            producer.finish(committed, version=end_version)
            producer.send(topic, sequence=sequence, version=version, label="not added")
            producer.add({topic: [0]})
            producer.send(topic, sequence=sequence + 1, version=version, label="added")
            producer.finish(COMMIT, version=end_version)
    read_both(side, topic, "in the end")


@case(ProduceRequest, VERSIONS)
def late(side: Side, version: int) -> None:
    """A batch of a transaction that has ended: below the epoch under TV2, and under TV1 nothing tells it."""
    topic = own_topic(side, "t")
    for end_version in (TV1, TV2):
        for result, committed in RESULTS.items():
            producer = begun(side, f"{result}{end_version}")
            producer.add({topic: [0]})
            producer.send(topic, version=version, label="inside")
            producer.finish(committed, version=end_version)
            producer.send(topic, sequence=1, epoch=0, version=version, label="late")
            producer.add({topic: [0]}, "the next is open")
            producer.send(topic, sequence=1, epoch=0, version=version, label="late, in the next")
            producer.describe()
            producer.finish(ABORT, version=end_version)
    read_both(side, topic, "in the end")


@case(ProduceRequest, VERSIONS)
def late_and_a_duplicate(side: Side, version: int) -> None:
    """As `late`, and a duplicate is refused as well, as no transaction is open."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    producer.send(topic, version=version, label="inside")
    producer.finish(COMMIT, version=TV1)
    producer.send(topic, sequence=1, epoch=0, version=version, label="late")
    producer.send(topic, sequence=0, epoch=0, version=version, label="a duplicate")
    producer.add({topic: [0]}, "the next is open")
    producer.send(topic, sequence=1, epoch=0, version=version, label="late, in the next")
    producer.finish(ABORT, version=TV1)


@case(ProduceRequest, VERSIONS)
def sequences(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    for label, sequence in [
        ("first, not zero", 5),
        ("first", 0),
        ("a gap", 2),
        ("again", 0),
        ("next", 1),
        ("negative", -1),
    ]:
        producer.send(topic, sequence=sequence, version=version, label=label)
    producer.finish(ABORT)
    for label, sequence in [("after the end, a gap", 3), ("after the end, the first again", 0)]:
        producer.add({topic: [0]}, label)
        producer.send(topic, sequence=sequence, version=version, label=label)
    producer.finish(ABORT)
    read(side, topic, "in the end")


@case(ProduceRequest, VERSIONS)
def epochs(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.init("its successor")
    producer.send(topic, epoch=0, version=version, label="fenced, nothing known")
    producer.send(topic, epoch=2, version=version, label="not given yet, nothing known")
    producer.add({topic: [0]})
    producer.send(topic, epoch=0, version=version, label="fenced, one is open")
    producer.send(topic, version=version)
    producer.send(topic, epoch=0, version=version, label="fenced, one has records")
    producer.send(topic, epoch=2, version=version, label="not given yet, one has records")
    producer.finish(COMMIT)
    producer.init("the next successor")
    producer.send(topic, epoch=1, sequence=1, version=version, label="fenced by one without records")
    read(side, topic, "in the end")


@case(ProduceRequest, VERSIONS)
def names(side: Side, version: int) -> None:
    """The request names the transactional id, the batch the producer id."""
    topic = own_topic(side, "t")
    producer, other = begun(side), begun(side, "other")
    producer.add({topic: [0]})
    other.add({topic: [0]})
    for label, name in {
        "no name": None,
        "an unknown name": side.own_name("no-such"),
        "another's name": other.name,
        "its own": producer.name,
    }.items():
        producer.send(topic, name=name, version=version, label=label)
    producer.send(topic, sequence=1, name=None, version=version, label="no name, one has records")
    producer.send(topic, sequence=2, name=other.name, version=version, label="another's, one has records")
    for name in ("no-such", ""):
        batch = inside(b"x", producer_id=STRANGER, epoch=0, sequence=0)
        side.ask(
            produce(side, version, {topic: {0: batch}}, transactional_id=name),
            f"an unknown id, name {name!r}",
        )
    read(side, topic, "in the end", level=0)


@case(ProduceRequest, VERSIONS)
def outside(side: Side, version: int) -> None:
    """Batches without the transactional bit."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.send(topic, attributes=0, name=None, version=version, label="before")
    producer.add({topic: [0]})
    producer.send(topic, attributes=0, sequence=1, name=None, version=version, label="once added")
    producer.send(topic, sequence=2, version=version, label="inside")
    producer.send(topic, attributes=0, sequence=3, name=None, version=version, label="while it is open")
    producer.send(topic, attributes=0, sequence=3, version=version, label="while it is open, with name")
    producer.send(topic, sequence=3, version=version, label="inside again")
    producer.finish(COMMIT)
    producer.send(topic, attributes=0, sequence=4, name=None, version=version, label="after it")
    read_both(side, topic, "in the end")


@case(ProduceRequest, VERSIONS)
def odd_batches(side: Side, version: int) -> None:
    """Each to a partition of its own: Kafka remembers the lowest sequence that it saw while it verified."""
    both = TRANSACTIONAL | CONTROL
    odd: dict[str, dict[str, Any]] = {
        "control": {"attributes": both},
        "control without sequence": {"attributes": both, "sequence": -1},
        "control, no transaction": {"attributes": CONTROL, "name": None},
        "no sequence": {"sequence": -1},
        "no epoch": {"epoch": -1},
    }
    topic = own_topic(side, "t", len(odd) + 1)
    producer = begun(side)
    producer.add({topic: list(range(len(odd) + 1))})
    for partition, (label, fields) in enumerate(odd.items()):
        producer.send(topic, partition=partition, version=version, label=label, **fields)
    nobodys = inside(b"x", producer_id=-1, epoch=-1, sequence=-1)
    ask = produce(side, version, {topic: {len(odd): nobodys}}, transactional_id=producer.name)
    side.ask(ask, "no producer id")
    for partition in range(len(odd) + 1):
        read_both(side, topic, f"partition {partition}", partition=partition)


def together(
    side: Side, version: int, topic: str, parts: Sequence[tuple[Producer, int]], name: str | None
) -> Any:
    """A Produce of one batch to each partition: of (producer, attributes)."""

    def build(ids: Sequence[int]) -> Any:
        data = {
            partition: inside(b"x", producer_id=ids[partition], epoch=0, sequence=0, attributes=attributes)
            for partition, (_, attributes) in enumerate(parts)
        }
        return produce(side, version, {topic: data}, transactional_id=name)

    return build


@case(ProduceRequest, VERSIONS)
def several_in_one_request(side: Side, version: int) -> None:
    producer, other = begun(side), begun(side, "other")
    for label, parts in {
        "two producers": [(producer, TRANSACTIONAL), (other, TRANSACTIONAL)],
        "inside and outside": [(producer, TRANSACTIONAL), (other, 0)],
        "one outside": [(producer, TRANSACTIONAL), (producer, 0)],
        "both inside": [(producer, TRANSACTIONAL), (producer, TRANSACTIONAL)],
    }.items():
        topic = own_topic(side, label.replace(" ", "-"), partitions=2)
        producer.add({topic: [0, 1]}, label)
        other.add({topic: [1]}, label)
        side.ask_with_ids(
            together(side, version, topic, parts, producer.name), [one.id for one, _ in parts], label
        )
        for partition in (0, 1):
            read(side, topic, f"{label}, partition {partition}", level=0, partition=partition)


@case(ProduceRequest, VERSIONS)
def one_of_two_not_added(side: Side, version: int) -> None:
    """Each partition is judged by itself."""
    topic = own_topic(side, "t", partitions=2)
    producer = begun(side)
    producer.add({topic: [1]})
    parts = [(producer, TRANSACTIONAL)] * 2
    side.ask_with_ids(together(side, version, topic, parts, producer.name), [producer.id] * 2, "two")
    producer.describe()
    producer.finish(COMMIT)
    for partition in (0, 1):
        read(side, topic, f"partition {partition}", partition=partition)


@case(ProduceRequest, VERSIONS)
def while_one_ends(side: Side, version: int) -> None:
    topic = own_topic(side, "t", partitions=2)
    for end_version in (TV1, TV2):
        for result, committed in RESULTS.items():
            producer = held(side, f"{result}{end_version}", topic, committed, version=end_version)
            producer.send(topic, version=version, label="to its partition")
            producer.send(topic, partition=1, version=version, label="to another")
            if producer.epoch:
                producer.send(topic, epoch=0, version=version, label="with the epoch before")


@case(ProduceRequest, VERSIONS)
def after_a_fence(side: Side, version: int) -> None:
    """The owner of what its successor's InitProducerId has aborted."""
    topic = own_topic(side, "t", partitions=2)
    producer = begun(side)
    producer.add({topic: [0, 1]})
    producer.send(topic, version=version)
    producer.init("a successor")
    producer.settle()
    producer.send(topic, sequence=1, version=version, label="the owner")
    producer.send(topic, partition=1, version=version, label="the owner, where it has no records")
    producer.init("the successor again")
    producer.send(topic, sequence=1, epoch=0, version=version, label="the owner again")
    producer.add({topic: [0]})
    producer.send(topic, version=version, label="the successor")
    producer.send(topic, sequence=1, epoch=0, version=version, label="the owner, while another is open")
    producer.finish(COMMIT)
    read_both(side, topic, "in the end")


@case(ProduceRequest, VERSIONS)
def acknowledgements(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    for number, acks in enumerate([1, -1]):
        producer.send(topic, sequence=number, acks=acks, version=version, label=f"acks {acks}")
    producer.finish(COMMIT)
    read(side, topic, "in the end")


@case(ProduceRequest, range(PRODUCE_ADDS, 14))
def nothing_but_produce(side: Side, version: int) -> None:
    """As a client of TV2 goes about it: no AddPartitionsToTxn, EndTxn 5, epoch by epoch."""
    topic = own_topic(side, "t", partitions=2)
    producer = begun(side)
    for committed in (COMMIT, ABORT, COMMIT):
        for partition in (0, 1):
            producer.send(topic, partition=partition, version=version)
        producer.send(topic, sequence=1, version=version)
        producer.finish(committed, version=TV2)
    producer.describe()
    for partition in (0, 1):
        read_both(side, topic, f"partition {partition}", partition=partition)


@case(ProduceRequest, range(PRODUCE_ADDS, 14))
def adds_to_nowhere(side: Side, version: int) -> None:
    """A partition that does not exist is not added."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.send(side.name("nowhere"), version=version, label="no such topic")
    producer.send(topic, partition=1, version=version, label="no such partition")
    producer.describe()
