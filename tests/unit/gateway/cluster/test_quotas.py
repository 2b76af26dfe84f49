"""Quotas in the catalog."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from gateway.catalog import keys
from gateway.catalog.interface import unchanged
from gateway.cluster.entry_check import unreadable
from gateway.cluster.quotas import Kept, Quotas, key_of, pack, unpack
from gateway.quotas.client_quotas import ClientQuotas
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.entities import CLIENT_ID, IP, USER, BadQuota, Entity
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError

ALICE: Entity = frozenset({(USER, "alice")})
APP: Entity = frozenset({(USER, "ali/ce é"), (CLIENT_ID, "app" * 300)})
DEFAULTS: Entity = frozenset({(USER, None), (CLIENT_ID, None)})
HOST: Entity = frozenset({(IP, "gateway.example")})
ANY_ADDRESS: Entity = frozenset({(IP, None)})


def followed(catalog: MemoryCatalog) -> Quotas:
    return Quotas(catalog, ClientQuotas(lambda: 0), ConnectionRates(lambda: 0))


def with_quotas(body: Callable[[Quotas, MemoryCatalog], Awaitable[None]]) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        await body(followed(catalog), catalog)

    trio.run(main)


def follow(quotas: Quotas, *entities: Entity) -> None:
    for entity in entities:
        quotas.take(key_of(entity))


@pytest.mark.parametrize("entity", [ALICE, APP, DEFAULTS], ids=["user", "pair", "defaults"])
def test_what_is_set_is_in_force_here_and_wherever_it_is_read(entity: Entity) -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        await quotas.alter({entity: {"producer_byte_rate": 10, "request_percentage": 0.5}}, {})
        assert not quotas.clients.is_on
        follow(quotas, entity)
        for one in (quotas, followed(catalog)):
            assert list(one.all()) == [(entity, {"producer_byte_rate": 10, "request_percentage": 0.5})]
            assert one.clients.is_on
            assert not one.connections.is_on

    with_quotas(body)


def test_one_is_changed_one_removed_and_the_last_takes_the_entity_with_it() -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        await quotas.alter({ALICE: {"producer_byte_rate": 10, "consumer_byte_rate": 20}}, {})
        follow(quotas, ALICE)
        await quotas.alter({ALICE: {"producer_byte_rate": 11, "request_percentage": None}}, {})
        follow(quotas, ALICE)
        assert list(quotas.all()) == [(ALICE, {"producer_byte_rate": 11, "consumer_byte_rate": 20})]
        await quotas.alter({ALICE: {"producer_byte_rate": None, "consumer_byte_rate": None}}, {})
        follow(quotas, ALICE)
        assert list(quotas.all()) == []
        assert not quotas.clients.is_on
        assert catalog.range(keys.QUOTAS) == []

    with_quotas(body)


def test_what_changes_nothing_is_not_written() -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        await quotas.alter({ALICE: {"producer_byte_rate": 10}}, {})
        revision = catalog.revision
        await quotas.alter({ALICE: {"producer_byte_rate": 10}, APP: {"producer_byte_rate": None}}, {})
        assert catalog.revision == revision

    with_quotas(body)


def test_many_are_changed_in_several_transactions() -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        entities: list[Entity] = [frozenset({(USER, f"user-{number}")}) for number in range(230)]
        await quotas.alter({entity: {"producer_byte_rate": 10} for entity in entities}, {})
        assert {unpack(entry.value).entity for entry in catalog.range(keys.QUOTAS)} == set(entities)
        assert catalog.committed == [1] * 5

    with_quotas(body)


def test_two_who_change_the_same_entity_both_have_their_way() -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        other = followed(catalog)
        catalog.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(quotas.alter, {ALICE: {"producer_byte_rate": 10}}, {})
            nursery.start_soon(other.alter, {ALICE: {"consumer_byte_rate": 20}}, {})
            await trio.testing.wait_all_tasks_blocked()
            catalog.let_go()
        follow(quotas, ALICE)
        assert list(quotas.all()) == [(ALICE, {"producer_byte_rate": 10, "consumer_byte_rate": 20})]

    with_quotas(body)


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cluster.quotas.MAX_ENTITIES", 2)

    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        await quotas.alter({ALICE: {"producer_byte_rate": 10}, APP: {"producer_byte_rate": 10}}, {})
        follow(quotas, ALICE, APP)
        revision = catalog.revision
        with pytest.raises(KafkaError, match="2 entities at most may have quotas") as refused:
            await quotas.alter({DEFAULTS: {"producer_byte_rate": 10}, ALICE: {"producer_byte_rate": 9}}, {})
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert catalog.revision == revision
        await quotas.alter({ALICE: {"producer_byte_rate": 9}, DEFAULTS: {"producer_byte_rate": None}}, {})

    with_quotas(body)


def test_a_host_is_its_address() -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        rate = "connection_creation_rate"
        await quotas.alter({HOST: {rate: 1}, ANY_ADDRESS: {rate: 100}}, {HOST: "10.0.0.1"})
        follow(quotas, HOST, ANY_ADDRESS)
        for one in (quotas, followed(catalog)):
            assert dict(one.all()) == {HOST: {rate: 1}, ANY_ADDRESS: {rate: 100}}
            assert not one.clients.is_on
            assert [one.connections.excess_ms("10.0.0.1", "c") for _ in range(11)] == [0] * 10 + [1_000]
            assert one.connections.excess_ms("10.0.0.2", "d") == 0
        await quotas.alter({HOST: {rate: None}, ANY_ADDRESS: {rate: None}}, {})
        follow(quotas, HOST, ANY_ADDRESS)
        assert not quotas.connections.is_on

    with_quotas(body)


GOOD = json.loads(pack(Kept(ALICE, {"producer_byte_rate": 1.0})))
BAD = [
    {**GOOD, "entity": {}},
    {**GOOD, "entity": {"user": 7}},
    {**GOOD, "entity": {"user": ["alice"]}},
    {**GOOD, "entity": {"group": "g"}},
    {**GOOD, "quotas": {"producer_byte_rate": "many"}},
    {**GOOD, "quotas": {"producer_byte_rate": -1}},
    {**GOOD, "quotas": {"bytes": 1}},
    {**GOOD, "quotas": {"producer_byte_rate": 10**400}},
    {**GOOD, "quotas": 7},
    {"entity": {"user": "alice"}},
    [],
    7,
]


@pytest.mark.parametrize("value", [json.dumps(one).encode() for one in BAD] + [b"\xff", b"{", b"[" * 100_000])
def test_what_cannot_be_read_limits_nobody(value: bytes) -> None:
    async def body(quotas: Quotas, catalog: MemoryCatalog) -> None:
        key = key_of(ALICE)
        await catalog.transact(unchanged(catalog, [key]), {key: value})
        quotas.take(key)
        assert list(quotas.all()) == []
        assert not quotas.clients.is_on
        with pytest.raises(BadQuota):
            unpack(value)
        assert unreadable({key: value}).keys() == {key}
        await quotas.alter({ALICE: {"producer_byte_rate": 10}}, {})
        quotas.take(key)
        assert list(quotas.all()) == [(ALICE, {"producer_byte_rate": 10})]

    with_quotas(body)


def test_an_entry_is_where_its_key_says() -> None:
    value = pack(Kept(ALICE, {"producer_byte_rate": 1.0}))
    assert not unreadable({key_of(ALICE): value})
    assert unreadable({key_of(APP): value}) == {key_of(APP): "its key is missing or wrong"}
