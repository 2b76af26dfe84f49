"""What each kind of key demands: the table by prefix, and transactions that lack one compare of theirs."""

from __future__ import annotations

import pytest

from gateway.catalog import fence_rules, keys
from gateway.catalog.fence_rules import DEMANDS, Demand, Unfenced, check_fenced
from gateway.catalog.interface import Compare, Entry

TOPIC, OTHER = bytes(range(16)), bytes(16)
LOG = keys.log_name(TOPIC, 3)
RECORD, RECORD_OF_OTHER = keys.partition_key(TOPIC, 3), keys.partition_key(OTHER, 3)
NAME, NAME_OF_OTHER = keys.topic_key("orders"), keys.topic_key("other")
TOMBSTONE = keys.tombstone_key(TOPIC)

NOTE = keys.pack({"members": ["S"], "log": LOG})
OLDER_NOTE = keys.pack({"members": ["S"]})
"""Of a version that did not say whose it is."""

THERE = {NAME: keys.pack({"id": TOPIC.hex()}), NAME_OF_OTHER: keys.pack({"id": OTHER.hex()})}

OWN = {
    keys.CLUSTER: keys.CLUSTER,
    keys.STORES: f"{keys.STORES}1000",
    keys.STORE_LIVES: keys.store_life_key("A"),
    keys.TOPICS: NAME,
    keys.TOMBSTONES: TOMBSTONE,
    keys.REPLACING: keys.replacing_key("A"),
    keys.BROKER_CONFIGS: keys.broker_configs_key(1),
    keys.PRODUCER_IDS: keys.PRODUCER_IDS,
    keys.LEADER_EPOCH: keys.LEADER_EPOCH,
    keys.LEFT_OVER: keys.left_over_key("A"),
    keys.LINEAGE: keys.LINEAGE,
    keys.LIVES: keys.LIVES + "L",
    keys.LIVES_BEFORE: keys.LIVES_BEFORE,
    keys.SLOTS: f"{keys.SLOTS}0007",
    keys.ALIVE: f"{keys.ALIVE}1",
    keys.DRAINING: f"{keys.DRAINING}1",
    keys.LEAVING: f"{keys.LEAVING}1",
    keys.MISSED: f"{keys.MISSED}1/2",
    keys.STANDBYS: f"{keys.STANDBYS}1/L",
    keys.GATEWAYS: keys.gateway_key(1),
    keys.PREFERRED: keys.preferred_key(TOPIC, 3),
    keys.FEATURES: keys.FEATURES,
    keys.REGISTERED: keys.REGISTERED,
    keys.ACLS: keys.ACLS + "0" * 32,
    keys.QUOTAS: f"{keys.QUOTAS}D",
    keys.SCRAM: keys.scram_key("alice"),
    keys.SCRAM_SECRET: keys.SCRAM_SECRET,
    keys.TOKENS: keys.token_key("A" * 22),
    keys.NATIVE: keys.native_key(bytes(16), "A1"),
}
OF_PARTITION = {
    keys.PARTITIONS: RECORD,
    keys.SEGMENTS: keys.segment_key(TOPIC, 3, 10, "A"),
    keys.PRODUCERS: keys.producers_key(TOPIC, 3),
}
NOTES = {
    keys.CLOSING: keys.closing_key("A"),
    keys.SEGMENT_TOMBSTONES: keys.segment_tombstone_key("A"),
    keys.COMPACTING: keys.compacting_key("A"),
}


def check(
    key: str, compared: dict[str, int], *, value: bytes | None = b"{}", there: dict[str, bytes] | None = None
) -> None:
    """Put the key, or delete it (None)."""
    entries = THERE | (there or {})

    def read(key: str) -> Entry | None:
        return Entry(key, entries[key], 5, 5) if key in entries else None

    compares = [Compare(*one) for one in compared.items()]
    check_fenced(compares, {} if value is None else {key: value}, [key] if value is None else [], read)


def test_every_kind_of_key_has_a_demand() -> None:
    kinds = {
        value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)
    }  # fmt: skip
    assert kinds == DEMANDS.keys() == {*OWN, *OF_PARTITION, *NOTES}
    with pytest.raises(Unfenced, match="nobody has said what a transaction that changes /new/x must compare"):
        check("/new/x", {"/new/x": 0})


@pytest.mark.parametrize("value", [b"{}", None], ids=["put", "deleted"])
@pytest.mark.parametrize(("kind", "key"), OWN.items())
def test_keys_that_are_compared_themselves(kind: str, key: str, value: bytes | None) -> None:
    assert DEMANDS[kind] is Demand.KEY
    check(key, {key: 7}, value=value)
    for others in ({}, {RECORD: 1, NAME_OF_OTHER: 5}, {key + "x": 7}):
        with pytest.raises(Unfenced, match="is changed and not compared"):
            check(key, others, value=value)


