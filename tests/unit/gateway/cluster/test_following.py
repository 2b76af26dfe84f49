"""Two gateways on one catalog: what one of them changes the other one has in memory, in the same order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import interface, keys
from gateway.cluster.feature_levels import PREFERRED_LEADERS
from gateway.cluster.features import FeatureMissing
from gateway.cluster.scram_users import Deletion, Refusal
from gateway.cluster.stores import StoreEntry
from gateway.cluster.topics import topic_record
from gateway.leadership.records import FinalizedFeatures, pack_features
from gateway.leadership.slots import slot_of
from gateway.log.partition import PartitionState
from gateway.log.topic import Topic
from gateway.quotas.entities import IP, USER, Entity
from gateway.quotas.places import PlaceLimits
from gateway.security.scram import Hash
from tests.unit.gateway.catalog.memory import MemoryCatalog, put_many
from tests.unit.gateway.cluster.test_scram_users import upsertion
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.errors import ErrorCode, KafkaError


class Two:
    """The gateways; `first` changes, `second` follows."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()
        self.first, self.second = (
            Broker(log.context, log.stores, Settings(), lambda: None)
            for log in (FakeLog(catalog=self.catalog), FakeLog(catalog=self.catalog))
        )

    def topic(self, name: str = "orders") -> Topic:
        """As the second one has it."""
        topic = self.second.topics.get(name)
        assert topic is not None
        return topic

    def seen(self, broker: Broker) -> dict[str, Any]:
        """All that a gateway has in memory of what is followed."""
        return {
            topic.name: (topic.id, topic.configs, topic.settings, len(topic.partitions), topic.revision)
            for topic in broker.topics.all()
        } | {
            "configs": broker.dynamic.in_force,
            "partitions": broker.topics.partition_count(),
            "quotas": dict(broker.quotas.all()),
            "places": broker.quotas.places.limits,
        }


Body = Callable[[Two], Awaitable[None]]


def run(body: Body) -> None:
    async def main() -> None:
        two = Two()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(two.second.following.run)
            await wait_all_tasks_blocked()
            await body(two)
            await wait_all_tasks_blocked()
            assert two.seen(two.first) == two.seen(two.second)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_topic_is_there_on_both_and_new_on_one() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 3, {"retention.ms": "1000"}, 1)
        await wait_all_tasks_blocked()
        assert [one.state for one in made.partitions] == [PartitionState.READY] * 3
        assert made is two.first.topics.get("orders")
        # Another gateway may have written to it meanwhile: its stores are asked.
        assert [one.state for one in two.topic().partitions] == [PartitionState.RECOVERING] * 3
        assert two.topic().id == made.id
        assert two.topic().settings.retention_ms == 1000
        assert two.second.topics.by_id(made.id) is two.topic()

    run(body)


