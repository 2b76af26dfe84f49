"""The catalog's values about leadership: what is read back, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.leadership.records import (
    MAX_CHANGES,
    MAX_EPOCH,
    MAX_FEATURES,
    MAX_FEATURES_BYTES,
    MAX_GATEWAY_BYTES,
    MAX_GATEWAY_ID,
    MAX_LEVEL,
    MAX_LISTENERS,
    MAX_NAME_LENGTH,
    MAX_SMALL_BYTES,
    Address,
    AliveRecord,
    BadRecord,
    FinalizedFeatures,
    GatewayRecord,
    pack_alive,
    pack_features,
    pack_gateway,
    pack_preferred,
    pack_slot,
    slot_number,
    slot_text,
    unpack_alive,
    unpack_features,
    unpack_gateway,
    unpack_preferred,
    unpack_slot,
)
from gateway.leadership.slots import SLOTS
from gateway.leadership.table import Leader

LIFE = "0123456789ABCDEF"
READERS = (unpack_slot, unpack_preferred, unpack_alive, unpack_gateway, unpack_features)

GATEWAY_IDS = st.integers(1, MAX_GATEWAY_ID)
EPOCHS = st.integers(0, MAX_EPOCH)
LIVES = st.integers(0, 2**64 - 1).map(lambda number: f"{number:016X}")
NAMES = st.text(max_size=40).filter(str.isprintable)
LEVELS = st.tuples(st.integers(0, 2**15 - 1), st.integers(0, 2**15 - 1)).map(lambda two: (min(two), max(two)))


@given(st.builds(Leader, GATEWAY_IDS, LIVES, EPOCHS))
def test_a_slot_is_read_back(leader: Leader) -> None:
    assert unpack_slot(pack_slot(leader)) == leader


@given(GATEWAY_IDS)
def test_a_preferred_leader_is_read_back(gateway: int) -> None:
    assert unpack_preferred(pack_preferred(gateway)) == gateway


@given(st.builds(AliveRecord, LIVES, st.booleans()))
def test_a_life_is_read_back(alive: AliveRecord) -> None:
    assert unpack_alive(pack_alive(alive)) == alive


@given(
    st.builds(
        GatewayRecord,
        NAMES,
        NAMES,
        st.dictionaries(NAMES, st.builds(Address, NAMES.filter(bool), st.integers(1, 65535)), max_size=4),
        st.dictionaries(NAMES, LEVELS, max_size=4),
        NAMES,
        st.just("") | LIVES,
    )
)
def test_a_gateway_is_read_back(gateway: GatewayRecord) -> None:
    assert unpack_gateway(pack_gateway(gateway)) == gateway


@given(
    st.builds(
        FinalizedFeatures,
        st.integers(0, MAX_CHANGES),
        st.dictionaries(NAMES, st.integers(0, MAX_LEVEL), max_size=4),
        NAMES,
        st.dictionaries(NAMES.map("later.{}".format), st.none() | st.integers() | NAMES, max_size=2),
    )
)
def test_levels_are_read_back_with_what_a_later_release_adds(finalized: FinalizedFeatures) -> None:
    assert unpack_features(pack_features(finalized)) == finalized


def test_the_bytes_stay_as_they_are() -> None:
    """Other releases read them."""
    assert pack_slot(Leader(3, LIFE, 57)) == b'{"v":1,"gateway":3,"life":"0123456789ABCDEF","epoch":57}'
    assert pack_preferred(3) == b'{"v":1,"gateway":3}'
    assert pack_alive(AliveRecord(LIFE, leaving=True)) == b'{"v":1,"life":"0123456789ABCDEF","leaving":true}'
    record = GatewayRecord("g-1", "a", {"PLAINTEXT": Address("h", 9092)}, {"slots": (1, 2)}, "0.1")
    assert pack_gateway(record) == (
        b'{"v":1,"name":"g-1","rack":"a","listeners":{"PLAINTEXT":["h",9092]},"features":{"slots":[1,2]},'
        b'"release":"0.1"}'
    )
    assert pack_gateway(record._replace(life=LIFE)).endswith(b',"life":"0123456789ABCDEF"}')
    assert pack_features(FinalizedFeatures(3, {"dafka.preferred.leaders": 1}, "0.2", {"since": []})) == (
        b'{"v":1,"epoch":3,"levels":{"dafka.preferred.leaders":1},"release":"0.2","since":[]}'
    )


def test_fields_that_a_later_release_adds_are_passed_over() -> None:
    value = b'{"v":1,"gateway":3,"life":"0123456789ABCDEF","epoch":57,"since":[1,{}]}'
    assert unpack_slot(value) == Leader(3, LIFE, 57)


@pytest.mark.parametrize("read", READERS)
def test_a_later_version_is_refused_by_name(read: Callable[[bytes], object]) -> None:
    with pytest.raises(BadRecord, match="a newer release has written it, in version 2: upgrade this gateway"):
        read(b'{"v":2,"anything":"else"}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@pytest.mark.parametrize("read", READERS)
@given(value=st.binary(max_size=200) | JSON.map(lambda told: json.dumps(told).encode()))
def test_whatever_else_is_there_is_refused_and_nothing_worse(
    read: Callable[[bytes], object], value: bytes
) -> None:
    with pytest.raises(BadRecord):
        read(value)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[" * MAX_SMALL_BYTES,
        b"[" * MAX_GATEWAY_BYTES,
        b"1" * MAX_SMALL_BYTES,
        b"9" * MAX_GATEWAY_BYTES,
        b'{"v":true}',
        b'{"v":1.0}',
        b'{"v":"1"}',
        b'{"v":0}',
        b'{"v":-1}',
        b"[1]",
        b"null",
        b"\xff\xfe",
        b'{"v":1',
    ],
)
def test_what_is_no_value_is_refused(read: Callable[[bytes], object], value: bytes) -> None:
    with pytest.raises(BadRecord):
        read(value)


GOOD_SLOT: dict[str, Any] = {"v": 1, "gateway": 3, "life": LIFE, "epoch": 57}
GOOD_GATEWAY: dict[str, Any] = {
    "v": 1,
    "name": "g-1",
    "rack": "",
    "listeners": {"PLAINTEXT": ["h", 9092]},
    "features": {"slots": [1, 2]},
    "release": "0.1",
}


def changed(good: dict[str, Any], change: dict[str, Any]) -> bytes:
    return json.dumps(good | change).encode()


@pytest.mark.parametrize(
    "change",
    [
        {"gateway": 0},
        {"gateway": MAX_GATEWAY_ID + 1},
        {"gateway": True},
        {"gateway": 3.0},
        {"gateway": "3"},
        {"gateway": None},
        {"epoch": -1},
        {"epoch": MAX_EPOCH + 1},
        {"epoch": 10**300},
        {"life": LIFE.lower()},
        {"life": LIFE + "0"},
        {"life": LIFE[1:]},
        {"life": LIFE + "\n"},
        {"life": 7},
        {"more": "x" * MAX_SMALL_BYTES},
    ],
)
def test_what_cannot_be_true_of_a_slot_is_refused(change: dict[str, Any]) -> None:
    assert unpack_slot(changed(GOOD_SLOT, {})) == Leader(3, LIFE, 57)
    with pytest.raises(BadRecord):
        unpack_slot(changed(GOOD_SLOT, change))


@pytest.mark.parametrize("missing", ["gateway", "life", "epoch"])
def test_half_a_leader_is_refused(missing: str) -> None:
    half = {name: value for name, value in GOOD_SLOT.items() if name != missing}
    with pytest.raises(BadRecord, match=f"{missing} is None"):
        unpack_slot(json.dumps(half).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"listeners": {}} | {"name": None},
        {"name": "x" * (MAX_NAME_LENGTH + 1)},
        {"rack": "a\nb"},
        {"rack": "\ud800"},
        {"release": 1},
        {"listeners": [["h", 9092]]},
        {"listeners": {"P": ["h", 0]}},
        {"listeners": {"P": ["h", 65536]}},
        {"listeners": {"P": ["h", True]}},
        {"listeners": {"P": ["", 9092]}},
        {"listeners": {"P": ["h"]}},
        {"listeners": {"P": ["h", 1, 2]}},
        {"listeners": {"P": "h1"}},
        {"listeners": {"P\r": ["h", 9092]}},
        {"listeners": {"P": ["h" * (MAX_NAME_LENGTH + 1), 9092]}},
        {"listeners": {str(number): ["h", 1] for number in range(MAX_LISTENERS + 1)}},
        {"features": {"f": [2, 1]}},
        {"features": {"f": [-1, 1]}},
        {"features": {"f": [0, 2**15]}},
        {"features": {"f": [0, False]}},
        {"features": {str(number): [0, 1] for number in range(MAX_FEATURES + 1)}},
        {"life": LIFE.lower()},
        {"life": None},
        {"more": "x" * MAX_GATEWAY_BYTES},
    ],
)
def test_what_cannot_be_true_of_a_gateway_is_refused(change: dict[str, Any]) -> None:
    assert unpack_gateway(changed(GOOD_GATEWAY, {})).listeners == {"PLAINTEXT": Address("h", 9092)}
    with pytest.raises(BadRecord):
        unpack_gateway(changed(GOOD_GATEWAY, change))


GOOD_LEVELS: dict[str, Any] = {"v": 1, "epoch": 3, "levels": {"f": 1}, "release": "0.1"}


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"epoch": MAX_CHANGES + 1},
        {"epoch": True},
        {"release": None},
        {"levels": None},
        {"levels": [["f", 1]]},
        {"levels": {"f": -1}},
        {"levels": {"f": MAX_LEVEL + 1}},
        {"levels": {"f": True}},
        {"levels": {"f": "1"}},
        {"levels": {"f\n": 1}},
        {"levels": {"f" * (MAX_NAME_LENGTH + 1): 1}},
        {"levels": {str(number): 1 for number in range(MAX_FEATURES + 1)}},
        {"more": "x" * MAX_FEATURES_BYTES},
    ],
)
def test_what_cannot_be_true_of_levels_is_refused(change: dict[str, Any]) -> None:
    assert unpack_features(changed(GOOD_LEVELS, {})) == FinalizedFeatures(3, {"f": 1}, "0.1")
    with pytest.raises(BadRecord):
        unpack_features(changed(GOOD_LEVELS, change))


def test_a_gateway_that_nobody_could_read_is_not_written() -> None:
    listeners = {f"{number:0200}": Address("h" * 200, 1) for number in range(MAX_LISTENERS)}
    with pytest.raises(BadRecord, match="port of"):
        pack_gateway(GatewayRecord("g", "", {"P": Address("h", 0)}, {}, ""))
    assert unpack_gateway(pack_gateway(GatewayRecord("g", "", listeners, {}, ""))).listeners == listeners
    with pytest.raises(BadRecord, match="more than 16384"):
        pack_gateway(GatewayRecord("g", "", {}, {f"{one:0255}": (0, 1) for one in range(MAX_FEATURES)}, ""))


def test_a_message_about_a_value_is_short_and_on_one_line() -> None:
    with pytest.raises(BadRecord) as refused:
        unpack_slot(changed(GOOD_SLOT, {"life": "\n" * 200}))
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("slot", [0, 7, 1023])
def test_keys_are_in_the_order_of_slots(slot: int) -> None:
    assert slot_number(slot_text(slot)) == slot
    texts = [slot_text(one) for one in range(SLOTS)]
    assert texts == sorted(texts)


@pytest.mark.parametrize(
    "text", ["", "1", "00001", "1024", "9999", "-001", " 001", "001 ", "00a1", "٠٠٠١", "0_01"]
)
def test_what_names_no_slot_is_refused(text: str) -> None:
    with pytest.raises(BadRecord, match="names no slot"):
        slot_number(text)
