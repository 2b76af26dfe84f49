"""What the APIs of transactions need their client to be allowed, in each of their versions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.cluster.feature_levels import TRANSACTION_VERSION
from gateway.security.access import UNRESTRICTED, Access, Question
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask_async, request_class
from tests.unit.gateway.api.needs import Need, Refused, Scene, check_needs, decoded, only, versions, whole
from tests.unit.gateway.transactions.home import TIMEOUT_MS, Home, run
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

Init, Add, AddOffsets, End, Write, Commit, Describe, ListAll = (
    request_class(key) for key in (22, 24, 25, 26, 27, 28, 65, 66)
)
TOPIC, ID, CLUSTER = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
NO_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

WRITE_ID: Question = (Operation.WRITE, ID, "t")
SEE_ID: Question = (Operation.DESCRIBE, ID, "t")
READ_GROUP: Question = (Operation.READ, ResourceType.GROUP, "g")
WRITE_ORDERS: Question = (Operation.WRITE, TOPIC, "orders")
READ_ORDERS: Question = (Operation.READ, TOPIC, "orders")
IDEMPOTENT_WRITE: Question = (Operation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)
CLUSTER_ACTION: Question = (Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
ALTER: Question = (Operation.ALTER, CLUSTER, CLUSTER_NAME)

PRODUCER = {"producer_id": 1001, "producer_epoch": 0}
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1}


class Markers:
    """What was written to partitions."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def write(self, *marker: Any) -> ErrorCode:
        self.written.append(marker)
        return ErrorCode.NONE


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """The id "t" has a transaction with partitions of "orders" and "payments", "u" has none."""
    broker, home, markers = FakeBroker(), Home(), Markers()
    broker.add("orders", 3)
    broker.add("payments")
    broker.add("__consumer_offsets", 50)
    broker.transactions = home.coordinator
    broker.context.now_ms = home.now_ms
    broker.markers_here = markers  # type: ignore[attr-defined]
    broker.features = SimpleNamespace(level={TRANSACTION_VERSION: 2}.get)  # type: ignore[assignment]
    async with home.running():
        await home.open("t", frozenset((("orders", 0), ("payments", 0))))
        await home.init("u")

        def observe() -> object:
            return (
                list(home.journal.entered),
                list(markers.written),
                list(broker.groups.found),
                broker.next_producer_id,
            )

        yield Scene(broker, observe)


def _check(request: Any, needs: Sequence[Need]) -> None:
    run(partial(check_needs, scene, request, needs))


def _ask(request: Any, access: Access) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []

    async def main() -> None:
        async with scene() as made:
            made.broker.access = access
            answers.append((await ask_async(made.broker, request)).to_dict(json=False))

    run(main)
    return answers[0]


# one id, one answer -----------------------------------------------------------------------------------------


def _init(version: int, name: str | None = "t", **fields: int) -> Any:
    return Init(version=version, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, **fields)


def _add_offsets(version: int) -> Any:
    return AddOffsets(version=version, transactional_id="t", group_id="g", **PRODUCER)


def _end(version: int) -> Any:
    return End(version=version, transactional_id="t", committed=True, **PRODUCER)


CASES: dict[str, tuple[int, Callable[[int], Any], list[Need]]] = {
    "InitProducerId with an id": (22, _init, [Need(NO_ID, (WRITE_ID,), whole(22, **NO_PRODUCER))]),
    "InitProducerId": (
        22,
        lambda version: _init(version, None),
        [Need(NO_CLUSTER, (WRITE_ORDERS, IDEMPOTENT_WRITE), whole(22, **NO_PRODUCER))],
    ),
    "AddOffsetsToTxn": (
        25, _add_offsets, [Need(NO_ID, (WRITE_ID,), whole(25)), Need(NO_GROUP, (READ_GROUP,), whole(25))],
    ),
    "EndTxn": (26, _end, [Need(NO_ID, (WRITE_ID,), whole(26, **NO_PRODUCER))]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, case in CASES.items() for version in versions(case[0])]
)
def test_what_a_producer_needs(name: str, version: int) -> None:
    _, request, needs = CASES[name]
    _check(request(version), needs)


