"""DescribeAcls, CreateAcls and DeleteAcls with an authorizer: answers, who may ask, and what is in force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from dafka.settings import Settings
from gateway.administration.acl_requests import SHOWN_CHARACTERS
from gateway.api import delete_acls
from gateway.broker import Broker
from gateway.cluster import acls as limits
from gateway.cluster.acls import MAX_ACL_BYTES
from gateway.security.access import UNRESTRICTED, Access
from gateway.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from tests.unit.gateway.api.asking import (
    ALICE,
    allowed,
    ask,
    ask_async,
    request_class,
    reserved_for,
)
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.errors import ErrorCode, KafkaError, MalformedRequest

Describe, Create, Delete = request_class(29), request_class(30), request_class(31)
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, ALL = Operation.READ, Operation.WRITE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ALTER = (Operation.ALTER, CLUSTER, CLUSTER_NAME)
DESCRIBE = (Operation.DESCRIBE, CLUSTER, CLUSTER_NAME)
MADE = 0, ""
"""What is said of an ACL that is there now."""


def line(
    name: str = "orders", operation: Operation = READ, permission: Permission = ALLOW, **more: Any
) -> Acl:
    return Acl(TOPIC, name, LITERAL, "User:alice", "*", operation, permission)._replace(**more)


def gateway(*, access: Access = UNRESTRICTED, authorizer: str = "acl") -> Any:
    """A real one; `access` is that of whoever asks."""
    log = FakeLog()
    broker: Any = Broker(log.context, log.stores, Settings(authorizer=authorizer), lambda: None)
    broker.access = access
    return broker


def creation(acl: Acl, **changed: Any) -> Any:
    fields = {
        "resource_type": acl.resource_type, "resource_name": acl.name,
        "resource_pattern_type": acl.pattern_type, "principal": acl.principal, "host": acl.host,
        "operation": acl.operation, "permission_type": acl.permission,
    }  # fmt: skip
    return Create.AclCreation(**fields | changed)


def filter_fields(
    kind: int = 1, name: str | None = None, pattern: int = 1, who: str | None = None, host: str | None = None,
    operation: int = 1, permission: int = 1,
) -> dict[str, Any]:  # fmt: skip
    return {
        "resource_type_filter": kind, "resource_name_filter": name, "pattern_type_filter": pattern,
        "principal_filter": who, "host_filter": host, "operation": operation, "permission_type": permission,
    }  # fmt: skip


def create(broker: Any, *creations: Any, version: int = 3) -> list[tuple[int, str | None]]:
    answer = ask(broker, Create(version=version, creations=list(creations)))
    return [(one["error_code"], one["error_message"]) for one in answer["results"]]


def described(answer: Any) -> set[Acl]:
    """All that a DescribeAcls tells; each pattern comes once, and each line of it."""
    found = [
        Acl(
            ResourceType(resource["resource_type"]), resource["resource_name"],
            PatternType(resource["pattern_type"]), one["principal"], one["host"], Operation(one["operation"]),
            Permission(one["permission_type"]),
        )
        for resource in answer["resources"] for one in resource["acls"]
    ]  # fmt: skip
    patterns = [
        (one["resource_type"], one["resource_name"], one["pattern_type"]) for one in answer["resources"]
    ]
    assert len(set(patterns)) == len(patterns)
    assert len(set(found)) == len(found)
    return set(found)


def describe(broker: Any, *, version: int = 3, **wanted: Any) -> set[Acl]:
    answer = ask(broker, Describe(version=version, **filter_fields(**wanted)))
    assert (answer["error_code"], answer["error_message"]) == (0, "")
    return described(answer)


def matched(result: Any) -> set[Acl]:
    """What one filter has deleted."""
    assert all((one["error_code"], one["error_message"]) == (0, None) for one in result["matching_acls"])
    return {
        Acl(
            ResourceType(one["resource_type"]), one["resource_name"], PatternType(one["pattern_type"]),
            one["principal"], one["host"], Operation(one["operation"]), Permission(one["permission_type"]),
        )
        for one in result["matching_acls"]
    }  # fmt: skip


def delete(broker: Any, *filters: dict[str, Any], version: int = 3) -> list[tuple[int, str | None, set[Acl]]]:
    made = [Delete.DeleteAclsFilter(**one) for one in filters]
    answer = ask(broker, Delete(version=version, filters=made))
    return [(one["error_code"], one["error_message"], matched(one)) for one in answer["filter_results"]]


LINES = (
    line(), line(operation=WRITE, host="10.0.0.1"), line("ord", ALL, DENY, pattern_type=PREFIXED),
    line("*", principal="User:*"), line("g", resource_type=GROUP, principal="User:bob"),
    line(CLUSTER_NAME, Operation.ALTER, resource_type=CLUSTER),
    line("tx", Operation.TWO_PHASE_COMMIT, resource_type=ResourceType.TRANSACTIONAL_ID),
    line("User:bob", Operation.CREATE_TOKENS, resource_type=ResourceType.USER),
)  # fmt: skip


def with_lines(lines: Iterable[Acl] = LINES) -> Any:
    broker = gateway()
    assert set(create(broker, *map(creation, lines))) == {MADE}
    return broker


def may(broker: Any, operation: Operation = READ, name: str = "orders", address: str = "10.0.0.1") -> bool:
    access: Access = broker.acls.grant(ALICE, address)
    return access.may(operation, TOPIC, name)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_created_is_described_in_force_and_deleted(version: int) -> None:
    broker = gateway()
    some = [line(), line(operation=WRITE, host="10.0.0.1"), line(), line("g", resource_type=GROUP)]
    assert not may(broker)
    assert create(broker, *map(creation, some), version=version) == [MADE] * 4
    assert create(broker, creation(some[0]), version=version) == [MADE]
    assert may(broker)
    assert may(broker, WRITE)
    assert not may(broker, WRITE, address="10.0.0.2")
    assert describe(broker, version=version) == set(some)
    answer = delete(broker, filter_fields(TOPIC, "orders", LITERAL), filter_fields(GROUP), version=version)
    assert answer == [(0, None, set(some[:2])), (0, None, {some[3]})]
    assert not may(broker)
    assert describe(broker, version=version) == set()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_type": CLUSTER, "resource_name": ""}, "The only valid name for the CLUSTER"),
        ({"resource_name": "", "resource_type": 99}, "Invalid empty resource name"),
        ({"resource_type": 1, "operation": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2, "permission_type": 1}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": -3}, "Invalid patternType UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 16, "permission_type": 9}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1, "principal": "alice"}, "Invalid permissionType ANY"),
        ({"permission_type": 4}, "Invalid permissionType UNKNOWN"),
        ({"principal": "alice"}, "Could not parse principal from `alice` (no colon is present separating"),
        ({"principal": ""}, "Could not parse principal from `` (no colon"),
        ({"principal": "x" * 30_000}, f"Could not parse principal from `{'x' * SHOWN_CHARACTERS}`"),
    ],
)
def test_what_cannot_be_created_is_told_and_holds_up_nobody(changed: dict[str, Any], message: str) -> None:
    broker = gateway()
    first, (code, said), last = create(
        broker, creation(line()), creation(line(), **changed), creation(line("b"))
    )
    assert (first, code, last) == (MADE, 42, MADE)
    assert str(said).startswith(message)
    assert describe(broker) == {line(), line("b")}


@pytest.mark.parametrize(
    "acl",
    [
        line(principal="Group:x:y"), line(principal=":"), line(host="no address"), line(host=""),
        line("any topic \0!", Operation.CREATE_TOKENS), line("*", pattern_type=PREFIXED),
    ],
)  # fmt: skip
def test_what_kafka_does_not_check_is_not_checked(acl: Acl) -> None:
    assert describe(with_lines([acl])) == {acl}


def test_bytes_of_an_acl_are_bounded() -> None:
    broker = gateway()
    room = MAX_ACL_BYTES - len("User:alice*")
    assert create(broker, creation(line("ä" * (room // 2)))) == [MADE]
    ((code, message),) = create(broker, creation(line("ä" * (room // 2 + 1))))
    assert code == 44
    assert message is not None
    assert f"may have {MAX_ACL_BYTES} bytes together, and these have {MAX_ACL_BYTES + 1}: shorten" in message


def test_too_many_are_refused_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CHANGED_ACLS", 2)
    broker = with_lines(LINES[:2])
    wanted = [line("a"), line(), line("b"), line("c")]
    answers = create(broker, *map(creation, wanted), creation(line(""), operation=1))
    assert answers == [
        *[(44, "One request may create 2 ACLs: ask for fewer at a time.")] * 4,
        (42, "Invalid empty resource name"),
    ]
    assert describe(broker) == set(LINES[:2])


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, set(range(8))),
        ({"kind": TOPIC, "name": "orders", "pattern": 2}, {0, 1, 2, 3}),
        ({"kind": TOPIC, "name": "orders", "pattern": LITERAL}, {0, 1}),
        ({"name": "ord"}, {2}),
        ({"name": "ord", "pattern": LITERAL}, set()),
        ({"pattern": PREFIXED}, {2}),
        ({"who": "User:*"}, {3}),
        ({"host": "10.0.0.1"}, {1}),
        ({"operation": ALL}, {2}),
        ({"permission": DENY}, {2}),
        ({"kind": 99}, set()),
        ({"pattern": 5}, set()),
        ({"operation": -1}, set()),
        ({"permission": 4}, set()),
        ({"kind": 7}, {7}),
    ],
)
def test_filters(wanted: dict[str, Any], found: set[int]) -> None:
    broker = with_lines()
    meant = {LINES[number] for number in found}
    assert describe(broker, **wanted) == meant
    ((code, message, gone),) = delete(broker, filter_fields(**wanted))
    unknown = {"kind": 99, "pattern": 5, "operation": -1, "permission": 4}
    if wanted.items() & unknown.items():
        which = "patternFilter" if wanted.keys() & {"kind", "pattern"} else "entryFilter"
        assert (code, message, gone) == (42, f"Unknown {which}.", set())
    else:
        assert (code, message, gone) == (0, None, meant)
    assert describe(broker) == set(LINES) - meant


def exactly(acl: Acl) -> dict[str, Any]:
    return filter_fields(
        acl.resource_type, acl.name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission
    )


def test_two_filters_may_name_one_acl_and_a_bad_one_holds_up_nobody() -> None:
    broker = with_lines()
    filters = [
        exactly(LINES[0]),
        filter_fields(kind=99),
        filter_fields(name="orders"),
        exactly(line("nothing")),
    ]
    assert delete(broker, *filters) == [
        (0, None, {LINES[0]}),
        (42, "Unknown patternFilter.", set()),
        (0, None, set(LINES[:2])),
        (0, None, set()),
    ]
    assert describe(broker) == set(LINES[2:])
    assert delete(broker) == []
    assert delete(broker, filter_fields(), filter_fields()) == [(0, None, set(LINES[2:]))] * 2


@pytest.mark.parametrize(("changed", "named"), [(7, 100), (100, 23), (7, 23)])
def test_too_much_to_delete_is_refused_and_nothing_is_deleted(
    changed: int, named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = with_lines()
    monkeypatch.setattr(delete_acls, "MAX_CHANGED_ACLS", changed)
    monkeypatch.setattr(delete_acls, "MAX_NAMED", named)
    answers = delete(broker, *[filter_fields()] * 3, filter_fields(kind=99))
    assert [(code, gone) for code, _, gone in answers] == [(42, set())] * 4
    assert f"Cannot remove more than {changed} acls in a single delete operation, nor" in str(answers[0][1])
    assert f"more than {named} in its answer: ask for fewer" in str(answers[0][1])
    assert describe(broker) == set(LINES)


async def refuse(*_: object) -> None:
    raise KafkaError(ErrorCode.NOT_CONTROLLER, "nothing can be changed at present: it is away")


def test_a_catalog_that_is_away_is_said_for_each() -> None:
    broker = with_lines()
    broker.changes.make = refuse
    away = (41, "nothing can be changed at present: it is away")
    assert create(broker, creation(line("a")), creation(line(""))) == [
        away,
        (42, "Invalid empty resource name"),
    ]
    assert delete(broker, filter_fields(), filter_fields(kind=99)) == [(*away, set())] * 2
    assert describe(broker) == set(LINES)


@pytest.mark.parametrize("authorizer", ["acl", "none"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_who_may_not_change_or_see_acls(version: int, authorizer: str) -> None:
    message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message
    broker = with_lines(LINES[:1]) if authorizer == "acl" else gateway(authorizer="none")
    broker.access = allowed(DESCRIBE, (Operation.ALTER, TOPIC, CLUSTER_NAME))
    assert create(broker, *[creation(line("a"))] * 2, version=version) == [(31, message)] * 2
    assert delete(broker, *[filter_fields()] * 2, version=version) == [(31, message, set())] * 2
    broker.access = allowed((Operation.CREATE, CLUSTER, CLUSTER_NAME))
    answer = ask(broker, Describe(version=version, **filter_fields()))
    assert (answer["error_code"], answer["error_message"], answer["resources"]) == (31, message, [])
    # To alter is to describe, but not the other way.
    broker.access = allowed(ALTER)
    error = 0 if authorizer == "acl" else 54
    assert ask(broker, Describe(version=version, **filter_fields()))["error_code"] == error
    assert create(broker, creation(line()), version=version)[0][0] == error
    assert delete(broker, filter_fields(), version=version)[0][0] == error


def test_a_change_waits_for_the_stores_and_an_answer_without_any_does_not() -> None:
    class Waiting(Broker):
        waits = 0

        async def remembered(self) -> None:
            await trio.lowlevel.checkpoint()
            self.waits += 1

    log = FakeLog()
    broker: Any = Waiting(log.context, log.stores, Settings(authorizer="acl"), lambda: None)
    assert create(broker, creation(line(""))) != [MADE]
    assert delete(broker, filter_fields()) == [(0, None, set())]
    assert describe(broker) == set()
    assert broker.waits == 0
    create(broker, creation(line()))
    delete(broker, filter_fields())
    assert broker.waits == 2


def test_large_answers_reserve_their_memory() -> None:
    lines = [line(f"t{number}") for number in range(300)]

    async def main() -> list[int]:
        broker = gateway()
        await ask_async(broker, Create(version=3, creations=list(map(creation, lines))))
        everything = Describe(version=3, **filter_fields())
        nothing = Describe(version=3, **filter_fields(name="nothing"))
        gone = Delete(version=3, filters=[Delete.DeleteAclsFilter(**filter_fields())])
        return [await reserved_for(broker, request) for request in (everything, nothing, gone)]

    everything, nothing, gone = trio.run(main)
    assert everything == gone > 300 * 400
    assert nothing == 0


@pytest.mark.parametrize("authorizer", ["acl", "none"])
@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
def test_an_unknown_element_closes_the_connection(field: str, authorizer: str) -> None:
    broker = gateway(authorizer=authorizer)
    named = {"resource_type": "resource_type_filter", "pattern_type": "pattern_type_filter"}.get(field, field)
    wanted = filter_fields() | {named: 0}
    with pytest.raises(MalformedRequest, match="unknown element"):
        ask(broker, Describe(version=3, **wanted))
    with pytest.raises(MalformedRequest, match="unknown element"):
        delete(broker, filter_fields(), wanted)
    named = {"pattern_type": "resource_pattern_type"}.get(field, field)
    with pytest.raises(MalformedRequest, match="unknown element"):
        create(broker, creation(line()), creation(line(), **{named: 0}))


# whatever a client may send -------------------------------------------------------------------------------

CODES = st.integers(-128, 127)
TEXTS = st.one_of(
    st.sampled_from(["", "*", "orders", "ord", "User:alice", "User:*", CLUSTER_NAME, "10.0.0.1", ":"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(MAX_ACL_BYTES - 30, 32_767).map(lambda size: "x" * size),
)
KNOWN = st.sampled_from([1, 2, 3, 4])


def fields_of(*names: str, texts: Sequence[str], nullable: bool) -> st.SearchStrategy[dict[str, Any]]:
    text = st.one_of(st.none(), TEXTS) if nullable else TEXTS
    return st.fixed_dictionaries(
        {name: st.one_of(KNOWN, KNOWN, CODES) for name in names} | dict.fromkeys(texts, text)
    )


CREATIONS = fields_of(
    "resource_type", "resource_pattern_type", "operation", "permission_type",
    texts=("resource_name", "principal", "host"), nullable=False,
)  # fmt: skip
FILTERS = fields_of(
    "resource_type_filter", "pattern_type_filter", "operation", "permission_type",
    texts=("resource_name_filter", "principal_filter", "host_filter"), nullable=True,
)  # fmt: skip


def has_unknown(fields: dict[str, Any]) -> bool:
    return 0 in [value for value in fields.values() if isinstance(value, int)]


def as_acl(fields: dict[str, Any]) -> Acl | None:
    """What is created, if it can be: by Kafka's rules, told another way."""
    name, principal, host = fields["resource_name"], fields["principal"], fields["host"]
    kind, pattern = fields["resource_type"], fields["resource_pattern_type"]
    operation, permission = fields["operation"], fields["permission_type"]
    is_good = (
        2 <= kind <= 7 and pattern in {3, 4} and 2 <= operation <= 15 and permission in {2, 3}
        and name and ":" in principal and (kind != 4 or name == CLUSTER_NAME)
        and len((name + principal + host).encode()) <= MAX_ACL_BYTES
    )  # fmt: skip
    return (
        Acl(
            ResourceType(kind), name, PatternType(pattern), principal, host, Operation(operation),
            Permission(permission),
        )
        if is_good
        else None
    )  # fmt: skip


