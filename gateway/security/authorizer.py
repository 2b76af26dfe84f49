"""Decides who may do what, by a set of ACLs (``StandardAuthorizer``). Pure.

Rules, in this order:

1. a super user may do everything;
2. of the lines whose pattern means the resource, one that denies what is asked decides, else one that allows
   it. To do something implies to see it: READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS allows
   DESCRIBE_CONFIGS; a line that denies denies itself alone, so who may not DESCRIBE may READ;
3. if some line means the resource, whoever it is about, nobody else may;
4. else what `allow_everyone` says.

An object never changes: a change of the ACLs is another object, so no check sees the half of one. The two
share what is the same in both, so one line more among ten thousand costs a fraction of a millisecond.

Theory: a resource has the lines of its name, those of `*`, and those of each prefix. Lines are kept by
pattern, and of prefixes by their length, so a check costs as many look-ups as there are lengths, and goes
through the lines of the patterns that match alone. Within a pattern they are kept by principal, and besides
those of all patterns are: for the question whether there is anything that somebody may do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

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


_Lines: TypeAlias = Mapping[str, tuple[Acl, ...]]
"""By principal. Never changed."""

_NO_LINES: Final[_Lines] = {}


class _OfType:
    """The lines of one type of resource, in the patterns that they are of. Never changed."""

    def __init__(self) -> None:
        self.literal: dict[str, _Lines] = {}
        self.prefixed: dict[str, _Lines] = {}
        self.lengths: dict[int, int] = {}
        """Of prefixes, in their order, and how many have each."""
        self.lines: _Lines = _NO_LINES
        """Those of all patterns."""

    def matching(self, name: str) -> Iterator[_Lines]:
        """Of each pattern that means this name."""
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

    def changed(self, changes: Iterable[tuple[Acl, bool]]) -> _OfType:
        """Another one, in which each of these is, or is not. What has not changed is shared."""
        changes = list(changes)
        other = _OfType()
        other.literal, other.prefixed = dict(self.literal), dict(self.prefixed)
        other.lines = _changed(self.lines, changes)
        lengths = Counter(self.lengths)
        by_pattern: dict[tuple[bool, str], list[tuple[Acl, bool]]] = {}
        for acl, is_there in changes:
            pattern = acl.pattern_type is PatternType.PREFIXED, acl.name
            by_pattern.setdefault(pattern, []).append((acl, is_there))
        for (is_prefix, name), of_pattern in by_pattern.items():
            patterns = other.prefixed if is_prefix else other.literal
            before = patterns.get(name, _NO_LINES)
            after = _changed(before, of_pattern)
            if after:
                patterns[name] = after
            else:
                patterns.pop(name, None)
            if is_prefix:
                lengths[len(name)] += bool(after) - bool(before)
        other.lengths = {length: lengths[length] for length in sorted(+lengths)}
        return other


def _changed(lines: _Lines, changes: Iterable[tuple[Acl, bool]]) -> _Lines:
    """Others, in which each of these is, or is not."""
    found: dict[str, dict[Acl, None]] = {}
    for acl, is_there in changes:
        of_principal = found.get(acl.principal)
        if of_principal is None:
            of_principal = found[acl.principal] = dict.fromkeys(lines.get(acl.principal, ()))
        if is_there:
            of_principal[acl] = None
        else:
            of_principal.pop(acl, None)
    other = {**lines, **{principal: tuple(acls) for principal, acls in found.items()}}
    for principal, acls in found.items():
        if not acls:
            del other[principal]
    return other


def _about(lines: _Lines, principal: str) -> Iterator[Acl]:
    """Those that say something about somebody."""
    yield from lines.get(principal, ())
    if principal != EVERY_USER:
        yield from lines.get(EVERY_USER, ())


class Authorizer:
    """`super_users` are principals as texts, which nothing is denied."""

    def __init__(
        self, acls: Iterable[Acl] = (), super_users: Collection[str] = (), *, allow_everyone: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._types: Mapping[ResourceType, _OfType] = _with({}, ((acl, True) for acl in acls))

    def changed(self, removed: Iterable[Acl], added: Iterable[Acl]) -> Authorizer:
        """Another one, of other lines. It costs what has changed, and a reference to each pattern that
        there is.
        """
        other = copy(self)
        changes = (*((acl, False) for acl in removed), *((acl, True) for acl in added))
        other._types = _with(self._types, changes)
        return other

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
            for acl in _about(pattern, who):
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
            for acl in _about(of_type.lines, str(principal))
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


def _with(
    types: Mapping[ResourceType, _OfType], changes: Iterable[tuple[Acl, bool]]
) -> Mapping[ResourceType, _OfType]:
    """Others, in which each of these is, or is not."""
    by_type: dict[ResourceType, list[tuple[Acl, bool]]] = {}
    for change in changes:
        by_type.setdefault(change[0].resource_type, []).append(change)
    return {**types, **{kind: types.get(kind, _OfType()).changed(its) for kind, its in by_type.items()}}


_NO_SUCH_NAME: Final = "hardcode"
"""Kafka asks first about a topic of this name: so super users pass, and where everybody may do everything."""


def _is_every(acl: Acl) -> bool:
    return acl.pattern_type is PatternType.LITERAL and acl.name == EVERY


def _covers(acl: Acl, operation: Operation) -> bool:
    """Whether the line is about this operation."""
    if acl.operation in {operation, Operation.ALL}:
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, frozenset())