@pytest.mark.parametrize("version", versions(22))
@pytest.mark.parametrize(
    ("allowance", "may"),
    [
        ((Operation.WRITE, TOPIC, "a topic that does not exist"), True),
        ((Operation.READ, TOPIC, "orders"), False),
        ((Operation.ALTER, CLUSTER, CLUSTER_NAME), False),
        (WRITE_ID, False),
    ],
)
def test_who_may_write_anywhere_may_be_idempotent(version: int, allowance: Question, may: bool) -> None:
    answer = _ask(_init(version, None), allowed(allowance))
    assert answer["error_code"] == (0 if may else NO_CLUSTER)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(("name", "error"), [(None, NO_CLUSTER), ("t", NO_ID), ("", NO_ID)])
def test_rights_are_looked_at_before_what_is_asked(version: int, name: str | None, error: int) -> None:
    answer = _ask(_init(version, name, producer_id=5, producer_epoch=-1), allowed())
    assert answer["error_code"] == error


# AddPartitionsToTxn -----------------------------------------------------------------------------------------

Wanted = Mapping[str, Sequence[int]]


def _topics(wanted: Wanted) -> list[Any]:
    of = Add.AddPartitionsToTxnTopic
    return [of(name=name, partitions=list(partitions)) for name, partitions in wanted.items()]


def _add(version: int, wanted: Wanted) -> Any:
    if version < 4:
        return Add(
            version=version,
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=1001,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=_topics(wanted),
        )
    of = Add.AddPartitionsToTxnTransaction
    one = of(transactional_id="t", verify_only=False, topics=_topics(wanted), **PRODUCER)
    return Add(version=version, transactions=[one])


def _add_refused(wanted: Wanted) -> Refused:
    """Each partition has the error."""
    answer = RESPONSE_CLASSES[24]
    of = answer.AddPartitionsToTxnTopicResult
    partition = of.AddPartitionsToTxnPartitionResult

    def refused(error: ErrorCode) -> Any:
        topics = [
            of(
                name=name,
                results_by_partition=[
                    partition(partition_index=one, partition_error_code=error) for one in indexes
                ],
            )
            for name, indexes in wanted.items()
        ]
        return answer(throttle_time_ms=0, results_by_topic_v3_and_below=topics)

    return refused


