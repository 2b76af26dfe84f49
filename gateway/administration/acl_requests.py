"""What requests about ACLs say, and what they find (`AclApis`, `AclControlManager`).

Codes of the protocol that Kafka does not define are "unknown", as in its own enums (`AclOperation.fromCode`,
and so on).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.cluster.acls import MAX_ACL_BYTES, key_of
from gateway.common.costs import COUNTED, MATCHED_ACL
from gateway.common.work import BREATH, Work
from gateway.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from wireproto.kafka.errors import ErrorCode, KafkaError, MalformedRequest

if TYPE_CHECKING:
    from gateway.common.handlers import Request

ANSWERED_ACL_BYTES: Final = 400
"""Memory of an ACL in an answer, about, beside its texts."""

_E = TypeVar("_E", bound=IntEnum)


async def check_known(codes: Iterable[tuple[int, int, int, int]], what: str, work: Work) -> None:
    """Whether no field says "unknown" (code 0): Kafka cannot read such a request. Raises MalformedRequest."""
    for some in codes:
        await work.before(COUNTED)
        if 0 in some:
            raise MalformedRequest(f"{what} has an unknown element")


def codes_of_filter(wanted: Any) -> tuple[int, int, int, int]:
    """Of a DescribeAcls, or a filter of a DeleteAcls."""
    return (
        wanted.resource_type_filter,
        wanted.pattern_type_filter,
        wanted.operation,
        wanted.permission_type,
    )


def may(request: Request, operation: Operation) -> bool:
    """Whether the client may do this with the cluster."""
    return request.access.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def acl_of(creation: Any) -> Acl:
    """The ACL that is to be created. Raises KafkaError: INVALID_REQUEST, or POLICY_VIOLATION: it is too
    large.
    """
    acl = Acl(
        _member(ResourceType, creation.resource_type),
        creation.resource_name,
        _member(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _member(Operation, creation.operation),
        _member(Permission, creation.permission_type),
    )
    fault = _fault(acl)
    if fault:
        raise KafkaError(ErrorCode.INVALID_REQUEST, fault)
    size = sum(len(text.encode()) for text in (acl.name, acl.principal, acl.host))
    if size > MAX_ACL_BYTES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The resource's name, the principal and the host of an ACL may have {MAX_ACL_BYTES} bytes "
            f"together, and these have {size}: shorten them, or name the resources by a prefix.",
        )
    return acl


def _fault(acl: Acl) -> str:
    """What Kafka has against it, "" for nothing; in its order, in its words."""
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    if acl.resource_type in {ResourceType.UNKNOWN, ResourceType.ANY}:
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        return f"Invalid patternType {acl.pattern_type.name}"
    if acl.operation in {Operation.UNKNOWN, Operation.ANY}:
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in {Permission.DENY, Permission.ALLOW}:
        return f"Invalid permissionType {acl.permission.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal[:SHOWN_CHARACTERS]}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return ""


SHOWN_CHARACTERS: Final = 200
"""How much of a principal is repeated that is none."""


def filter_of(wanted: Any) -> AclFilter:
    """What a DescribeAcls, or a filter of a DeleteAcls, means."""
    return AclFilter(
        _member(ResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        _member(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _member(Operation, wanted.operation),
        _member(Permission, wanted.permission_type),
    )


def check_filter(wanted: AclFilter) -> None:
    """Raises KafkaError: INVALID_REQUEST, something of it is unknown."""
    if not (wanted.resource_type and wanted.pattern_type):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if not (wanted.operation and wanted.permission):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")


def _member(kind: type[_E], code: int) -> _E:
    try:
        return kind(code)
    except ValueError:
        return kind(0)


async def matching(acls: Mapping[str, Acl], wanted: AclFilter, work: Work) -> dict[str, Acl]:
    """Those of `acls` that a filter means. One that can mean one ACL only costs a look-up: tools that delete
    have a filter for each.
    """
    exact = wanted.exactly()
    if exact is not None:
        await work.before(COUNTED)
        key = key_of(exact)
        return {key: exact} if key in acls else {}
    found: dict[str, Acl] = {}
    entries = iter(acls.items())
    while some := tuple(islice(entries, BREATH)):
        await work.before(len(some) * MATCHED_ACL)
        found |= {key: acl for key, acl in some if wanted.means(acl)}
    return found


async def reserve_answer(request: Request, acls: Iterable[Acl]) -> None:
    """Reserves the memory of an answer with these, if it is large: before it is made, by many connections at
    once.
    """
    size, each = 0, iter(acls)
    while some := tuple(islice(each, BREATH)):
        await request.work.before(len(some) * MATCHED_ACL)
        size += sum(ANSWERED_ACL_BYTES + len(acl.name) + len(acl.principal) + len(acl.host) for acl in some)
    await request.reserve_if_large(size)