def test_a_topic_serves_when_its_creation_is_answered_whoever_takes_the_change_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who follows the catalog may be faster than who has changed it."""

    async def body(two: Two) -> None:
        catalog, following = two.first.context.catalog, two.first.following
        transact = catalog.transact

        async def taken_at_once(*transaction: Any, **more: Any) -> int:
            revision = await transact(*transaction, **more)
            await following.take()
            return revision

        monkeypatch.setattr(catalog, "transact", taken_at_once)
        made = await two.first.create_topic("orders", 2, {}, 1)
        assert made is two.first.topics.get("orders")
        assert [one.state for one in made.partitions] == [PartitionState.READY] * 2
        await two.first.add_partitions(made, 4)
        assert [one.state for one in made.partitions] == [PartitionState.READY] * 4

    run(body)


def test_whose_a_topic_is_is_known_to_both_and_stays_so() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 3, {}, 1, maker="User:a")
        await two.first.alter_topic(made, lambda configs: {**configs, "retention.ms": "1000"})
        await two.first.add_partitions(made, 5)
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            assert broker.topics.shares.held("User:a") == 5
        most = two.first.topics.shares.share("User:a")
        for ask in (
            partial(two.first.create_topic, "more", most - 4, {}, 1, maker="User:a"),
            partial(two.first.add_partitions, made, most + 1, asker="User:a"),
        ):
            with pytest.raises(KafkaError) as raised:
                await ask()
            assert raised.value.code is ErrorCode.POLICY_VIOLATION
        await two.first.delete_topic(made)
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            assert broker.topics.shares.held("User:a") == broker.topics.shares.used == 0

    run(body)


@pytest.mark.parametrize("maker", ["", "User:a"])
def test_a_topic_is_on_the_account_of_who_extended_it_last(maker: str) -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 3, {}, 1, maker=maker)
        await two.first.add_partitions(made, 5, asker="User:b")
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            assert (broker.topics.shares.held("User:b"), broker.topics.shares.used) == (5, 5)
            assert broker.topics.shares.held("User:a") == 0
        await two.first.add_partitions(made, 6)  # by a super user
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            assert (broker.topics.shares.held("User:b"), broker.topics.shares.used) == (6, 6)

    run(body)


def test_an_older_gateway_that_drops_the_maker_makes_the_topic_nobodys() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 3, {}, 1, maker="User:a")
        record = keys.unpack(topic_record(made, partitions=4))
        del record["maker"]
        await put_many(two.catalog, {keys.topic_key("orders"): keys.pack(record)})
        await two.first.following.take()
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            assert (broker.topics.shares.held("User:a"), broker.topics.shares.used) == (0, 4)

    run(body)


def test_topics_that_are_made_at_once_have_no_more_partitions_than_there_may_be() -> None:
    """Each was looked at when there was room for it."""

    async def body(two: Two) -> None:
        two.first.topics.shares.total = 10
        made = await two.first.create_topic("orders", 2, {}, 1)
        refused: list[str] = []

        async def ask(change: Awaitable[object]) -> None:
            try:
                await change
            except KafkaError as error:
                refused.append(str(error))

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(ask, two.first.create_topic(name, 4, {}, 1))
            nursery.start_soon(ask, two.first.add_partitions(made, 6))
        assert two.first.topics.partition_count() == 10
        refusal = "There are 10 partitions already and 4 more would exceed the limit of 10."
        assert refused == [f"POLICY_VIOLATION: {refusal}"] * 2
        # Groups and transactions are kept in some, however many there are.
        await two.first.create_topic("__consumer_offsets", 5, {}, 1)

    run(body)


def test_one_who_may_alter_topics_cannot_have_all_partitions() -> None:
    """Whoever has made them, and however small the steps are."""

    async def body(two: Two) -> None:
        topics = [
            await two.first.create_topic("nobodys", 1, {}, 1),
            await two.first.create_topic("hers", 1, {}, 1, maker="User:a"),
            await two.first.create_topic("his", 1, {}, 1, maker="User:b"),
        ]
        two.first.topics.shares.total = two.second.topics.shares.total = 64

        async def grow(topic: Topic) -> None:
            for count in range(2, 64):
                await two.first.add_partitions(topic, count, asker="User:b")

        for topic in topics:
            with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                await grow(topic)
        assert two.first.topics.shares.held("User:b") <= 32
        await two.first.create_topic("more of hers", 15, {}, 1, maker="User:a")

    run(body)


def test_partitions_and_configs_of_a_topic_change_on_both() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 1, {}, 1)
        await wait_all_tasks_blocked()
        followed, before = two.topic(), two.topic().partitions
        await two.first.add_partitions(made, 4)
        await two.first.alter_topic(made, lambda configs: {**configs, "retention.ms": "7"})
        await wait_all_tasks_blocked()
        assert [one.state for one in made.partitions] == [PartitionState.READY] * 4
        assert two.topic() is followed
        assert followed.partitions[:1] == before
        assert [one.index for one in followed.partitions] == [0, 1, 2, 3]
        assert followed.settings.retention_ms == 7

    run(body)


def test_a_topic_that_is_deleted_is_gone_on_both() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 2, {}, 1)
        await wait_all_tasks_blocked()
        followed = two.topic()
        deleted: list[str] = []
        two.second.following.on_deleted(lambda: deleted.append("heard"))
        await two.first.delete_topic(made)
        await wait_all_tasks_blocked()
        assert two.second.topics.get("orders") is None
        assert two.second.topics.by_id(made.id) is None
        assert all(partition.deleted for partition in followed.partitions)
        assert deleted == ["heard"]

    run(body)


def test_one_that_is_made_again_before_anybody_looks_is_another_one() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 2, {}, 1)
        await wait_all_tasks_blocked()
        followed = two.topic()
        with two.catalog.held():  # both happen in one commit
            async with trio.open_nursery() as nursery:
                record = keys.pack({"id": "ab" * 16, "partitions": 5, "replication_factor": 1, "configs": {}})
                nursery.start_soon(two.catalog.transact, [], {}, [keys.topic_key("orders")])
                await wait_all_tasks_blocked()
                nursery.start_soon(two.catalog.transact, [], {keys.topic_key("orders"): record})
                await wait_all_tasks_blocked()
                two.catalog.let_go()
            two.catalog.hold()
        await two.first.following.take()
        await wait_all_tasks_blocked()
        assert all(partition.deleted for partition in (*made.partitions, *followed.partitions))
        assert (two.topic().id.hex(), len(two.topic().partitions)) == ("ab" * 16, 5)

    run(body)


def test_who_was_slower_is_told_and_sees_what_the_other_one_did() -> None:
    async def body(two: Two) -> None:
        async def create(broker: Broker, partitions: int) -> str:
            try:
                await broker.create_topic("orders", partitions, {}, 1)
            except KafkaError as error:
                return error.code.name
            return "made"

        outcomes: dict[int, str] = {}

        async def note(broker: Broker, partitions: int) -> None:
            outcomes[partitions] = await create(broker, partitions)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, two.first, 1)
            nursery.start_soon(note, two.second, 2)
        assert sorted(outcomes.values()) == ["TOPIC_ALREADY_EXISTS", "made"]
        (partitions,) = [count for count, outcome in outcomes.items() if outcome == "made"]
        for broker in (two.first, two.second):
            topic = broker.topics.get("orders")
            assert topic is not None
            assert len(topic.partitions) == partitions

    run(body)


def test_a_change_of_what_another_one_has_changed_meanwhile_is_to_be_tried_again() -> None:
    async def body(two: Two) -> None:
        made = await two.first.create_topic("orders", 1, {}, 1)
        await wait_all_tasks_blocked()
        theirs = two.topic()
        entry = two.catalog.get(keys.topic_key("orders"))
        assert entry is not None
        record = keys.unpack(entry.value) | {"configs": {"retention.ms": "5"}}

        def add(configs: Any) -> dict[str, str]:
            return {**configs, "segment.ms": "60000"}

        with two.catalog.held():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(two.catalog.transact, [], {keys.topic_key("orders"): keys.pack(record)})
                await wait_all_tasks_blocked()
                nursery.start_soon(refused, two.second, theirs, add)
                await wait_all_tasks_blocked()
                two.catalog.let_go()
            two.catalog.hold()
        await two.second.alter_topic(theirs, add)
        await two.first.following.take()
        assert made.configs == theirs.configs == {"retention.ms": "5", "segment.ms": "60000"}

    async def refused(broker: Broker, topic: Topic, change: Any) -> None:
        with pytest.raises(KafkaError) as caught:
            await broker.alter_topic(topic, change)
        assert caught.value.code is ErrorCode.NOT_CONTROLLER

    run(body)


def test_broker_configs_of_the_cluster_hold_on_both() -> None:
    async def body(two: Two) -> None:
        await two.first.create_topic("orders", 1, {}, 1)
        await two.first.alter_broker(None, lambda configs: {**configs, "log.retention.ms": "9000"})
        await wait_all_tasks_blocked()
        assert two.topic().settings.retention_ms == 9000
        await two.second.alter_broker(None, lambda configs: {**configs, "log.retention.ms": "9001"})
        await two.first.following.take()
        first = two.first.topics.get("orders")
        assert first is not None
        assert first.settings.retention_ms == 9001

    run(body)


def test_stores_are_followed_where_they_come_and_go() -> None:
    async def body(two: Two) -> None:
        stores: Any = two.second.stores
        stores.presence = object()
        await two.catalog.transact([], StoreEntry(1007, "F" * 32, "new").put())
        await wait_all_tasks_blocked()
        assert [entry.id for entry in stores.entries] == [1007]
        stores.presence = None

    run(body)


def test_a_topic_that_is_made_anew_is_in_the_slots_of_the_one_that_is_gone() -> None:
    """A slot's leader epochs go up; librdkafka ignores a leader with a lower one than it knows."""

    async def body(two: Two) -> None:
        gone = await two.first.create_topic("orders", 2, {}, 1)
        await two.first.delete_topic(gone)
        made = await two.first.create_topic("orders", 2, {}, 1)
        assert made.id != gone.id
        assert [slot_of(made.id, index) for index in (0, 1)] == [slot_of(gone.id, index) for index in (0, 1)]

    run(body)


