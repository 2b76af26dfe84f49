"""Whether an entry of the catalog that comes from outside, a store or a file, is what its key says. Pure.

A catalog believes what it has written itself. What is read back from stores or from a file is looked at here
before anything is made of it, so that what is damaged is named and refused, and not met in a start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.catalog import keys
from gateway.catalog.interface import MAX_VALUE_BYTES
from gateway.cluster import quotas
from gateway.cluster.acls import check as check_acl
from gateway.cluster.delegation_tokens import unpack as unpack_token
from gateway.cluster.lineage import Life, Lineage
from gateway.cluster.native_addresses import KnownAddress
from gateway.cluster.scram_users import SECRET_BYTES
from gateway.cluster.scram_users import unpack as unpack_user
from gateway.leadership.records import unpack_features
from gateway.log.epochs import LeaderEpochs
from gateway.log.segment import Segment

MAX_NUMBER: Final = (1 << 63) - 1
"""The highest offset, sequence, epoch or id that an entry may have: Kafka's numbers end there."""

MAX_EPOCH: Final = (1 << 30) - 1
"""The highest leader epoch: Kafka's end at twice that, and there is room to go on from it."""

SHOWN_CHARACTERS: Final = 200
"""How much of what is wrong with an entry is shown."""

_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}")
_PARTITION: Final = re.compile(r"[0-9a-f]{32}/[0-9]{6,10}")


def unreadable(entries: Mapping[str, bytes]) -> dict[str, str]:
    """Key -> what is wrong with it or its value, of those that cannot be read. Keys of no known kind are left
    alone.
    """
    found = {key: _fault(key, value) for key, value in entries.items()}
    return {key: fault for key, fault in found.items() if fault}


def check_details(details: Any) -> None:
    """Whether a segment's announcement tells what a catalog is made of. Raises ValueError."""
    record = _record(details)
    _need(_TOPIC_ID.fullmatch(_text(record, "topic_id")), "topic_id")
    _need(_number(record, "partitions") > _number(record, "partition"), "partitions")
    for name in ("replication_factor", "log_start", "opened_ms", "producer_id_floor"):
        _number(record, name)
    _texts(record.get("configs"), "configs")
    _epochs(record)
    if "compaction" in record:
        _text(record, "compaction")
        replaces = record.get("replaces")
        _need(isinstance(replaces, list) and all(isinstance(one, str) for one in replaces), "replaces")


def _fault(key: str, value: bytes) -> str:
    """What is wrong with an entry, "" for nothing."""
    if len(value) > MAX_VALUE_BYTES:
        return f"it has {len(value)} bytes, more than {MAX_VALUE_BYTES}"
    for prefix, check in _CHECKS.items():
        if key.startswith(prefix):
            try:
                check(key.removeprefix(prefix), value)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                return (str(error) or type(error).__name__)[:SHOWN_CHARACTERS]
    return ""


# the kinds of entries -------------------------------------------------------------------------------------


def _topic(name: str, value: bytes) -> None:
    record = _record(keys.unpack(value))
    _need(name, "name")
    _need(_TOPIC_ID.fullmatch(_text(record, "id")), "id")
    _need(_number(record, "partitions") > 0, "partitions")
    _number(record, "replication_factor")
    _texts(record.get("configs"), "configs")


def _partition(name: str, value: bytes) -> None:
    record = _record(keys.unpack(value))
    _need(_PARTITION.fullmatch(name), "key")
    _need(_number(record, "next_epoch") <= MAX_EPOCH, "next_epoch")
    _number(record, "log_start")
    _need(_is_number(record.get("end", 0)), "end")
    _epochs(record)


def _producers(name: str, _value: bytes) -> None:
    # A snapshot that cannot be read makes its partition wait, with the reason, and no other one.
    _need(_PARTITION.fullmatch(name), "key")


def _producer_ids(_name: str, value: bytes) -> None:
    _need(_is_number(keys.unpack(value)), "value")


def _leader_epoch(_name: str, value: bytes) -> None:
    _need(_is_epoch(keys.unpack(value)), "value")


def _store(name: str, value: bytes) -> None:
    record = _record(keys.unpack(value))
    _need(name.isdecimal() and name.isascii(), "key")
    for field in ("incarnation", "name"):
        _text(record, field)
    _need(isinstance(record.get("state", ""), str), "state")


def _configs(_name: str, value: bytes) -> None:
    _texts(keys.unpack(value), "value")


