"""Access control lists as Kafka writes them: who may do what with which resource, from where.

Values only; `gateway.security.authorizer` decides by them. The numbers are those of the protocol (KIP-140,
KIP-290).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ResourceType(IntEnum):
    """What is protected; `ANY` in filters alone."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Which names a pattern means; `ANY` and `MATCH` in filters alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    """This name; `*` means every name."""
    PREFIXED = 4
    """Names that begin so; `*` is a prefix like others."""


class Operation(IntEnum):
    """What is done; `ANY` in filters alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether it may be done; `ANY` in filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset((
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    )),
    ResourceType.GROUP: frozenset((
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )),
    ResourceType.CLUSTER: frozenset((
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    )),
}  # fmt: skip
"""What can be done with a resource, as far as answers tell a client what it may do (`AclEntry`)."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of type cluster."""

EVERY: Final = "*"
"""Every name of a literal pattern, and every host."""

EVERY_USER: Final = "User:*"


class Acl(NamedTuple):
    """One line: `principal` at `host` may, or may not, do `operation` with the resources of a pattern.

    `host` is compared as a text with the client's address as Java writes it, or is `*`.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def is_definite(self) -> bool:
        """Whether it says nothing that only filters say."""
        return (
            self.resource_type > ResourceType.ANY
            and self.pattern_type > PatternType.MATCH
            and self.operation > Operation.ANY
            and self.permission > Permission.ANY
        )

    def matches(self, name: str) -> bool:
        """Whether the pattern means the resource of this name, of the same type."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, EVERY}


class AclFilter(NamedTuple):
    """Which lines are meant: None and `ANY` mean all of them. A pattern of type `MATCH` means those that say
    something about the resource of this name.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def exactly(self) -> Acl | None:
        """The one line that is meant, if it can be no other one."""
        if self.name is None or self.principal is None or self.host is None:
            return None
        acl = Acl(
            self.resource_type, self.name, self.pattern_type, self.principal, self.host, self.operation,
            self.permission,
        )  # fmt: skip
        return acl if acl.is_definite else None

    def means(self, acl: Acl) -> bool:
        """Whether this line is one of them (``AccessControlEntryFilter``, ``ResourcePatternFilter``)."""
        return (
            self.resource_type in {ResourceType.ANY, acl.resource_type}
            and self._means_pattern(acl)
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
        )

    def _means_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, acl.pattern_type}:
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return acl.matches(self.name)
        return self.name == acl.name