def test_who_was_away_for_long_takes_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """More has changed than the catalog remembers."""

    async def main() -> None:
        two = Two()
        kept = await two.first.create_topic("kept", 1, {}, 1)
        gone = await two.first.create_topic("gone", 1, {}, 1)
        await two.second.following.take()
        await two.first.delete_topic(gone)
        await two.first.add_partitions(kept, 3)
        await two.first.create_topic("new", 2, {}, 1)
        await two.first.alter_broker(None, lambda configs: {**configs, "log.retention.ms": "9000"})
        await put_many(two.catalog, {f"/other/{n}": b"" for n in range(interface.HISTORY_CHANGES)})
        with pytest.raises(interface.HistoryLost):
            two.catalog.changes(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(two.second.following.run)
            await wait_all_tasks_blocked()
            assert two.seen(two.first) == two.seen(two.second)
            await two.first.create_topic("newer", 2, {}, 1)
            await wait_all_tasks_blocked()
            assert two.seen(two.first) == two.seen(two.second)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_level_is_in_effect_everywhere_when_the_catalog_has_it() -> None:
    async def body(two: Two) -> None:
        assert two.second.features.level(PREFERRED_LEADERS) == 0
        await two.first.change_features(lambda _: {PREFERRED_LEADERS: 1})
        assert two.first.features.level(PREFERRED_LEADERS) == 1
        await wait_all_tasks_blocked()
        assert two.second.features.level(PREFERRED_LEADERS) == 1

    run(body)


def test_a_gateway_that_cannot_do_a_level_ends() -> None:
    """It was changed behind everybody's back: by an import, or by hand."""

    async def body(two: Two) -> None:
        later = FinalizedFeatures(2, {"dafka.later": 1}, "9")
        await two.catalog.transact([], {keys.FEATURES: pack_features(later)})

    with pytest.RaisesGroup(FeatureMissing):
        run(body)


ALICE: Entity = frozenset({(USER, "alice")})
ADDRESS: Entity = frozenset({(IP, "10.0.0.1")})


def throttle_ms(broker: Broker, size: int) -> int:
    charges = broker.quotas.clients.charges("alice", "app")
    charges.produced(size)
    return charges.throttle_ms


def test_quotas_are_in_force_on_both_and_each_counts_for_itself() -> None:
    async def body(two: Two) -> None:
        rate = {"connection_creation_rate": 10.0}
        await two.first.alter_quotas(
            {ALICE: {"producer_byte_rate": 100}, ADDRESS: rate}, {ADDRESS: "10.0.0.1"}
        )
        # Who has changed them finds them in force at once.
        assert throttle_ms(two.first, 2_000) == 10_000
        await wait_all_tasks_blocked()
        assert two.second.quotas.connections.is_on
        assert [throttle_ms(two.second, size) for size in (1_000, 1_000)] == [0, 10_000]
        await two.first.alter_quotas({ALICE: {"producer_byte_rate": None}, ADDRESS: dict.fromkeys(rate)}, {})
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            assert not broker.quotas.clients.is_on
            assert not broker.quotas.connections.is_on
            assert throttle_ms(broker, 10**9) == 0


def test_users_come_in_by_what_another_gateway_was_told() -> None:
    async def body(two: Two) -> None:
        assert await two.first.alter_user(upsertion("alice")) is None
        await wait_all_tasks_blocked()
        assert two.second.scram_users.known(Hash.SHA_256, "alice") is not None
        assert await two.second.alter_user(Deletion("alice", 1)) is None
        await two.first.following.take()
        assert two.first.scram_users.of("alice") is None
        assert await two.first.alter_user(Deletion("alice", 1)) is Refusal.NONE_THERE

    run(body)


def test_quotas_are_taken_anew_where_the_history_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(two: Two) -> None:
        await two.first.alter_quotas({ALICE: {"producer_byte_rate": 100}}, {})
        await wait_all_tasks_blocked()
        monkeypatch.setattr(MemoryCatalog, "changes", lose_history)
        await two.first.quotas.alter({ALICE: {"producer_byte_rate": None}}, {})
        await two.first.quotas.alter({frozenset({(USER, None)}): {"producer_byte_rate": 200}}, {})
        for broker in (two.first, two.second):
            await broker.following.take()
            assert dict(broker.quotas.all()) == {frozenset({(USER, None)}): {"producer_byte_rate": 200}}
            assert throttle_ms(broker, 4_000) == 10_000

    run(body)


def lose_history(_catalog: MemoryCatalog, _revision: int) -> Any:
    raise interface.HistoryLost(0)


def test_places_are_bounded_on_both() -> None:
    async def body(two: Two) -> None:
        configs = {"max.connections": "7", "max.connections.per.ip.overrides": "10.0.0.1:2,::1:3"}
        await two.first.alter_broker(None, lambda _before: configs)
        await wait_all_tasks_blocked()
        for broker in (two.first, two.second):
            limits = broker.quotas.places.limits
            assert limits == PlaceLimits(all=7, of_some={"10.0.0.1": 2, "0:0:0:0:0:0:0:1": 3})
        await two.first.alter_broker(None, lambda _before: {})
        await wait_all_tasks_blocked()
        assert two.second.quotas.places.limits == PlaceLimits()


def test_a_user_is_made_to_the_end_though_who_asked_is_gone() -> None:
    async def body(two: Two) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(two.first.changes.run)
            await wait_all_tasks_blocked()
            with trio.CancelScope() as gone:
                gone.cancel()
                await two.first.alter_user(upsertion("alice"))
            assert gone.cancelled_caught
            assert await two.first.alter_user(upsertion("bob")) is None
            nursery.cancel_scope.cancel()
        assert [user for user, _ in two.first.scram_users.all()] == ["alice", "bob"]
        assert [user for user, _ in two.second.scram_users.all()] == ["alice", "bob"]

    run(body)
