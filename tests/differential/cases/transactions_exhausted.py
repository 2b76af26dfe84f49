"""The last epochs of a producer id: 32,766 is the last to work with, after it comes another id."""

from __future__ import annotations

from copy import copy

from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from tests.differential.case import case
from tests.differential.cases.describe_producers import of as describe_producers
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    RESULTS,
    Producer,
    own_topic,
    read_both,
)

LAST = 32_766
TV1, TV2 = 3, 5


def worn(side: Side, epoch: int = LAST) -> Producer:
    producer = Producer(side)
    producer.wear_out(epoch)
    return producer


@case(InitProducerIdRequest, [4], long=True)
def by_init(side: Side, version: int) -> None:
    producer = worn(side)
    before = copy(producer)
    producer.describe("the last epoch")
    producer.resume("another id", version=version)
    for epoch in (LAST, LAST - 1):
        before.resume(f"a retry with epoch {epoch}", version=version, epoch=epoch)
    producer.describe("then")
    producer.resume("and on", version=version)


@case(EndTxnRequest, [TV2], long=True)
def by_ends(side: Side, version: int) -> None:
    """The marker of the last transaction has epoch 32,767, and the answer another id."""
    topic = own_topic(side, "t")
    producer = worn(side, LAST - 1)
    before = producer
    for label in ("the last but one", "the last"):
        before = copy(producer)
        producer.add({topic: [0]}, label)
        producer.send(topic, label=label)
        producer.finish(COMMIT, label, version=version)
        producer.describe(label)
    for result, committed in RESULTS.items():
        copy(before).end(committed, f"a retry, {result}", version=version)
    producer.add({topic: [0]}, "the other id")
    producer.send(topic, label="the other id")
    side.ask(describe_producers({topic: [0]}), "producers")
    producer.finish(ABORT, "the other id", version=version)
    read_both(side, topic, "then")


@case(EndTxnRequest, [TV1], long=True)
def by_ends_that_keep_it(side: Side, version: int) -> None:
    """TV1: transaction after transaction with the last epoch, until somebody asks for an id."""
    topic = own_topic(side, "t")
    producer = worn(side)
    for sequence in (0, 1):
        producer.add({topic: [0]})
        producer.send(topic, sequence=sequence)
        producer.finish(COMMIT, version=version)
    producer.describe()
    producer.init("another id")
    producer.describe("then")
    read_both(side, topic, "then")


@case(InitProducerIdRequest, [4], long=True)
def by_a_fence(side: Side, version: int) -> None:
    """Its open transaction is aborted with epoch 32,767."""
    topic = own_topic(side, "t")
    producer = worn(side)
    producer.add({topic: [0]})
    producer.send(topic)
    producer.init("a successor", version=version)
    producer.settle()
    producer.describe("aborted")
    producer.send(topic, sequence=1, label="the owner")
    producer.init("another id", version=version)
    producer.describe("then")
    read_both(side, topic, "then")


@case(EndTxnRequest, [TV2], long=True)
def by_an_empty_abort(side: Side, version: int) -> None:
    producer = worn(side)
    producer.finish(ABORT, version=version)
    producer.describe("then")
