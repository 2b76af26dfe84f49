"""Clients of a whole gateway that ask for something that takes long, and go away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.consumer import FetchRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from gateway.broker import Broker
from gateway.front.server import Server
from gateway.groups.group_state import GroupState
from tests.in_process.in_process import RawClient, running
from wireproto.kafka.errors import ErrorCode

CLIENTS = 50
FOREVER_MS = 2**31 - 1
TOPICS = (("orders", 1),)


def endless_fetch() -> Any:
    of = FetchRequest.FetchTopic
    part = of.FetchPartition(
        version=4, partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1
    )
    return FetchRequest(
        version=4,
        replica_id=-1,
        max_wait_ms=FOREVER_MS,
        min_bytes=FOREVER_MS,
        max_bytes=1 << 20,
        isolation_level=0,
        topics=[of(version=4, topic="orders", partitions=[part])],
    )


def join(group: str, member_id: str = "") -> Any:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(version=3, name="range", metadata=b"m")
    return JoinGroupRequest(
        version=3,
        group_id=group,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=FOREVER_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )


async def until(condition: Callable[[], bool]) -> None:
    """Let the gateway run until the condition holds."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - there is no event for what a test looks at
            await trio.sleep(0.01)


def frames_held(server: Server) -> int:
    """Bytes of requests that are not answered."""
    context = server.context
    return context.small_request_memory.used + context.request_memory.used + context.decoded_memory.used


@pytest.mark.parametrize("then", [b"", b"\0\0\x01\0and more that is never read"])
def test_endless_fetches_of_clients_that_left_hold_no_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: bytes
) -> None:
    async def main() -> None:
        async with running(tmp_path, monkeypatch, topics=TOPICS) as (server, port):
            front, broker = served(server)
            clients = [await RawClient.connect(port) for _ in range(CLIENTS)]
            for client in clients:
                await client.send(endless_fetch())
            await until(lambda: len(broker.parked) == CLIENTS)
            for client in clients:
                if then:
                    await client.stream.send_all(then)
                await client.stream.aclose()
            await until(lambda: not front.connections)
            assert not broker.parked
            assert not frames_held(front)
            topic = broker.topics.get("orders")
            assert topic is not None
            assert not topic.partitions[0].listeners.waiting

    trio.run(main)


def test_members_whose_clients_left_wait_for_nobody_and_hold_no_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The members are in the group until their time is over, as in Kafka."""

    async def main() -> None:
        settings = {"group_initial_rebalance_delay_ms": 0}
        async with running(tmp_path, monkeypatch, topics=TOPICS, **settings) as (server, port):
            front, broker = served(server)
            async with await RawClient.connect(port) as leader:
                with trio.fail_after(20):
                    find = FindCoordinatorRequest(version=1, key="g", key_type=0)
                    while (await leader.ask(find, FindCoordinatorResponse)).error_code:  # noqa: ASYNC110
                        await trio.sleep(0.05)
                joined = await leader.ask(join("g"), JoinGroupResponse)
                assert joined.error_code == ErrorCode.NONE
                machine = broker.groups.groups["g"].machine
                clients = [await RawClient.connect(port) for _ in range(CLIENTS)]
                for client in clients:
                    await client.send(join("g"))
                await until(lambda: len(machine.roster) == CLIENTS + 1)
                assert machine.state is GroupState.PREPARING_REBALANCE
                for client in clients:
                    await client.stream.aclose()
                await until(lambda: len(front.connections) == 1)
                assert len(machine.roster) == CLIENTS + 1
                assert not frames_held(front)
                again = await leader.ask(join("g", joined.member_id), JoinGroupResponse)
                assert again.error_code == ErrorCode.NONE
                assert len(again.members) == CLIENTS + 1
                # Now one that waits for the assignments of a leader who does not send them.
                follower = next(m.member_id for m in again.members if m.member_id != again.leader)
                async with await RawClient.connect(port) as waits:
                    await waits.send(
                        SyncGroupRequest(
                            version=2,
                            group_id="g",
                            generation_id=again.generation_id,
                            member_id=follower,
                            assignments=[],
                        )
                    )
                    await until(lambda: machine.roster.by_id[follower].sync_ticket is not None)
                await until(lambda: len(front.connections) == 1)

    trio.run(main)


def served(life: Any) -> tuple[Server, Broker]:
    """The front and the broker of a running gateway."""
    front = life._server
    assert isinstance(front, Server)
    broker: Any = front.context.broker
    return front, broker
