"""The status page of a gateway whose stores are elsewhere, and go away."""

from __future__ import annotations

from typing import Any

import pytest

from dafka.processes.life import Life
from gateway.front.listeners import ListenerSpec
from gateway.http import live, rounds
from tests.in_process.http_client import EventStream, ask, events
from tests.in_process.several_stores import Cluster, WithStores

pytestmark = pytest.mark.usefixtures("roomy_disk")

TICK_SECONDS = 0.1


def port_of(gateway: Life) -> int:
    assert gateway.pages is not None
    return int(gateway.pages.addresses[0].rpartition(":")[2])


async def problems(stream: EventStream, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Wait until these are the problems."""
    while True:
        found = (await stream.next("now")).data.get("problems")
        if found is not None and {one["id"] for one in found} == wanted:
            return {one["id"]: one for one in found}


def test_stores_that_go_away_are_told_of_until_they_are_back(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        http = ListenerSpec("HTTP", "127.0.0.1", 0)
        async with made.gateway(monkeypatch, topics=(("orders", 2),), http=http) as (gateway, _):
            await gateway.until_live(0, 1, 2)
            port = port_of(gateway)
            mesh = await ask(port, "mesh")
            assert [one["name"] for one in mesh["stores"]] == ["store-0", "store-1", "store-2"]
            assert {one["catch_up"] for one in mesh["stores"]} == {None}
            async with events(port, "view=mesh") as stream:
                await problems(stream, set())
                await made.stop(2)
                found = await problems(stream, {"store-away:1002", "partitions-under-replicated"})
                assert found["store-away:1002"]["severity"] == "critical"
                assert "store-2" in found["store-away:1002"]["title"]
                (row, *_) = (await ask(port, "topics/orders/partitions"))["items"]
                assert (row["stores"], row["stores_here"]) == ([1000, 1001, 1002], [1000, 1001])
                await made.stop(1)
                await problems(stream, {"store-away:1001", "store-away:1002", "partitions-under-min"})
                await made.start(1, 2)
                await problems(stream, set())

    monkeypatch.setattr(live, "TICK_SECONDS", TICK_SECONDS)
    monkeypatch.setattr(rounds, "ROUND_SECONDS", TICK_SECONDS)
    stores(body)
