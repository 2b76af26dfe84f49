"""Questions to coordinators on other gateways: they share requests, and clients have turns."""

from __future__ import annotations

from typing import Any, cast

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.peers.failures import PeerSilent
from gateway.peers.question import Question
from gateway.transactions import verification_routes
from gateway.transactions.metadata import TopicPartition
from gateway.transactions.verification_routes import MAX_WAITING, VerificationRoutes
from gateway.transactions.verifier import Producing
from tests.unit.gateway.transactions.home import run
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

NODE = 2
PLACE: TopicPartition = ("orders", 0)
_Answer: Any = RESPONSE_CLASSES[ApiKey.ADD_PARTITIONS_TO_TXN]
_Result: Any = _Answer.AddPartitionsToTxnResult
_Topic: Any = _Answer.AddPartitionsToTxnTopicResult
_Partition: Any = _Topic.AddPartitionsToTxnPartitionResult


class FakePeers:
    """Answers when the test says so; an id `old` is fenced."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.go = trio.Event()
        self.is_silent = False

    async def ask(self, node: int, question: Question, _seconds: float, channel: str) -> Any:
        assert node == NODE
        wanted = question._request.transactions
        self.asked.append((channel, [one.transactional_id for one in wanted]))
        await self.go.wait()
        if self.is_silent:
            raise PeerSilent("nothing is heard")
        results = []
        for one in wanted:
            error = ErrorCode.PRODUCER_FENCED if one.transactional_id == "old" else ErrorCode.NONE
            topics = [
                _Topic(
                    name=topic.name,
                    results_by_partition=[
                        _Partition(partition_index=index, partition_error_code=error)
                        for index in topic.partitions
                    ],
                )
                for topic in one.topics
            ]
            results.append(_Result(transactional_id=one.transactional_id, topic_results=topics))
        return _Answer(results_by_transaction=results)


class Scene:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.peers = FakePeers()
        self.routes = VerificationRoutes(cast("Any", self.peers))
        self.found: dict[str, ErrorCode] = {}
        self._nursery = nursery
        nursery.start_soon(self.routes.run)

    async def ask(self, name: str, client: str = "c", *, adds: bool = True) -> None:
        """In a task of its own."""

        async def run() -> None:
            try:
                found = await self.routes.ask(NODE, Producing(name, 7, 0, adds), [PLACE], client)
                self.found[name] = found[PLACE]
            except KafkaError as error:
                self.found[name] = error.code

        self._nursery.start_soon(run)
        await wait_all_tasks_blocked()


def scene(body: Any) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            made = Scene(nursery)
            await wait_all_tasks_blocked()
            await body(made)
            nursery.cancel_scope.cancel()

    run(main)


def test_what_comes_while_one_is_on_its_way_goes_together_and_each_has_its_answer() -> None:
    async def body(made: Scene) -> None:
        for name in ("first", "second", "old", "third"):
            await made.ask(name)
        assert made.peers.asked == [("addition", ["first"])]
        await made.ask("looks", adds=False)
        assert made.peers.asked[1:] == [("verification", ["looks"])]
        made.peers.go.set()
        await wait_all_tasks_blocked()
        assert made.peers.asked[2:] == [("addition", ["second", "old", "third"])]
        good = dict.fromkeys(("first", "second", "third", "looks"), ErrorCode.NONE)
        assert made.found == good | {"old": ErrorCode.PRODUCER_FENCED}

    scene(body)


def test_a_client_with_many_holds_up_no_other(monkeypatch: Any) -> None:
    monkeypatch.setattr(verification_routes, "PARTITIONS_A_REQUEST", 4)

    async def body(made: Scene) -> None:
        for number in range(20):
            await made.ask(f"greedy-{number}", "greedy")
        await made.ask("modest", "modest")
        made.peers.go.set()
        await wait_all_tasks_blocked()
        assert "modest" in made.peers.asked[1][1]
        assert len(made.found) == 21

    scene(body)


def test_what_waits_is_bounded_and_a_client_has_a_share_of_it() -> None:
    async def body(made: Scene) -> None:
        many = [("orders", index) for index in range(MAX_WAITING // 2)]
        made.peers.is_silent = True

        async def ask_much() -> None:
            found = await made.routes.ask(NODE, Producing("much", 7, 0, adds=True), many, "greedy")
            assert set(found.values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            made.found["much"] = ErrorCode.NONE

        made._nursery.start_soon(ask_much)
        await wait_all_tasks_blocked()
        await made.ask("more", "greedy")
        assert made.found == {"more": ErrorCode.COORDINATOR_NOT_AVAILABLE}
        await made.ask("modest", "modest")
        assert "modest" not in made.found, "it waits"
        made.peers.go.set()
        await wait_all_tasks_blocked()
        made.peers.is_silent = False
        await made.ask("more", "greedy")
        assert made.found["more"] is ErrorCode.NONE, "what was held is given back"

    scene(body)


def test_one_id_is_once_in_a_request() -> None:
    async def body(made: Scene) -> None:
        for name in ("first", "same", "same", "other"):
            await made.ask(name)
        made.peers.go.set()
        await wait_all_tasks_blocked()
        sent = [ids for _, ids in made.peers.asked]
        assert sent == [["first"], ["same"], ["same", "other"]]

    scene(body)
