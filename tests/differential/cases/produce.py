"""Produce 3-13: what is accepted, per partition, and what each fault is called."""

from __future__ import annotations

from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import CODECS, Record, batch, batch_of, encode_record
from tests.differential.case import case
from tests.differential.requests import produce, read_back
from tests.differential.side import Side
from tests.differential.wire import body_of

ZSTD_SINCE = 7
OLD = 1_600_000_000_000


@case(ProduceRequest)
def good(side: Side, version: int) -> None:
    """Every acks value that has an answer; the offsets go on."""
    topic = side.own_topic("t")
    for acks in [-1, 1, -1]:
        records = [Record(b"value %d" % n, b"key", OLD + n, (("h", b"1"), ("h", None))) for n in range(3)]
        side.ask(produce(side, version, {topic: {0: batch(records)}}, acks=acks))
    read_back(side, topic)


@case(ProduceRequest)
def codecs(side: Side, version: int) -> None:
    """Stored as sent; zstd only where the version promises it."""
    topic = side.own_topic("t", partitions=len(CODECS))
    for partition, codec in enumerate(CODECS):
        records = [Record(bytes([partition]) * 100 + b"%d" % n) for n in range(20)]
        side.ask(produce(side, version, {topic: {partition: batch(records, codec=codec)}}), codec)
    read_back(side, topic, *range(len(CODECS)))


@case(ProduceRequest)
def no_answer(side: Side, version: int) -> None:
    """acks=0: the next answer on the connection is the next request's."""
    topic = side.own_topic("t")
    side.tell(produce(side, version, {topic: {0: batch_of(b"unanswered")}}, acks=0))
    side.ask(produce(side, version, {topic: {0: batch_of(b"answered")}}))
    read_back(side, topic)


@case(ProduceRequest)
def no_answer_and_bad(side: Side, version: int) -> None:
    """acks=0 and an error: the only way to tell is to hang up."""
    topic = side.own_topic("t")
    side.tell(produce(side, version, {topic: {0: batch_of(b"x", crc=1)}}, acks=0))
    side.ask(produce(side, version, {topic: {0: batch_of(b"answered")}}), "after it")
    side.hang_up()
    read_back(side, topic)


@case(ProduceRequest)
def bad_acks(side: Side, version: int) -> None:
    topic = side.topic("t")
    for acks in [2, -2, 32767]:
        side.ask(produce(side, version, {topic: {0: batch_of(b"x")}}, acks=acks), f"acks {acks}")
    read_back(side, topic)


@case(ProduceRequest)
def several_partitions(side: Side, version: int) -> None:
    """Errors are the partition's own: the others are stored."""
    topic = side.own_topic("t", partitions=3)
    good = batch_of(b"good")
    side.ask(
        produce(side, version, {topic: {2: good, 0: batch_of(b"bad", crc=1), 1: good, 3: good, -1: good}})
    )
    read_back(side, topic, 0, 1, 2)


@case(ProduceRequest)
def several_topics(side: Side, version: int) -> None:
    a, b = side.own_topic("a"), side.own_topic("b")
    good = batch_of(b"good")
    side.ask(produce(side, version, {b: {0: good}, side.name("nowhere"): {0: good}, a: {0: good}}))
    for topic in (a, b):
        read_back(side, topic, label=f"read back {topic}")


@case(ProduceRequest)
def nothing(side: Side, version: int) -> None:
    topic = side.own_topic("t")
    side.ask(produce(side, version, {}), "no topics")
    side.ask(produce(side, version, {topic: {}}), "no partitions")
    side.ask(produce(side, version, {topic: {0: b""}}), "empty records")
    side.ask(produce(side, version, {topic: {0: batch([])}}), "a batch of no records")
    read_back(side, topic)


@case(ProduceRequest, [13])
def null_records(side: Side, version: int) -> None:
    topic = side.own_topic("t", partitions=2)
    side.ask(produce(side, version, {topic: {0: None, 1: batch_of(b"good")}}), patience=1.0)


