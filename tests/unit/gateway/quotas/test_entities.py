from __future__ import annotations

import pytest

from gateway.quotas.entities import (
    CLIENT_ID,
    IP,
    MAX_NAME_BYTES,
    USER,
    BadQuota,
    Entity,
    check_entity,
    check_value,
    described,
)
from gateway.quotas.filters import Filter, Whichever, fits

ALICE: Entity = frozenset({(USER, "alice")})
ALICE_APP: Entity = frozenset({(USER, "alice"), (CLIENT_ID, "app")})
DEFAULTS: Entity = frozenset({(USER, None), (CLIENT_ID, None)})
ADDRESS: Entity = frozenset({(IP, "10.0.0.1")})


@pytest.mark.parametrize(
    "entity",
    [ALICE, ALICE_APP, DEFAULTS, ADDRESS, frozenset({(IP, None)}), frozenset({(USER, "é" * 512)})],
    ids=described,
)
def test_may_have_quotas(entity: Entity) -> None:
    check_entity(entity)


@pytest.mark.parametrize(
    ("entity", "said"),
    [
        (frozenset(), "Invalid empty client quota entity"),
        ({("topic", "t")}, "Unhandled client quota entity type: topic"),
        ({(USER, "")}, "Empty user not supported"),
        ({(USER, "a"), (CLIENT_ID, "")}, "Empty client-id not supported"),
        (
            {(IP, "10.0.0.1"), (USER, "a")},
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
        (
            {(USER, "é" * 512 + "x")},
            f"The name of a user with a quota may have {MAX_NAME_BYTES} bytes at most",
        ),
    ],
)
def test_may_have_none(entity: set[tuple[str, str | None]], said: str) -> None:
    with pytest.raises(BadQuota) as refused:
        check_entity(frozenset(entity))
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (ALICE, "producer_byte_rate", 1),
        (ALICE, "consumer_byte_rate", 2.0**62),
        (ALICE_APP, "request_percentage", 0.5),
        (DEFAULTS, "controller_mutation_rate", 1.25),
        (ADDRESS, "connection_creation_rate", 2**31 - 1),
        (ALICE, "producer_byte_rate", 1_000.000_000_1),
    ],
)
def test_quotas(entity: Entity, key: str, value: float) -> None:
    check_value(entity, key, value)


@pytest.mark.parametrize(
    ("entity", "key", "value", "said"),
    [
        (ALICE, "bytes", 1, "Invalid configuration key bytes"),
        (ALICE, "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        (ADDRESS, "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        (ALICE, "producer_byte_rate", 0, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, "request_percentage", -1, "Quota request_percentage must be greater than 0"),
        (ALICE, "request_percentage", float("nan"), "Quota request_percentage must be a finite number"),
        (ALICE, "request_percentage", float("inf"), "Quota request_percentage must be a finite number"),
        (ALICE, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (
            ALICE,
            "consumer_byte_rate",
            2.0**64,
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (
            ADDRESS,
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_no_quotas(entity: Entity, key: str, value: float, said: str) -> None:
    with pytest.raises(BadQuota) as refused:
        check_value(entity, key, value)
    assert str(refused.value) == said


ALL: dict[str, Entity] = {
    "alice": ALICE,
    "alice's app": ALICE_APP,
    "defaults": DEFAULTS,
    "anybody": frozenset({(USER, None)}),
    "address": ADDRESS,
}


@pytest.mark.parametrize(
    ("asked", "strict", "found"),
    [
        ({}, False, list(ALL)),
        ({}, True, []),
        ({USER: "alice"}, False, ["alice", "alice's app"]),
        ({USER: "alice"}, True, ["alice"]),
        ({USER: None}, False, ["defaults", "anybody"]),
        ({USER: Whichever.NAME}, False, ["alice", "alice's app", "defaults", "anybody"]),
        ({USER: Whichever.NAME}, True, ["alice", "anybody"]),
        ({USER: "alice", CLIENT_ID: Whichever.NAME}, True, ["alice's app"]),
        ({IP: "10.0.0.1"}, True, ["address"]),
        ({IP: "10.0.0.2"}, False, []),
    ],
)
def test_filters(asked: Filter, strict: bool, found: list[str]) -> None:
    assert [name for name, entity in ALL.items() if fits(entity, asked, strict=strict)] == found
