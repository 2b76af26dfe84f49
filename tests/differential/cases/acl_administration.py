"""CreateAcls, DescribeAcls and DeleteAcls 1-3, as an administrator: what is taken, shown and deleted."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from gateway.security.acls import Operation, PatternType, Permission, ResourceType
from tests.differential.case import as_each
from tests.differential.principals import ADMIN
from tests.differential.side import Side

UNDEFINED = 99
CLUSTER = "kafka-cluster"
USERS_SINCE = 3


def one(side: Side, **changed: Any) -> Any:
    """An ACL of this case and version: whom it is for says so."""
    usual = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": side.own_name("t"),
        "resource_pattern_type": PatternType.LITERAL,
        "principal": f"User:{side.own_name('u')}",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return CreateAclsRequest.AclCreation(**usual | changed)


def pattern(side: Side, **changed: Any) -> dict[str, Any]:
    usual = {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": f"User:{side.own_name('u')}",
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    return usual | changed


def describe(side: Side, version: int, label: str, **changed: Any) -> Any:
    return side.ask(DescribeAclsRequest(version=version, **pattern(side, **changed)), label)


def create(side: Side, version: int, label: str, *acls: Any) -> None:
    side.ask(CreateAclsRequest(version=version, creations=list(acls)), label)


def settled(side: Side, count: int) -> None:
    """Unrecorded: until so many of them are in force."""
    request = DescribeAclsRequest(version=3, **pattern(side))
    for _ in range(2000):
        if sum(len(resource.acls) for resource in side.for_set_up.ask(request).resources) == count:
            return
    raise TimeoutError(f"{side.server.name} does not show {count} ACLs")


@as_each(CreateAclsRequest, principals=(ADMIN,))
def taken_and_refused(side: Side, version: int) -> None:
    wanted: dict[str, dict[str, Any]] = {
        "good": {},
        "again": {},
        "any type": {"resource_type": ResourceType.ANY},
        "undefined type": {"resource_type": UNDEFINED},
        "any pattern": {"resource_pattern_type": PatternType.ANY},
        "match": {"resource_pattern_type": PatternType.MATCH},
        "undefined pattern": {"resource_pattern_type": UNDEFINED},
        "any operation": {"operation": Operation.ANY},
        "undefined operation": {"operation": UNDEFINED},
        "any permission": {"permission_type": Permission.ANY},
        "undefined permission": {"permission_type": UNDEFINED},
        "no name": {"resource_name": ""},
        "principal without a type": {"principal": "a"},
        "no principal": {"principal": ""},
        "principal of another type": {"principal": "Group:a"},
        "principal without a name": {"principal": "User:"},
        "principal with colons": {"principal": "User:a:b"},
        "no host": {"host": ""},
        "an odd host": {"host": "10.0.0.0/8"},
        "the cluster": {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER},
        "another cluster": {"resource_type": ResourceType.CLUSTER, "resource_name": "other"},
        "the cluster, prefixed": {
            "resource_type": ResourceType.CLUSTER,
            "resource_name": CLUSTER,
            "resource_pattern_type": PatternType.PREFIXED,
        },
        "the cluster, all": {"resource_type": ResourceType.CLUSTER, "resource_name": "*"},
        "an operation of others": {"operation": Operation.CLUSTER_ACTION},
        "a bad topic name": {"resource_name": "a/b \N{SNOWMAN}"},
        "a long name": {"resource_name": "x" * 1000},
        "a token": {"resource_type": ResourceType.DELEGATION_TOKEN, "operation": Operation.DESCRIBE},
    }
    if version >= USERS_SINCE:
        wanted["a user"] = {"resource_type": ResourceType.USER, "operation": Operation.CREATE_TOKENS}
    for label, changed in wanted.items():
        create(side, version, label, one(side, **changed))
    create(side, version, "all at once", *(one(side, **changed) for changed in wanted.values()))
    describe(side, version, "what is there")
    mine = [f"User:{side.own_name('u')}", "Group:a", "User:", "User:a:b"]
    delete(side, version, "and is deleted", *({"principal_filter": principal} for principal in mine))


@as_each(CreateAclsRequest, principals=(ADMIN,))
def unknown_elements(side: Side, version: int) -> None:
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        create(side, version, field, one(side, **{field: 0}))


@as_each(CreateAclsRequest, [3], principals=(ADMIN,))
def too_many(side: Side, version: int) -> None:
    create(side, version, "one too many", *([one(side)] * 10_001))


SEVERAL: tuple[dict[str, Any], ...] = (
    {},
    {"operation": Operation.ALL},
    {"host": "10.0.0.1"},
    {"permission_type": Permission.DENY},
    {"resource_name": "*"},
    {"resource_pattern_type": PatternType.PREFIXED},
    {"resource_pattern_type": PatternType.PREFIXED, "resource_name": "*"},
    {"resource_type": ResourceType.GROUP},
    {"resource_type": ResourceType.TRANSACTIONAL_ID},
    {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER, "operation": Operation.ALTER},
)


def filters(side: Side) -> dict[str, dict[str, Any]]:
    name = side.own_name("t")
    return {
        "all": {},
        "topics": {"resource_type_filter": ResourceType.TOPIC},
        "by name": {"resource_name_filter": name},
        "by another name": {"resource_name_filter": f"{name}-more"},
        "match": {"resource_name_filter": name, "pattern_type_filter": PatternType.MATCH},
        "match longer": {"resource_name_filter": f"{name}-more", "pattern_type_filter": PatternType.MATCH},
        "match without a name": {"pattern_type_filter": PatternType.MATCH},
        "literal": {"pattern_type_filter": PatternType.LITERAL},
        "prefixed": {"pattern_type_filter": PatternType.PREFIXED},
        "the name *": {"resource_name_filter": "*"},
        "host": {"host_filter": "10.0.0.1"},
        "every host": {"host_filter": "*"},
        "another host": {"host_filter": "10.0.0.2"},
        "read": {"operation": Operation.READ},
        "all operations": {"operation": Operation.ALL},
        "deny": {"permission_type": Permission.DENY},
        "nobody's": {"principal_filter": "User:nobody-at-all"},
        "a principal without a type": {"principal_filter": "a"},
        "an empty name": {"resource_name_filter": ""},
        "an undefined type": {"resource_type_filter": UNDEFINED},
        "an undefined pattern": {"pattern_type_filter": UNDEFINED},
        "an undefined operation": {"operation": UNDEFINED},
        "an undefined permission": {"permission_type": UNDEFINED},
    }


@as_each(DescribeAclsRequest, principals=(ADMIN,))
def described(side: Side, version: int) -> None:
    create(side, version, "several", *(one(side, **changed) for changed in SEVERAL))
    settled(side, len(SEVERAL))
    for label, changed in filters(side).items():
        describe(side, version, label, **changed)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        describe(side, version, f"unknown {field}", **{field: 0})
    delete(side, version, "deleted", {})


def delete(side: Side, version: int, label: str, *wanted: dict[str, Any]) -> None:
    found = [DeleteAclsRequest.DeleteAclsFilter(**pattern(side, **changed)) for changed in wanted]
    side.ask(DeleteAclsRequest(version=version, filters=found), label)


@as_each(DeleteAclsRequest, principals=(ADMIN,))
def deleted(side: Side, version: int) -> None:
    """By each filter alone, of all that there are; then by several at once."""
    for label, changed in filters(side).items():
        create(side, version, f"several for {label}", *(one(side, **each) for each in SEVERAL))
        settled(side, len(SEVERAL))
        delete(side, version, label, changed)
        delete(side, version, f"the rest of {label}", {})
        settled(side, 0)
    create(side, version, "several", *(one(side, **each) for each in SEVERAL))
    settled(side, len(SEVERAL))
    delete(side, version, "by two that overlap", {"operation": Operation.READ}, {"host_filter": "*"})
    delete(side, version, "the rest", {})
    settled(side, 0)
    delete(side, version, "none there", {}, {"operation": Operation.READ})
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        delete(side, version, f"unknown {field}", {field: 0})
