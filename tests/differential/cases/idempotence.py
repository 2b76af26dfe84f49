"""The idempotent producer, as measured: which sequences are accepted, repeated, refused."""

from __future__ import annotations

from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.requests import produce, read_back
from tests.differential.side import Side

VERSIONS = [3, 8, 13]
LAST = 2**31 - 1


class Producer:
    """Sends batches of one producer id to one partition of its own."""

    def __init__(self, side: Side, version: int, suffix: str = "t", producer_id: int = 7001) -> None:
        self._side, self._version, self._id = side, version, producer_id
        self.topic = side.own_topic(suffix)

    def send(
        self, sequence: int, count: int = 1, *, epoch: int = 0, label: str = "", value: bytes = b"v"
    ) -> None:
        records = [Record(value + b"%d" % n) for n in range(count)]
        data = batch(records, producer_id=self._id, producer_epoch=epoch, base_sequence=sequence)
        ask = produce(self._side, self._version, {self.topic: {0: data}})
        self._side.ask(ask, f"{label or len(self._side.exchanges)} (sequence {sequence}, epoch {epoch})")

    def check(self) -> None:
        read_back(self._side, self.topic)


@case(ProduceRequest, VERSIONS)
def first_sequence_any(side: Side, version: int) -> None:
    """A producer of which nothing is known may begin anywhere: its state may have expired."""
    producer = Producer(side, version)
    producer.send(100)
    producer.send(101)
    producer.send(100, label="the first again")
    producer.send(0, label="zero, below the first")
    producer.check()


@case(ProduceRequest, VERSIONS)
def in_order(side: Side, version: int) -> None:
    producer = Producer(side, version)
    for sequence in range(0, 12, 3):
        producer.send(sequence, 3)
    producer.check()


@case(ProduceRequest, VERSIONS)
def duplicates(side: Side, version: int) -> None:
    """One of the last five batches: its first offset again. An older one: out of order."""
    producer = Producer(side, version)
    for sequence in range(8):
        producer.send(sequence)
    for sequence in range(8):
        producer.send(sequence, label="again")
    producer.send(8, label="goes on")
    producer.check()


@case(ProduceRequest, VERSIONS)
def near_duplicates(side: Side, version: int) -> None:
    """Only the same first and last sequence are the same batch."""
    producer = Producer(side, version)
    producer.send(0, 4)
    producer.send(0, 3, label="shorter")
    producer.send(0, 5, label="longer")
    producer.send(1, 3, label="its tail")
    producer.send(2, 4, label="overlapping the end")
    producer.send(0, 4, value=b"w", label="other content")
    producer.send(4, 1, label="goes on")
    producer.check()


@case(ProduceRequest, VERSIONS)
def gaps(side: Side, version: int) -> None:
    producer = Producer(side, version)
    producer.send(0)
    producer.send(2, label="one left out")
    producer.send(LAST, label="the largest")
    producer.send(1, label="the right one")
    producer.send(2, label="now in order")
    producer.check()


@case(ProduceRequest, VERSIONS)
def epochs(side: Side, version: int) -> None:
    producer = Producer(side, version)
    producer.send(0, epoch=3)
    producer.send(1, epoch=3)
    producer.send(2, epoch=2, label="an old epoch")
    producer.send(0, epoch=2, label="an old epoch from zero")
    producer.send(2, epoch=4, label="a new epoch not from zero")
    producer.send(0, epoch=4, label="a new epoch from zero")
    producer.send(0, epoch=4, label="again")
    producer.send(2, epoch=3, label="the epoch before")
    producer.send(0, epoch=9, label="epochs left out")
    producer.check()


@case(ProduceRequest, VERSIONS)
def sequence_wraps(side: Side, version: int) -> None:
    """After 2^31-1 comes 0, inside a batch too."""
    producer = Producer(side, version)
    producer.send(LAST - 2, 2)
    producer.send(LAST, 1)
    producer.send(0, 1, label="after the last")
    producer.send(LAST, 1, label="again before the wrap")
    producer.check()


@case(ProduceRequest, VERSIONS)
def sequence_wraps_inside(side: Side, version: int) -> None:
    producer = Producer(side, version)
    producer.send(LAST - 1, 4)
    producer.send(LAST - 1, 4, label="again")
    producer.send(1, 1, label="too early")
    producer.send(2, 1, label="after it")
    producer.check()


@case(ProduceRequest, VERSIONS)
def producers_apart(side: Side, version: int) -> None:
    """State is per producer and per partition."""
    first, second = Producer(side, version), Producer(side, version, producer_id=7002)
    first.send(0)
    second.send(0, label="another id")
    other = Producer(side, version, suffix="u")
    other.send(0, label="another topic")
    first.send(1)
    second.send(1, label="another id again")
    first.check()


@case(ProduceRequest, VERSIONS)
def refused_leaves_no_trace(side: Side, version: int) -> None:
    """A batch that was refused did not use its sequence up."""
    producer = Producer(side, version)
    producer.send(0)
    broken = batch([Record(b"x")], producer_id=7001, producer_epoch=0, base_sequence=1, crc=1)
    side.ask(produce(side, version, {producer.topic: {0: broken}}), "broken")
    producer.send(1, label="its sequence")
    producer.check()


@case(ProduceRequest, VERSIONS)
def acks_one(side: Side, version: int) -> None:
    """Whatever acks says, sequences are checked."""
    topic = side.own_topic("t")
    for label, sequence in [("first", 0), ("again", 0), ("a gap", 5), ("next", 1)]:
        data = batch([Record(b"x")], producer_id=7001, producer_epoch=0, base_sequence=sequence)
        side.ask(produce(side, version, {topic: {0: data}}, acks=1), label)
    read_back(side, topic)
