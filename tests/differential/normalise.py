"""Turns a decoded answer into plain values in which what must differ between two servers is the same.

What is rewritten, and nothing else: the server's own node id, address and cluster id; topic ids; producer
ids and member ids that the server chose; wall-clock times; the order of lists whose order means nothing;
which partition of the groups' log is a group's. Record batches are read apart.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from tests.differential.batches import CONTROL, LOG_APPEND_TIME, Batch, whole_batches
from tests.differential.side import Exchange, Server

CLOCK_TOLERANCE_MS = 3_600_000
NODE_FIELDS = {"node_id", "broker_id", "leader_id", "controller_id"}
NODE_LISTS = {"replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas"}
# A version number of the server's own metadata, larger with every change it makes.
COUNTERS = {"finalized_features_epoch"}
TIME_FIELDS = {
    "log_append_time_ms",
    "timestamp",
    "last_timestamp",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "transaction_start_time_ms",
}
# Lists of structures are sorted by the first of these that they have; synonyms keep their precedence.
SORT_KEYS = (
    "name",
    "group_id",
    "group_instance_id",
    "member_id",
    "transactional_id",
    "topic",
    "topic_name",
    "topic_id",
    "resource_name",
    "api_key",
    "node_id",
    "broker_id",
    "key",
)
SORT_NUMBERS = ("partition_index", "index", "partition")
ORDERED_LISTS = {"synonyms", "record_errors"}
# Kafka gives these in the order of their ends, and clients sort them: here they come sorted.
BY_FIRST_OFFSET = "aborted_transactions"
# Lists of plain values that Kafka keeps in sets.
UNORDERED_LISTS = {"partitions", "unknown_state_filters", "mechanisms"}
# Which of its partitions a group's offsets lie in depends on how many there are.
GROUPS_LOG = "__consumer_offsets"


def normalise(exchange: Exchange, server: Server) -> Any:
    """The answer as comparable plain values."""
    if isinstance(exchange.answer, str | bytes):
        return exchange.answer
    return _Normaliser(server).struct(exchange.answer.to_dict(json=False), "")


def sent(exchange: Exchange, server: Server) -> bytes:
    """The request's bytes with this server's topic ids replaced: equal on both sides, or the case errs."""
    data = exchange.sent
    for name, topic_id in server.topic_ids.items():
        data = data.replace(topic_id.bytes, hashlib.md5(name.encode()).digest())
    for number, member_id in enumerate(server.member_ids):
        data = data.replace(member_id.encode(), str(number).zfill(len(member_id)).encode())
    return data


class _Normaliser:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._own = {address: name for address, name in {
            server.bootstrap: "own port", server.sasl: "own port for SASL"}.items() if address}  # fmt: skip
        self._names = {topic_id: name for name, topic_id in server.topic_ids.items()}
        self._strangers: dict[Any, str] = {}

    def struct(self, value: dict[str, Any], path: str) -> dict[str, Any]:
        out = {name: self.value(name, item, f"{path}.{name}") for name, item in value.items()}
        own = self._own.get(f"{value.get('host')}:{value.get('port')}")
        if own is not None:
            out["host"], out["port"] = "own host", own
        if value.get("topic") == GROUPS_LOG and all(isinstance(one, int) for one in value["partitions"]):
            out["partitions"] = f"{len(value['partitions'])} of them"
        return out

    def value(self, name: str, item: Any, path: str) -> Any:
        if isinstance(item, dict):
            return self.struct(item, path)
        if name == "records":
            return [batch_facts(one, self._server.producer_ids) for one in whole_batches(item)]
        if isinstance(item, list) and item and isinstance(item[0], dict):
            found = [self.struct(one, path) for one in item]
            if name == BY_FIRST_OFFSET:
                return sorted(found, key=itemgetter("first_offset"))
            return found if name in ORDERED_LISTS else sorted(found, key=_sort_key)
        if isinstance(item, list):
            plain = [self._scalar(name, one) for one in item]
            return sorted(plain) if name in UNORDERED_LISTS else plain
        return self._scalar(name, item)

    def _scalar(self, name: str, item: Any) -> Any:
        own = self._server
        if name in NODE_FIELDS | NODE_LISTS and item == own.node_id:
            return "own id"
        if name == "resource_name" and item == str(own.node_id):
            return "own id"
        if name == "cluster_id" and item == own.cluster_id:
            return "own cluster"
        if isinstance(item, str) and item in own.member_ids:
            return f"member {own.member_ids.index(item)}"
        if isinstance(item, uuid.UUID):
            known = self._names.get(item)
            return f"id of {known}" if known else self._stranger("topic id", item)
        if name == "producer_id" and item in own.producer_ids:
            return f"producer {own.producer_ids[item]}"
        if name == "producer_id" and item >= 0:
            return self._stranger("producer id", item)
        if name == "auth_bytes":
            return scram_facts(item)
        if name == "session_id" and item:
            return "a session"
        if name in COUNTERS and item >= 0:
            return "a counter"
        if name in TIME_FIELDS and is_now(item):
            return "now"
        return item

    def _stranger(self, what: str, item: Any) -> str:
        return self._strangers.setdefault(item, f"{what} {len(self._strangers)}")


def scram_facts(token: bytes) -> bytes:
    """What the server says by SCRAM, without what it makes up and what follows from that: its part of the
    nonce, its signature.
    """
    if token.startswith(b"v="):
        return b"v=..."
    return re.sub(rb"^(r=client)[^,]*", rb"\1...", token)


def _sort_key(item: dict[str, Any]) -> tuple[str, int, str]:
    number = next((item[key] for key in SORT_NUMBERS if key in item), 0)
    text = next((str(item[key]) for key in SORT_KEYS if item.get(key) is not None), "")
    return text, number, repr(item)


def is_now(milliseconds: Any) -> bool:
    return isinstance(milliseconds, int) and abs(milliseconds - time.time() * 1000) < CLOCK_TOLERANCE_MS


def batch_facts(stored: Batch, producer_ids: Mapping[int, int] = MappingProxyType({})) -> dict[str, Any]:
    """A batch's header fields, and its records as a hash of the bytes that travelled, a control batch's as
    these bytes. `producer_ids`: the numbers of the ids that the server chose.
    """
    facts = {name: item for name, item in vars(stored).items() if name != "raw"}
    changed: dict[str, Any] = {name: "now" for name in _times(stored.attributes) if is_now(facts[name])}
    if stored.producer_id in producer_ids:
        changed["producer_id"] = f"producer {producer_ids[stored.producer_id]}"
    if not stored.crc_is_right:
        changed["crc"] = f"WRONG: {stored.crc}"
    elif changed:
        changed["crc"] = "right"
    payload = stored.payload
    content = payload.hex() if stored.attributes & CONTROL else hashlib.sha256(payload).hexdigest()[:16]
    return facts | changed | {"payload": content}


def _times(attributes: int) -> tuple[str, ...]:
    """The header's times that are the server's own."""
    if attributes & CONTROL:
        return "base_timestamp", "max_timestamp"
    return ("max_timestamp",) if attributes & LOG_APPEND_TIME else ()
