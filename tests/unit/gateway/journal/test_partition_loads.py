"""A partition whose groups cannot be read yet is tried again, and named when that goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from gateway.groups.replay import LoadedGroup
from gateway.journal.partition_loads import SAID_AFTER, PartitionLoads
from wireproto.kafka.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(("failures", "said"), [(SAID_AFTER - 1, 0), (SAID_AFTER, 1), (20, 1)])
def test_one_that_cannot_be_read_is_named_once_when_that_goes_on(
    caplog: pytest.LogCaptureFixture, failures: int, said: int
) -> None:
    left = failures
    loaded: list[int] = []

    async def load(_partition: int) -> dict[str, LoadedGroup]:
        nonlocal left
        await trio.lowlevel.checkpoint()
        if left:
            left -= 1
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being recovered")
        return {}

    async def take(partition: int, _groups: dict[str, LoadedGroup], _is_old: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        loaded.append(partition)

    loads = PartitionLoads(1, "groups", load, take)
    loads.came(0)
    trio.run(loads.run, 0, clock=MockClock(autojump_threshold=0))
    assert loaded == [0]
    assert loads.is_loaded(0)
    assert caplog.text.count("the groups of partition 0 cannot be read yet") == said
