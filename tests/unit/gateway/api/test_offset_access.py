"""What the APIs of offsets need their client to be allowed, in each of their versions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from gateway.api.offset_commit import begin_offset_commit
from gateway.common.handlers import Request
from gateway.groups.records import CommittedOffset
from gateway.security.access import Question
from gateway.security.acls import Operation, ResourceType
from gateway.security.principal import USER, Principal
from tests.unit.gateway.api.asking import (
    ADDRESS,
    ALICE,
    REGISTRY,
    FakeBroker,
    allowed,
    ask_async,
    encode_request,
    request_class,
)  # fmt: skip
from tests.unit.gateway.api.fake_groups import NOW_MS, FakeGroups, broker_with_groups, member_of
from tests.unit.gateway.api.needs import (
    Need,
    Refused,
    Scene,
    check_needs,
    decoded,
    of_one,
    only,
    versions,
    whole,
)
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.schemas import RESPONSE_CLASSES

Commit, Fetch, Delete = (request_class(key) for key in (8, 9, 47))
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
READ_GROUP: Question = (Operation.READ, GROUP, "g")
SEE_GROUP: Question = (Operation.DESCRIBE, GROUP, "g")
DELETE_GROUP: Question = (Operation.DELETE, GROUP, "g")
READ_ORDERS: Question = (Operation.READ, TOPIC, "orders")
SEE_ORDERS: Question = (Operation.DESCRIBE, TOPIC, "orders")
HIDDEN, NOT_THERE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_GROUP, NO_ID = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID
STRANGER = UUID(int=99)
IDS = {"orders": UUID(int=1), "payments": UUID(int=2), "stranger": STRANGER}

Wanted = Mapping[str, Sequence[int]]


def _scene() -> tuple[FakeBroker, FakeGroups]:
    """The group "g" has offsets of "orders" and "payments"."""
    broker, groups = broker_with_groups()
    for name in ("orders", "payments"):
        broker.topics.get(name).id = IDS[name].bytes
        groups.add("g") if "g" not in groups.groups else None
        groups.groups["g"].offsets.put(name, 0, CommittedOffset(5, -1, "", NOW_MS, topic_id=IDS[name].bytes))
    return broker, groups


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    broker, groups = _scene()

    def observe() -> object:
        return {name: sorted(group.offsets.keys()) for name, group in groups.groups.items()}, groups.writes

    yield Scene(broker, observe)
    await trio.lowlevel.checkpoint()


def _named(version: int, since: int, name: str) -> dict[str, Any]:
    """A topic, by its name or its id."""
    return {"topic_id": IDS[name]} if version >= since else {"name": name}


def _commit(version: int, wanted: Wanted) -> Any:
    of = Commit.OffsetCommitRequestTopic
    topics = [
        of(
            **_named(version, 10, name),
            partitions=[
                of.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=7,
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
                for index in indexes
            ],
        )
        for name, indexes in wanted.items()
    ]
    return Commit(
        version=version, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def _fetch(version: int, wanted: Wanted | None) -> Any:
    if version < 8:
        of = Fetch.OffsetFetchRequestTopic
        topics = (
            None if wanted is None else [of(name=n, partition_indexes=list(i)) for n, i in wanted.items()]
        )
        return Fetch(version=version, group_id="g", topics=topics, require_stable=False)
    group = Fetch.OffsetFetchRequestGroup
    of = group.OffsetFetchRequestTopics
    topics = None
    if wanted is not None:
        topics = [of(**_named(version, 10, n), partition_indexes=list(i)) for n, i in wanted.items()]
    return Fetch(version=version, require_stable=False, groups=[group(group_id="g", topics=topics)])


def _delete(wanted: Wanted) -> Any:
    of = Delete.OffsetDeleteRequestTopic
    partition = of.OffsetDeleteRequestPartition
    topics = [of(name=n, partitions=[partition(partition_index=one) for one in i]) for n, i in wanted.items()]
    return Delete(version=0, group_id="g", topics=topics)


Found = list[tuple[str, dict[int, int]]]


def _errors(topics: list[dict[str, Any]]) -> Found:
    """(topic, error by partition) of each topic in an answer, in their order."""
    names = {topic_id: name for name, topic_id in IDS.items()}
    return [
        (
            topic.get("name") or names[topic["topic_id"]],
            {one["partition_index"]: one["error_code"] for one in topic["partitions"]},
        )
        for topic in topics
    ]


def _ask(request: Any, *allowances: Question) -> dict[str, Any]:
    async def main() -> Any:
        async with scene() as made:
            made.broker.access = allowed(*allowances)
            return (await ask_async(made.broker, request)).to_dict(json=False)

    answer: dict[str, Any] = trio.run(main)
    return answer


# OffsetCommit -----------------------------------------------------------------------------------------------


def _commit_refused(version: int, wanted: Wanted) -> Refused:
    of = RESPONSE_CLASSES[8].OffsetCommitResponseTopic

    def refused(error: ErrorCode) -> Any:
        topics = [
            of(
                **_named(version, 10, name),
                partitions=[
                    of.OffsetCommitResponsePartition(partition_index=i, error_code=error) for i in indexes
                ],
            )
            for name, indexes in wanted.items()
        ]
        return RESPONSE_CLASSES[8](throttle_time_ms=0, topics=topics)

    return refused


@pytest.mark.parametrize("version", versions(8))
def test_offsets_are_committed_by_who_may_read_the_group_and_the_topic(version: int) -> None:
    wanted = {"orders": [2, 0, 99]}
    refused = _commit_refused(version, wanted)
    needs = [Need(NO_GROUP, (READ_GROUP,), refused), Need(HIDDEN, (READ_ORDERS,), refused)]
    trio.run(check_needs, scene, _commit(version, wanted), needs)


@pytest.mark.parametrize("version", versions(8))
def test_a_group_that_may_not_be_read_is_said_of_each_partition(version: int) -> None:
    wanted = {"orders": [2, 2, -1], "payments": [], "stranger": [0]}
    answer = _ask(_commit(version, wanted), READ_ORDERS)
    assert answer == decoded(_commit_refused(version, wanted)(NO_GROUP), version)


@pytest.mark.parametrize("version", versions(8))
def test_what_is_hidden_is_not_committed_and_the_rest_is(version: int) -> None:
    wanted = {"payments": [0, 99], "stranger": [0], "orders": [1, 99]}
    answer = _ask(_commit(version, wanted), READ_GROUP, READ_ORDERS)
    assert _errors(answer["topics"]) == [
        ("payments", {0: HIDDEN, 99: HIDDEN}),
        ("stranger", {0: NO_ID if version >= 10 else HIDDEN}),
        ("orders", {99: NOT_THERE, 1: 0}),
    ]


@pytest.mark.parametrize("version", versions(8))
@pytest.mark.parametrize(
    ("allowances", "error", "writes"),
    [((READ_GROUP, READ_ORDERS), 0, 1), ((READ_GROUP,), HIDDEN, 0), ((READ_ORDERS,), NO_GROUP, 0)],
)
def test_small_commits_are_looked_at_as_well(
    version: int, allowances: Sequence[Question], error: int, writes: int
) -> None:
    broker, groups = _scene()
    frame = encode_request(_commit(version, {"orders": [1]}))
    header = parse_request_header(frame)
    api = REGISTRY.lookup(8)
    assert api is not None
    body = api.decoder(version, frame, header.body_offset)
    request = Request(header, body, frame, ADDRESS, "client", trio.Event())
    request.access = allowed(*allowances)

    async def main() -> Any:
        return begin_offset_commit(request, cast("Any", broker)).response()

    framed = trio.run(main)
    answer = RESPONSE_CLASSES[8].decode(framed, version=version, header=True, framed=True)
    assert _errors(answer.to_dict(json=False)["topics"]) == [("orders", {1: error})]
    assert groups.writes == writes


@pytest.mark.parametrize("version", range(7, 11))
@pytest.mark.parametrize(
    ("principal", "error"), [(ALICE, 0), (Principal(USER, "bob"), ErrorCode.FENCED_INSTANCE_ID)]
)
def test_a_static_member_commits_for_its_principal_alone(
    version: int, principal: Principal, error: int
) -> None:
    broker, groups = broker_with_groups()
    broker.topics.get("orders").id = IDS["orders"].bytes
    group = groups.add("g", protocol_type="consumer", member=member_of("orders", instance_id="i"))
    group.machine.roster.by_id["m"].principal = ALICE
    broker.access = only([READ_GROUP, READ_ORDERS], [], principal)
    request = _commit(version, {"orders": [0]})
    request.generation_id_or_member_epoch, request.member_id, request.group_instance_id = 7, "m", "i"
    answer = trio.run(ask_async, broker, request).to_dict(json=False)
    assert _errors(answer["topics"]) == [("orders", {0: error})]


# OffsetFetch ------------------------------------------------------------------------------------------------


def _topics_refused(version: int, wanted: Wanted) -> Refused:
    """Each partition has the error."""
    answer = RESPONSE_CLASSES[9]
    of = answer.OffsetFetchResponseTopic
    partition = of.OffsetFetchResponsePartition
    if version >= 8:
        of = answer.OffsetFetchResponseGroup.OffsetFetchResponseTopics
        partition = of.OffsetFetchResponsePartitions

    def refused(error: ErrorCode) -> Any:
        nothing = {
            "committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": error
        }  # fmt: skip
        topics = [
            of(
                **_named(version, 10, name),
                partitions=[partition(partition_index=index, **nothing) for index in indexes],
            )
            for name, indexes in wanted.items()
        ]
        if version < 8:
            return answer(throttle_time_ms=0, error_code=0, topics=topics)
        group = answer.OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=0)
        return answer(throttle_time_ms=0, groups=[group])

    return refused


def _fetch_refused(version: int, wanted: Wanted) -> Refused:
    """The group has the error."""
    if version >= 8:
        return of_one(9, "groups", "OffsetFetchResponseGroup", group_id="g", topics=[])
    return whole(9, topics=[]) if version >= 2 else _topics_refused(version, wanted)


@pytest.mark.parametrize("version", versions(9))
@pytest.mark.parametrize("see", [SEE_GROUP, READ_GROUP, DELETE_GROUP], ids=["describe", "read", "delete"])
def test_offsets_are_fetched_by_who_may_describe_the_group_and_the_topic(version: int, see: Question) -> None:
    wanted = {"orders": [2, 0, 99]}
    needs = [
        Need(NO_GROUP, (see, SEE_GROUP), _fetch_refused(version, wanted)),
        Need(HIDDEN, (READ_ORDERS, SEE_ORDERS), _topics_refused(version, wanted)),
    ]
    trio.run(check_needs, scene, _fetch(version, wanted), needs)


NOTHING = (-1, -1, "")


def _fetched(answer: dict[str, Any]) -> list[tuple[str, dict[int, tuple[Any, ...]]]]:
    names = {topic_id: name for name, topic_id in IDS.items()}
    (group,) = answer.get("groups", [answer])
    assert group.get("error_code", 0) == 0
    return [
        (
            topic.get("name") or names[topic["topic_id"]],
            {
                one["partition_index"]: (
                    one["committed_offset"],
                    one.get("committed_leader_epoch", -1),
                    one["metadata"],
                    one["error_code"],
                )
                for one in topic["partitions"]
            },
        )
        for topic in group["topics"]
    ]


@pytest.mark.parametrize("version", versions(9))
def test_topics_that_are_named_and_hidden_come_last(version: int) -> None:
    wanted = {"stranger": [4], "payments": [0, 9], "orders": [0, 1]}
    answer = _ask(_fetch(version, wanted), SEE_GROUP, SEE_ORDERS)
    assert _fetched(answer) == [
        ("orders", {0: (5, -1, "", 0), 1: (*NOTHING, 0)}),
        ("stranger", {4: (*NOTHING, NO_ID if version >= 10 else HIDDEN)}),
        ("payments", {0: (*NOTHING, HIDDEN), 9: (*NOTHING, HIDDEN)}),
    ]


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize(
    ("allowances", "expected"),
    [
        ([SEE_ORDERS, (Operation.WRITE, TOPIC, "payments")], ["orders", "payments"]),
        ([READ_ORDERS], ["orders"]),
        ([(Operation.ALTER_CONFIGS, TOPIC, "orders")], []),
        ([], []),
    ],
)
def test_of_all_topics_those_that_are_hidden_are_left_out(
    version: int, allowances: list[Question], expected: list[str]
) -> None:
    denied: list[Question] = []

    async def main() -> Any:
        async with scene() as made:
            made.broker.access = only([SEE_GROUP, *allowances], denied)
            return (await ask_async(made.broker, _fetch(version, None))).to_dict(json=False)

    assert _fetched(trio.run(main)) == [(name, {0: (5, -1, "", 0)}) for name in expected]
    assert denied == []


@pytest.mark.parametrize("version", range(8, 11))
def test_each_group_is_fetched_by_itself(version: int) -> None:
    group = Fetch.OffsetFetchRequestGroup
    groups = [group(group_id=name, topics=None) for name in ("other", "g", "another")]
    answer = _ask(Fetch(version=version, require_stable=False, groups=groups), SEE_GROUP, SEE_ORDERS)
    assert [(one["group_id"], one["error_code"], len(one["topics"])) for one in answer["groups"]] == [
        ("other", NO_GROUP, 0),
        ("g", 0, 1),
        ("another", NO_GROUP, 0),
    ]


def test_a_group_that_is_hidden_is_not_waited_for() -> None:
    """Nothing of it is looked at: it takes no time of the groups behind it."""
    broker, groups = _scene()
    broker.access = allowed()
    group = Fetch.OffsetFetchRequestGroup
    request = Fetch(version=9, require_stable=True, groups=[group(group_id="g", topics=None)])
    answer = trio.run(ask_async, broker, request, clock=MockClock(autojump_threshold=0))
    assert [one.error_code for one in answer.groups] == [NO_GROUP]
    assert groups.settled == []


# OffsetDelete -----------------------------------------------------------------------------------------------


def test_offsets_are_deleted_by_who_may_delete_the_group() -> None:
    of = RESPONSE_CLASSES[47].OffsetDeleteResponseTopic

    def topic_refused(error: ErrorCode) -> Any:
        partitions = [of.OffsetDeleteResponsePartition(partition_index=0, error_code=error)]
        topics = [of(name="orders", partitions=partitions)]
        return RESPONSE_CLASSES[47](error_code=0, throttle_time_ms=0, topics=topics)

    needs = [
        Need(NO_GROUP, (DELETE_GROUP,), whole(47, topics=[])),
        Need(HIDDEN, (READ_ORDERS,), topic_refused),
    ]
    trio.run(check_needs, scene, _delete({"orders": [0]}), needs)


def test_offsets_of_topics_that_may_not_be_read_stay() -> None:
    broker, groups = _scene()
    broker.access = allowed(DELETE_GROUP, READ_ORDERS, (Operation.DESCRIBE, TOPIC, "payments"))
    wanted = {"orders": [0, 99], "payments": [0, 99], "nowhere": [0]}
    answer = trio.run(ask_async, broker, _delete(wanted)).to_dict(json=False)
    assert answer["error_code"] == 0
    assert _errors(answer["topics"]) == [
        ("orders", {99: NOT_THERE, 0: 0}),
        ("payments", {0: HIDDEN, 99: HIDDEN}),
        ("nowhere", {0: HIDDEN}),
    ]
    assert groups.groups["g"].offsets.keys() == [("payments", 0)]
