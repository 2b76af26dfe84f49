"""Topics that Metadata requests ask for: each is created once, in turn, and within bounds."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from gateway.administration import automatic_creation
from gateway.administration.automatic_creation import AutomaticCreation
from gateway.catalog.interface import CatalogFailed
from gateway.common import log_limit
from gateway.common.clients import client_of
from tests.unit.gateway.api.asking import FakeBroker
from wireproto.kafka.errors import ErrorCode, KafkaError


class SlowBroker(FakeBroker):
    """Creates a topic when it is let: `created` are the names in their order."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.created: list[str] = []
        self.let = trio.Semaphore(0)
        self.defect: Exception | None = None

    async def create_topic(
        self, name: str, partitions: int, configs: dict[str, str], replication_factor: int, *, maker: str = ""
    ) -> Any:
        await self.let.acquire()
        self.created.append(name)
        if self.defect is not None:
            raise self.defect
        return await super().create_topic(name, partitions, configs, replication_factor, maker=maker)

    async def create(self, count: int) -> None:
        for _ in range(count):
            self.let.release()
        await trio.testing.wait_all_tasks_blocked()


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limit, "_said", set())


def at_work(broker: FakeBroker, body: Callable[[AutomaticCreation], Awaitable[None]]) -> None:
    """Run `body` while topics are created."""

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.automatic_creation.run)
            await trio.testing.wait_all_tasks_blocked()
            await body(broker.automatic_creation)
            nursery.cancel_scope.cancel()

    trio.run(both)


def test_a_name_is_under_way_once() -> None:
    broker = SlowBroker()

    async def body(creation: AutomaticCreation) -> None:
        creation.ask("h", ["a", "b"])
        await trio.testing.wait_all_tasks_blocked()
        creation.ask("h", ["b", "a"])
        assert creation.under_way == 2
        await broker.create(5)
        assert (broker.created, creation.under_way) == (["a", "b"], 0)
        creation.ask("h", ["a", "b"])
        assert creation.under_way == 0, "they are there"
        del broker.topics.topics["a"]
        creation.ask("h", ["a", "b"])
        await broker.create(0)
        assert broker.created == ["a", "b", "a"]

    at_work(broker, body)


def test_clients_have_their_turns() -> None:
    """However many requests they ask with."""
    broker = SlowBroker()

    async def body(creation: AutomaticCreation) -> None:
        for number in range(1000):
            creation.ask("hungry", [f"many-{number}"])
        creation.ask("b", ["one"])
        creation.ask("c", ["two", "three"])
        await broker.create(6)
        assert broker.created == ["many-0", "one", "two", "many-1", "three", "many-2"]

    at_work(broker, body)


