"""What a page shows of a group's lag in a partition that another gateway leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.groups.records import CommittedOffset
from gateway.http.lags import PartitionLag, partition_lag
from gateway.http.trends import lag_of
from gateway.log.partition import PartitionState
from gateway.peers.heard import HeardEnds

NOW_MS = 1_790_000_000_000


def heard_end(end: int, start: int = -1) -> HeardEnds:
    """Heard at seconds 0 and 1; so many records came in between."""
    heard = HeardEnds(0.0)
    heard.start = start
    heard.hear_end(end - 10, 0.0)
    heard.hear_end(end, 1.0)
    return heard


class Broker(SimpleNamespace):
    """Of one topic, whose partitions others lead but for the last one, which is being recovered."""

    def __init__(self, *heard: HeardEnds | None) -> None:
        elsewhere = [
            SimpleNamespace(state=PartitionState.ELSEWHERE, topic=SimpleNamespace(id=bytes(16)), index=index)
            for index in range(len(heard))
        ]
        recovering = SimpleNamespace(state=PartitionState.RECOVERING, high_watermark=0)
        topic = SimpleNamespace(partitions=[*elsewhere, recovering])
        catalog = SimpleNamespace(range=lambda _prefix: [])
        super().__init__(
            topics={"orders": topic},
            log_ends=SimpleNamespace(of=lambda partition: heard[partition.index]),
            context=SimpleNamespace(catalog=catalog, now_ms=lambda: NOW_MS),
        )

    def lag(self, index: int, committed: int | None) -> PartitionLag:
        broker: Any = self
        offset = None if committed is None else CommittedOffset(committed, -1, "", 0)

        async def main() -> PartitionLag:
            await trio.sleep(60)
            return partition_lag(broker, "orders", index, offset, NOW_MS)

        return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("committed", "shown"),
    [
        (None, PartitionLag(3, 30)),
        (30, PartitionLag(3, 30, 0, 0.0)),
        (31, PartitionLag(3, 30, 0, 0.0)),
        (24, PartitionLag(3, 30, 6, 59.5)),
        (2, PartitionLag(3, 30, 28, 60.0, behind_start=True)),
    ],
)
def test_by_what_its_leader_has_said(committed: int | None, shown: PartitionLag) -> None:
    assert Broker(heard_end(30, 3)).lag(0, committed) == shown


def test_where_the_log_begins_may_be_unknown() -> None:
    assert Broker(heard_end(30)).lag(0, 24) == PartitionLag(None, 30, 6, 59.5)


@pytest.mark.parametrize("index", [0, 1], ids=["not heard of", "recovering"])
def test_what_is_not_known_is_not_0(index: int) -> None:
    assert Broker(None).lag(index, 5) == PartitionLag()


class Turns:
    async def breathe(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("heard", "whole"),
    [([heard_end(30), heard_end(40)], 60), ([heard_end(30), None], None), ([None, heard_end(30)], None)],
)
def test_a_trend_has_whole_lags_only_and_asks_for_all_of_them(
    heard: list[HeardEnds | None], whole: int | None
) -> None:
    broker: Any = Broker(*heard)
    asked: list[int] = []

    def of(partition: Any) -> HeardEnds | None:
        index: int = partition.index
        asked.append(index)
        return heard[index]

    broker.log_ends.of = of
    committed = {index: CommittedOffset(5, -1, "", 0) for index in range(len(heard))}
    group: Any = SimpleNamespace(offsets=SimpleNamespace(topics=lambda: [("orders", committed)]))
    turns: Any = Turns()
    assert trio.run(lag_of, broker, group, turns) == whole
    assert asked == [0, 1]
