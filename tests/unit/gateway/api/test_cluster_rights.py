"""What takes a right on the cluster: without it the whole request is refused, in each version's own way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.security.acls import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from mesh.reader import Disk
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

DENIED = 31

Alter, Describe, Configs = Operation.ALTER, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
IMPLIED_BY = {Describe: {Alter}, Configs: {Operation.ALTER_CONFIGS}}


def broker() -> FakeBroker:
    """A topic, and a store with a disk; no other gateway."""
    made = FakeBroker()
    made.add("t", 2)
    made.stores.entries = [SimpleNamespace(incarnation="0", state="admitted")]
    made.stores.name = lambda incarnation: f"100{incarnation} (name)"
    made.stores.live = lambda _: True

    async def disk(_: str) -> Disk:
        await trio.lowlevel.checkpoint()
        return Disk(total_bytes=1000, free_bytes=10)

    async def forget_gateway(number: int) -> None:
        await trio.lowlevel.checkpoint()
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no gateway {number}")

    made.context.reader = SimpleNamespace(disk=disk)
    made.forget_gateway = forget_gateway  # type: ignore[attr-defined]
    return made


def move(version: int) -> Any:
    one = request_class(34).AlterReplicaLogDir
    of = one.AlterReplicaLogDirTopic
    paths = [("/a", {"t": [0, 1], "u": [0]}), ("/b", {"t": [0]}), ("/c", {})]
    made = [
        one(path=path, topics=[of(name=name, partitions=indexes) for name, indexes in topics.items()])
        for path, topics in paths
    ]
    return request_class(34)(version=version, dirs=made)


def moved(_: int) -> dict[str, Any]:
    topics = [("t", [0, 1]), ("u", [0]), ("t", [0])]
    return {
        "results": [
            {
                "topic_name": name,
                "partitions": [{"partition_index": i, "error_code": DENIED} for i in indexes],
            }
            for name, indexes in topics
        ]
    }


def directories(version: int) -> Any:
    one = request_class(35).DescribableLogDirTopic
    return request_class(35)(version=version, topics=[one(topic="u", partitions=[0])])


def elect(version: int) -> Any:
    one = request_class(43).TopicPartitions
    topics = [one(topic="t", partitions=[0, 7]), one(topic="u", partitions=[0])]
    fields = {"election_type": 77} if version else {}  # a right is asked for before that
    return request_class(43)(version=version, topic_partitions=topics, timeout_ms=1000, **fields)


def elected(version: int) -> dict[str, Any]:
    return at_the_top(version, since=1) | {
        "replica_election_results": [
            {"topic": name, "partition_result": [{"partition_id": i, "error_code": DENIED} for i in indexes]}
            for name, indexes in (("t", [0, 7]), ("u", [0]))
        ]
    }


def reassign(version: int) -> Any:
    one = request_class(45).ReassignableTopic
    of = one.ReassignablePartition
    topics = [
        one(name=name, partitions=[of(partition_index=index, replicas=[1]) for index in indexes])
        for name, indexes in (("t", [0, 7]), ("u", [0]))
    ]
    return request_class(45)(
        version=version, timeout_ms=0, topics=topics
    )  # asked before the time is looked at


def reassigned(version: int) -> dict[str, Any]:
    answer: dict[str, Any] = at_the_top(version) | {
        "responses": [
            {"name": name, "partitions": [{"partition_index": i, "error_code": DENIED} for i in indexes]}
            for name, indexes in (("t", [0, 7]), ("u", [0]))
        ]
    }
    return answer | ({"allow_replication_factor_change": True} if version >= 1 else {})


def reassignments(version: int) -> Any:
    one = request_class(46).ListPartitionReassignmentsTopics
    topics = [one(name="t", partition_indexes=[0, 7]), one(name="u", partition_indexes=[])]
    return request_class(46)(version=version, timeout_ms=1000, topics=topics)


def not_listed(version: int) -> dict[str, Any]:
    partitions: list[dict[str, Any]] = [
        {"partition_index": index, "replicas": [], "adding_replicas": [], "removing_replicas": []}
        for index in (0, 7)
    ]
    return at_the_top(version) | {
        "topics": [{"name": "t", "partitions": partitions}, {"name": "u", "partitions": []}]
    }


def quorum(version: int) -> Any:
    one = request_class(55).TopicData
    topic = one(topic_name="__cluster_metadata", partitions=[one.PartitionData(partition_index=0)])
    return request_class(55)(version=version, topics=[topic])


def quotas(version: int) -> Any:
    one = request_class(48).ComponentData
    wrong = one(entity_type="", match_type=2, match=None)  # a right is asked for before that
    return request_class(48)(version=version, components=[wrong], strict=False)


def users(version: int) -> Any:
    one = request_class(50).UserName
    return request_class(50)(version=version, users=[one(name="u"), one(name="v"), one(name="u")])


def credentials(version: int) -> Any:
    of = request_class(51)
    fields: dict[str, Any] = {"mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
    return of(
        version=version,
        deletions=[of.ScramCredentialDeletion(name=name, mechanism=1) for name in ("v", "u")],
        upsertions=[of.ScramCredentialUpsertion(name=name, **fields) for name in ("w", "u")],
    )


def features(version: int) -> Any:
    update = request_class(57).FeatureUpdateKey(feature="nonsense", max_version_level=1)
    return request_class(57)(version=version, feature_updates=[update])


def at_the_top(version: int, since: int = 0) -> dict[str, Any]:
    return {"error_code": DENIED} if version >= since else {}


@dataclass
class Whole:
    """One API: what it takes, a request of each version, and the answer to it without its messages."""

    key: int
    versions: range
    operation: Operation
    request: Callable[[int], Any]
    refused: Callable[[int], dict[str, Any]]

    def __str__(self) -> str:
        return str(request_class(self.key).__name__)


WHOLE = [
    Whole(34, range(1, 3), Alter, move, moved),
    Whole(35, range(1, 6), Describe, directories, lambda version: at_the_top(version, 3) | {"results": []}),
    Whole(43, range(3), Alter, elect, elected),
    Whole(45, range(2), Alter, reassign, reassigned),
    Whole(46, range(1), Describe, reassignments, not_listed),
    Whole(48, range(2), Configs, quotas, lambda version: at_the_top(version) | {"entries": None}),
    Whole(
        50, range(1), Describe, users,
        # As Kafka: an element for each user, without its name.
        lambda version: at_the_top(version)
        | {"results": [{"user": "", "error_code": DENIED, "credential_infos": []}] * 3},
    ),
    Whole(
        51, range(1), Alter, credentials,
        lambda _: {"results": [{"user": user, "error_code": DENIED} for user in ("u", "v", "w")]},
    ),
    Whole(
        55, range(3), Describe, quorum,
        lambda version: at_the_top(version) | {"topics": []} | ({"nodes": []} if version >= 2 else {}),
    ),
    Whole(
        57, range(3), Alter, features,
        lambda version: at_the_top(version) | ({"results": []} if version < 2 else {}),
    ),
    Whole(64, range(1), Alter, lambda version: request_class(64)(version=version, broker_id=999), at_the_top),
    Whole(
        74, range(2), Configs, lambda version: request_class(74)(version=version),
        lambda version: at_the_top(version) | {"config_resources": []},
    ),
]  # fmt: skip
EACH = [pytest.param(one, version, id=f"{one}-{version}") for one in WHOLE for version in one.versions]


def without_messages(answer: Any) -> tuple[Any, list[str | None]]:
    """The answer, and the messages that were in it."""
    if isinstance(answer, list):
        parts = [without_messages(one) for one in answer]
        return [one for one, _ in parts], [message for _, messages in parts for message in messages]
    if not isinstance(answer, dict):
        return answer, []
    messages = [answer["error_message"]] if "error_message" in answer else []
    found = {}
    for name, value in answer.items():
        if name not in {"error_message", "throttle_time_ms"}:
            found[name], more = without_messages(value)
            messages += more
    return found, messages


@pytest.mark.parametrize(("api", "version"), EACH)
def test_whoever_has_no_right_is_refused_as_a_whole(api: Whole, version: int) -> None:
    enough = {api.operation, *IMPLIED_BY.get(api.operation, ())}
    others = SUPPORTED[ResourceType.CLUSTER] - enough
    for operations in ((), others):
        made = broker()
        made.access = allowed(
            *((operation, ResourceType.CLUSTER, CLUSTER_NAME) for operation in operations),
            *((Operation.ALL, kind, "*") for kind in ResourceType if kind is not ResourceType.CLUSTER),
        )
        found, messages = without_messages(ask(made, api.request(version)))
        assert found == api.refused(version)
        assert set(messages) <= {
            f"The request is not authorized: it needs {api.operation.name} on the cluster."
        }


@pytest.mark.parametrize(("api", "version"), EACH)
def test_whoever_has_the_right_is_answered_as_everybody_without_an_authorizer(
    api: Whole, version: int
) -> None:
    for operation in (api.operation, *IMPLIED_BY.get(api.operation, ())):
        made = broker()
        made.access = allowed((operation, ResourceType.CLUSTER, CLUSTER_NAME))
        found = ask(made, api.request(version))
        assert found == ask(broker(), api.request(version))
        assert without_messages(found)[0] != api.refused(version)


def test_what_asks_for_all_of_them_has_nothing_but_the_error() -> None:
    made = broker()
    made.access = allowed()
    election = request_class(43)(version=2, topic_partitions=None, election_type=0, timeout_ms=1000)
    assert without_messages(ask(made, election))[0] == {"error_code": 31, "replica_election_results": []}
    assert without_messages(ask(made, request_class(50)(version=0, users=None)))[0] == {
        "error_code": 31, "results": [],
    }  # fmt: skip
    listed = request_class(46)(version=0, timeout_ms=1000, topics=None)
    assert without_messages(ask(made, listed))[0] == {"error_code": 31, "topics": []}


def test_nothing_is_done_for_whoever_may_not() -> None:
    made = broker()
    made.access = allowed()
    ask(made, credentials(0))
    assert list(made.scram_users.all()) == []


def test_which_resources_there_are_is_refused_before_the_types_are_looked_at() -> None:
    made = broker()
    of = request_class(74)
    made.access = allowed()
    assert ask(made, of(version=1, resource_types=[3]))["error_code"] == DENIED
    made.access = allowed((Configs, ResourceType.CLUSTER, CLUSTER_NAME))
    assert ask(made, of(version=1, resource_types=[3]))["error_code"] == 35
    names = [one["resource_name"] for one in ask(made, of(version=1, resource_types=[2]))["config_resources"]]
    assert names == ["t"]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("operations", "told"),
    [
        ((), set()),
        ((Operation.CREATE, Operation.ALTER_CONFIGS), set()),
        ((Describe,), {8}),
        ((Alter,), {7, 8}),
        ((Describe, Operation.CREATE, Operation.ALTER_CONFIGS), {5, 8, 10, 11}),
        ((Operation.ALL,), {5, 7, 8, 9, 10, 11, 12}),
    ],
)
def test_the_cluster_tells_what_may_be_done_with_it(
    version: int, operations: tuple[Operation, ...], told: set[int]
) -> None:
    """All else is for everybody; whoever may not describe it is told 0, not "not asked for"."""
    of = request_class(60)
    made, open_to_all = broker(), broker()
    made.access = allowed(*((operation, ResourceType.CLUSTER, CLUSTER_NAME) for operation in operations))
    found = ask(made, of(version=version, include_cluster_authorized_operations=True))
    expected = ask(open_to_all, of(version=version, include_cluster_authorized_operations=True))
    assert found == expected | {"authorized_operations": told}
    assert ask(made, of(version=version))["authorized_operations"] is None
