"""Stores that are lost for good: what is named, what is refused, and that exactly what was named goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from dafka.operators.accept_loss import LossRequestHandlers
from dafka.operators.socket import OperatorRefused
from gateway.cluster import giving_up as loss_module
from gateway.log.partition import Partition, PartitionState
from gateway.transactions import after_loss
from gateway.transactions.ending import EndTxn
from gateway.transactions.initialising import InitProducerId
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.outcomes import Answer
from tests.in_process.several_stores import (
    Cluster,
    Gateway,
    WithStores,
    batch,
    incarnation,
    produce_until_taken,
)
from tests.unit.gateway.log.fake_log import NOW_MS
from tests.unit.gateway.log.transactional import append, marker, transactional
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header


@pytest.fixture(autouse=True)
def absent_stores_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "ANSWER_SECONDS", 0.5)


async def asked(gateway: Gateway, do: str, **details: Any) -> Any:
    admin = LossRequestHandlers(gateway.broker.stores, gateway.broker)
    return await admin.handlers[do](details)


async def refused(gateway: Gateway, **details: Any) -> str:
    with pytest.raises(OperatorRefused) as raised:
        await asked(gateway, "loss.accept", **details)
    return str(raised.value)


async def waits(gateway: Gateway) -> None:
    """Until the partition waits for stores."""
    while not gateway.broker.recovery.waiting:  # noqa: ASYNC110  nothing tells
        await trio.sleep(0.01)


async def until_all_have(cluster: Cluster, address: str, head: int) -> None:
    while min(one.ingest.heads().get(address, -1) for one in cluster.stores.values()) < head:  # noqa: ASYNC110
        await trio.sleep(0.01)


async def written(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five batches: the last three on stores 0 and 1 alone. Then nobody runs."""
    async with cluster.gateway(monkeypatch) as (gateway, client):
        await gateway.until_live(0, 1, 2)
        await gateway.broker.create_topic("orders", 1, {}, 3)
        for number in range(2):
            assert await produce_until_taken(client, batch(b"kept")) == number
        (opened,) = gateway.partition().chain.open_segments()
        await until_all_have(cluster, opened.segment.address, 1)
        await cluster.stop(2)
        for number in range(2, 5):
            assert await produce_until_taken(client, batch(b"lost")) == number
    await cluster.stop(0, 1)


