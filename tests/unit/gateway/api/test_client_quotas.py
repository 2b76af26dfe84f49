"""AlterClientQuotas, and what DescribeClientQuotas tells then."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

Altered = request_class(49)
Described = request_class(48)

VERSIONS = pytest.mark.parametrize("version", [0, 1])

Parts = dict[str, str | None]
Values = dict[str, float | None]


def entry(parts: Parts, ops: Values | list[tuple[str, float | None]]) -> Any:
    one = Altered.EntryData
    pairs = ops.items() if isinstance(ops, dict) else ops
    return one(
        entity=[one.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[one.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in pairs],
    )


def alter(
    broker: FakeBroker, *entries: Any, version: int = 1, validate_only: bool = False
) -> list[tuple[int, str | None, Parts]]:
    """(code, message, entity) of each."""
    request = Altered(version=version, entries=list(entries), validate_only=validate_only)
    answer = ask(broker, request)
    return [
        (
            one["error_code"],
            one["error_message"],
            {part["entity_type"]: part["entity_name"] for part in one["entity"]},
        )
        for one in answer["entries"]
    ]


def describe(
    broker: FakeBroker, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Parts, dict[str, float]]]:
    made = [Described.ComponentData(entity_type=t, match_type=m, match=v) for t, m, v in components]
    answer = ask(broker, Described(version=version, components=made, strict=strict))
    assert (answer["error_code"], answer["error_message"]) == (0, "")
    return [
        (
            {part["entity_type"]: part["entity_name"] for part in one["entity"]},
            {value["key"]: value["value"] for value in one["values"]},
        )
        for one in answer["entries"]
    ]


ALICE: Parts = {"user": "alice"}
APP: Parts = {"user": "alice", "client-id": "app"}
DEFAULT: Parts = {"user": None}
ADDRESS: Parts = {"ip": "10.0.0.1"}


@VERSIONS
def test_what_is_set_is_told(version: int) -> None:
    broker = FakeBroker()
    set_ = alter(
        broker,
        entry(ALICE, {"producer_byte_rate": 1024, "request_percentage": 12.5}),
        entry(APP, {"consumer_byte_rate": 2048}),
        entry(DEFAULT, {"controller_mutation_rate": 5}),
        entry(ADDRESS, {"connection_creation_rate": 10}),
        version=version,
    )
    assert set_ == [(0, None, parts) for parts in (ALICE, APP, DEFAULT, ADDRESS)]
    assert describe(broker, version=version) == [
        (ALICE, {"producer_byte_rate": 1024, "request_percentage": 12.5}),
        (APP, {"consumer_byte_rate": 2048}),
        (DEFAULT, {"controller_mutation_rate": 5}),
        (ADDRESS, {"connection_creation_rate": 10}),
    ]
    assert [parts for parts, _ in describe(broker, ("user", 0, "alice"))] == [ALICE, APP]
    assert [parts for parts, _ in describe(broker, ("user", 0, "alice"), strict=True)] == [ALICE]
    assert [parts for parts, _ in describe(broker, ("user", 1, None))] == [DEFAULT]
    assert [parts for parts, _ in describe(broker, ("user", 2, None))] == [ALICE, APP, DEFAULT]
    assert [parts for parts, _ in describe(broker, ("ip", 0, "10.0.0.1"))] == [ADDRESS]
    assert broker.waits_for_stores == 1


def test_it_is_in_force() -> None:
    broker = FakeBroker()
    assert not broker.quotas.clients.is_on
    alter(broker, entry(ALICE, {"producer_byte_rate": 1}))
    charges = broker.quotas.clients.charges("alice", "")
    charges.produced(20)
    assert charges.throttle_ms == 10_000
    alter(broker, entry(ALICE, {"producer_byte_rate": None, "consumer_byte_rate": None}))
    assert not broker.quotas.clients.is_on
    assert describe(broker) == []


def test_validate_only_changes_nothing() -> None:
    broker = FakeBroker()
    good, bad = entry(ALICE, {"producer_byte_rate": 1}), entry(DEFAULT, {"producer_byte_rate": -1})
    answered = alter(broker, good, bad, validate_only=True)
    assert [code for code, *_ in answered] == [0, 42]
    assert describe(broker) == []


@VERSIONS
@pytest.mark.parametrize(
    ("parts", "ops", "message"),
    [
        ({}, {"producer_byte_rate": 1}, "Invalid empty client quota entity"),
        ({"topic": "t"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: topic"),
        ({"user": ""}, {"producer_byte_rate": 1}, "Empty user not supported"),
        (
            {"ip": "10.0.0.1", "user": "alice"},
            {"connection_creation_rate": 1},
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
        (
            {"ip": "not a host"},
            {"connection_creation_rate": 1},
            "not a host is not a valid IP or resolvable host.",
        ),
        (ALICE, {"bytes": 1}, "Invalid configuration key bytes"),
        (ALICE, {"producer_byte_rate": 0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {"producer_byte_rate": 0.5}, "producer_byte_rate cannot be a fractional value."),
        (
            ALICE,
            [("producer_byte_rate", 1), ("producer_byte_rate", 2)],
            "Duplicate quota key, not updating quota for this entity user=alice",
        ),
    ],
)
def test_what_is_wrong_keeps_no_other_from_being_changed(
    version: int, parts: Parts, ops: Values | list[tuple[str, float | None]], message: str
) -> None:
    broker = FakeBroker()
    answered = alter(broker, entry(parts, ops), entry(DEFAULT, {"producer_byte_rate": 7}), version=version)
    assert answered == [(42, message, parts), (0, None, DEFAULT)]
    assert describe(broker) == [(DEFAULT, {"producer_byte_rate": 7})]


def test_of_an_entity_that_is_named_twice_the_first_is_done() -> None:
    broker = FakeBroker()
    twice = [entry(ALICE, {"producer_byte_rate": 1}), entry(ALICE, {"producer_byte_rate": 2})]
    assert alter(broker, *twice) == [(42, "Ignoring duplicate entity user=alice", ALICE)]
    assert describe(broker) == [(ALICE, {"producer_byte_rate": 1})]


def test_a_host_is_its_address() -> None:
    broker = FakeBroker()
    parts: Parts = {"ip": "localhost"}
    assert alter(broker, entry(parts, {"connection_creation_rate": 1})) == [(0, None, parts)]
    assert describe(broker, ("ip", 0, "localhost")) == [(parts, {"connection_creation_rate": 1})]
    connections = broker.quotas.connections
    both = [
        max(connections.excess_ms(one, one) for _ in range(11)) for one in ("127.0.0.1", "0:0:0:0:0:0:0:1")
    ]
    assert sorted(both) == [0, 1_000]


def test_who_may_not_is_told_for_each_entity() -> None:
    broker = FakeBroker()
    broker.access = allowed((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME))
    asked = [entry(ALICE, {"producer_byte_rate": 1}), entry({}, {}), entry(ALICE, {})]
    why = "The request is not authorized: it needs ALTER_CONFIGS on the cluster."
    assert alter(broker, *asked) == [(31, why, parts) for parts in (ALICE, {}, ALICE)]
    assert describe(broker) == []
    broker.access = allowed((Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME))
    assert alter(broker, *asked[:1]) == [(0, None, ALICE)]


def test_a_catalog_that_is_away_is_told_for_each_that_is_right() -> None:
    broker = FakeBroker()
    broker.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "nothing can be changed at present")
    asked = [entry(ALICE, {"producer_byte_rate": 1}), entry({}, {}), entry(APP, {"producer_byte_rate": 1})]
    assert [(code, parts) for code, _, parts in alter(broker, *asked)] == [(41, ALICE), (42, {}), (41, APP)]
    assert broker.waits_for_stores == 0
