"""The APIs of transactional producers and of who looks at them; the coordinator is real, its log a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.api import describe_transactions
from gateway.transactions import adding
from tests.unit.gateway.api.asking import FakeBroker, ask_async, request_class, reserved_for
from tests.unit.gateway.transactions.home import Home, run
from wireproto.kafka.errors import ErrorCode, KafkaError

Init, Add, AddOffsets, End = (request_class(key) for key in (22, 24, 25, 26))
Describe, ListAll = request_class(65), request_class(66)
VERSIONS = {22: range(6), 24: range(6), 25: range(5), 26: range(6)}
TIMEOUT_MS = 60_000
NO_ERROR_OF_1 = {"partition_index": 1, "partition_error_code": 0}


class Gateway:
    """A broker with topics `orders` (3 partitions) and `payments`, and what clients ask of it."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.broker.add("orders", 3)
        self.broker.add("payments")
        self.broker.add("__consumer_offsets", 50)
        self.home = Home()
        self.broker.transactions = self.home.coordinator
        self.broker.context.now_ms = self.home.now_ms

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.home.running():
            yield

    async def ask(self, request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = (await ask_async(self.broker, request)).to_dict(json=False)
        assert answer.pop("throttle_time_ms") == 0
        return answer

    async def init(self, version: int = 4, name: str | None = "t", **fields: int) -> dict[str, Any]:
        values = {"transaction_timeout_ms": TIMEOUT_MS} | fields
        return await self.ask(Init(version=version, transactional_id=name, **values))

    async def add(
        self, pid: int, epoch: int, topics: Mapping[str, Sequence[int]], version: int = 3, name: str = "t"
    ) -> dict[tuple[str, int], int]:
        request = Add(
            version=version,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=_topics(topics),
        )
        return _results((await self.ask(request))["results_by_topic_v3_and_below"])

    async def add_several(
        self, *wanted: Any, version: int = 5
    ) -> list[tuple[str, dict[tuple[str, int], int]]]:
        answer = await self.ask(Add(version=version, transactions=list(wanted)))
        assert answer["error_code"] == 0
        return [
            (one["transactional_id"], _results(one["topic_results"]))
            for one in answer["results_by_transaction"]
        ]

    async def end(
        self, pid: int, epoch: int, version: int = 3, *, commit: bool = True, name: str = "t"
    ) -> dict[str, Any]:
        producer = {"producer_id": pid, "producer_epoch": epoch}
        return await self.ask(End(version=version, transactional_id=name, committed=commit, **producer))

    async def add_offsets(self, pid: int, epoch: int, version: int = 3, name: str = "t") -> int:
        request = AddOffsets(
            version=version, transactional_id=name, producer_id=pid, producer_epoch=epoch, group_id="g"
        )
        code: int = (await self.ask(request))["error_code"]
        return code

    async def describe(self, *names: str) -> list[dict[str, Any]]:
        states: list[dict[str, Any]] = (await self.ask(Describe(version=0, transactional_ids=list(names))))[
            "transaction_states"
        ]
        return states

    async def list_all(self, version: int = 2, **fields: Any) -> dict[str, Any]:
        return await self.ask(
            ListAll(version=version, **({"state_filters": [], "producer_id_filters": []} | fields))
        )


def _topics(wanted: Mapping[str, Sequence[int]]) -> list[Any]:
    one = Add.AddPartitionsToTxnTopic
    return [one(name=name, partitions=list(partitions)) for name, partitions in wanted.items()]


def several(
    name: str, pid: int, epoch: int, topics: Mapping[str, Sequence[int]], *, verify: bool = False
) -> Any:
    return Add.AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=pid,
        producer_epoch=epoch,
        verify_only=verify,
        topics=_topics(topics),
    )