def test_what_is_left_is_kept_and_what_was_named_goes(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        await written(cluster, monkeypatch)
        await cluster.start(2)
        async with cluster.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(2)
            await waits(gateway)
            one = await asked(gateway, "loss.plan", gone=["store-0"])
            assert (one["losses"], one["unreadable"]) == ([], []), "two are left, and may decide"
            assert "nothing to give up" in await refused(gateway, gone=["store-0"], token=one["token"])
            plan = await asked(gateway, "loss.plan", gone=["store-0", "store-1"])
            (named,) = plan["losses"]
            assert (named["topic"], named["partition"], named["start"]) == ("orders", 0, 0)
            assert (named["kept_to"], named["unanswered"]) == (1, ())
            assert "no longer what was named" in await refused(gateway, gone=["store-0", "store-1"], token="")
            assert "is there: it is not lost" in await refused(gateway, gone=["store-2"], token="")
            assert "no store is called" in await refused(gateway, gone=["nobody"], token="")
            assert gateway.partition().state is PartitionState.RECOVERING
            done = await asked(gateway, "loss.accept", gone=["store-0", "store-1"], token=plan["token"])
            assert done["partitions"] == [
                {"partition": "orders-0", "serves": True, "end": 2, "reason": "", "open": "", "aborted": ""}
            ]
            # The others come back after all: they hear the end, and are members as before.
            await cluster.start(0, 1)
            await gateway.until_told()
            assert await produce_until_taken(client, batch(b"more")) == 2
            contents = await cluster.contents(gateway)
            assert [b"kept" in one for one in contents] == [True, True, False]
            assert not [one for one in contents if b"lost" in one]

    stores(body)


def test_a_store_that_is_left_and_silent_is_waited_for(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        await written(cluster, monkeypatch)
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await waits(gateway)
            gone = ["store-0", "store-1"]
            plan = await asked(gateway, "loss.plan", gone=gone)
            assert [len(loss["unanswered"]) for loss in plan["losses"]] == [1]
            text = await refused(gateway, gone=gone, token=plan["token"])
            assert "(store-2) do not answer: start them, or name them as lost too" in text
            assert gateway.partition().state is PartitionState.RECOVERING

    stores(body)


def test_when_nobody_is_left_all_of_the_open_segment_goes_and_closed_ones_are_named(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        await written(cluster, monkeypatch)
        await cluster.start(0, 1, 2)
        async with cluster.gateway(monkeypatch) as (gateway, client):  # closes what was open
            await gateway.until_ready(0)
            assert await produce_until_taken(client, batch(b"in another segment")) == 5
        await cluster.stop()
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await waits(gateway)
            gone = ["store-0", "store-1", "store-2"]
            plan = await asked(gateway, "loss.plan", gone=gone)
            (named,) = plan["losses"]
            assert (named["start"], named["kept_to"], named["left"]) == (5, 4, ())
            (unreadable,) = plan["unreadable"]
            assert (unreadable["first"], unreadable["last"]) == (0, 4)
            done = await asked(gateway, "loss.accept", gone=gone, token=plan["token"])
            assert [(one["serves"], one["end"]) for one in done["partitions"]] == [(True, 5)]
        # It stays so for the next life, and with the stores back what is closed is read as before.
        await cluster.start(0, 1, 2)
        async with cluster.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            assert await produce_until_taken(client, batch(b"after")) == 5
            contents = await cluster.contents(gateway)
            assert [b"kept" in one for one in contents] == [True, True, False, False, False, False]
            assert not [one for one in contents if b"another segment" in one]

    stores(body)


LOSSES = [
    # What is in the first segment, on store 0 alone; in the second one, on store 1 alone; what is shown then.
    ("a b +b", "p", 0, "producer 97 from offset 0"),
    ("p a b +b", "-a p", 1, "producer 97 from offset 1"),  # the marker is lost
    ("p a b +b", "+a p", 1, "producer 97 from offset 1"),  # that it was committed, nobody knows any more
    (
        "p a b c",
        "+a -b",
        1,
        "producer 97 from offset 1, producer 98 from offset 2, producer 99 from offset 3",
    ),
    ("p a +a", "b -b p", 6, ""),
    ("p a +a", "b p", 5, ""),
]


@pytest.mark.parametrize(("first", "second", "stable", "named"), LOSSES)
def test_transactions_of_which_it_is_not_known_how_they_ended_are_not_shown_as_committed(
    stores: WithStores,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    first: str,
    second: str,
    stable: int,
    named: str,
) -> None:
    async def body(cluster: Cluster) -> None:
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 1)
            await gateway.until_ready(0)
            partition = gateway.partition()
            await write_script(partition, first)
            kept = holder(partition)
            await end_segment(gateway)
            await gateway.until_told()
            await cluster.stop(kept)
            await gateway.until_live(*({0, 1, 2} - {kept}))
            await write_script(partition, second)
            lost = holder(partition)
            await end_segment(gateway)
            await write_script(partition, "p")
            members = [segment.members for segment in partition.chain.segments()]
            assert members == [(incarnation(kept),), (incarnation(lost),), (incarnation(lost),)]
        await cluster.stop(lost)
        await cluster.start(kept)
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await waits(gateway)
            gone = [f"store-{lost}"]
            plan = await asked(gateway, "loss.plan", gone=gone)
            done = await asked(gateway, "loss.accept", gone=gone, token=plan["token"])
            (told,) = done["partitions"]
            end = len(f"{first} {second}".split())
            assert (told["serves"], told["end"], told["open"]) == (True, end, named)
            assert (f"readers of what is committed wait for them: {named}. " in caplog.text) == bool(named)
            partition = gateway.partition()
            assert partition.last_stable_offset == stable
            shown, aborted = await partition.read_committed(0, 1 << 20) if stable else ((), [])
            assert [read_header(one).base_offset for one in shown] == list(
                range(min(stable, len(first.split())))
            )
            assert aborted == []
            # Whoever knows ends them: they were aborted from their first offsets on.
            open_ones = partition.producers.state.open_transactions()
            for producer_id in open_ones:
                append = partition.append_marker(marker(producer_id), gateway.broker.context.now_ms())
                assert append.base_offset >= end
            opened = partition.chain.current
            assert (opened is None) == (not open_ones)
            if opened is not None:
                listed: list[tuple[int, int, int]] = []
                opened.aborted.collect(0, 1, listed)
                opened.aborted.collect(1, end, listed)
                assert {producer_id: first for producer_id, first, _ in listed} == open_ones

    stores(body)


def test_a_transaction_whose_marker_was_given_up_and_that_nobody_knows_is_aborted(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            await gateway.until_ready(0)
            partition = gateway.partition()
            await write_script(partition, "p a")
            (opened,) = partition.chain.open_segments()
            await until_all_have(cluster, opened.segment.address, 1)
            await cluster.stop(2)
            await write_script(partition, "+a p")
        await cluster.stop(0, 1)
        await cluster.start(2)
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(2)
            await waits(gateway)
            gone = ["store-0", "store-1"]
            plan = await asked(gateway, "loss.plan", gone=gone)
            done = await asked(gateway, "loss.accept", gone=gone, token=plan["token"])
            (told,) = done["partitions"]
            # One store of three takes no markers, until the others have their places.
            assert (told["serves"], told["open"], told["aborted"]) == (True, "producer 97 from offset 1", "")
            partition = gateway.partition()
            assert partition.last_stable_offset == 1
            await cluster.start(0, 1)
            while partition.last_stable_offset < 3:  # noqa: ASYNC110  nothing tells
                await trio.sleep(0.01)
            assert partition.producers.state.open_transactions() == {}
            assert partition.last_stable_offset == partition.high_watermark == 3
            shown, aborted = await partition.read_committed(0, 1 << 20)
            assert [read_header(one).base_offset for one in shown] == [0, 1]
            assert aborted == [(97, 1)]

    stores(body)


def test_a_transaction_whose_coordinator_has_lost_it_is_aborted_where_nothing_was_lost(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 1)
            await gateway.broker.create_topic(TRANSACTION_TOPIC, 1, {}, 3)
            await gateway.until_ready(0)
            await write_script(gateway.partition(), "p a")
            kept = holder(gateway.partition())
            await write_script(gateway.partition(topic=TRANSACTION_TOPIC), "p")
        lost = [number for number in range(3) if number != kept]
        await cluster.stop(*lost)
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(kept)
            await gateway.until_ready(0)
            await waits(gateway)
            gone = [f"store-{number}" for number in lost]
            plan = await asked(gateway, "loss.plan", gone=gone)
            assert {one["topic"] for one in plan["losses"]} == {TRANSACTION_TOPIC}
            assert gateway.partition().last_stable_offset == 1
            await asked(gateway, "loss.accept", gone=gone, token=plan["token"])
            partition = gateway.partition()
            assert partition.last_stable_offset == partition.high_watermark == 3
            assert partition.producers.state.open_transactions() == {}

    stores(body)


def test_no_producer_goes_on_whose_coordinator_has_lost_what_it_did_last(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic(TRANSACTION_TOPIC, 1, {}, 3)
            ids = gateway.broker.transactions
            _, pid, epoch = await served(partial(ids.init_producer_id, "t", InitProducerId(60_000)))
        await cluster.stop(1, 2)
        async with cluster.gateway(monkeypatch) as (gateway, _):
            await gateway.until_live(0)
            await waits(gateway)
            gone = ["store-1", "store-2"]
            plan = await asked(gateway, "loss.plan", gone=gone)
            await asked(gateway, "loss.accept", gone=gone, token=plan["token"])
            ids = gateway.broker.transactions
            # It cannot be written yet that its producer is fenced: one store of three takes no writes.
            with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
                ids.find_one("t")
            await cluster.start(1, 2)
            ended = await served(partial(ids.end, "t", EndTxn(pid, epoch, is_commit=True)))
            assert ended.error is ErrorCode.PRODUCER_FENCED
            again = await served(partial(ids.init_producer_id, "t", InitProducerId(60_000)))
            assert (again.error, again.producer_epoch) == (ErrorCode.NONE, 0)
            assert again.producer_id > pid

    monkeypatch.setattr(after_loss, "LOADED_SECONDS", 0.5)
    stores(body)


async def served(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer, once the coordinator gives one."""
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if error.code not in {
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            }:
                raise
            await trio.sleep(0.05)


async def end_segment(gateway: Gateway) -> None:
    """Close the open one."""
    partition = gateway.partition()
    gateway.broker.context.opener.end(partition)
    while partition.chain.current is not None:  # noqa: ASYNC110  nothing tells
        await trio.sleep(0.01)


def holder(partition: Partition) -> int:
    """The number of the store that keeps the open segment alone."""
    opened = partition.chain.current
    assert opened is not None
    (member,) = opened.segment.members
    return int(member[0])


async def write_script(partition: Partition, script: str) -> None:
    """`p` is a plain batch, `a` one in a transaction of producer a, `-a` its abort and `+a` its commit."""
    for word in script.split():
        if word[0] in "+-":
            partition.append_marker(marker(ord(word[1]), commit=word[0] == "+"), NOW_MS)
        else:
            content = batch() if word == "p" else transactional(pid=ord(word))
            append(partition, content)
        while partition.high_watermark < partition.next_offset:  # noqa: ASYNC110  nothing tells
            await trio.sleep(0.01)
