"""Who may append to what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.api.produce import begin
from gateway.common.handlers import Request
from gateway.security.access import UNRESTRICTED, Access
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import allowed
from tests.unit.gateway.log.fake_log import FakeLog, batch, produce_request
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import transactional
from wireproto.kafka.errors import ErrorCode, MalformedRequest
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.schemas import RESPONSE_CLASSES

DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
ID_DENIED = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
INTERNAL = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
WRITES = Operation.WRITE, ResourceType.TOPIC, "orders"
ACTS = Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
NOBODY = allowed((Operation.READ, ResourceType.TOPIC, "orders"))


async def answer(log: FakeLog, request: Request, access: Access) -> list[tuple[int, str | None, int]]:
    """(error, message, log start) of each partition, of an answer that need not wait."""
    request.access = access
    pending = await begin(request, log.broker)
    assert pending.ready
    framed = pending.response()
    assert isinstance(framed, bytes)
    found = RESPONSE_CLASSES[0].decode(framed, version=request.header.api_version, header=True, framed=True)
    return [
        (part.error_code, getattr(part, "error_message", None), part.log_start_offset)
        for topic in found.responses
        for part in topic.partition_responses
    ]


@pytest.mark.parametrize("version", range(5, 14))
def test_who_may_not_write_is_not_told_whether_the_topic_exists(version: int) -> None:
    async def body(log: FakeLog) -> None:
        for name in ("orders", "nowhere"):
            which: dict[str, Any] = {"topic": name}
            codes = [DENIED, DENIED]
            if version == 13:
                which = {"topic": None, "topic_id": log.topic.id if name == "orders" else bytes(15) + b"1"}
                codes = codes if name == "orders" else [UNKNOWN_ID] * 2
            request = produce_request({0: batch(), 9: batch()}, version=version, **which)
            assert [code for code, _, _ in await answer(log, request, NOBODY)] == codes
        assert log.topic.partitions[0].next_offset == 0

    logged(body)


def test_who_may_write_is_told_what_is_wrong_and_the_rest_is_appended() -> None:
    async def body(log: FakeLog) -> None:
        request = produce_request({9: batch()})
        assert await answer(log, request, allowed(WRITES)) == [(UNKNOWN, None, -1)]
        request = produce_request({0: batch()}, acks=0)
        request.access = allowed(WRITES)
        assert (await begin(request, log.broker)).ready
        assert log.topic.partitions[0].next_offset == 1

    logged(body)


def test_without_an_answer_the_connection_is_closed() -> None:
    async def body(log: FakeLog) -> None:
        request = produce_request({0: batch()}, acks=0)
        request.access = NOBODY
        pending = await begin(request, log.broker)
        with pytest.raises(MalformedRequest):
            pending.response()
        assert log.topic.partitions[0].next_offset == 0

    logged(body)


def test_a_large_batch_of_who_may_not_write_is_not_even_opened() -> None:
    async def body(log: FakeLog) -> None:
        request = produce_request({0: batch(bytes(2_000_000), codec=1)})
        request.before_waiting = lambda: pytest.fail("it waits")
        assert [code for code, _, _ in await answer(log, request, NOBODY)] == [DENIED]

    logged(body)


@pytest.mark.parametrize(
    ("name", "allowances"),
    [
        ("tx", [WRITES, (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "tx")]),
        ("tx", [WRITES, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "ty")]),
        (None, [WRITES, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx")]),
    ],
)
def test_a_transactional_id_is_whose_may_write_it(name: str | None, allowances: Any) -> None:
    async def body(log: FakeLog) -> None:
        request = produce_request({0: batch(), 1: transactional()})
        request.body = replace(request.body, transactional_id=name)
        assert await answer(log, request, allowed(*allowances)) == [(ID_DENIED, None, -1)] * 2
        assert [partition.next_offset for partition in log.topic.partitions] == [0, 0]

    logged(body, partitions=2)


@pytest.mark.parametrize(
    ("client_id", "access", "flag", "code"),
    [
        ("__admin_client", allowed(WRITES, ACTS), False, 0),
        ("__admin_client", allowed(WRITES, ACTS), True, 0),
        ("__admin_client", allowed(WRITES), True, INTERNAL),
        ("__admin_client", allowed(ACTS), True, DENIED),
        ("somebody", allowed(WRITES, ACTS), True, INTERNAL),
        ("__admin_client", UNRESTRICTED, True, 0),
        ("__admin_client", UNRESTRICTED, False, INTERNAL),
        ("somebody", UNRESTRICTED, True, INTERNAL),
    ],
)
def test_internal_topics(client_id: str, access: Access, flag: bool, code: int) -> None:
    async def body(log: FakeLog) -> None:
        log.topic.internal = True
        log.broker.settings = replace(log.broker.settings, admin_client_writes=flag)
        request = produce_request({0: batch()}, acks=0 if code == 0 else -1)
        header = request.header
        request.header = RequestHeader(
            header.api_key, header.api_version, header.correlation_id, client_id, 0, True
        )
        request.access = access
        pending = await begin(request, log.broker)
        assert [
            int(getattr(outcome, "code", 0))
            for _, results in pending.appending.topics
            for _, outcome in results
        ] == [code]

    logged(body)


def test_an_id_that_becomes_known_later_is_not_written_to_unasked() -> None:
    """The topic was made on another gateway, and this one follows in the middle of the request."""

    async def body(log: FakeLog) -> None:
        topics: Any = log.broker.topics
        real, asked = topics.by_id, []

        def by_id(topic_id: bytes) -> Any:
            asked.append(topic_id)
            return real(topic_id) if len(asked) > 1 else None

        topics.by_id = by_id
        request = produce_request({0: batch()}, version=13, topic=None, topic_id=log.topic.id)
        assert [code for code, _, _ in await answer(log, request, NOBODY)] == [UNKNOWN_ID]
        assert log.topic.partitions[0].next_offset == 0

    logged(body)
