"""What an audit line tells of a request and of its answer: names and counts, and never a secret. Pure.

Rule: of a request only fields whose names stand here are told, so a field that a later version brings is not
told until somebody has looked at it. Values of configs may be passwords: their keys are told, they are not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from wireproto.kafka.errors import ErrorCode

MAX_CHARS: Final = 255
"""Characters of a name that are told."""

MAX_ENTRIES: Final = 100
"""Entries of a request that are told, over all its lists."""

MAX_TOLD_BYTES: Final = 4096
"""Bytes of what is told of a request, as JSON, before it is cut: "..." stands for a text, and "... 7 more"
for entries, that are left out. A character may be twelve of them."""

MAX_DEPTH: Final = 6
"""How far lists are in lists in any request."""

TOLD: Final = frozenset((
    # topics, partitions and offsets
    "assignments", "broker_ids", "count", "name", "num_partitions", "offset", "partition_index",
    "partition_indexes", "partitions", "replicas", "replication_factor", "topic", "topic_id",
    "topic_names", "topic_partitions", "topics", "validate_only",
    # configs and features
    "allow_downgrade", "config_operation", "configs", "feature", "feature_updates", "max_version_level",
    "resource_name", "resource_type", "resources", "upgrade_type",
    # groups and transactions
    "coordinator_epoch", "group_id", "groups_names", "markers", "producer_epoch", "producer_id",
    "transaction_result",
    # ACLs, users, quotas
    "creations", "deletions", "entity", "entity_name", "entity_type", "entries", "filters", "host",
    "host_filter", "iterations", "key", "mechanism", "operation", "ops", "pattern_type",
    "pattern_type_filter", "permission_type", "principal", "principal_filter", "remove",
    "resource_name_filter", "resource_pattern_type", "resource_type_filter", "upsertions",
    # delegation tokens
    "expiry_time_period_ms", "max_lifetime_ms", "owner_principal_name", "owner_principal_type", "owners",
    "principal_name", "principal_type", "renew_period_ms", "renewers",
    # gateways and stores
    "broker_id", "dirs", "election_type", "path",
))  # fmt: skip
"""The fields of requests that are told, by kafka-python's names."""


def told(body: Any) -> Any:
    """Of a request's body (kafka-python's object) what may be told of it, as JSON takes it."""
    return _Telling().of(body.to_dict(json=False), 0)


def outcome(answer: Any) -> dict[str, int]:
    """How often an answer (kafka-python's object) has which error, by its name."""
    found: Counter[str] = Counter()
    _count(answer.to_dict(json=False), found, 0)
    return dict(sorted(found.items()))


class _Telling:
    def __init__(self) -> None:
        self._left = MAX_ENTRIES
        self._bytes = MAX_TOLD_BYTES

    def of(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            if depth > MAX_DEPTH:
                return "..."
            return self._fields(value, depth)
        if isinstance(value, str):
            shown = value[:MAX_CHARS]
            return shown if self._has_room(shown) else "..."
        if isinstance(value, (bool, int, float)) or value is None:
            self._has_room(value)
            return value
        if isinstance(value, UUID):
            return self.of(str(value), depth)
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            return self._list(value, depth)
        return "..."

    def _has_room(self, value: str | float | None) -> bool:
        """Takes it. When there was none once, there is none for anything that comes later."""
        self._bytes -= len(json.dumps(value)) + 1
        if self._bytes < 0:
            self._bytes = 0
            return False
        return True

    def _fields(self, fields: Mapping[str, Any], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, one in fields.items():
            if name in TOLD and one is not None and one != []:
                self._has_room(name)
                shown[name] = self.of(one, depth + 1)
        return shown

    def _list(self, values: Sequence[Any], depth: int) -> list[Any]:
        shown: list[Any] = []
        for value in values:
            if not self._left or not self._bytes:
                shown.append(f"... {len(values) - len(shown)} more")
                break
            self._left -= 1
            shown.append(self.of(value, depth + 1))
        return shown


def _count(value: Any, found: Counter[str], depth: int) -> None:
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name == "error_code":
                found[_name(one)] += 1
            elif depth < MAX_DEPTH:
                _count(one, found, depth + 1)
    elif isinstance(value, list) and depth < MAX_DEPTH:
        for one in value:
            _count(one, found, depth + 1)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
