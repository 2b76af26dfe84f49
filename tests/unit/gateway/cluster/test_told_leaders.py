"""Which leaders an answer names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.cluster.gateways import NOBODY, BrokerAddress
from gateway.cluster.told_leaders import ToldLeaders
from wireproto.kafka.leaders import CurrentLeader, NodeEndpoint

HERE = ("a.example", 9092)


class ThreeOfFour:
    """Gateway 1 asks itself; 3 has no listener of that name; partition `n` is led by gateway `n`."""

    def leader(self, _topic_id: bytes, index: int) -> int:
        return index or NOBODY

    def leads(self, partition: Any) -> bool:
        return bool(partition.index == 1)

    def reached(self, _address: tuple[str, int]) -> set[int]:
        return {1, 2, 4}

    def brokers(self, _address: tuple[str, int]) -> list[BrokerAddress]:
        return [BrokerAddress(number, f"{number}.example", 9092, None) for number in (1, 2, 4)]


def topic(partitions: int) -> Any:
    made = [SimpleNamespace(index=index, leader_epoch=50 + index) for index in range(partitions)]
    return SimpleNamespace(id=b"t" * 16, partitions=made)


def test_only_who_leads_elsewhere_and_can_be_reached_is_named() -> None:
    gateways: Any = ThreeOfFour()
    told = ToldLeaders(gateways, HERE)
    assert not told.nodes
    found = {index: told.of(topic(5), index) for index in (-1, 0, 1, 2, 3, 4, 5)}
    expected = dict.fromkeys(found) | {2: CurrentLeader(2, 52), 4: CurrentLeader(4, 54)}
    assert found == expected
    assert told.of(None, 0) is None
    assert told.nodes == [NodeEndpoint(2, "2.example", 9092, None), NodeEndpoint(4, "4.example", 9092, None)]