@case(ProduceRequest, [3, 7, 8, 13])
def broken_batches(side: Side, version: int) -> None:
    """Row 36 of the fault table: each fault alone, in a partition of its own, beside a good one."""
    one, two = [Record(b"one")], [Record(b"one"), Record(b"two")]
    whole = batch(one)
    faults = {
        "crc": batch(one, crc=0),
        "magic 0": batch(one, magic=0),
        "magic 1": batch(one, magic=1),
        "magic 3": batch(one, magic=3),
        "magic -1": batch(one, magic=-1),
        "length + 1": batch(one, length=len(whole) - 12 + 1),
        "length - 1": batch(one, length=len(whole) - 12 - 1),
        "length 0": batch(one, length=0),
        "length -1": batch(one, length=-1),
        "length 2^31-1": batch(one, length=2**31 - 1),
        "cut": whole[:-1],
        "header only": whole[:61],
        "60 bytes": whole[:60],
        "a byte after": whole + b"\0",
        "12 bytes": whole[:12],
        "count + 1": batch(one, count=2),
        "count - 1": batch(two, count=1),
        "count 0": batch(one, count=0),
        "count -1": batch(one, count=-1),
        "count 2^31-1": batch(one, count=2**31 - 1),
        "last offset delta + 1": batch(one, last_offset_delta=1),
        "last offset delta -1": batch(one, last_offset_delta=-1),
        "count and delta lie": batch(two, count=5, last_offset_delta=4),
        "count and delta too small": batch(two, count=1, last_offset_delta=0),
        "control": batch(one, attributes=0x20),
        "codec 5": batch(one, attributes=5),
        "codec 6": batch(one, attributes=6),
        "codec 7": batch(one, attributes=7),
        "two batches": whole + whole,
        "no gzip inside": batch(one, attributes=1),
        "no snappy inside": batch(one, attributes=2),
        "no lz4 inside": batch(one, attributes=3),
        "zeros": bytes(80),
        "noise": bytes(range(200)),
    }
    if version >= ZSTD_SINCE:
        faults["no zstd inside"] = batch(one, attributes=4)
    topic = side.own_topic("t", partitions=2 * len(faults))
    for number, (label, records) in enumerate(faults.items()):
        side.ask(produce(side, version, {topic: {2 * number: records, 2 * number + 1: whole}}), label)
        read_back(side, topic, 2 * number, 2 * number + 1, label=f"{label}, read back")


@case(ProduceRequest, [3, 9, 13])
def unusual_batches(side: Side, version: int) -> None:
    """Odd, but accepted by Kafka or refused for a reason of their own."""
    one = [Record(b"one")]
    odd = {
        "base offset 7": batch(one, base_offset=7),
        "base offset -1": batch(one, base_offset=-1),
        "leader epoch 5": batch(one, leader_epoch=5),
        "unused attribute bits": batch(one, attributes=0x80),
        "high attribute byte": batch(one, attributes=0x4000),
        "log append time bit": batch(one, attributes=0x08),
        "delete horizon bit": batch(one, attributes=0x40),
        "max timestamp -1": batch(one, max_timestamp=-1),
        "max timestamp below": batch(one, max_timestamp=OLD),
        "max timestamp above": batch(one, max_timestamp=OLD + 200_000_000_000),
        "timestamp 0": batch([Record(b"x", timestamp=0)]),
        "timestamp -1": batch([Record(b"x", timestamp=-1)]),
        "timestamp -2": batch([Record(b"x", timestamp=-2)]),
        "timestamps go back": batch([Record(b"x", timestamp=OLD + 5), Record(b"y", timestamp=OLD)]),
        "far future": batch([Record(b"x", timestamp=OLD * 10)]),
        "empty key and value": batch([Record(b"", b"")]),
        "null key and value": batch([Record(None, None)]),
        "header without value": batch([Record(b"x", headers=(("", None), ("", b"")))]),
        "base timestamp apart": batch(one, base_timestamp=OLD),
        "sequence without id": batch(one, base_sequence=3),
        "id without sequence": batch(one, producer_id=5001),
        "id without epoch": batch(one, producer_id=5002, base_sequence=0),
        "negative epoch": batch(one, producer_id=5003, producer_epoch=-2, base_sequence=0),
    }
    topic = side.own_topic("t", partitions=len(odd))
    for partition, (label, records) in enumerate(odd.items()):
        side.ask(produce(side, version, {topic: {partition: records}}), label)
    read_back(side, topic, *range(len(odd)))


@case(ProduceRequest, [3, 9, 13])
def broken_records(side: Side, version: int) -> None:
    """A right header over wrong records. Kafka looks inside every batch."""
    good = encode_record(Record(b"one"), 0, Record(b"one").timestamp)
    assert good == b"\x12\0\0\0\1\6one\0", (
        "length, attributes, time and offset delta, key -1, value of 3, no headers"
    )
    bad = {
        "length too long": b"\x7e" + good[1:],
        "length too short": b"\x02" + good[1:],
        "length negative": b"\x01" + good[1:],
        "key past the end": b"\x12\0\0\0\x7e\6one\0",
        "value past the end": b"\x12\0\0\0\1\x7eone\0",
        "value length -2": b"\x12\0\0\0\1\3one\0",
        "header count -1": good[:-1] + b"\x01",
        "header count 3": good[:-1] + b"\x06",
        "null header name": b"\x16\0\0\0\1\6one\2\1\1",
        "wrong offset delta": b"\x12\0\0\x04\1\6one\0",
        "attributes set": b"\x12\xff\0\0\1\6one\0",
        "a byte after": good + b"\0",
        "endless varint": b"\xff" * 12,
        "empty": b"",
    }
    topic = side.own_topic("t", partitions=len(bad))
    for partition, (label, payload) in enumerate(bad.items()):
        side.ask(
            produce(side, version, {topic: {partition: batch([Record(b"one")], payload=payload)}}), label
        )
    read_back(side, topic, *range(len(bad)))


