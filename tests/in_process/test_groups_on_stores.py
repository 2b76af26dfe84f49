"""Groups on several stores: what members are told while stores are away, and who they are afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from gateway.groups.group_state import GroupState
from tests.differential.groups import heartbeat, join, leave, sync
from tests.in_process.in_process import RawClient
from tests.in_process.several_stores import Cluster, Gateway, WithStores
from wireproto.kafka.schemas import RESPONSE_CLASSES

NONE, NOT_AVAILABLE, NOT_COORDINATOR, REBALANCING = 0, 15, 16, 27
QUICK: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}


async def ask(client: RawClient, request: Any) -> Any:
    return await client.ask(request, RESPONSE_CLASSES[request.API_KEY])


async def member(gateway: Gateway, client: RawClient, group: str = "g") -> str:
    """A member alone in its group, with an assignment."""
    await gateway.broker.groups.find(group)
    joined = await ask(client, join(group, version=3))
    assert joined.error_code == NONE
    me: str = joined.member_id
    synced = await ask(client, sync(group, me, joined.generation_id, {me: b"all"}))
    assert (synced.error_code, synced.assignment) == (NONE, b"all")
    return me


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await trio.sleep(0.01)
    raise AssertionError("it does not come true")


def test_with_too_few_stores_nothing_is_assigned_and_the_group_goes_on_when_they_are_back(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, **QUICK) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            me = await member(gateway, client)
            await made.stop(1, 2)
            await gateway.until_live(0)
            assert (await ask(client, heartbeat("g", me, 1))).error_code == NONE
            joined = await ask(client, join("g", me, version=3))
            assert (joined.error_code, joined.generation_id) == (NONE, 2)
            synced = await ask(client, sync("g", me, 2, {me: b"all"}))
            assert (synced.error_code, synced.assignment) == (NOT_AVAILABLE, b"")
            assert (await ask(client, heartbeat("g", me, 2))).error_code == REBALANCING
            await made.start(1, 2)
            await gateway.until_live(0, 1, 2)
            for generation in range(3, 100):
                joined = await ask(client, join("g", me, version=3))
                assert (joined.error_code, joined.generation_id) == (NONE, generation)
                synced = await ask(client, sync("g", me, generation, {me: b"all"}))
                if synced.error_code == NONE:
                    break
                assert synced.error_code in {NOT_AVAILABLE, NOT_COORDINATOR}
                await trio.sleep(0.05)
            assert synced.assignment == b"all"
            assert (await ask(client, heartbeat("g", me, generation))).error_code == NONE

    stores(body)


def test_a_gateway_that_died_is_followed_by_one_that_knows_the_members(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, **QUICK) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            names = [f"group {number}" for number in range(20)]
            members = {name: await member(gateway, client, name) for name in names}
            await ask(client, leave(names[0], (members[names[0]], None)))
            await until(lambda: gateway.broker.groups.groups[names[0]].machine.state is GroupState.EMPTY)
        await made.stop(0)
        async with made.gateway(monkeypatch, **QUICK) as (gateway, client):
            await until(lambda: gateway.broker.groups.partitions_loading == 0)
            for name in names[1:]:
                assert (await ask(client, heartbeat(name, members[name], 1))).error_code == NONE
                synced = await ask(client, sync(name, members[name], 1))
                assert (synced.error_code, synced.assignment) == (NONE, b"all")
            machine = gateway.broker.groups.groups[names[0]].machine
            assert (machine.state, machine.generation) == (GroupState.EMPTY, 2)

    stores(body)


def test_a_gateway_that_stops_waits_for_no_rebalance(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, **QUICK) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await member(gateway, client)
            newcomer = join("g", version=3, rebalance_ms=300_000)
            await client.send(newcomer)
            await until(
                lambda: gateway.broker.groups.groups["g"].machine.state is GroupState.PREPARING_REBALANCE
            )
            gateway._stop()
            with trio.fail_after(5):
                answer = await client.receive(RESPONSE_CLASSES[newcomer.API_KEY], newcomer.API_VERSION)
            assert answer.error_code == NOT_COORDINATOR

    stores(body)