@pytest.mark.parametrize("version", range(4))
def test_a_producer_adds_partitions_if_it_may_write_with_its_id_and_to_the_topic(version: int) -> None:
    wanted = {"orders": [1, 2]}
    refused = _add_refused(wanted)
    needs = [Need(NO_ID, (WRITE_ID,), refused), Need(NO_TOPIC, (WRITE_ORDERS,), refused)]
    _check(_add(version, wanted), needs)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_that_may_not_be_written_to_keeps_all_others_out(version: int) -> None:
    wanted = {"payments": [0, 9], "orders": [0, 9], "nowhere": [0], "__consumer_offsets": [1]}
    denied: list[Question] = []
    answer = _ask(_add(version, wanted), only([WRITE_ID, WRITE_ORDERS], denied))
    assert {
        topic["name"]: {
            one["partition_index"]: one["partition_error_code"] for one in topic["results_by_partition"]
        }
        for topic in answer["results_by_topic_v3_and_below"]
    } == {
        "payments": {0: NO_TOPIC, 9: NO_TOPIC},
        "orders": {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        "nowhere": {0: NO_TOPIC},
        "__consumer_offsets": {1: NO_TOPIC},
    }
    # An internal topic is not even asked for.
    assert denied == [(Operation.WRITE, TOPIC, "payments"), (Operation.WRITE, TOPIC, "nowhere")]


@pytest.mark.parametrize("version", range(4))
def test_internal_topics_are_nobodys_whatever_the_acls(version: int) -> None:
    wanted = {"__consumer_offsets": [1], "__transaction_state": [1]}
    internal = [(Operation.WRITE, TOPIC, name) for name in wanted]
    answer = _ask(_add(version, wanted), allowed(WRITE_ID, *internal))
    assert answer == decoded(_add_refused(wanted)(NO_TOPIC), version)


@pytest.mark.parametrize("version", [4, 5])
def test_other_gateways_add_partitions_of_all_by_one_right(version: int) -> None:
    needs = [Need(NO_CLUSTER, (CLUSTER_ACTION,), whole(24, results_by_transaction=[]))]
    _check(_add(version, {"orders": [1], "__consumer_offsets": [3]}), needs)
    rights = [WRITE_ID, WRITE_ORDERS, ALTER]
    assert _ask(_add(version, {"orders": [1]}), allowed(*rights))["error_code"] == NO_CLUSTER


# WriteTxnMarkers --------------------------------------------------------------------------------------------


def _write(version: int, *markers: tuple[int, Wanted]) -> Any:
    of = Write.WritableTxnMarker
    made = []
    for producer_id, wanted in markers:
        topics = [of.WritableTxnMarkerTopic(name=n, partition_indexes=list(i)) for n, i in wanted.items()]
        fields = {"producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0, "topics": topics}
        made.append(of(producer_id=producer_id, **fields))
    return Write(version=version, markers=made)


def _write_refused(*markers: tuple[int, Wanted]) -> Refused:
    of = RESPONSE_CLASSES[27].WritableTxnMarkerResult
    of_topic = of.WritableTxnMarkerTopicResult
    partition = of_topic.WritableTxnMarkerPartitionResult

    def refused(error: ErrorCode) -> Any:
        made = []
        for producer_id, wanted in markers:
            topics = [
                of_topic(
                    name=name,
                    partitions=[partition(partition_index=one, error_code=error) for one in indexes],
                )
                for name, indexes in wanted.items()
            ]
            made.append(of(producer_id=producer_id, topics=topics))
        return RESPONSE_CLASSES[27](markers=made)

    return refused


@pytest.mark.parametrize("version", versions(27))
def test_markers_are_written_by_who_may_alter_the_cluster_or_is_part_of_it(version: int) -> None:
    markers = ((1001, {"orders": [0, 2], "payments": [0]}), (1002, {"orders": [1]}))
    needs = [Need(NO_CLUSTER, (ALTER, CLUSTER_ACTION), _write_refused(*markers))]
    _check(_write(version, *markers), needs)


@pytest.mark.parametrize("version", versions(27))
def test_of_markers_for_one_producer_the_last_is_refused(version: int) -> None:
    asked: tuple[tuple[int, Wanted], ...] = (
        (7, {"orders": [0], "payments": [0]}),
        (8, {}),
        (7, {"orders": [1, 1], "nowhere": []}),
    )
    answered: tuple[tuple[int, Wanted], ...] = ((7, {"orders": [1], "nowhere": []}), (8, {}))
    assert _ask(_write(version, *asked), allowed()) == decoded(_write_refused(*answered)(NO_CLUSTER), version)


# DescribeTransactions, ListTransactions ---------------------------------------------------------------------


def test_an_id_is_described_to_who_may_describe_it_with_the_topics_that_he_may_describe() -> None:
    see_orders = (Operation.DESCRIBE, TOPIC, "orders")
    request = Describe(version=0, transactional_ids=["u", "t", "", "nothing"])
    denied: list[Question] = []
    states = _ask(request, only([SEE_ID, see_orders], denied))["transaction_states"]
    nothing = {
        "transaction_state": "", "transaction_timeout_ms": 0, "transaction_start_time_ms": 0,
        "producer_id": 0, "producer_epoch": 0, "topics": [],
    }  # fmt: skip
    hidden = [one for one in states if one["error_code"] == NO_ID]
    assert hidden == [
        {"error_code": NO_ID, "transactional_id": name, **nothing} for name in ("u", "", "nothing")
    ]
    (seen,) = (one for one in states if one not in hidden)
    assert (seen["transactional_id"], seen["transaction_state"], seen["producer_id"]) == (
        "t",
        "Ongoing",
        1001,
    )
    assert seen["topics"] == [{"topic": "orders", "partitions": [0]}]
    assert [name for _, _, name in denied] == ["u", "", "nothing"]
    every = _ask(request, allowed(SEE_ID, see_orders, (Operation.READ, TOPIC, "payments")))
    assert every["transaction_states"][1] == _ask(request, UNRESTRICTED)["transaction_states"][1]


@pytest.mark.parametrize("version", versions(66))
@pytest.mark.parametrize(
    ("allowances", "expected"),
    [
        ([SEE_ID], ["t"]),
        ([WRITE_ID, (Operation.DESCRIBE, ID, "u")], ["t", "u"]),
        ([(Operation.DESCRIBE, CLUSTER, CLUSTER_NAME), WRITE_ORDERS], []),
    ],
)
def test_ids_that_are_hidden_are_left_out_of_the_list(
    version: int, allowances: list[Question], expected: list[str]
) -> None:
    denied: list[Question] = []
    request = ListAll(version=version, state_filters=[], producer_id_filters=[])
    answer = _ask(request, only(allowances, denied))
    assert answer["error_code"] == 0
    assert sorted(one["transactional_id"] for one in answer["transaction_states"]) == expected
    assert denied == []
