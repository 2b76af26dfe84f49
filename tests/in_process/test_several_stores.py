"""One gateway and several stores, which come and go: what producers are told, what every store has."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster.stores import StoreRefused
from gateway.log.partition import PartitionState
from tests.in_process.several_stores import (
    Cluster,
    Gateway,
    WithStores,
    batch,
    caught_up,
    incarnation,
    produce,
    produce_until_taken,
)

NOT_LEADER, TIMED_OUT, NOT_ENOUGH, AFTER_APPEND = 6, 7, 19, 20


async def topic(gateway: Gateway, partitions: int = 1, *, r: int = 3, **configs: str) -> None:
    await gateway.broker.create_topic(
        "orders", partitions, {name.replace("_", "."): value for name, value in configs.items()}, r
    )


def tails(contents: list[bytes]) -> list[bytes]:
    """What of a batch does not depend on its offset."""
    return [content[21:] for content in contents]


# producing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [0, 1, 2])
def test_one_store_away_costs_nothing_and_it_has_everything_afterwards(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            sent = [batch() for _ in range(30)]
            for content in sent[:10]:
                assert (await produce(client, content))[0] == 0
            await made.stop(away)
            for content in sent[10:20]:
                assert (await produce(client, content))[0] == 0
            await made.start(away)
            for content in sent[20:]:
                assert (await produce(client, content))[0] == 0
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway)) == tails(sent)

    stores(body)


@pytest.mark.parametrize("acks", [-1, 1])
def test_with_too_few_stores_a_producer_is_told_before_anything_is_appended(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            assert await produce(client, batch()) == (0, 0)
            await made.stop(1, 2)
            await gateway.until_live(0)
            started = trio.current_time()
            assert await produce(client, batch(), acks=acks, timeout_ms=5000) == (NOT_ENOUGH, -1)
            assert trio.current_time() - started < 1
            assert gateway.partition().next_offset == 1
            await made.start(2)
            assert await produce_until_taken(client, batch(), acks=acks) == 1
            await made.start(1)
            await gateway.until_live(0, 1, 2)
            assert await produce(client, batch(), acks=acks) == (0, 2)

    stores(body)


def test_stores_that_go_meanwhile_are_told_of_in_time_and_keep_what_was_appended(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            first, second, third = batch(), batch(), batch()
            assert await produce(client, first) == (0, 0)
            await made.stop(1, 2)
            started = trio.current_time()
            assert await produce(client, second, timeout_ms=1500) == (AFTER_APPEND, -1)
            assert 1.4 < trio.current_time() - started < 2.5
            assert gateway.partition().high_watermark == 1
            await made.start(1, 2)
            await gateway.until_live(0, 1, 2)
            assert await produce(client, third) == (0, 2)
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway)) == tails([first, second, third])

    stores(body)


def test_acks_1_is_answered_by_the_first_member(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            assert await produce(client, batch()) == (0, 0)
            # Two members hear no records, and are there all the same.
            for number in (1, 2):
                made.stores[number].ingest.on_record = lambda *_: None  # type: ignore[method-assign]
                made.stores[number].ingest.on_head = lambda *_: None  # type: ignore[method-assign]
            assert await produce(client, batch(), acks=1, timeout_ms=5000) == (0, 1)
            assert await produce(client, batch(), acks=-1, timeout_ms=300) == (TIMED_OUT, -1)
            assert gateway.partition().high_watermark == 1

    stores(body)


def test_a_segment_is_opened_without_the_store_that_is_away_and_it_gets_it_later(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1)
            await topic(gateway)
            sent = [batch() for _ in range(20)]
            for content in sent[:10]:
                assert (await produce(client, content))[0] == 0
            current = gateway.partition().chain.current
            assert current is not None
            assert current.segment.members == tuple(incarnation(number) for number in range(3))
            await made.start(2)
            for content in sent[10:]:
                assert (await produce(client, content))[0] == 0
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway)) == tails(sent)
            segment = current.segment
            assert segment.announced
            for _ in range(500):
                if len(current.segment.confirmed) == 3:
                    break
                await trio.sleep(0.01)
            assert current.segment.confirmed == segment.members

    stores(body, start=(0, 1))


def test_one_topic_whose_stores_are_away_does_not_stop_another(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one copy each: those of the store that is away wait, the others go on."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway, 40, r=1)
            for index in range(40):
                assert await produce(client, batch(), partition=index) == (0, 0)
            homes = {i: gateway.partition(i).chain.segments()[-1].members for i in range(40)}
            assert len(set(homes.values())) == 3
            await made.stop(1)
            await gateway.until_live(0, 2)
            for index, members in homes.items():
                # The next segment may have another store: nothing waits for the one that is away.
                assert await produce(client, batch(), partition=index) == (0, 1)
                if members == (incarnation(1),):
                    assert gateway.partition(index).chain.segments()[-1].members != members

    stores(body)


# recovery -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [None, 0, 1, 2])
def test_a_gateway_that_died_is_followed_with_any_one_store_away(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, away: int | None
) -> None:
    async def body(made: Cluster) -> None:
        sent = [batch() for _ in range(40)]
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway, segment_bytes="1048576")
            for content in sent[:20]:
                assert (await produce(client, content))[0] == 0
        if away is not None:
            await made.stop(away)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            assert gateway.partition().high_watermark == 20
            for number, content in enumerate(sent[20:], 20):
                assert await produce_until_taken(client, content) == number
            if away is not None:
                await made.start(away)
            await caught_up(made, gateway)
            await gateway.until_told()
            assert tails(await made.contents(gateway)) == tails(sent)
        for away_now in range(3):  # a second and third recovery, each by another subset
            await made.stop(away_now)
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_ready(0)
                assert gateway.partition().high_watermark == 40
            await made.start(away_now)

    stores(body)


def test_the_tail_is_copied_before_it_counts(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    """One store alone has the last records. They count if it answers, and then on two stores at least."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            first, *others = [batch() for _ in range(6)]
            assert await produce(client, first) == (0, 0)
            await made.stop(1, 2)
            for content in others:
                assert (await produce(client, content, timeout_ms=1))[0] in {TIMED_OUT, AFTER_APPEND}
            await caught_up(made, gateway)
        await made.start(1)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            assert gateway.partition().high_watermark == 6
            (closed,) = gateway.partition().chain.closed
            for number in (0, 1):
                state = made.stores[number].ingest.known(closed.address)
                assert state is not None
                assert state.head == 5
            await made.stop(0)
            await made.start(2)
            await gateway.until_told_but(0)
            assert await produce_until_taken(client, batch()) == 6
            await made.start(0)
            await gateway.until_told()
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway))[:6] == tails([first, *others])

    stores(body)