def _results(topics: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    return {
        (topic["name"], one["partition_index"]): one["partition_error_code"]
        for topic in topics
        for one in topic["results_by_partition"]
    }


# InitProducerId ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[22])
def test_a_transactional_producer_gets_the_next_epoch(version: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            for epoch in range(3):
                assert await gateway.init(version) == {
                    "error_code": 0,
                    "producer_id": 1001,
                    "producer_epoch": epoch,
                }

    run(main)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": ""}, 42),
        ({"transaction_timeout_ms": 0}, 50),
        ({"transaction_timeout_ms": 900_001}, 50),
        ({"producer_id": 5}, 42),
        ({"producer_epoch": 5}, 42),
        ({"producer_id": 5, "producer_epoch": 5}, 90),
    ],
)
def test_wrong_producers_are_refused(fields: dict[str, Any], error: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            refused = await gateway.init(**fields)
            assert refused == {"error_code": error, "producer_id": -1, "producer_epoch": -1}

    run(main)


@pytest.mark.parametrize(("version", "error"), [(3, 47), (4, 90), (5, 90)])
def test_older_clients_are_told_that_their_epoch_is_old(version: int, error: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            await gateway.init()
            assert (await gateway.init(version, producer_id=1001, producer_epoch=0))["error_code"] == error

    run(main)


def test_errors_of_the_coordinator_are_answered() -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            gateway.home.journal.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await gateway.init())["error_code"] == 15
            gateway.home.coordinator.stop()
            assert await gateway.add(1, 0, {"orders": [0]}) == {("orders", 0): 15}
            assert await gateway.add_offsets(1, 0) == 15
            assert (await gateway.end(1, 0, 5)) == {
                "error_code": 15,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            assert [one["error_code"] for one in await gateway.describe("t")] == [15]
            assert (await gateway.list_all())["error_code"] == 15

    run(main)


# AddPartitionsToTxn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(version: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            added = await gateway.add(1001, 0, {"orders": [2, 0], "payments": [0]}, version)
            assert added == {("orders", 2): 0, ("orders", 0): 0, ("payments", 0): 0}
            (state,) = await gateway.describe("t")
            assert state["topics"] == [
                {"topic": "orders", "partitions": [0, 2]},
                {"topic": "payments", "partitions": [0]},
            ]

    run(main)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"orders": [0, 3]}, {("orders", 0): 55, ("orders", 3): 3}),
        ({"orders": [-1]}, {("orders", -1): 3}),
        ({"orders": [0], "nowhere": [0]}, {("orders", 0): 55, ("nowhere", 0): 3}),
        (
            {"__consumer_offsets": [0], "__transaction_state": [0], "orders": [1]},
            {("__consumer_offsets", 0): 29, ("__transaction_state", 0): 29, ("orders", 1): 55},
        ),
        ({"orders": [1, 1]}, {("orders", 1): 0}),
        ({}, {}),
    ],
)
def test_one_partition_that_cannot_be_added_keeps_all_others_out(
    wanted: dict[str, list[int]], expected: dict[tuple[str, int], int]
) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            assert await gateway.add(1001, 0, wanted) == expected
            added = not any(expected.values())
            assert gateway.home.state() == ("Ongoing" if added else "Empty")

    run(main)


def test_what_is_named_twice_or_without_partitions_is_answered_so() -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            request = Add(
                version=3,
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=1001,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=_topics({"orders": [1, 1], "payments": []}),
            )
            assert (await gateway.ask(request))["results_by_topic_v3_and_below"] == [
                {"name": "orders", "results_by_partition": [NO_ERROR_OF_1] * 2},
                {"name": "payments", "results_by_partition": []},
            ]

    run(main)


@pytest.mark.parametrize(("version", "error"), [(0, 47), (1, 47), (2, 90), (3, 90)])
def test_a_fenced_producer_adds_nothing(version: int, error: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            await gateway.init()
            assert await gateway.add(1001, 0, {"orders": [0]}, version) == {("orders", 0): error}
            assert await gateway.add_offsets(1001, 0, version) == error
            assert (await gateway.end(1001, 0, version))["error_code"] == error
            assert await gateway.add(1001, 0, {"orders": [0]}, version, name="") == {("orders", 0): 42}

    run(main)


def test_a_transaction_of_too_many_partitions_is_to_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "MAX_TRANSACTION_PARTITIONS", 2)

    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            assert set((await gateway.add(1001, 0, {"orders": [0, 1]})).values()) == {0}
            assert await gateway.add(1001, 0, {"orders": [2]}) == {("orders", 2): 44}
            assert await gateway.add(1001, 0, {"orders": [1]}) == {("orders", 1): 0}

    run(main)


