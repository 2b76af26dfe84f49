"""Transactional ids through a whole gateway: over its restart, and while stores are away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.admin import DescribeTransactionsRequest

from gateway.broker import Broker
from gateway.log.partition import Partition
from gateway.transactions.markers import Markers
from tests.differential.transactional import add_offsets, add_partitions, end, init
from tests.in_process.in_process import RawClient, running
from tests.in_process.several_stores import Cluster, WithStores
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES
from wireproto.records.control import EndMarker, read_marker
from wireproto.records.header import read_header

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
MAY_PASS = {
    BUSY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
ORDERS = {"orders": [0, 2]}


async def ask(client: RawClient, request: Any) -> Any:
    return await client.ask(request, RESPONSE_CLASSES[request.API_KEY])


async def ask_until_done(client: RawClient, make: Callable[[], Any]) -> Any:
    """As a client does: asked again while the answer may pass."""
    for _ in range(1000):
        answer = await ask(client, make())
        if answer.error_code not in MAY_PASS:
            return answer
        await trio.sleep(0.02)
    raise AssertionError("it does not pass")


async def init_until_done(client: RawClient, name: str = "t") -> tuple[int, int]:
    answer = await ask_until_done(client, partial(init, name))
    assert answer.error_code == NONE
    return answer.producer_id, answer.producer_epoch


async def add(client: RawClient, pid: int, epoch: int, name: str = "t") -> list[int]:
    answer = await ask(client, add_partitions(name, pid, epoch, ORDERS))
    return [
        one.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ]


async def describe(client: RawClient, name: str = "t") -> Any:
    (state,) = (
        await ask(client, DescribeTransactionsRequest(version=0, transactional_ids=[name]))
    ).transaction_states
    return state


async def until_state(client: RawClient, wanted: str, name: str = "t") -> Any:
    for _ in range(1000):
        state = await describe(client, name)
        if state.transaction_state == wanted:
            return state
        await trio.sleep(0.02)
    raise AssertionError(f"{name} does not become {wanted}")


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await trio.sleep(0.01)
    raise AssertionError("it does not come true")


async def markers_of(partition: Partition) -> list[tuple[int, int, EndMarker]]:
    """Of each marker its producer, its epoch, and what it says."""
    found, offset = [], partition.log_start_offset
    while offset < partition.high_watermark:
        for batch in await partition.look(offset, 1 << 20):
            header = read_header(batch)
            if header.is_control:
                found.append((header.producer_id, header.producer_epoch, read_marker(batch)))
            offset = header.last_offset + 1
    return found


def partitions_of(broker: Broker) -> list[Partition]:
    topic = broker.topics.get("orders")
    assert topic is not None
    return topic.partitions


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[Broker]:
    """Those that were made, in order."""
    made: list[Broker] = []
    begin = Broker.__init__

    def kept(self: Broker, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(Broker, "__init__", kept)
    return made


def test_a_transaction_ends_with_a_marker_in_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: list[Broker]
) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, monkeypatch, topics=(("orders", 3),)) as (_, port),
            await RawClient.connect(port) as client,
        ):
            pid, epoch = await init_until_done(client)
            for commit in (True, False):
                assert await add(client, pid, epoch) == [NONE, NONE]
                assert (await ask(client, add_offsets("t", pid, epoch, "g"))).error_code == NONE
                assert (await ask(client, end("t", pid, epoch, commit=commit))).error_code == NONE
                await until_state(client, "CompleteCommit" if commit else "CompleteAbort")
            found = [await markers_of(partition) for partition in partitions_of(brokers[0])]
            assert [
                [(pid, epoch, marker.is_commit) for pid, epoch, marker in of_one] for of_one in found
            ] == [[(pid, epoch, True), (pid, epoch, False)], [], [(pid, epoch, True), (pid, epoch, False)]]
            offsets = brokers[0].topics.get("__consumer_offsets")
            assert offsets is not None
            assert len(await markers_of(offsets.partitions[ord("g") % 50])) == 2

    trio.run(main)


def test_a_restart_finds_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: list[Broker]
) -> None:
    async def main() -> None:
        producers = {}
        async with (
            running(tmp_path, monkeypatch, topics=(("orders", 3),)) as (server, port),
            await RawClient.connect(port) as client,
        ):
            for name in ("empty", "open", "done"):
                producers[name] = await init_until_done(client, name)
            for name in ("open", "done"):
                assert await add(client, *producers[name], name) == [NONE, NONE]
            assert (await ask(client, end("done", *producers["done"]))).error_code == NONE
            before = [
                await until_state(client, state, name)
                for name, state in (("empty", "Empty"), ("open", "Ongoing"), ("done", "CompleteCommit"))
            ]
        await server.catalog.aclose()
        async with (
            running(tmp_path, monkeypatch) as (_, port),
            await RawClient.connect(port) as client,
        ):
            await until(lambda: brokers[-1].transactions.partitions_loading == 0)
            after = [await describe(client, name) for name in ("empty", "open", "done")]
            assert [state.to_dict() for state in after] == [state.to_dict() for state in before]
            assert await add(client, *producers["open"], "open") == [NONE, NONE]
            assert (await ask(client, end("open", *producers["open"]))).error_code == NONE
            assert (await ask(client, end("done", *producers["done"]))).error_code == NONE  # a retry
            pid, epoch = producers["empty"]
            assert await init_until_done(client, "empty") == (pid, epoch + 1)
            newer, first = await init_until_done(client, "new")
            assert (newer > max(pid for pid, _ in producers.values()), first) == (True, 0)

    trio.run(main)


def test_who_follows_a_gateway_that_died_ends_what_it_has_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: list[Broker]
) -> None:
    """It was answered, and no marker was written."""

    def never(_self: Markers, _ending: Any) -> None:
        """It is dead by then."""

    async def main() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Markers, "begin", never)
            async with (
                running(tmp_path, monkeypatch, topics=(("orders", 3),)) as (server, port),
                await RawClient.connect(port) as client,
            ):
                pid, epoch = await init_until_done(client)
                assert await add(client, pid, epoch) == [NONE, NONE]
                assert (await ask(client, end("t", pid, epoch))).error_code == NONE
                assert await add(client, pid, epoch) == [BUSY, BUSY]
                assert (await describe(client)).transaction_state == "PrepareCommit"
            await server.catalog.aclose()
        async with (
            running(tmp_path, monkeypatch) as (_, port),
            await RawClient.connect(port) as client,
        ):
            await until_state(client, "CompleteCommit")
            of_first = await markers_of(partitions_of(brokers[-1])[0])
            assert [(pid, epoch, marker.is_commit) for pid, epoch, marker in of_first] == [(pid, epoch, True)]
            assert await add(client, pid, epoch) == [NONE, NONE]

    trio.run(main)


def test_with_too_few_stores_nobody_is_fenced_and_it_goes_on_when_they_are_back(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, topics=(("orders", 3),)) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            pid, epoch = await init_until_done(client)
            assert await add(client, pid, epoch) == [NONE, NONE]
            await made.stop(1, 2)
            await gateway.until_live(0)
            for _ in range(3):
                assert (await ask(client, init("t"))).error_code in MAY_PASS
                assert (await ask(client, end("t", pid, epoch))).error_code in MAY_PASS
            await made.start(1, 2)
            await gateway.until_live(0, 1, 2)
            # What was on its way when the stores went is known by now: the fence, or nothing.
            code = (await ask_until_done(client, partial(end, "t", pid, epoch))).error_code
            assert code in {NONE, ErrorCode.PRODUCER_FENCED}
            given = await init_until_done(client)
            assert given[0] == pid
            assert given[1] <= epoch + 2  # the outage used one epoch at most

    stores(body)
