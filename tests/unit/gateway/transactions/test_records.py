"""The records of `__transaction_state` are Kafka's, byte for byte, and nothing else is read as one.

`tests/data/transactions/kafka-4.3.1-records.json` is what Apache Kafka 4.3.1's own classes wrote, by the name
of the case and the version of the value.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.journal.fields import MAX_TEXT_BYTES, MalformedRecord, TooLong, UnknownRecord
from gateway.transactions.metadata import (
    LAST_EPOCH,
    STORED_STATES,
    TransactionMetadata,
    TransactionState,
)
from gateway.transactions.records import (
    TransactionRecord,
    decode_key,
    decode_record,
    transaction_key,
    transaction_value,
)

KAFKA: dict[str, str] = json.loads(
    (Path(__file__).parents[3] / "data" / "transactions" / "kafka-4.3.1-records.json").read_text("utf-8")
)
T = 1_795_301_596_000
TIMEOUT_MS = 60_000
OPEN = frozenset((("orders", 0), ("orders", 1), ("orders", 5), ("__consumer_offsets", 17)))
ORDERS = frozenset((("orders", 0),))

EMPTY = TransactionMetadata(7, 0, TIMEOUT_MS, TransactionState.EMPTY, T)
METADATA = {
    "empty": EMPTY,
    "ongoing": TransactionMetadata(7, 3, TIMEOUT_MS, TransactionState.ONGOING, T + 1, OPEN, T),
    "complete": TransactionMetadata(
        7, 3, TIMEOUT_MS, TransactionState.COMPLETE_COMMIT, T + 2, frozenset(), T
    ),
    "prepared": TransactionMetadata(
        7, LAST_EPOCH, TIMEOUT_MS, TransactionState.PREPARE_COMMIT, T + 1, ORDERS, T, 7, 1000,
        client_version=2,
    ),
    "rotated": TransactionMetadata(
        1000, 0, TIMEOUT_MS, TransactionState.COMPLETE_COMMIT, T + 3, frozenset(), T, 7,
        next_producer_epoch=5, client_version=2,
    ),
}  # fmt: skip
KEY = transaction_key("my-txn")
CASES = [case for case in KAFKA if not case.startswith("key")]


@pytest.mark.parametrize(("case", "name"), [("key", "my-txn"), ("key-wide", "zahl-ä")])
def test_keys_are_kafkas(case: str, name: str) -> None:
    assert transaction_key(name).hex() == KAFKA[case]
    assert decode_key(bytes.fromhex(KAFKA[case])) == name


@pytest.mark.parametrize("case", CASES)
def test_values_are_kafkas(case: str) -> None:
    name, version = case.split("-")
    metadata = METADATA[name]
    assert transaction_value(metadata, int(version)).hex() == KAFKA[case]
    read = decode_record(KEY, bytes.fromhex(KAFKA[case]))
    assert read == TransactionRecord("my-txn", metadata)


def test_the_flexible_version_is_written() -> None:
    assert transaction_value(EMPTY).hex() == KAFKA["empty-1"]


def test_a_tombstone_forgets() -> None:
    assert decode_record(KEY, None) == TransactionRecord("my-txn", None)


def test_the_last_epoch_is_in_a_tag_that_kafka_passes_over() -> None:
    metadata = replace(EMPTY, producer_epoch=4, last_producer_epoch=3)
    value = transaction_value(metadata)
    # One tag: its number, 1000, as a varint; two bytes; the epoch.
    assert value.endswith(bytes.fromhex("01e80702") + (3).to_bytes(2))
    assert decode_record(KEY, value).metadata == metadata


def test_tags_that_are_not_known_are_passed_over() -> None:
    without = bytes.fromhex(KAFKA["empty-1"])[:-1]
    assert decode_record(KEY, without + bytes.fromhex("0129031a2b3c")).metadata == EMPTY


@pytest.mark.parametrize("version", [1, 2, 32767, -1])
def test_keys_of_other_versions_are_unknown(version: int) -> None:
    with pytest.raises(UnknownRecord):
        decode_record(version.to_bytes(2, signed=True) + KEY[2:], None)


@pytest.mark.parametrize("version", [2, 32767, -1])
def test_values_of_other_versions_are_unknown(version: int) -> None:
    value = version.to_bytes(2, signed=True) + transaction_value(EMPTY)[2:]
    with pytest.raises(UnknownRecord):
        decode_record(KEY, value)


_STATE_AT = 2 + 8 + 2 + 4


@pytest.mark.parametrize("state", [6, 7, 8, -1, 127])
def test_a_state_that_is_never_written_is_malformed(state: int) -> None:
    value = bytearray(transaction_value(EMPTY))
    value[_STATE_AT : _STATE_AT + 1] = state.to_bytes(1, signed=True)
    with pytest.raises(MalformedRecord):
        decode_record(KEY, bytes(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", None),
        (KEY + b"x", None),
        (b"\0\0\xff\xff", None),
        (b"\0\0\0\1\xff", None),
        (KEY, b""),
        # Counts that the bytes cannot hold:
        (KEY, transaction_value(METADATA["ongoing"])[:_STATE_AT + 1] + b"\xff\xff\xff\xff\x0f"),
        (KEY, transaction_value(METADATA["ongoing"], 0)[:_STATE_AT + 1] + b"\x7f\xff\xff\xff"),
        (KEY, transaction_value(METADATA["ongoing"], 0)[:_STATE_AT + 1] + b"\xff\xff\xff\xfe"),
        # A tag of another size than it has, and one after a greater one:
        (KEY, transaction_value(EMPTY)[:-1] + bytes.fromhex("01000107")),
        (KEY, transaction_value(EMPTY)[:-1] + bytes.fromhex("02020200010003000001")),
    ],
)  # fmt: skip
def test_malformed_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        decode_record(key, value)


@pytest.mark.parametrize("case", CASES)
def test_every_prefix_and_every_further_byte_is_refused(case: str) -> None:
    value = bytes.fromhex(KAFKA[case])
    for end in range(len(value)):
        with pytest.raises((MalformedRecord, UnknownRecord)):
            decode_record(KEY, value[:end])
    with pytest.raises(MalformedRecord):
        decode_record(KEY, value + b"\0")


def test_an_id_that_does_not_fit_is_refused() -> None:
    assert decode_key(transaction_key("i" * MAX_TEXT_BYTES)) == "i" * MAX_TEXT_BYTES
    with pytest.raises(TooLong):
        transaction_key("i" * (MAX_TEXT_BYTES + 1))


INT16 = st.integers(-1, 32767)
INT64 = st.integers(-1, 2**63 - 1)


@st.composite
def metadata_of_any_kind(draw: st.DrawFn) -> TransactionMetadata:
    state = draw(st.sampled_from(sorted(STORED_STATES)))
    topics = st.tuples(st.text(st.characters(codec="utf-8"), max_size=40), st.integers(-(2**31), 2**31 - 1))
    partitions = frozenset() if state is TransactionState.EMPTY else draw(st.frozensets(topics, max_size=8))
    return TransactionMetadata(
        draw(INT64), draw(INT16), draw(st.integers(0, 2**31 - 1)), state, draw(INT64), partitions,
        draw(INT64), draw(INT64), draw(INT64), draw(INT16), draw(INT16), draw(INT16),
    )  # fmt: skip


@given(st.text(st.characters(codec="utf-8"), max_size=100), metadata_of_any_kind())
def test_what_is_written_is_read(name: str, metadata: TransactionMetadata) -> None:
    record = decode_record(transaction_key(name), transaction_value(metadata))
    assert record == TransactionRecord(name, metadata)


@given(st.binary(max_size=120), st.binary(max_size=200))
def test_whatever_is_read_nothing_else_is_raised(key: bytes, value: bytes) -> None:
    for one, other in ((key, value), (KEY, value), (KEY, b"\0\1" + value), (KEY, b"\0\0" + value)):
        try:
            record = decode_record(one, other)
        except (MalformedRecord, UnknownRecord):
            continue
        assert record.metadata is not None