def _tombstone(name: str, value: bytes) -> None:
    _need(_TOPIC_ID.fullmatch(name), "key")
    _text(_record(keys.unpack(value)), "name")


def _segment(name: str, value: bytes) -> None:
    segment = Segment.unpack(value)
    _need(_PARTITION.fullmatch(name.rpartition("/")[0]), "key")
    _need(_is_epoch(segment.epoch), "epoch")
    numbers = (segment.start_offset, segment.w, segment.opened_ms)
    _need(all(map(_is_number, numbers)), "start, w or opened_ms")
    ends = (segment.end_offset, segment.last_sequence)
    _need(ends == (None, None) or all(isinstance(one, int) for one in ends), "end or last_sequence")
    _need(all(isinstance(one, str) for one in (segment.address, *segment.members)), "address or members")


def _native(name: str, value: bytes) -> None:
    known = KnownAddress.unpack(value)
    topic_id, address = keys.native_address_of(keys.NATIVE + name)
    _need(keys.native_key(topic_id, address) == keys.NATIVE + name and address, "key")
    numbers = (known.partition, known.producer_id, known.next)
    _need(all(map(_is_number, numbers)), "partition, producer_id or next")


def _quotas(name: str, value: bytes) -> None:
    _need(quotas.key_of(quotas.unpack(value).entity) == keys.QUOTAS + name, "key")


def _lineage(_name: str, value: bytes) -> None:
    lineage = Lineage.unpack(value)
    names = (lineage.name, lineage.parent, *lineage.ancestors)
    _need(lineage.name and all(isinstance(one, str) for one in names), "lineage, parent or ancestors")
    _need(_is_number(lineage.parent_sequence), "parent_sequence")


def _life(_name: str, value: bytes) -> None:
    life = Life.unpack(value)
    _need(isinstance(life.lineage, str), "lineage")
    _need(_is_number(life.first) and (life.last is None or _is_number(life.last)), "first or last")


def _lives_before(_name: str, value: bytes) -> None:
    _need(all(map(_is_number, _record(keys.unpack(value)).values())), "value")


def _features(_name: str, value: bytes) -> None:
    unpack_features(value)


def _acl(name: str, value: bytes) -> None:
    check_acl(keys.ACLS + name, value)


def _user(name: str, value: bytes) -> None:
    _need(keys.scram_key(keys.user_of_scram(name)) == keys.SCRAM + name, "key")
    unpack_user(value)


def _scram_secret(name: str, value: bytes) -> None:
    _need(not name, "key")
    _need(len(value) == SECRET_BYTES, "value")


def _token(name: str, value: bytes) -> None:
    unpack_token(name, value)


_CHECKS: Final[Mapping[str, Callable[[str, bytes], None]]] = {
    keys.TOPICS: _topic,
    keys.PARTITIONS: _partition,
    keys.PRODUCERS: _producers,
    keys.PRODUCER_IDS: _producer_ids,
    keys.LEADER_EPOCH: _leader_epoch,
    keys.STORES: _store,
    keys.BROKER_CONFIGS: _configs,
    keys.TOMBSTONES: _tombstone,
    keys.SEGMENTS: _segment,
    keys.LINEAGE: _lineage,
    keys.LIVES: _life,
    keys.LIVES_BEFORE: _lives_before,
    keys.FEATURES: _features,
    keys.ACLS: _acl,
    keys.SCRAM: _user,
    keys.SCRAM_SECRET: _scram_secret,
    keys.QUOTAS: _quotas,
    keys.TOKENS: _token,
    keys.NATIVE: _native,
}


# parts of them --------------------------------------------------------------------------------------------


def _need(truth: object, what: str) -> None:
    if not truth:
        raise ValueError(f"its {what} is missing or wrong")


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_NUMBER


def _is_epoch(value: Any) -> bool:
    return _is_number(value) and value <= MAX_EPOCH


def _record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("it is no record")
    return value


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    _need(_is_number(value), name)
    return int(value or 0)


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise TypeError(f"its {name} is missing or wrong")
    return value


def _texts(value: Any, what: str) -> None:
    _need(isinstance(value, dict) and all(isinstance(one, str) for one in value.values()), what)


def _epochs(record: Mapping[str, Any]) -> None:
    pairs = record.get("epochs")
    _need(isinstance(pairs, list) and all(_is_pair(one) for one in pairs), "epochs")
    LeaderEpochs.from_list(pairs or ())


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
