"""What counts as a denied request: what is to be done, not what shapes an answer or has an alternative."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from gateway.security.access import ByAcls, Question
from gateway.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer
from tests.unit.gateway.api.asking import ALICE, FakeBroker, ask, request_class

Create, Delete, Cluster, Quorum = request_class(19), request_class(20), request_class(60), request_class(55)
Configs = request_class(44)
Of = Operation
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


def create(_: FakeBroker) -> Any:
    names = ("t", "u", "twice", "twice", "__cluster_metadata")
    topics = [
        Create.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return Create(version=7, topics=topics, timeout_ms=1000, validate_only=True)


def by_name(_: FakeBroker) -> Any:
    return Delete(version=5, topic_names=["t", "u", "nowhere"], timeout_ms=1000)


def by_id(broker: FakeBroker) -> Any:
    state = Delete.DeleteTopicState
    ids = [UUID(bytes=broker.topics.get(name).id) for name in "tu"]
    topics = [state(name=None, topic_id=one) for one in (*ids, UUID(int=1))]
    return Delete(version=6, topics=topics, timeout_ms=1000)


def operations(_: FakeBroker) -> Any:
    return Cluster(version=2, include_cluster_authorized_operations=True)


def quorum(_: FakeBroker) -> Any:
    return Quorum(version=2, topics=[])


def configs(_: FakeBroker) -> Any:
    one = Configs.AlterConfigsResource
    null = one.AlterableConfig(name="retention.ms", config_operation=0, value=None)
    resources = [one(resource_type=2, resource_name=name, configs=[]) for name in ("t", "u")]
    resources.append(one(resource_type=2, resource_name="bad", configs=[null]))
    resources.append(one(resource_type=4, resource_name="999", configs=[]))
    return Configs(version=1, resources=resources, validate_only=True)


def on_t(operation: Operation) -> Question:
    return operation, TOPIC, "t"


def on_u(operation: Operation) -> Question:
    return operation, TOPIC, "u"


@pytest.mark.parametrize(
    ("request_of", "rights", "told"),
    [
        (create, [], [on_t(Of.CREATE), on_u(Of.CREATE)]),
        (create, [on_t(Of.CREATE)], [on_u(Of.CREATE)]),
        (create, [(Of.CREATE, CLUSTER, CLUSTER_NAME)], []),
        (by_name, [], [on_t(Of.DESCRIBE), on_u(Of.DESCRIBE), (Of.DESCRIBE, TOPIC, "nowhere")]),
        (by_name, [on_t(Of.DELETE), on_u(Of.DESCRIBE)], [on_u(Of.DELETE), (Of.DESCRIBE, TOPIC, "nowhere")]),
        (by_name, [(Of.DELETE, CLUSTER, CLUSTER_NAME)], []),
        (by_id, [], [on_t(Of.DELETE), on_u(Of.DELETE)]),
        (by_id, [on_t(Of.DELETE)], [on_u(Of.DELETE)]),
        (operations, [], []),
        (quorum, [], [(Of.DESCRIBE, CLUSTER, CLUSTER_NAME)]),
        (configs, [on_t(Of.ALTER_CONFIGS)], [on_u(Of.ALTER_CONFIGS)]),
    ],
)
def test_what_is_told_of(request_of: Any, rights: list[Question], told: list[Question]) -> None:
    authorizer = Authorizer(
        Acl(kind, name, PatternType.LITERAL, str(ALICE), "*", operation, Permission.ALLOW)
        for operation, kind, name in rights
    )
    denied: list[Question] = []
    broker = FakeBroker()
    for name in "tu" if request_of is not create else ():
        broker.add(name)
    broker.access = ByAcls(
        ALICE, "127.0.0.1", lambda: authorizer, lambda _, question: denied.append(question)
    )
    ask(broker, request_of(broker))
    assert denied == told
