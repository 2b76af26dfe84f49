"""Whom a quota is for, and how much it may say (KIP-546; `ClientQuotaControlManager`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""Pairs of a type and a name; no name: the default of this type, which is for all who have none of their
own."""

PRODUCED: Final = "producer_byte_rate"
FETCHED: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

_LONG: Final = 2**63 - 1
_INT: Final = 2**31 - 1

_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    PRODUCED: _LONG,
    FETCHED: _LONG,
    REQUESTS: None,
    MUTATIONS: None,
}
"""The most that a key may say, if it says whole numbers; None: any number above 0."""

_OF_IPS: Final[Mapping[str, int | None]] = {CONNECTIONS: _INT}

_FRACTION: Final = 1e-6
"""What Kafka takes for no fraction at all."""

MAX_NAME_BYTES: Final = 1_024
"""Longest name of an entity, in UTF-8: every gateway keeps all of them. Kafka has no limit of its own."""


class BadQuota(ValueError):
    """This is no quota. The message says why, in Kafka's words where it has some."""


_SHOWN: Final = 64
"""Characters of what a client sent that a message repeats."""


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def described(entity: Entity) -> str:
    """For messages."""
    shown = (
        f"{_cut(kind)}={'<default>' if name is None else _cut(name)}" for kind, name in sorted_pairs(entity)
    )
    return ", ".join(shown)


def sorted_pairs(entity: Entity) -> list[tuple[str, str | None]]:
    """In the order in which they are written: `user` before `client-id`."""
    return sorted(entity, key=lambda pair: (pair[0], pair[1] or ""), reverse=True)


def check_entity(entity: Entity) -> None:
    """Whether quotas may be for this. That an ip is one is not looked at. Raises BadQuota."""
    if not entity:
        raise BadQuota("Invalid empty client quota entity")
    for kind, name in sorted_pairs(entity):
        if kind not in {USER, CLIENT_ID, IP}:
            raise BadQuota(f"Unhandled client quota entity type: {_cut(kind)}")
        if name == "":
            raise BadQuota(f"Empty {kind} not supported")
        if name is not None and len(name.encode()) > MAX_NAME_BYTES:
            raise BadQuota(f"The name of a {kind} with a quota may have {MAX_NAME_BYTES} bytes at most")
    kinds = {kind for kind, _ in entity}
    if len(kinds) < len(entity):
        raise BadQuota(f"Invalid client quota entity, duplicate entity entry {described(entity)}")
    if IP in kinds and len(kinds) > 1:
        raise BadQuota(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )


def check_value(entity: Entity, key: str, value: float) -> None:
    """Whether an entity (that was checked) may have this quota. Raises BadQuota."""
    known = _OF_IPS if any(kind == IP for kind, _ in entity) else _OF_CLIENTS
    if key not in known:
        raise BadQuota(f"Invalid configuration key {_cut(key)}")
    if not math.isfinite(value):
        raise BadQuota(f"Quota {key} must be a finite number")
    if value <= 0:
        raise BadQuota(f"Quota {key} must be greater than 0")
    most = known[key]
    if most is None:
        return
    if value > most:
        raise BadQuota(
            f"Proposed value for {key} is too large for {'a LONG' if most == _LONG else 'an INT'}."
        )
    if value % 1 > _FRACTION:
        raise BadQuota(f"{key} cannot be a fractional value.")