@pytest.mark.parametrize("version", [4, 5])
def test_gateways_ask_for_several_transactions_at_once(version: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            for name in ("a", "b", "c"):
                await gateway.init(name=name)
            assert await gateway.add_several(
                several("a", 1001, 0, {"orders": [0], "__consumer_offsets": [7]}),
                several("b", 1002, 0, {"orders": [1], "nowhere": [0]}),
                several("c", 1003, 4, {"orders": [1]}),
                several("", 1003, 4, {"orders": [1]}),
                several("a", 1001, 0, {"orders": [0, 1]}, verify=True),
                version=version,
            ) == [
                ("a", {("orders", 0): 0, ("__consumer_offsets", 7): 0}),
                ("b", {("orders", 1): 55, ("nowhere", 0): 3}),
                ("c", {("orders", 1): 90}),
                ("", {("orders", 1): 42}),
                # Judged before the first was durable.
                ("a", {("orders", 0): 120, ("orders", 1): 120}),
            ]
            (only,) = await gateway.add_several(
                several("a", 1001, 0, {"orders": [0, 1]}, verify=True), version=version
            )
            assert only == ("a", {("orders", 0): 0, ("orders", 1): 120})
            assert gateway.home.state("b") == "Empty"

    run(main)


@pytest.mark.parametrize("version", [4, 5])
def test_nobody_adds_internal_topics_but_the_offsets_of_groups(version: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init(name="a")
            assert await gateway.add_several(
                several("a", 1001, 0, {"__transaction_state": [7], "orders": [0]}), version=version
            ) == [("a", {("__transaction_state", 7): 29, ("orders", 0): 55})]
            assert gateway.home.state("a") == "Empty"

    run(main)


def test_what_is_asked_for_several_is_written_together() -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            for name in ("a", "b"):
                await gateway.init(name=name)
            gateway.home.journal.held = True
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    gateway.add_several,
                    several("a", 1001, 0, {"orders": [0]}),
                    several("b", 1002, 0, {"orders": [0]}),
                )
                await wait_all_tasks_blocked()
                assert len(gateway.home.journal.on_its_way) == 2
                gateway.home.journal.settle()

    run(main)


# AddOffsetsToTxn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[25])
def test_the_partition_of_a_group_is_added(version: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            assert await gateway.add_offsets(1001, 0, version) == 0
            (state,) = await gateway.describe("t")
            # |"g".hashCode()| % 50
            assert state["topics"] == [{"topic": "__consumer_offsets", "partitions": [ord("g") % 50]}]
            assert await gateway.add_offsets(1001, 0, version, name="") == 42
            assert await gateway.add_offsets(1001, 0, version, name="unknown") == 49
            gateway.broker.groups.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            assert await gateway.add_offsets(1001, 0, version) == 15

    run(main)


# EndTxn -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[26])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends(version: int, commit: bool) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            await gateway.add(1001, 0, {"orders": [0, 1]})
            given = {"producer_id": 1001, "producer_epoch": 1} if version == 5 else {}
            for _ in range(2):  # a retry is told the same
                ended = await gateway.end(1001, 0, version, commit=commit)
                assert ended == {"error_code": 0, **given}
                await wait_all_tasks_blocked()
            assert gateway.home.state() == ("CompleteCommit" if commit else "CompleteAbort")
            markers = {marker for _, marker in gateway.home.target.written}
            assert {(one.producer_epoch, one.is_commit, one.transaction_version) for one in markers} == {
                (1, commit, 2) if version == 5 else (0, commit, 0)
            }
            wrong = (await gateway.end(1001, 0, version, commit=not commit))["error_code"]
            assert wrong == 48
            assert (await gateway.end(1001, 0, version, name=""))["error_code"] == 42
            assert (await gateway.end(1001, 0, version, name="unknown"))["error_code"] == 49

    run(main)


def test_the_newer_protocol_goes_on_with_another_producer_id_at_the_last_epoch() -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            one = gateway.home.coordinator.transactions["t"].machine
            assert one.metadata is not None
            object.__setattr__(one.metadata, "producer_epoch", 32_766)
            await gateway.add(1001, 32_766, {"orders": [0]})
            given = {"error_code": 0, "producer_id": 1002, "producer_epoch": 0}
            assert await gateway.end(1001, 32_766, 5) == given
            await wait_all_tasks_blocked()
            ((_, marker),) = gateway.home.target.written
            assert (marker.producer_id, marker.producer_epoch) == (1001, 32_767)
            assert await gateway.end(1001, 32_766, 5) == given

    run(main)


# DescribeTransactions, ListTransactions ---------------------------------------------------------------------


def test_transactions_are_described() -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            await gateway.add(1001, 0, {"orders": [1]})
            nothing = {
                "transaction_state": "",
                "transaction_timeout_ms": 0,
                "transaction_start_time_ms": 0,
                "producer_id": 0,
                "producer_epoch": 0,
                "topics": [],
            }
            assert await gateway.describe("t", "", "unknown", "t") == [
                shown := {
                    "error_code": 0,
                    "transactional_id": "t",
                    "transaction_state": "Ongoing",
                    "transaction_timeout_ms": TIMEOUT_MS,
                    "transaction_start_time_ms": gateway.home.now_ms(),
                    "producer_id": 1001,
                    "producer_epoch": 0,
                    "topics": [{"topic": "orders", "partitions": [1]}],
                },
                {"error_code": 42, "transactional_id": "", **nothing},
                {"error_code": 105, "transactional_id": "unknown", **nothing},
                shown,
            ]
            gateway.home.move("t", here=False)
            assert [one["error_code"] for one in await gateway.describe("t")] == [16]

    run(main)


def test_partitions_without_a_marker_are_described_while_a_transaction_ends() -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            await gateway.add(1001, 0, {"orders": [0, 1, 2]})
            gateway.home.target.plan["orders", 1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000
            await gateway.end(1001, 0)
            await wait_all_tasks_blocked()
            (state,) = await gateway.describe("t")
            assert state["transaction_state"] == "PrepareCommit"
            assert state["topics"] == [{"topic": "orders", "partitions": [1]}]

    run(main)


def test_an_answer_describes_so_many_partitions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_transactions, "MAX_DESCRIBED_PARTITIONS", 4)

    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await gateway.init()
            await gateway.add(1001, 0, {"orders": [0, 1, 2]})
            assert [one["error_code"] for one in await gateway.describe(*["t"] * 4)] == [0, 0, 44, 44]

    run(main)


NAMES = ["Complete", "Empty", "Ongoing", "Prepared"]


async def one_of_each(gateway: Gateway) -> None:
    """An id in each of four states, a second apart."""
    gateway.home.target.plan["orders", 2] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100_000
    for number, name in enumerate(NAMES):
        await gateway.init(name=name)
        if name != "Empty":
            await gateway.add(1001 + number, 0, {"orders": [2 if name == "Prepared" else 0]}, name=name)
        if name in {"Complete", "Prepared"}:
            await gateway.end(1001 + number, 0, name=name)
            await wait_all_tasks_blocked()
        await trio.sleep(1)


@pytest.mark.parametrize(
    ("fields", "found", "unknown"),
    [
        ({}, NAMES, []),
        ({"state_filters": ["Ongoing", "PrepareCommit"]}, ["Ongoing", "Prepared"], []),
        ({"state_filters": ["CompleteCommit", "ongoing", "x", "x"]}, ["Complete"], ["ongoing", "x"]),
        ({"state_filters": ["x"]}, [], ["x"]),
        ({"state_filters": ["Dead", "PrepareEpochFence"]}, [], []),
        ({"producer_id_filters": [1002, 1003, 5]}, ["Empty", "Ongoing"], []),
        ({"producer_id_filters": [1002], "state_filters": ["Ongoing"]}, [], []),
        ({"duration_filter": -1}, NAMES, []),
        # An id without a transaction counts as one that began in 1970, as in Kafka.
        ({"duration_filter": 2_500}, ["Complete", "Empty"], []),
        ({"transactional_id_pattern": None}, NAMES, []),
        ({"transactional_id_pattern": ""}, NAMES, []),
        ({"transactional_id_pattern": ".*p.*"}, ["Complete", "Empty", "Prepared"], []),
        ({"transactional_id_pattern": "(?i)empty|ongo"}, ["Empty"], []),
    ],
)
def test_transactions_are_listed(fields: dict[str, Any], found: list[str], unknown: list[str]) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await one_of_each(gateway)
            answer = await gateway.list_all(**fields)
            listed = [one["transactional_id"] for one in answer["transaction_states"]]
            assert (answer["error_code"], sorted(listed)) == (0, found)
            assert answer["unknown_state_filters"] == unknown
            if not fields:
                assert sorted(
                    (one["transactional_id"], one["producer_id"], one["transaction_state"])
                    for one in answer["transaction_states"]
                ) == [
                    ("Complete", 1001, "CompleteCommit"),
                    ("Empty", 1002, "Empty"),
                    ("Ongoing", 1003, "Ongoing"),
                    ("Prepared", 1004, "PrepareCommit"),
                ]

    run(main)


@pytest.mark.parametrize("version", [0, 1])
def test_older_versions_list_without_the_newer_filters(version: int) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            await one_of_each(gateway)
            assert len((await gateway.list_all(version))["transaction_states"]) == 4

    run(main)


@pytest.mark.parametrize("pattern", ["a(", "(?=a)", "x" * 1001])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            answer = await gateway.list_all(transactional_id_pattern=pattern, state_filters=["x"])
            assert answer == {"error_code": 128, "unknown_state_filters": [], "transaction_states": []}

    run(main)


def test_while_ids_are_loaded_nobody_lists_them() -> None:
    async def main() -> None:
        gateway = Gateway()
        gateway.home.journal.may_load = trio.Event()
        async with gateway.running():
            assert (await gateway.list_all())["error_code"] == 14
            assert [one["error_code"] for one in await gateway.describe("t")] == [14]

    run(main)


def test_a_long_list_takes_from_the_memory_of_large_answers() -> None:
    """Many connections may ask for one at once, with requests of thirty bytes."""

    async def main() -> None:
        gateway = Gateway()
        async with gateway.running():
            asked = ListAll(version=1, state_filters=[], producer_id_filters=[], duration_filter=-1)
            await gateway.init()
            assert await reserved_for(gateway.broker, asked) == 0
            for number in range(300):
                await gateway.init(name=f"{number:0100}")
            answer = await gateway.ask(asked)
            assert len(answer["transaction_states"]) == 301
            assert 300 * (250 + 100) <= await reserved_for(gateway.broker, asked) <= 301 * (250 + 400)

    run(main)
