"""What is asked about many resources of one request, and what is said to whoever may not use one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest
import trio

from gateway.answers.denied import cluster_denied, denied, permitted
from gateway.common.costs import ELEMENT
from gateway.common.work import Work
from gateway.security.access import UNRESTRICTED, Access, ByAcls, Question
from gateway.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.principal import USER, Principal
from wireproto.kafka.errors import ErrorCode


class Asked:
    """A request, as far as it is looked at."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.work = Work()


def access(told: list[Question], *topics: str) -> ByAcls:
    """May read these topics; `told` has what was denied."""
    acls = [
        Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
        for name in topics
    ]
    authorizer = Authorizer(acls)
    return ByAcls(
        Principal(USER, "a"), "127.0.0.1", lambda: authorizer, lambda _, question: told.append(question)
    )


def read(asked: Asked, names: list[str]) -> Collection[str]:
    async def body() -> Collection[str]:
        return await permitted(cast("Any", asked), Operation.READ, ResourceType.TOPIC, names)

    return trio.run(body)


def test_each_name_is_asked_about_and_charged_once() -> None:
    told: list[Question] = []
    asked = Asked(access(told, "a", "c"))
    assert set(read(asked, ["a", "b", "c", "b", "a", "d"])) == {"a", "c"}
    assert told == [(Operation.READ, ResourceType.TOPIC, name) for name in "bd"]
    assert asked.work.charged == 4 * ELEMENT


def test_without_an_authorizer_nobody_is_asked_and_nothing_is_charged() -> None:
    asked = Asked(UNRESTRICTED)
    assert set(read(asked, ["a", "b", "a"])) == {"a", "b"}
    assert asked.work.charged == 0


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        (ResourceType.TOPIC, 29, "Topic authorization failed."),
        (ResourceType.GROUP, 30, "Group authorization failed."),
        (ResourceType.CLUSTER, 31, "Cluster authorization failed."),
    ],
)
def test_one_item_is_refused_in_kafkas_words(kind: ResourceType, code: int, message: str) -> None:
    assert (denied(kind).code, denied(kind).message) == (code, message)


def test_a_whole_request_is_refused_with_what_is_missing() -> None:
    told: list[Question] = []
    refused = cluster_denied(access(told), Operation.DESCRIBE_CONFIGS)
    assert refused is not None
    assert refused.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused.message == "The request is not authorized: it needs DESCRIBE_CONFIGS on the cluster."
    assert told == [(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)]
    assert cluster_denied(UNRESTRICTED, Operation.DESCRIBE_CONFIGS) is None
