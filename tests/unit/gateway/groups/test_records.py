"""The records of `__consumer_offsets` are Kafka's, byte for byte, and nothing else is read as one.

`tests/data/groups/kafka-4.3.1-records.json` is what Apache Kafka 4.3.1 wrote when it was asked to commit
with versions 2, 5, 8 and 10, to keep a group with a static and one with a dynamic member, and to delete
some of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.metadata import GroupMetadata, MemberMetadata
from gateway.groups.records import (
    NO_TOPIC_ID,
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    decode_record,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from gateway.journal.fields import MAX_TEXT_BYTES, MalformedRecord, TooLong, UnknownRecord

KAFKA = json.loads(
    (Path(__file__).parents[3] / "data" / "groups" / "kafka-4.3.1-records.json").read_text(encoding="utf-8")
)
VECTORS = [
    (bytes.fromhex(one["key"]), None if one["value"] is None else bytes.fromhex(one["value"]))
    for one in KAFKA
]
ORDERS = UUID("764c53d9-e882-42d1-9ed4-93b2bab1751f").bytes
STATIC = "static-1-b6af5afd-299b-489d-a4bc-1e13e17c99f1"
DYNAMIC = "differential-4116893f-16c2-4154-bef1-3bf9e2315083"
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\0\0\0\0"
T = 1_795_301_596_000


def member(member_id: str, instance_id: str | None, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id, instance_id, "differential", "/127.0.0.1", 60_000, 30_000, SUBSCRIPTION, assignment
    )


def offset(
    group: str, partition: int, number: int, epoch: int, metadata: str, committed: int
) -> OffsetRecord:
    value = CommittedOffset(number, epoch, metadata, T + committed, topic_id=ORDERS)
    return OffsetRecord(group, "orders", partition, value)


MEANT: list[OffsetRecord | GroupRecord] = [
    offset("plain", 0, 5, -1, "", 684),
    OffsetRecord(
        "expiring", "orders", 0, CommittedOffset(7, -1, "kept a day", T + 749, T + 749 + 86_400_000)
    ),
    offset("plain", 1, 6, -1, "", 786),
    offset("plain", 2, 2**40, 17, "métadonnées " + "x" * 200, 795),
    offset("by id", 0, 9, 3, "m", 806),
    offset("by id", 1, 10, 0, "", 806),
    offset("", 0, 1, -1, "of the empty group id", 814),
    GroupRecord("consumers", GroupMetadata("", 0, None, None, T + 829, ())),
    GroupRecord(
        "consumers",
        GroupMetadata("consumer", 1, "range", STATIC, T + 845, (member(STATIC, "static-1", b"assigned"),)),
    ),
    offset("consumers", 0, 100, 1, "by a member", 882),
    GroupRecord("consumers", GroupMetadata("consumer", 2, None, None, T + 905, ())),
    GroupRecord("dynamic", GroupMetadata("", 0, None, None, T + 948, ())),
    GroupRecord(
        "dynamic", GroupMetadata("consumer", 1, "range", DYNAMIC, T + 955, (member(DYNAMIC, None, b""),))
    ),
    GroupRecord("dynamic", GroupMetadata("consumer", 2, None, None, T + 975, ())),
    OffsetRecord("plain", "orders", 1, None),
    OffsetRecord("expiring", "orders", 0, None),
    GroupRecord("expiring", None),
    GroupRecord("dynamic", None),
]


def encoded(record: OffsetRecord | GroupRecord) -> tuple[bytes, bytes | None]:
    if isinstance(record, OffsetRecord):
        key = offset_key(record.group_id, record.topic, record.partition)
        return key, None if record.value is None else offset_value(record.value)
    return group_key(record.group_id), None if record.value is None else group_value(record.value)


@pytest.mark.parametrize(("vector", "meant"), list(zip(VECTORS, MEANT, strict=True)), ids=range(len(VECTORS)))
def test_kafkas_own_records(vector: tuple[bytes, bytes | None], meant: OffsetRecord | GroupRecord) -> None:
    assert decode_record(*vector) == meant
    assert encoded(meant) == vector


def test_older_versions_of_an_offset() -> None:
    key = offset_key("g", "t", 3)
    number, time = (77).to_bytes(8), (1000).to_bytes(8)
    text = b"\0\2hi"
    for value, meant in [
        (b"\0\0" + number + text + time, CommittedOffset(77, -1, "hi", 1000)),
        (b"\0\1" + number + text + time + (9).to_bytes(8), CommittedOffset(77, -1, "hi", 1000, 9)),
        (b"\0\2" + number + text + time, CommittedOffset(77, -1, "hi", 1000)),
        (b"\0\3" + number + b"\0\0\0\5" + text + time, CommittedOffset(77, 5, "hi", 1000)),
        (b"\0\4" + number + b"\0\0\0\5" + b"\3hi" + time + b"\0", CommittedOffset(77, 5, "hi", 1000)),
    ]:
        assert decode_record(key, value) == OffsetRecord("g", "t", 3, meant)
        if value[1]:
            with pytest.raises(UnknownRecord):
                decode_record(b"\0\0" + key[2:], value)  # of the oldest keys: version 0 alone
        else:
            assert decode_record(b"\0\0" + key[2:], value) == OffsetRecord("g", "t", 3, meant)


@pytest.mark.parametrize("version", range(5))
def test_versions_of_a_group(version: int) -> None:
    def text(value: bytes | None) -> bytes:
        if version == 4:
            return b"\0" if value is None else bytes([len(value) + 1]) + value
        return b"\xff\xff" if value is None else len(value).to_bytes(2) + value

    def blob(value: bytes) -> bytes:
        return (bytes([len(value) + 1]) if version == 4 else len(value).to_bytes(4)) + value

    one = text(b"id")
    one += text(b"instance") if version >= 3 else b""
    one += text(b"client") + text(b"/host")
    one += (7).to_bytes(4) if version >= 1 else b""
    one += (5).to_bytes(4) + blob(b"sub") + blob(b"ass") + (b"\0" if version == 4 else b"")
    value = version.to_bytes(2) + text(b"consumer") + (3).to_bytes(4) + text(b"range") + text(None)
    value += (11).to_bytes(8) if version >= 2 else b""
    value += (b"\2" if version == 4 else (1).to_bytes(4)) + one + (b"\0" if version == 4 else b"")
    read = decode_record(group_key("g"), value)
    instance = "instance" if version >= 3 else None
    timeout = 7 if version >= 1 else 5  # the session's, before there were two
    assert read == GroupRecord(
        "g",
        GroupMetadata(
            "consumer", 3, "range", None, 11 if version >= 2 else -1,
            (MemberMetadata("id", instance, "client", "/host", timeout, 5, b"sub", b"ass"),),
        ),
    )  # fmt: skip
    if version == 3:
        assert encoded(read) == (group_key("g"), value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\3\0\1g", b"\0\0"),  # a group of KIP-848
        (b"\xff\xff", b""),
        (group_key("g"), b"\0\5"),
        (group_key("g"), b"\xff\xff"),
        (offset_key("g", "t", 0), b"\0\5"),
    ],
)
def test_types_and_versions_that_are_not_known(key: bytes, value: bytes) -> None:
    with pytest.raises(UnknownRecord):
        decode_record(key, value)


@pytest.mark.parametrize("vector", range(len(VECTORS)))
def test_what_is_cut_short_or_too_long_is_no_record(vector: int) -> None:
    key, value = VECTORS[vector]
    for damaged in [*(key[:end] for end in range(len(key))), key + b"\0"]:
        with pytest.raises((MalformedRecord, UnknownRecord)):
            decode_record(damaged, value)
    if value is not None:
        for damaged in [*(value[:end] for end in range(len(value))), value + b"\0"]:
            with pytest.raises((MalformedRecord, UnknownRecord)):
                decode_record(key, damaged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"value"),
        (b"\0\2\xff\xff", None),  # no group id
        (b"\0\2\xff\xfe", None),  # a length below null's
        (b"\0\2\0\1\xff", None),  # not UTF-8
        (
            group_key("g"),
            b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff" + bytes(8) + b"\x7f\xff\xff\xff",
        ),  # 2^31-1 members
        (
            group_key("g"),
            b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff" + bytes(8) + b"\xff\xff\xff\xff",
        ),  # null members
        (offset_key("g", "t", 0), b"\0\4" + bytes(12) + b"\1" + bytes(8) + b"\1\0\x0f" + bytes(15)),
        (
            offset_key("g", "t", 0),
            b"\0\4" + bytes(12) + b"\1" + bytes(8) + b"\2\1\0\0\0",
        ),  # tags out of order
        (offset_key("g", "t", 0), b"\0\4" + bytes(12) + b"\xff\xff\xff\xff\xff\xff"),  # a varint too long
    ],
)
def test_what_is_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        decode_record(key, value)


def test_tagged_fields_of_later_versions_are_passed_over() -> None:
    value = b"\0\4" + bytes(8) + b"\xff\xff\xff\xff\1" + bytes(8) + b"\2\0\x10" + ORDERS + b"\7\2hi"
    assert decode_record(offset_key("g", "t", 0), value) == OffsetRecord(
        "g", "t", 0, CommittedOffset(0, -1, "", 0, topic_id=ORDERS)
    )


def test_a_text_that_does_not_fit_is_said_before_anything_is_written() -> None:
    assert decode_record(group_key("g" * MAX_TEXT_BYTES), None) == GroupRecord("g" * MAX_TEXT_BYTES, None)
    with pytest.raises(TooLong):
        group_key("g" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(TooLong):
        offset_key("é" * 20_000, "t", 0)
    with pytest.raises(TooLong):
        offset_value(CommittedOffset(0, -1, "m" * 40_000, 0, 5))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOPIC_IDS = st.one_of(st.just(NO_TOPIC_ID), st.binary(min_size=16, max_size=16))
PLAIN = st.builds(CommittedOffset, INT64, INT32, TEXTS, INT64, st.just(-1), TOPIC_IDS)
EXPIRING = st.builds(
    CommittedOffset, INT64, st.just(-1), TEXTS, INT64, INT64.filter(lambda time: time != -1),
    st.just(NO_TOPIC_ID),
)  # fmt: skip
MEMBERS = st.builds(
    MemberMetadata, TEXTS, st.none() | TEXTS, TEXTS, TEXTS,
    INT32.filter(lambda timeout: timeout != -1), INT32, st.binary(max_size=40), st.binary(max_size=40),
)  # fmt: skip
GROUPS = st.builds(
    GroupMetadata, TEXTS, INT32, st.none() | TEXTS, st.none() | TEXTS, INT64,
    st.lists(MEMBERS, max_size=3).map(tuple),
)  # fmt: skip
RECORDS = st.one_of(
    st.builds(OffsetRecord, TEXTS, TEXTS, INT32, st.none() | PLAIN | EXPIRING),
    st.builds(GroupRecord, TEXTS, st.none() | GROUPS),
)


@given(RECORDS)
def test_what_is_written_is_read(record: OffsetRecord | GroupRecord) -> None:
    assert decode_record(*encoded(record)) == record


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused(key: bytes | None, value: bytes | None) -> None:
    try:
        decode_record(key, value)
    except (MalformedRecord, UnknownRecord):
        pass


@given(RECORDS, st.data())
def test_a_damaged_record_is_a_record_or_refused(
    record: OffsetRecord | GroupRecord, data: st.DataObject
) -> None:
    key, value = encoded(record)
    for damaged in (key, value or b""):
        position = data.draw(st.integers(0, max(0, len(damaged) - 1)))
        byte = data.draw(st.integers(0, 255))
        changed = damaged[:position] + bytes([byte]) + damaged[position + 1 :]
        try:
            decode_record(changed if damaged is key else key, value if damaged is key else changed)
        except (MalformedRecord, UnknownRecord):
            pass