def test_what_finds_no_place_is_left_to_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client has half of what others have left: there is always some for one that comes with little."""
    monkeypatch.setattr(automatic_creation, "MAX_UNDER_WAY", 9)
    broker = SlowBroker()

    async def body(creation: AutomaticCreation) -> None:
        creation.ask("a", [f"a{n}" for n in range(10)])
        creation.ask("a", ["a9"])
        assert creation.under_way == 4
        creation.ask("b", [f"b{n}" for n in range(10)])
        assert creation.under_way == 6
        creation.ask("c", ["c0", "c1"])
        creation.ask("d", ["d0", "d1"])
        assert creation.under_way == 8
        await broker.create(8)
        assert broker.created == ["a0", "b0", "c0", "d0", "a1", "b1", "a2", "a3"]
        creation.ask("a", ["a9"])
        await broker.create(1)
        assert broker.created[-1] == "a9"

    at_work(broker, body)


def test_a_network_of_many_addresses_leaves_places_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic_creation, "MAX_UNDER_WAY", 400)
    broker = SlowBroker()

    async def body(creation: AutomaticCreation) -> None:
        for number in range(1000):
            creation.ask(client_of(f"2001:db8:1:{number:x}::1"), [f"a{number}-{n}" for n in range(400)])
        assert creation.under_way == 300
        creation.ask("10.0.0.1", [f"b{n}" for n in range(400)])
        assert creation.under_way == 350

    at_work(broker, body)


def test_names_that_collide_take_no_place() -> None:
    """A name with n separators has 2^n of them, and none can ever be created."""
    broker = SlowBroker()
    broker.add("a.b.c")

    async def body(creation: AutomaticCreation) -> None:
        creation.ask("h", ["a_b.c", "a.b_c", "a_b_c"])
        assert creation.under_way == 0
        await trio.testing.wait_all_tasks_blocked()

    at_work(broker, body)


def test_too_many_in_one_request_are_not_created(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic_creation, "MAX_PARTITIONS_PER_REQUEST", 6)
    broker = FakeBroker(partitions=2)

    async def body(creation: AutomaticCreation) -> None:
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                creation.ask("h", ["a", "b", "c"])
        assert creation.under_way == 0
        (record,) = caplog.records
        assert record.getMessage().startswith(
            "more than 2 missing topics of 2 partitions each were not created"
        )
        creation.ask("h", ["a", "b"])
        await trio.testing.wait_all_tasks_blocked()
        creation.ask("h", ["a", "b", "c"])  # one of them is missing
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(broker.topics.topics) == ["a", "b", "c"]
        broker.topics.most = 7
        creation.ask("h", ["d"])
        await trio.testing.wait_all_tasks_blocked()
        assert (sorted(broker.topics.topics), creation.under_way) == (["a", "b", "c"], 0)

    at_work(broker, body)


def test_what_cannot_be_created_is_left_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    broker.add("a.b")

    async def body(creation: AutomaticCreation) -> None:
        with caplog.at_level(logging.WARNING):
            creation.ask(
                "h",
                ["a_b", "__cluster_metadata", "__consumer_offsets", "__transaction_state", "a/b", "", "c"],
            )
            await trio.testing.wait_all_tasks_blocked()
        (record,) = caplog.records
        assert "collides with existing topic: a.b" in record.getMessage()
        assert sorted(broker.topics.topics) == ["a.b", "c"]

    at_work(broker, body)


def test_names_of_one_request_do_not_collide() -> None:
    broker = FakeBroker()

    async def body(creation: AutomaticCreation) -> None:
        creation.ask("h", ["a.b", "a_b"])
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(broker.topics.topics) == ["a.b"]

    at_work(broker, body)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), []),
        (KafkaError(ErrorCode.POLICY_VIOLATION, "full"), ["a could not be created automatically: full"]),
        (ValueError("x"), ["a defect in the automatic creation of topic a"]),
    ],
    ids=["another was faster", "refused", "a defect"],
)
def test_a_failure_is_one_topics(
    failure: Exception, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    broker = SlowBroker()
    broker.defect = failure

    async def body(creation: AutomaticCreation) -> None:
        with caplog.at_level(logging.WARNING):
            creation.ask("h", ["a"])
            await broker.create(1)
        assert [any(one in record.getMessage() for one in said) for record in caplog.records] == [True] * len(
            said
        )
        broker.defect = None
        creation.ask("h", ["a"])
        await broker.create(1)
        assert list(broker.topics.topics) == ["a"]

    at_work(broker, body)


def test_a_failed_disk_ends_the_gateway() -> None:
    broker = SlowBroker()
    broker.defect = CatalogFailed("the disk")
    broker.let.release()
    broker.automatic_creation.ask("h", ["a"])
    with pytest.raises(CatalogFailed):
        trio.run(broker.automatic_creation.run)


def test_a_topic_that_was_asked_for_is_on_the_account_of_who_asked() -> None:
    broker = SlowBroker()

    async def body(creation: AutomaticCreation) -> None:
        creation.ask("h", ["a"], maker="User:a")
        creation.ask("h", ["b"])
        await broker.create(2)
        assert {name: topic.maker for name, topic in broker.topics.topics.items()} == {"a": "User:a", "b": ""}
        assert broker.topics.checked == [("User:a", 1), ("", 1)]

    at_work(broker, body)
