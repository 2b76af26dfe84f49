"""What who may not read topics is given of them, with and without a session."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gateway.security.access import UNRESTRICTED, Access, ByAcls
from gateway.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from gateway.security.authorizer import Authorizer
from tests.unit.gateway.api.asking import ALICE, allowed
from tests.unit.gateway.fetch.consumer import BY_ID, BY_NAME, NEVER_MS, Consumer, put
from tests.unit.gateway.log.fake_log import FakeLog
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode

NONE = int(ErrorCode.NONE)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
READS = allowed((Operation.READ, ResourceType.TOPIC, "orders"))
ACTS = allowed((Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
VERSIONS = pytest.mark.parametrize("version", [4, 7, BY_NAME, BY_ID, 18])


async def told(consumer: Consumer, access: Access, asks: Any = (), **options: Any) -> Any:
    request = consumer.request(asks, **options)
    request.access = access
    return (await consumer.send(request)).told


@VERSIONS
@pytest.mark.parametrize(
    ("access", "replica_id", "codes"),
    [
        (READS, -1, [NONE, UNKNOWN]),
        (allowed((Operation.DESCRIBE, ResourceType.TOPIC, "orders")), -1, [DENIED, DENIED]),
        (READS, 5, [DENIED, DENIED]),
        (ACTS, -1, [DENIED, DENIED]),
        (ACTS, 5, [NONE, UNKNOWN]),
        (UNRESTRICTED, 5, [NONE, UNKNOWN]),
    ],
)
def test_who_may_not_read_is_given_nothing(
    version: int, access: Access, replica_id: int, codes: list[int]
) -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0)
        answer = await told(
            Consumer(log, version),
            access,
            [(0, 0), (7, 0)],
            epoch=-1,
            replica_id=replica_id,
            max_wait_ms=NEVER_MS,
        )
        batches = 1 if codes[0] == NONE else 0
        assert answer == [(0, codes[0], batches or -1, batches), (7, codes[1], -1, 0)]

    logged(body)


def test_topics_that_are_not_there_are_hidden_by_name_and_not_by_id() -> None:
    async def body(log: FakeLog) -> None:
        by_name = await told(Consumer(log), READS, {"nowhere": [(0, 0)], "orders": [(0, 0)]}, epoch=-1)
        assert by_name == [(0, NONE, 0, 0), (0, DENIED, -1, 0)]
        by_id = await told(Consumer(log, BY_ID), allowed(), {bytes(15) + b"1": [(0, 0)]}, epoch=-1)
        assert by_id == [(0, UNKNOWN_ID, -1, 0)]
        followed = await told(
            Consumer(log, BY_ID), allowed(), {bytes(15) + b"1": [(0, 0)]}, epoch=-1, replica_id=5
        )
        assert followed == [(0, DENIED, -1, 0)]

    logged(body)


@pytest.mark.parametrize("version", [7, BY_NAME, BY_ID, 18])
def test_a_session_ends_to_give_records_when_reading_is_forbidden_and_goes_on_when_it_is_allowed(
    version: int,
) -> None:
    reads = Acl(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, str(ALICE), "*", Operation.READ, Permission.ALLOW
    )
    in_force = Authorizer([reads])
    access = ByAcls(ALICE, "127.0.0.1", lambda: in_force)

    async def body(log: FakeLog) -> None:
        nonlocal in_force
        consumer = Consumer(log, version)
        begun = await told(consumer, access, [(0, 0), (1, 0)], epoch=0)
        assert begun == [(0, NONE, 0, 0), (1, NONE, 0, 0)]
        assert await told(consumer, access) == []
        in_force = Authorizer([])
        # What was idle is told, too, and at once.
        began = trio.current_time()
        assert await told(consumer, access, max_wait_ms=NEVER_MS) == [(0, DENIED, -1, 0), (1, DENIED, -1, 0)]
        assert trio.current_time() == began
        await put(log, 1)
        assert await told(consumer, access) == [(0, DENIED, -1, 0), (1, DENIED, -1, 0)]
        in_force = Authorizer([reads])
        assert await told(consumer, access) == [(0, NONE, 0, 0), (1, NONE, 1, 1)]
        # Somebody else's hands: a session is no key.
        assert await told(consumer, allowed()) == [(0, DENIED, -1, 0), (1, DENIED, -1, 0)]

    logged(body, partitions=2)
