"""A catalog as one thing that does one thing at a time: keys with the revisions of their last changes, and
leases.

Whoever asks gives all values that are put a text of their own, so what a read shows tells which transaction
it is of. A transaction whose outcome nobody was told has no revision that anybody knows, until somebody reads
what it has put (`with_revisions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.linearizable.search import UNKNOWN, Operation

NO_SUCH_LEASE = "no such lease"


class Stored(NamedTuple):
    key: str
    value: bytes
    revision: int
    lease: int = 0


class Catalog(NamedTuple):
    """The state. `ended` are leases."""

    stored: tuple[Stored, ...] = ()
    """By key."""
    revision: int = 0
    ended: frozenset[int] = frozenset()


class Transact(NamedTuple):
    """Answered with the revision, with the key of a compare that did not hold, or `NO_SUCH_LEASE`. `number`
    tells one from all others.
    """

    number: int
    compares: tuple[tuple[str, int], ...]
    puts: tuple[tuple[str, bytes], ...]
    deletes: tuple[str, ...] = ()
    lease: int = 0


class Look(NamedTuple):
    """All that there is: answered with (key, value, revision) of each, in their order."""


class KeepAlive(NamedTuple):
    """Answered with nothing, or `NO_SUCH_LEASE`."""

    lease: int


class EndLease(NamedTuple):
    """By its holder, or because its time is over: its keys are gone. Answered as `KeepAlive`."""

    lease: int


Known = tuple[str, bytes, int]


def of_catalog(state: Catalog, operation: Operation) -> tuple[bool, Catalog]:
    """The model. What has no answer, and would change nothing, has no place: there is none that it needs."""
    asked, answered = operation.asked, operation.answered
    match asked:
        case Look():
            return answered == tuple(one[:3] for one in state.stored), state
        case KeepAlive(lease):
            return (answered == NO_SUCH_LEASE) == (lease in state.ended), state
        case EndLease(lease):
            if lease in state.ended:
                return answered == NO_SUCH_LEASE, state
            kept = tuple(one for one in state.stored if one.lease != lease)
            return answered != NO_SUCH_LEASE, state._replace(stored=kept, ended=state.ended | {lease})
        case Transact():
            return _transact(state, asked, answered)
    raise AssertionError(operation)


def _transact(state: Catalog, asked: Transact, answered: object) -> tuple[bool, Catalog]:
    there = {one.key: one for one in state.stored}
    failed = {key for key, revision in asked.compares if _revision(there, key) != revision}
    if answered == NO_SUCH_LEASE:
        return asked.lease in state.ended, state
    if isinstance(answered, str):
        return answered in failed, state
    if failed or asked.lease in state.ended:
        return False, state
    revision = answered if isinstance(answered, int) else -asked.number
    if 0 < revision <= state.revision:
        return False, state
    for key in asked.deletes:
        there.pop(key, None)
    there |= {key: Stored(key, value, revision, asked.lease) for key, value in asked.puts}
    stored = tuple(there[key] for key in sorted(there))
    return True, state._replace(stored=stored, revision=max(state.revision, revision))


def _revision(there: dict[str, Stored], key: str) -> int:
    return there[key].revision if key in there else 0


def with_revisions(history: Iterable[Operation], revisions: Mapping[bytes, int]) -> list[Operation]:
    """The same, with the revisions of transactions without an answer, as far as somebody has seen something
    that they have put (value -> revision).
    """
    return [_with_revision(operation, revisions) for operation in history]


def _with_revision(operation: Operation, revisions: Mapping[bytes, int]) -> Operation:
    asked = operation.asked
    if operation.answered is not UNKNOWN or not isinstance(asked, Transact):
        return operation
    seen = [revisions[value] for _, value in asked.puts if value in revisions]
    return operation._replace(answered=seen[0]) if seen else operation