def test_partitions_whose_stores_are_away_hold_up_no_others(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(made: Cluster) -> None:
        monkeypatch.setattr("gateway.log.recovery.recovery.WAITING_LOGGED_SECONDS", 0.2)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway, 40, r=1)
            for index in range(40):
                assert await produce(client, batch(), partition=index) == (0, 0)
            waits = [
                i for i in range(40) if gateway.partition(i).chain.segments()[-1].members == (incarnation(2),)
            ]
        goes_on = [index for index in range(40) if index not in waits]
        assert waits
        assert goes_on
        await made.stop(2)
        started = trio.current_time()
        async with made.gateway(monkeypatch) as (gateway, client):
            assert trio.current_time() - started < 5
            await gateway.until_live(0, 1)
            for index in goes_on:
                assert await produce_until_taken(client, batch(), partition=index) == 1
            await trio.sleep(0.3)
            for index in waits:
                partition = gateway.partition(index)
                assert partition.state is PartitionState.RECOVERING
                assert "waits for the stores 1002 (store-2)" in partition.reason
                assert await produce(client, batch(), partition=index) == (NOT_LEADER, -1)
            assert gateway.broker.recovery.waiting_for == (incarnation(2),)
            assert len(gateway.broker.recovery.waiting) == len(waits)
            await made.start(2)
            await gateway.until_ready(*waits)
            assert gateway.broker.recovery.waiting == {}
            for index in waits:
                assert await produce_until_taken(client, batch(), partition=index) == 1

    stores(body)
    assert "waits for the stores 1002 (store-2): start them" in caplog.text


