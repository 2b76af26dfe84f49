"""The cluster's producer ids: whose they are, over restarts, on several gateways, and without a secret."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster import producer_id_owners
from gateway.cluster.producer_id_owners import ProducerIdOwners
from gateway.cluster.scram_users import ScramUsers
from gateway.security.principal import ANONYMOUS, Principal
from gateway.security.producer_ids import BOUND, ProducerIdBinding, Whom
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


def owners_of(catalog: MemoryCatalog) -> ProducerIdOwners:
    return ProducerIdOwners(catalog, ScramUsers(catalog))


def with_secret(secret: bytes = bytes(32)) -> MemoryCatalog:
    catalog = MemoryCatalog()
    trio.run(catalog.transact, [], {keys.SCRAM_SECRET: secret})
    return catalog


def whose(owners: ProducerIdOwners, producer_id: int, people: Iterable[Whom]) -> list[Whom]:
    return [one for one in people if owners.is_of(producer_id, one)]


def test_ids_are_whose_they_were_on_every_gateway_and_after_a_restart() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        first, second = owners_of(catalog), owners_of(catalog)
        await first.prepare()
        await second.prepare()
        by_first, by_second = first.bind(7, ALICE), second.bind(8, "tx")
        for owners in (first, second, owners_of(catalog)):
            assert whose(owners, by_first, [BOB, "tx", ALICE, ANONYMOUS]) == [ALICE]
            assert whose(owners, by_second, [BOB, "tx", ALICE, "ty"]) == ["tx"]

    trio.run(main)


def test_gateways_that_begin_together_agree_on_the_secret() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        several = [owners_of(catalog) for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for owners in several:
                nursery.start_soon(owners.prepare)
        assert len({owners.bind(7, ALICE) for owners in several}) == 1

    trio.run(main)


def test_an_id_of_another_secret_or_none_is_anybodys() -> None:
    catalog = with_secret()
    other = ProducerIdBinding(b"x" * 32).bind(7, ALICE)
    assert not ProducerIdBinding(bytes(32)).is_mine(other)
    owners = owners_of(catalog)
    for producer_id in (-1, 0, 1_000, BOUND - 1, other):
        assert whose(owners, producer_id, [ALICE, BOB, "tx"]) == [ALICE, BOB, "tx"]


def test_only_an_id_that_says_so_is_bound_to_somebody() -> None:
    catalog = with_secret()
    owners = owners_of(catalog)
    other = ProducerIdBinding(b"x" * 32).bind(7, "tx")
    for producer_id in (-1, 0, 1_000, BOUND - 1, other, owners.bind(7, "ty"), owners.bind(7, ALICE)):
        assert not owners.is_bound_to(producer_id, "tx")
    assert owners.is_bound_to(owners.bind(7, "tx"), "tx")
    assert not owners_of(MemoryCatalog()).is_bound_to(owners.bind(7, "tx"), "tx")


def test_without_a_secret_no_id_is_bound_and_once_it_is_there_they_are() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        giving, asked = owners_of(catalog), owners_of(catalog)
        early = ProducerIdBinding(bytes(32)).bind(7, ALICE)
        assert asked.is_of(early, BOB)
        await giving.prepare()
        producer_id = giving.bind(7, ALICE)
        assert not asked.is_of(producer_id, BOB)
        assert asked.is_of(producer_id, ALICE)

    trio.run(main)


def test_what_was_found_right_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    owners, looked = owners_of(with_secret()), []
    fits = ProducerIdBinding.fits

    def counted(self: ProducerIdBinding, producer_id: int, whom: Whom) -> bool:
        looked.append(whom)
        return fits(self, producer_id, whom)

    monkeypatch.setattr(ProducerIdBinding, "fits", counted)
    producer_id = owners.bind(7, ALICE)
    for _ in range(3):
        assert owners.is_of(producer_id, ALICE)
        assert not owners.is_of(producer_id, BOB)
    assert looked == [ALICE, BOB, BOB, BOB]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_id_owners, "MAX_KNOWN_OWNERS", 5)
    owners: Any = owners_of(with_secret())
    for count in range(23):
        assert owners.is_of(owners.bind(count, ALICE), ALICE)
        assert not owners.is_of(owners.bind(count, ALICE), BOB)
        assert len(owners._right) <= 5
    long = "t" * 250
    assert owners.is_of(owners.bind(7, long), long)
    assert not owners.is_of(owners.bind(7, long), long + "t")
    assert all(whom == ALICE for _, whom in owners._right)


def test_without_a_catalog_no_id_is_given_and_nobody_waits() -> None:
    async def main() -> None:
        class Away(MemoryCatalog):
            trouble = "it does not answer"

        catalog = Away()
        with pytest.raises(KafkaError, match="it does not answer") as raised:
            await owners_of(catalog).prepare()
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    trio.run(main)


def test_the_log_says_who_tried_and_not_what_lets_others_in(caplog: pytest.LogCaptureFixture) -> None:
    owners = owners_of(with_secret(b"\x5a" * 32))

    async def main() -> None:
        for _ in range(100):
            owners.tell(owners.bind(7, ALICE), Principal("User", "mal\nlory"), "a batch for orders-0")

    with caplog.at_level(logging.WARNING):
        trio.run(main)
    assert len(caplog.messages) == 20
    assert "a batch for orders-0 with producer id " in caplog.text
    assert "User:mal?lory" in caplog.text
    assert "alice" not in caplog.text