@case(ProduceRequest, [3, 8, 13])
def old_formats(side: Side, version: int) -> None:
    """Message sets of magic 0 and 1, whole and right."""
    topic = side.topic("t")
    v0 = bytes.fromhex("0000000000000000 00000011 fb4b3a8d 00 00 ffffffff 00000003 6f6e65")
    v1 = bytes.fromhex("0000000000000000 00000019 5c0b2e1d 01 00 0000018bcfe56800 ffffffff 00000003 6f6e65")
    side.ask(produce(side, version, {topic: {0: v0}}), "v0")
    side.ask(produce(side, version, {topic: {0: v1}}), "v1")


@case(ProduceRequest, range(3, 7))
def zstd_too_early(side: Side, version: int) -> None:
    topic = side.topic("t")
    side.ask(produce(side, version, {topic: {0: batch([Record(b"x")], codec="zstd")}}))


@case(ProduceRequest)
def too_large(side: Side, version: int) -> None:
    """max.message.bytes counts the whole batch as it travels."""
    topic = side.own_topic("t", max_message_bytes="1000")
    fits = 1000 - len(batch([Record(b"")])) - 2
    for size in [fits, fits + 1, fits + 2, fits + 3]:
        side.ask(produce(side, version, {topic: {0: batch([Record(b"x" * size)])}}), f"{size - fits:+d}")
    squeezed = batch([Record(b"x" * 100_000)], codec="gzip")
    side.ask(produce(side, version, {topic: {0: squeezed}}), "small once compressed")
    read_back(side, topic)


@case(ProduceRequest)
def log_append_time(side: Side, version: int) -> None:
    """The server's clock replaces the producer's, inside the checksum too."""
    topic = side.own_topic("t", message_timestamp_type="LogAppendTime")
    for codec in ["none", "lz4"]:
        records = [Record(b"a", timestamp=OLD), Record(b"b", timestamp=OLD + 1)]
        side.ask(produce(side, version, {topic: {0: batch(records, codec=codec)}}), codec)
    read_back(side, topic)


@case(ProduceRequest, [3, 9, 13])
def transactional(side: Side, version: int) -> None:
    """Batches of a transaction that nobody began."""
    topic = side.topic("t")
    inside = batch([Record(b"x")], attributes=0x10, producer_id=6001, producer_epoch=0, base_sequence=0)
    outside = batch([Record(b"x")], producer_id=6001, producer_epoch=0, base_sequence=0)
    side.ask(produce(side, version, {topic: {0: inside}}, transactional_id="nobody"), "id and bit")
    side.ask(produce(side, version, {topic: {0: inside}}), "bit without id")
    side.ask(produce(side, version, {topic: {0: outside}}, transactional_id="nobody"), "id without bit")
    nameless = batch([Record(b"x")], attributes=0x10)
    side.ask(
        produce(side, version, {topic: {0: nameless}}, transactional_id="nobody"), "bit without producer"
    )


@case(ProduceRequest, range(3))
def versions_not_served(side: Side, version: int) -> None:
    """0 to 2 are advertised for old librdkafka's sake, and refused."""
    topic = side.topic("t")
    body = body_of(produce(side, 3, {topic: {0: batch_of(b"x")}}))[2:]
    side.ask_body(0, version, body)


@case(ProduceRequest)
def twice_in_one_request(side: Side, version: int) -> None:
    """One partition named twice."""
    topic = side.own_topic("t")
    one = {0: batch_of(b"x")}
    side.ask(produce(side, version, [(topic, one), (topic, one)]))
    read_back(side, topic)


@case(ProduceRequest, [3, 9, 13])
def compacted(side: Side, version: int) -> None:
    """A compacted topic needs keys; the answer names the records without one."""
    topic = side.own_topic("t", cleanup_policy="compact")
    records = [Record(b"a", b"k"), Record(b"b"), Record(b"c", b"k"), Record(b"d")]
    side.ask(produce(side, version, {topic: {0: batch(records)}}), "two without")
    side.ask(produce(side, version, {topic: {0: batch(records[:1])}}), "all with")
    side.ask(produce(side, version, {topic: {0: batch([Record(None, b"k")])}}), "a tombstone")
    read_back(side, topic)
