"""Decides who may do what, by a set of ACLs (``StandardAuthorizer``). Pure.

Rules, in this order:

1. a super user may do everything;
2. of the lines whose pattern means the resource, one that denies what is asked decides, else one that allows
   it. To do something implies to see it: READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS allows
   DESCRIBE_CONFIGS; a line that denies denies itself alone, so who may not DESCRIBE may READ;
3. if some line means the resource, whoever it is about, nobody else may;
4. else what `allow_everyone` says.

An object never changes: a change of the ACLs is another object, so no check sees the half of one.

Theory: a resource has the lines of its name, those of `*`, and those of each prefix. Lines are kept by
pattern, and of prefixes by their length, so a check costs as many look-ups as there are lengths, and goes
through the lines of the patterns that match alone. Within a pattern they are kept by principal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from gateway.security.acls import (
    EVERY,
    EVERY_USER,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from gateway.security.principal import Principal

_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}


class Why(Enum):
    """What has decided."""

    SUPER_USER = auto()
    ACL = auto()
    OTHERS_HAVE_ACLS = auto()
    """There are ACLs of the resource, and none of them is about this."""
    NO_ACLS = auto()
    """There are none of the resource."""


class Decision(NamedTuple):
    """Whether something may be done, and why; `acl` is the line that says so, if one does."""

    is_allowed: bool
    why: Why
    acl: Acl | None = None


class _Pattern:
    """The lines of one pattern, by principal."""

    __slots__ = ("by_principal",)

    def __init__(self) -> None:
        self.by_principal: dict[str, list[Acl]] = {}

    def lines(self, principal: str) -> Iterator[Acl]:
        yield from self.by_principal.get(principal, ())
        if principal != EVERY_USER:
            yield from self.by_principal.get(EVERY_USER, ())


class _OfType:
    """The patterns of one type of resource."""

    def __init__(self) -> None:
        self.literal: dict[str, _Pattern] = {}
        self.prefixed: dict[str, _Pattern] = {}
        self.lengths: tuple[int, ...] = ()

    def add(self, acl: Acl) -> None:
        patterns = self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal
        of_pattern = patterns.setdefault(acl.name, _Pattern())
        of_pattern.by_principal.setdefault(acl.principal, []).append(acl)

    def matching(self, name: str) -> Iterator[_Pattern]:
        """Those that mean this name."""
        for literal in (name, EVERY) if name != EVERY else (EVERY,):
            found = self.literal.get(literal)
            if found is not None:
                yield found
        for length in self.lengths:
            if length > len(name):
                break
            found = self.prefixed.get(name[:length])
            if found is not None:
                yield found


class Authorizer:
    """`super_users` are principals as texts, which nothing is denied."""

    def __init__(
        self, acls: Iterable[Acl], super_users: Collection[str] = (), *, allow_everyone: bool = False
    ) -> None:
        self.acls = frozenset(acls)
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._types: dict[ResourceType, _OfType] = {}
        for acl in self.acls:
            self._types.setdefault(acl.resource_type, _OfType()).add(acl)
        for of_type in self._types.values():
            of_type.lengths = tuple(sorted({len(prefix) for prefix in of_type.prefixed}))

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Whether `principal` at `host` (its address as Java writes it) may do this with a resource."""
        who = str(principal)
        if who in self._super_users:
            return Decision(True, Why.SUPER_USER)
        of_type = self._types.get(resource_type)
        allowing: Acl | None = None
        has_some = False
        for pattern in () if of_type is None else of_type.matching(name):
            has_some = True
            for acl in pattern.lines(who):
                if acl.host not in {host, EVERY} or not _covers(acl, operation):
                    continue
                if acl.permission is Permission.DENY:
                    return Decision(False, Why.ACL, acl)
                allowing = allowing or acl
        if allowing is not None:
            return Decision(True, Why.ACL, allowing)
        if has_some:
            return Decision(False, Why.OTHERS_HAVE_ACLS)
        return Decision(self._allow_everyone, Why.NO_ACLS)

    def may_somewhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is a resource of this type with which it may be done, whether that exists or not
        (``Authorizer.authorizeByResourceType``): an allowed pattern that no denied one covers.
        """
        if self.decide(principal, host, operation, resource_type, _NO_SUCH_NAME).is_allowed:
            return True
        of_type = self._types.get(resource_type)
        if of_type is None:
            return False
        lines = [
            acl
            for pattern in (*of_type.literal.values(), *of_type.prefixed.values())
            for acl in pattern.lines(str(principal))
            if acl.host in {host, EVERY} and acl.operation in {operation, Operation.ALL}
        ]
        denied = [acl for acl in lines if acl.permission is Permission.DENY]
        if any(_is_every(acl) for acl in denied):
            return False
        literal = {acl.name for acl in denied if acl.pattern_type is PatternType.LITERAL}
        prefixes = tuple(acl.name for acl in denied if acl.pattern_type is PatternType.PREFIXED)
        return any(
            _is_every(acl)
            or (
                not acl.name.startswith(prefixes)
                and (acl.pattern_type is PatternType.PREFIXED or acl.name not in literal)
            )
            for acl in lines
            if acl.permission is Permission.ALLOW
        )


_NO_SUCH_NAME: Final = "hardcode"
"""Kafka asks first about a topic of this name: so super users pass, and where everybody may do everything."""


def _is_every(acl: Acl) -> bool:
    return acl.pattern_type is PatternType.LITERAL and acl.name == EVERY


def _covers(acl: Acl, operation: Operation) -> bool:
    """Whether the line is about this operation."""
    if acl.operation in {operation, Operation.ALL}:
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, frozenset())