def test_an_idempotent_producer_goes_on_behind_a_recovery(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        sent = [batch(b"value %d" % n, producer=(7, 0, n)) for n in range(9)]
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            for content in sent[:4]:
                assert (await produce(client, content))[0] == 0
            await made.stop(1, 2)
            for content in sent[4:6]:  # kept by one store: the producer hears nothing of it
                assert (await produce(client, content, timeout_ms=1))[0] in {TIMED_OUT, AFTER_APPEND}
            await caught_up(made, gateway)
        await made.start(1, 2)
        await made.stop(0)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            end = gateway.partition().high_watermark
            assert end == 4, "the store that had more was away"
            await made.start(0)
            for number, content in enumerate(sent[2:], 2):
                assert await produce_until_taken(client, content) == number
            await gateway.until_told()
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway)) == tails(sent)

    stores(body)


def test_a_store_that_lost_what_it_had_confirmed_does_not_count(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same incarnation with an empty database: its "never heard of it" is no answer, also where nothing
    is remembered of its starts.
    """

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            assert await produce(client, batch()) == (0, 0)
            await made.stop(0)
            assert await produce(client, batch()) == (0, 1)
            current = gateway.partition().chain.current
            assert current is not None
            for _ in range(500):
                if len(current.segment.confirmed) == 3:
                    break
                await trio.sleep(0.01)
            assert len(current.segment.confirmed) == 3
            address = current.segment.address
            await gateway.catalog._catalog.transact([], {}, [keys.store_life_key(incarnation(1))])
        # Store 0 has offset 0 alone; store 1 has lost both; store 2, which has both, is away.
        await made.stop(1, 2)
        forget(made.path / "store-1")
        made.identities[1].is_new = True
        await made.start(0, 1)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1)
            await trio.sleep(0.5)
            partition = gateway.partition()
            assert partition.state is not PartitionState.READY
            assert partition.high_watermark == 0
            await made.start(2)
            await gateway.until_ready(0)
            assert partition.high_watermark == 2
            assert partition.chain.closed[-1].address == address

    stores(body)


def forget(path: Path) -> None:
    shutil.rmtree(path)


# replacing a store ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", [True, False])
def test_another_store_takes_a_stores_place(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, dead: bool
) -> None:
    async def body(made: Cluster) -> None:
        monkeypatch.setattr("gateway.cluster.replacement.LOOK_AGAIN_SECONDS", 0.05)
        sent = [batch() for _ in range(30)]
        for content in sent[:10], sent[10:20]:
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_live(0, 1, 2)
                if gateway.broker.topics.get("orders") is None:
                    await topic(gateway)
                await gateway.until_ready(0)
                for one in content:
                    await produce_until_taken(client, one)
        if dead:
            await made.stop(1)
        await made.start(3)
        async with made.gateway(monkeypatch) as (gateway, client):
            kept = gateway.broker.stores
            await gateway.until_live(*((0, 2, 3) if dead else (0, 1, 2, 3)))
            await gateway.until_ready(0)
            await kept.admit([(incarnation(3), "store-3")])
            old, new = kept.find("store-1"), kept.find("store-3")
            with pytest.raises(StoreRefused, match="count on it"):
                await kept.remove(old)
            await gateway.broker.replacement.start(old, new)
            for one in sent[20:]:
                await produce_until_taken(client, one)
            await gateway.until_replaced(1)
            members = (incarnation(0), incarnation(3), incarnation(2))
            assert {segment.members for segment in gateway.partition().chain.closed} == {members}
            assert incarnation(1) not in gateway.partition().chain.segments()[-1].members
            await kept.remove(kept.find("store-1"))
            if not dead:
                await made.stop(1)
            await gateway.until_told()
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway)) == tails(sent)
        # The others may go too: what was moved is all there.
        await made.stop(0)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            assert gateway.partition().high_watermark == 30

    stores(body)


def test_a_replacement_goes_on_behind_a_restart_and_an_idle_log_leaves_its_open_segment(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        monkeypatch.setattr("gateway.cluster.replacement.LOOK_AGAIN_SECONDS", 0.05)
        first = batch()
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            assert await produce(client, first) == (0, 0)
            kept = gateway.broker.stores
            await kept.admit([(incarnation(3), "store-3")])
            await gateway.broker.replacement.start(kept.find("1001"), kept.find("1003"))
            await trio.sleep(0.3)  # the new store is not there yet
            assert gateway.broker.replacement.progress[incarnation(1)].left == 1
        await made.start(3)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_replaced(1)
            kept = gateway.broker.stores
            await kept.remove(kept.find("1001"))
            await made.stop(1)
            (segment,) = gateway.partition().chain.closed
            assert segment.members == (incarnation(0), incarnation(3), incarnation(2))
            await gateway.until_told()
            assert tails(await made.contents(gateway)) == tails([first])
            assert await produce_until_taken(client, batch()) == 1

    stores(body)


def test_a_store_that_every_segment_needs_is_not_replaced_by_one_of_the_others(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            assert await produce(client, batch()) == (0, 0)
            kept = gateway.broker.stores
            with pytest.raises(StoreRefused, match="its own place"):
                await gateway.broker.replacement.start(kept.find("1001"), kept.find("1001"))
            await gateway.broker.replacement.start(kept.find("1001"), kept.find("1002"))
            for _ in range(500):
                if "cannot leave store 1001 (store-1)" in caplog.text:
                    break
                await trio.sleep(0.01)
            assert "admit another one" in caplog.text
            assert await produce_until_taken(client, batch()) == 1
            assert gateway.partition().chain.segments()[-1].members == (incarnation(0), incarnation(2))

    stores(body)


def test_a_tail_whose_only_holder_goes_is_given_up(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered SEAL, and went before others had copied what nobody was told is durable."""

    async def body(made: Cluster) -> None:
        monkeypatch.setattr("gateway.log.recovery.store_waits.PATIENCE_SECONDS", 0.2)
        monkeypatch.setattr("gateway.log.recovery.ends.SOURCES_GONE_SECONDS", 0.5)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            first = batch()
            assert await produce(client, first) == (0, 0)
            await caught_up(made, gateway)
            await made.stop(1, 2)
            assert (await produce(client, batch(), timeout_ms=1))[0] in {TIMED_OUT, AFTER_APPEND}
            await caught_up(made, gateway)
        await made.start(1)
        made.stores[1].catch_up.take_effects = lambda _now: []  # type: ignore[method-assign, assignment]
        async with made.gateway(monkeypatch) as (gateway, client):
            partition = gateway.partition()
            assert partition.state is PartitionState.RECOVERING
            assert "waits for the stores" in partition.reason
            await made.stop(0)
            await made.start(2)
            await gateway.until_ready(0)
            assert partition.high_watermark == 1
            second = batch()
            assert await produce_until_taken(client, second) == 1
            await made.start(0)
            await gateway.until_told_but(1)
            await made.stop(1)
            await made.start(1)
            await gateway.until_told()
            await caught_up(made, gateway)
            assert tails(await made.contents(gateway)) == tails([first, second])

    stores(body)


def test_contents_are_read_while_the_announcement_is_noted(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open segment is another object from one moment to the next; what is compared here is by address."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await topic(gateway)
            assert await produce_until_taken(client, batch(b"first")) == 0
            await caught_up(made, gateway)
            read = gateway.reader.read

            async def noted_meanwhile(*args: Any) -> Any:
                (opened,) = gateway.partition().chain.open_segments()
                opened.segment = replace(opened.segment, announced=True)
                return await read(*args)

            monkeypatch.setattr(gateway.reader, "read", noted_meanwhile)
            (content,) = await made.contents(gateway)
            assert b"first" in content

    stores(body)