def means(fields: dict[str, Any], acl: Acl) -> bool:
    name, pattern = fields["resource_name_filter"], fields["pattern_type_filter"]
    covers = str(name).startswith(acl.name) if acl.pattern_type is PREFIXED else acl.name in {name, "*"}
    names = name is None or (pattern != 2 and name == acl.name) or (pattern == 2 and covers)
    return bool(names) and all(
        (
            fields["resource_type_filter"] in {1, acl.resource_type},
            pattern in {1, 2, acl.pattern_type},
            fields["principal_filter"] in {None, acl.principal},
            fields["host_filter"] in {None, acl.host},
            fields["operation"] in {1, acl.operation},
            fields["permission_type"] in {1, acl.permission},
        )
    )


def is_known(fields: dict[str, Any]) -> bool:
    kind, pattern = fields["resource_type_filter"], fields["pattern_type_filter"]
    operation, permission = fields["operation"], fields["permission_type"]
    return bool(1 <= kind <= 7 and 1 <= pattern <= 4 and 1 <= operation <= 15 and 1 <= permission <= 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(CREATIONS, max_size=4), st.lists(FILTERS, min_size=1, max_size=4), st.sampled_from([1, 2, 3]))
def test_whatever_is_sent_is_answered_as_it_should_be_or_closes_the_connection(
    creations: list[dict[str, Any]], filters: list[dict[str, Any]], version: int
) -> None:
    broker = with_lines()
    there = set(LINES)
    if any(map(has_unknown, creations)):
        with pytest.raises(MalformedRequest):
            create(broker, *(Create.AclCreation(**one) for one in creations), version=version)
    else:
        answers = create(broker, *(Create.AclCreation(**one) for one in creations), version=version)
        made = [as_acl(one) for one in creations]
        assert [code == 0 for code, _ in answers] == [acl is not None for acl in made]
        assert {code for code, _ in answers} <= {0, 42, 44}
        there |= {acl for acl in made if acl is not None}
    assert set(broker.acls.all().values()) == there
    for one in filters:
        if has_unknown(one):
            with pytest.raises(MalformedRequest):
                ask(broker, Describe(version=version, **one))
        else:
            answer = ask(broker, Describe(version=version, **one))
            assert answer["error_code"] == 0
            assert described(answer) == {acl for acl in there if means(one, acl)}
    if any(map(has_unknown, filters)):
        with pytest.raises(MalformedRequest):
            delete(broker, *filters, version=version)
        assert set(broker.acls.all().values()) == there
        return
    meant = [{acl for acl in there if is_known(one) and means(one, acl)} for one in filters]
    assert [(code, gone) for code, _, gone in delete(broker, *filters, version=version)] == [
        (0 if is_known(one) else 42, its) for one, its in zip(filters, meant, strict=True)
    ]
    assert set(broker.acls.all().values()) == there - set().union(*meant)
