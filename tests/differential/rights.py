"""What the principals may do, and the resources that are named by it.

`partly` may do with `RUN-RIGHT-...` what RIGHT says, be that a topic, a group or a transactional id; also
where Kafka has no such operation for it, since ACLs of those are taken and count. So one request that names
one resource of each right shows which operations an API asks for.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateTopicsRequest,
    DescribeAclsRequest,
)

from gateway.security.acls import SUPPORTED, Operation, PatternType, Permission, ResourceType
from tests.differential.batches import batch_of
from tests.differential.principals import ALLOWED, CLUSTER_RIGHTS, PARTLY, PASSWORDS
from tests.differential.side import NO_ERROR, SETTLE_SECONDS, Server, Side
from tests.differential.wire import Connection

RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
CLUSTER = "kafka-cluster"
SHA_256, ITERATIONS = 1, 4096

_MEANT = SUPPORTED[ResourceType.TOPIC] | SUPPORTED[ResourceType.GROUP] | {Operation.TWO_PHASE_COMMIT}
OF_ONE_OPERATION = {
    operation.name.lower().replace("_", ""): operation for operation in (Operation.ALL, *sorted(_MEANT))
}
LITERAL, OVERRULED, NONE = "literal", "overruled", "none"
RIGHTS = (*OF_ONE_OPERATION, LITERAL, OVERRULED, NONE)
"""`overruled`: everything is allowed, and describing is denied."""

THERE, MISSING = "there", "missing"


class _Acl(NamedTuple):
    user: str
    kind: ResourceType
    name: str
    operation: Operation = Operation.ALL
    pattern: PatternType = PatternType.LITERAL
    permission: Permission = Permission.ALLOW


def _acls(run: str) -> Iterator[_Acl]:
    yield _Acl(ALLOWED, ResourceType.CLUSTER, CLUSTER)
    for user, operation in CLUSTER_RIGHTS.items():
        yield _Acl(user, ResourceType.CLUSTER, CLUSTER, operation)
    for kind in RESOURCES:
        yield _Acl(ALLOWED, kind, "*")
        for right, operation in OF_ONE_OPERATION.items():
            yield _Acl(PARTLY, kind, f"{run}-{right}-", operation, PatternType.PREFIXED)
        for suffix in (THERE, MISSING):
            yield _Acl(PARTLY, kind, f"{run}-{LITERAL}-{suffix}")
        overruled = f"{run}-{OVERRULED}-"
        yield _Acl(PARTLY, kind, overruled, pattern=PatternType.PREFIXED)
        yield _Acl(PARTLY, kind, overruled, Operation.DESCRIBE, PatternType.PREFIXED, Permission.DENY)


def make_acls(server: Server) -> None:
    """Once for each server. Raises RuntimeError: it refuses them."""
    if server.has_acls:
        return
    wanted = list(_acls(server.run))
    with Connection(server.bootstrap) as connection:
        answer = connection.ask(CreateAclsRequest(version=3, creations=[_creation(one) for one in wanted]))
        refused = [result for result in answer.results if result.error_code != NO_ERROR]
        if refused:
            raise RuntimeError(f"{server.name} refuses {len(refused)} ACLs of the set-up: {refused[0]}")
        deadline = time.monotonic() + SETTLE_SECONDS
        while not _are_in_force(connection, wanted):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{server.name} does not show its ACLs")
            time.sleep(0.01)
    server.has_acls = True


def _are_in_force(connection: Connection, wanted: list[_Acl]) -> bool:
    request = DescribeAclsRequest(
        version=3,
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    shown = {
        _Acl(
            acl.principal.removeprefix("User:"),
            ResourceType(resource.resource_type),
            resource.resource_name,
            Operation(acl.operation),
            PatternType(resource.pattern_type),
            Permission(acl.permission_type),
        )
        for resource in connection.ask(request).resources
        for acl in resource.acls
    }
    return shown.issuperset(wanted)


def _creation(acl: _Acl) -> Any:
    return CreateAclsRequest.AclCreation(
        resource_type=acl.kind,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern,
        principal=f"User:{acl.user}",
        host="*",
        operation=acl.operation,
        permission_type=acl.permission,
    )


def credential(user: str, password: str, mechanism: int = SHA_256, iterations: int = ITERATIONS) -> Any:
    """A user as AlterUserScramCredentials makes him; the salt is the same each time."""
    salt = hashlib.sha256(user.encode()).digest()[:16]
    digest = "sha256" if mechanism == SHA_256 else "sha512"
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations),
    )


def make_users(server: Server) -> None:
    """All principals. Raises RuntimeError: it refuses them."""
    made = [credential(user, password) for user, password in PASSWORDS.items()]
    with Connection(server.bootstrap) as connection:
        answer = connection.ask(AlterUserScramCredentialsRequest(version=0, deletions=[], upsertions=made))
    refused = [result for result in answer.results if result.error_code != NO_ERROR]
    if refused:
        raise RuntimeError(f"{server.name} refuses users of the set-up: {refused}")


# ----------------------------------------------------------------------------------------------- resources


def names(side: Side, suffix: str) -> list[str]:
    """One resource of each right."""
    return [f"{side.server.run}-{right}-{suffix}" for right in RIGHTS]


def there(side: Side) -> list[str]:
    """A topic of each right, shared by all cases: one record in its only partition."""
    return _topics(side, names(side, THERE))


def missing(side: Side) -> list[str]:
    """Names of topics that there are not."""
    return names(side, MISSING)


def both(side: Side) -> list[str]:
    """Those that there are and those that there are not, in turn."""
    return [name for two in zip(there(side), missing(side), strict=True) for name in two]


def own_names(side: Side, what: str = "own") -> list[str]:
    """One resource of each right, of this case and version alone."""
    case = side.case_name.rpartition(".")[2]
    return names(side, f"{what}-{case}-v{side.version}".replace("_", "-"))


def own(side: Side, what: str = "own") -> list[str]:
    """As `there`, of this case and version alone."""
    return _topics(side, own_names(side, what))


def _topics(side: Side, wanted: list[str]) -> list[str]:
    new = [name for name in wanted if name not in side.server.topic_ids]
    if not new:
        return wanted
    one = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        version=5,
        topics=[
            one(
                name=name,
                num_partitions=1,
                replication_factor=-1,
                assignments=[],
                configs=[one.CreatableTopicConfig(name="retention.ms", value="-1")],
            )
            for name in new
        ],
        timeout_ms=30_000,
        validate_only=False,
    )
    refused = [topic for topic in side.for_set_up.ask(request).topics if topic.error_code != NO_ERROR]
    if refused:
        raise RuntimeError(f"{side.server.name} refuses topics of the set-up: {refused}")
    for name in new:
        side.settle(name)
        side.put(name, batch_of(b"x"))
    return wanted