@pytest.mark.parametrize("value", [b"{}", None], ids=["put", "deleted"])
@pytest.mark.parametrize(("kind", "key"), OF_PARTITION.items())
def test_keys_of_a_partition(kind: str, key: str, value: bytes | None) -> None:
    assert DEMANDS[kind] is Demand.PARTITION
    check(key, {RECORD: 0, NAME: 5}, value=value)
    check(key, {RECORD: 7, NAME: 5, RECORD_OF_OTHER: 3, NAME_OF_OTHER: 5}, value=value)
    for others in ({}, {NAME: 5}, {RECORD_OF_OTHER: 1, NAME: 5}, {keys.partition_key(TOPIC, 4): 1, NAME: 5}):
        with pytest.raises(Unfenced, match="its partition's record is not compared"):
            check(key, {**others, f"{key}0": 7}, value=value)
    for others in ({}, {NAME_OF_OTHER: 5}):
        with pytest.raises(Unfenced, match="its topic's key is not compared"):
            check(key, {RECORD: 1, **others}, value=value)


@pytest.mark.parametrize(("kind", "key"), (OF_PARTITION | NOTES).items())
def test_what_a_deleted_topic_has_left_belongs_to_its_tombstone(kind: str, key: str) -> None:
    own = {key: 6} if DEMANDS[kind] is Demand.KEY_AND_LOG else {}
    check(key, {TOMBSTONE: 9, **own}, value=None, there={key: NOTE})
    check(key, {TOMBSTONE: 0, RECORD: 0, **own}, value=None, there={key: NOTE})
    check(key, {keys.topic_key("gone"): 5, RECORD: 7, **own}, value=None, there={key: NOTE})
    for others in ({TOMBSTONE: 0}, {keys.tombstone_key(OTHER): 9}):
        with pytest.raises(Unfenced):
            check(key, {**others, **own}, value=None, there={key: NOTE})


@pytest.mark.parametrize("value", [NOTE, None], ids=["put", "deleted"])
@pytest.mark.parametrize(("kind", "key"), NOTES.items())
def test_notes_belong_to_the_partition_of_their_log(kind: str, key: str, value: bytes | None) -> None:
    own = {key: 6} if kind == keys.COMPACTING else {}
    check(key, {RECORD: 7, NAME: 5, **own}, value=value, there={key: NOTE})
    for lacking in ({}, {NAME: 5}, {RECORD: 7}, {RECORD_OF_OTHER: 3, NAME_OF_OTHER: 5}):
        with pytest.raises(Unfenced):
            check(key, {**lacking, **own}, value=value, there={key: NOTE})


def test_a_compactions_note_is_compared_itself_too() -> None:
    key = NOTES[keys.COMPACTING]
    for value in (NOTE, None):
        with pytest.raises(Unfenced, match="is changed and not compared"):
            check(key, {RECORD: 7, NAME: 5}, value=value, there={key: NOTE})


@pytest.mark.parametrize("there", [{}, {NOTES[keys.CLOSING]: OLDER_NOTE}], ids=["nothing", "older note"])
def test_a_note_that_does_not_say_whose_it_is_is_compared_itself_or_with_its_partition(
    there: dict[str, bytes],
) -> None:
    key = NOTES[keys.CLOSING]
    check(key, {key: 4}, value=None, there=there)
    check(key, {RECORD: 7, NAME: 5}, value=None, there=there)
    with pytest.raises(Unfenced, match="neither it nor a partition is compared"):
        check(key, {NAME: 5}, value=None, there=there)


@pytest.mark.parametrize("key", [*OF_PARTITION.values(), *NOTES.values(), *OWN.values(), "/new/x"])
def test_a_catalog_that_is_being_made_has_no_leaders(key: str) -> None:
    check(key, {keys.CLUSTER: 0})
    if key != keys.CLUSTER:
        with pytest.raises(Unfenced):
            check(key, {keys.CLUSTER: 1})


def test_each_partition_of_a_transaction_is_looked_at() -> None:
    records = [keys.partition_key(TOPIC, index) for index in range(3)]
    compares = [Compare(NAME, 5), *(Compare(key, 1) for key in records)]
    entries = {key: Entry(key, value, 5, 5) for key, value in THERE.items()}
    puts = dict.fromkeys(records, b"{}")
    fence_rules.check_fenced(compares, puts, [], entries.get)
    for lacking in range(1, 4):
        with pytest.raises(Unfenced, match=records[lacking - 1]):
            check_fenced(compares[:lacking] + compares[lacking + 1 :], puts, [], entries.get)
