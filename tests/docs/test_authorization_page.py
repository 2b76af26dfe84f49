"""docs/authorization.md says what the code does; and what the page is made by finds what there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import trio

from gateway.front.registry import load_apis
from gateway.security.acls import Operation, ResourceType
from tests.docs import authorization_page
from tests.docs.authorization.findings import Finding, findings
from tests.docs.authorization.recording import Question, Recording
from tests.docs.authorization_page import PAGE
from wireproto.kafka.errors import ErrorCode

READ = Question(Operation.READ, ResourceType.TOPIC)
DESCRIBE = Question(Operation.DESCRIBE, ResourceType.TOPIC)
CREATE = Question(Operation.CREATE, ResourceType.TOPIC)
CREATE_ALL = Question(Operation.CREATE, ResourceType.CLUSTER)
ALTER = Question(Operation.ALTER, ResourceType.CLUSTER)
ANYWHERE = Question(Operation.WRITE, ResourceType.TOPIC, anywhere=True)
EACH = Question(None, ResourceType.GROUP)
TOPIC, CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_page_is_the_codes_own() -> None:
    assert PAGE.read_text() == authorization_page.written(), "run: python -m tests.docs.authorization_page"


def test_every_api_is_on_the_page_either_with_its_rights_or_without() -> None:
    text = PAGE.read_text()
    with_rights = set(re.findall(r"^\| (\w+) \| [-0-9, ]*\| ", text, re.MULTILINE))
    without = set(re.findall(r"^- (\w+)$", text, re.MULTILINE))
    assert with_rights & without == set()
    assert with_rights | without == {api.name for api in load_apis().all()}


Answer = Callable[[Recording, int], dict[str, Any]]
"""From who asks, and how often was asked before."""


def nothing(_access: Recording, _count: int) -> dict[str, Any]:
    return {"error_code": 0}


def as_a_whole(access: Recording, _count: int) -> dict[str, Any]:
    allowed = access.may(Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    return {"error_code": 0 if allowed else 31, "topics": [{"error_code": 0 if allowed else 31}]}


def one_by_one(access: Recording, _count: int) -> dict[str, Any]:
    read = access.may(Operation.READ, ResourceType.TOPIC, "t")
    return {"topics": [{"partition_error_code": 0 if read else 29, "index": 29}]}


def left_out(access: Recording, _count: int) -> dict[str, Any]:
    return {"topics": [{"name": "t"}] if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, "t") else []}


def either_or(access: Recording, count: int) -> dict[str, Any]:
    allowed = access.sees(Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster") or access.may(
        Operation.CREATE, ResourceType.TOPIC, "t"
    )
    return {"topics": [{"error_code": 0 if allowed else 29, "id": count}]}


def one_after_the_other(access: Recording, _count: int) -> dict[str, Any]:
    if not access.may(Operation.READ, ResourceType.TOPIC, "t"):
        return {"topics": [{"error_code": 29, "name": None}]}
    told = access.operations(ResourceType.GROUP, "g")
    return {"topics": [{"error_code": 0, "name": "t", "operations": told}]}


def somewhere(access: Recording, _count: int) -> dict[str, Any]:
    return {"error_code": 0 if access.may_somewhere(Operation.WRITE, ResourceType.TOPIC) else 31}


def asked_for_no_reason(access: Recording, count: int) -> dict[str, Any]:
    access.may(Operation.READ, ResourceType.TOPIC, "t")
    return {"time": count}


FOUND: list[tuple[Answer, list[Finding]]] = [
    (nothing, []),
    (as_a_whole, [Finding(ALTER, (), (CLUSTER,), True)]),
    (one_by_one, [Finding(READ, (), (TOPIC,), False)]),
    (left_out, [Finding(DESCRIBE, (), (), False)]),
    (either_or, [Finding(CREATE, (CREATE_ALL,), (TOPIC,), False)]),
    (one_after_the_other, [Finding(READ, (), (TOPIC,), False), Finding(EACH, (), (), False)]),
    (somewhere, [Finding(ANYWHERE, (), (CLUSTER,), True)]),
    (asked_for_no_reason, []),
]


def test_what_is_found_out_by_denying_one_thing_after_the_other() -> None:
    for answer, expected in FOUND:
        count = 0

        async def ask(
            denied: frozenset[Question], answer: Answer = answer
        ) -> tuple[list[Question], dict[str, Any]]:
            nonlocal count
            await trio.lowlevel.checkpoint()
            access = Recording()
            access.denied, count = denied, count + 1
            told = answer(access, count)
            return list(access.asked), told

        assert trio.run(findings, ask) == expected, answer.__name__
