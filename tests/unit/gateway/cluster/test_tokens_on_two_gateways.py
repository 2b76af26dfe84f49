"""Two gateways on one catalog: a delegation token that one of them makes or ends is in force on both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.cluster.cluster import TOKENS_SWEPT_SECONDS
from gateway.cluster.delegation_tokens import Wanted
from gateway.security.delegation_tokens import TokenSecret
from gateway.security.principal import Principal
from gateway.security.scram import Hash
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.errors import ErrorCode, KafkaError

SECRET = TokenSecret(b"of the gateways, and of nobody else")
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
WANTED = Wanted(ALICE, ALICE, (BOB,))


class Two:
    """Each makes changes, and follows those of the other one."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()
        self.logs = [FakeLog(catalog=self.catalog) for _ in range(2)]
        self.first, self.second = self.brokers = [
            Broker(log.context, log.stores, Settings(), lambda: None, token_secret=SECRET)
            for log in self.logs
        ]
        self.revoked: list[tuple[int, str]] = []
        for number, broker in enumerate(self.brokers):
            broker.delegation_tokens.on_revoked(partial(self._tell, number))

    def _tell(self, gateway: int, token_id: str) -> None:
        self.revoked.append((gateway, token_id))

    def come_in(self, token_id: str) -> list[bool]:
        return [one.delegation_tokens.known(Hash.SHA_256, token_id) is not None for one in self.brokers]


async def create(broker: Broker) -> tuple[str, bytes]:
    token, hmac = await broker.change_tokens(partial(broker.delegation_tokens.create, WANTED), is_more=True)
    return token.id, hmac


async def expire(broker: Broker, hmac: bytes, period_ms: int = -1) -> int:
    return await broker.change_tokens(partial(broker.delegation_tokens.expire, hmac, BOB, period_ms))


def run(body: Callable[[Two], Awaitable[None]], *, following: bool = True) -> None:
    async def main() -> None:
        two = Two()
        async with trio.open_nursery() as nursery:
            for broker in two.brokers:
                nursery.start_soon(broker.changes.run)
                if following:
                    nursery.start_soon(broker.following.run)
            await wait_all_tasks_blocked()
            await body(two)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_what_one_makes_the_other_has_as_it_follows() -> None:
    async def body(two: Two) -> None:
        token_id, hmac = await create(two.first)
        assert two.come_in(token_id)[0]
        await wait_all_tasks_blocked()
        assert two.come_in(token_id) == [True, True]
        await expire(two.second, hmac)
        await wait_all_tasks_blocked()
        assert two.come_in(token_id) == [False, False]
        assert sorted(two.revoked) == [(0, token_id), (1, token_id)]

    run(body)


def test_who_asks_another_gateway_at_once_is_understood() -> None:
    """It has not followed yet, and looks before it makes a change."""

    async def body(two: Two) -> None:
        token_id, hmac = await create(two.first)
        assert two.come_in(token_id) == [True, False]
        renew = partial(two.second.delegation_tokens.renew, hmac, ALICE, 10**15)
        assert await two.second.change_tokens(renew) > 0
        await expire(two.second, hmac)
        assert two.come_in(token_id) == [True, False]
        with pytest.raises(KafkaError) as caught:
            await expire(two.first, hmac)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    run(body, following=False)


def test_those_that_are_over_are_gone_within_an_hour() -> None:
    async def body(two: Two) -> None:
        over, hmac = await create(two.first)
        await expire(two.first, hmac, 1_000)
        stays, _ = await create(two.second)
        for log in two.logs:
            log.now_ms += 1_000
        async with trio.open_nursery() as nursery:
            for broker in two.brokers:
                nursery.start_soon(broker._sweep_tokens)
            await trio.sleep(TOKENS_SWEPT_SECONDS - 1)
            assert {one.key for one in two.catalog.range(keys.TOKENS)} == {
                keys.token_key(over), keys.token_key(stays),
            }  # fmt: skip
            await trio.sleep(2)
            assert [one.key for one in two.catalog.range(keys.TOKENS)] == [keys.token_key(stays)]
            nursery.cancel_scope.cancel()

    run(body)


def test_a_sweep_that_is_refused_is_made_the_next_time() -> None:
    async def body(two: Two) -> None:
        _, hmac = await create(two.first)
        await expire(two.first, hmac, 0)
        reasons: list[Any] = ["the audit cannot be written", None]
        two.first.changes.forbidden = lambda: reasons.pop(0) if reasons else None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(two.first._sweep_tokens)
            await trio.sleep(TOKENS_SWEPT_SECONDS + 1)
            assert len(two.catalog.range(keys.TOKENS)) == 1
            await trio.sleep(TOKENS_SWEPT_SECONDS)
            assert two.catalog.range(keys.TOKENS) == []
            nursery.cancel_scope.cancel()

    run(body)
