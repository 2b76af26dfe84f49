"""A Fetch of who has fetched too much: no records, its session as it was, and everything later."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.quotas.client_quotas import Charges, ClientQuotas
from gateway.quotas.entities import USER, Entity
from tests.unit.gateway.fetch.consumer import BY_ID, BY_NAME, SIZE, Answer, Consumer, put
from tests.unit.gateway.log.fake_log import FakeLog
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode

NONE = int(ErrorCode.NONE)
WRONG_EPOCH = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
ALICE: Entity = frozenset({(USER, "alice")})
VERSIONS = pytest.mark.parametrize("version", [7, BY_NAME, BY_ID])


class Limited:
    """A consumer with a quota of so many batches at once. Time stands still unless it is moved."""

    def __init__(self, log: FakeLog, version: int, batches: float) -> None:
        self.consumer = Consumer(log, version)
        self.now_ms = 0
        self.quotas = ClientQuotas(lambda: self.now_ms)
        self.quotas.put(ALICE, {"consumer_byte_rate": batches * SIZE / 10})
        self.charges = self.quotas.charges("alice", "")

    async def ask(self, asks: Any = (), **options: Any) -> Answer:
        request = self.consumer.request(asks, **options)
        self.charges = request.charges = self.quotas.charges("alice", "")
        return await self.consumer.send(request)

    @property
    def throttle_ms(self) -> int:
        assert isinstance(self.charges, Charges)
        return self.charges.throttle_ms


@VERSIONS
def test_a_session_goes_on_and_tells_later_what_it_did_not_tell(version: int) -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, version, 2)
        await put(log, 0, 0)
        answer = await limited.ask([(0, 0), (1, 0)])
        assert (answer.batches, limited.throttle_ms) == ({0: 2}, 0)
        session_id = answer.session_id
        await put(log, 0, 1)
        answer = await limited.ask([(0, 2)])
        assert (answer.error, answer.told, answer.session_id) == (NONE, [], session_id)
        assert limited.throttle_ms == 10_000
        limited.now_ms = 11_000
        answer = await limited.ask()
        assert (answer.batches, answer.session_id, limited.throttle_ms) == ({0: 1, 1: 1}, session_id, 0)

    logged(body, partitions=2)


@VERSIONS
def test_who_is_over_his_quota_begins_no_session(version: int) -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, version, 1)
        limited.charges.may_fetch(SIZE)
        await put(log, 0)
        answer = await limited.ask([(0, 0)])
        assert (answer.error, answer.told, answer.session_id) == (NONE, [], 0)
        assert limited.throttle_ms == 10_000
        limited.now_ms = 11_000
        answer = await limited.ask([(0, 0)])
        assert (answer.batches, bool(answer.session_id)) == ({0: 1}, True)

    logged(body)


def test_without_a_session_it_is_the_same() -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, BY_NAME, 1)
        limited.charges.may_fetch(SIZE)
        await put(log, 0)
        answer = await limited.ask([(0, 0)], epoch=-1)
        assert (answer.error, answer.told, limited.throttle_ms) == (NONE, [], 10_000)
        limited.now_ms = 11_000
        assert (await limited.ask([(0, 0)], epoch=-1)).batches == {0: 1}

    logged(body)


def test_what_is_given_at_once_is_no_more_than_ever_could_be() -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, BY_NAME, 3)
        await put(log, *[0] * 10)
        answer = await limited.ask([(0, 0)])
        assert (answer.batches, limited.throttle_ms) == ({0: 3}, 0)

    logged(body)


def test_a_batch_that_is_larger_than_that_is_given_where_nothing_else_was() -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, BY_NAME, 0.5)
        await put(log, 0, 0)
        answer = await limited.ask([(0, 0)])
        assert (answer.batches, limited.throttle_ms) == ({0: 1}, 10_000)
        assert (await limited.ask([(0, 1)])).batches == {}
        limited.now_ms = 11_000
        assert (await limited.ask([(0, 1)])).batches == {0: 1}

    logged(body)


def test_an_answer_without_records_is_never_too_much() -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, BY_NAME, 1)
        limited.charges.may_fetch(SIZE)
        answer = await limited.ask([(0, 0)])
        assert (answer.told, limited.throttle_ms) == ([(0, NONE, 0, 0)], 0)

    logged(body)


def test_a_session_that_another_fetch_goes_on_with_meanwhile_is_not_this_ones() -> None:
    async def body(log: FakeLog) -> None:
        limited = Limited(log, BY_NAME, 1)
        session_id = (await limited.ask([(0, 0)])).session_id
        await put(log, 0)
        request = limited.consumer.request()
        sessions = log.broker.fetch_sessions

        class Refusing:
            """Another Fetch comes while this one is judged."""

            most_to_fetch = 1 << 20

            def may_fetch(self, _size: int) -> bool:
                session = sessions.cache.get(session_id)
                assert session is not None
                session.epoch += 1
                return False

        request.charges = Refusing()  # type: ignore[assignment]
        answer = await limited.consumer.send(request)
        assert (answer.error, answer.session_id) == (WRONG_EPOCH, session_id)

    logged(body)
