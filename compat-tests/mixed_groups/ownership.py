"""Who owned what: by the log, by DescribeGroups, and by what the members say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from mixed_groups.commits import COOPERATIVE
from mixed_groups.events import Assigned, Consumed, Described, Event, LoggedGeneration, LoggedMember, Revoked
from tests.faults.checker import Problem

STABLE = "Stable"
"""The state in which everybody has its assignment."""


def check(events: Sequence[Event]) -> Iterator[Problem]:
    logged = [one for one in events if isinstance(one, LoggedGeneration)]
    # Without an id it was told so after its client had lost its membership: a zombie that does not know it.
    assigned = [one for one in events if isinstance(one, Assigned) and one.generation >= 0 and one.member]
    yield from _in_the_log(logged)
    yield from _generations_of_the_log(logged)
    yield from _by_members(assigned, {m.member: m.instance for one in logged for m in one.members})
    yield from _as_written(assigned, logged)
    yield from _generations_of_members(assigned)
    yield from _described((one for one in events if isinstance(one, Described)), logged)
    yield from _read_by_owners(events)


def _in_the_log(logged: Sequence[LoggedGeneration]) -> Iterator[Problem]:
    everything = {partition for one in logged for m in one.members for partition in m.partitions or ()}
    for one in logged:
        where = f"generation {one.generation}, position {one.position}"
        for member in one.members:
            if member.partitions is None:
                yield Problem("unreadable assignment", f"{where}: {member.member}")
        counted = Counter(partition for m in one.members for partition in m.partitions or ())
        for partition, times in counted.items():
            if times > 1:
                yield Problem("owned twice in the log", f"{where}: partition {partition}")
        if one.members and one.protocol != COOPERATIVE and (left := everything - counted.keys()):
            yield Problem("owned by nobody", f"{where}: {sorted(left)}")


def _generations_of_the_log(logged: Sequence[LoggedGeneration]) -> Iterator[Problem]:
    """They go up; one is written again only when a static member got another id."""
    for before, one in pairwise(logged):
        where = f"{one.generation} after {before.generation}, position {one.position}"
        if one.generation < before.generation:
            yield Problem("generation back", where)
        if one.generation == before.generation and _by_instance(one) != _by_instance(before):
            yield Problem("generation changed", where)


def _by_instance(one: LoggedGeneration) -> dict[str, tuple[int, ...] | None]:
    return {_identity(member): member.partitions for member in one.members}


def _identity(member: LoggedMember) -> str:
    return member.member if member.instance is None else f"instance {member.instance}"


def _by_members(assigned: Iterable[Assigned], instances: dict[str, str | None]) -> Iterator[Problem]:
    owners: dict[tuple[int, int], set[str]] = defaultdict(set)
    for one in assigned:
        for partition in one.partitions:
            # A static member that was started again is the same owner.
            owners[one.generation, partition].add(instances.get(one.member) or one.member)
    for (generation, partition), members in owners.items():
        if len(members) > 1:
            yield Problem("owned twice", f"generation {generation}, partition {partition}: {sorted(members)}")


def _as_written(assigned: Iterable[Assigned], logged: Sequence[LoggedGeneration]) -> Iterator[Problem]:
    """An assignment is handed out when it is durable, and as it is."""
    written = {(one.generation, m.member): m.partitions for one in logged for m in one.members}
    for one in assigned:
        where = f"generation {one.generation}: {one.member} owns {one.partitions}"
        if (one.generation, one.member) not in written:
            yield Problem("assignment never written", where)
        elif written[one.generation, one.member] != one.partitions:
            yield Problem(
                "assignment other than written", f"{where}, not {written[one.generation, one.member]}"
            )


def _generations_of_members(assigned: Iterable[Assigned]) -> Iterator[Problem]:
    latest: dict[str, int] = {}
    for one in assigned:
        if one.generation < latest.get(one.process, -1):
            yield Problem("member's generation back", f"{one} after {latest[one.process]}")
        latest[one.process] = one.generation


def _described(described: Iterable[Described], logged: Sequence[LoggedGeneration]) -> Iterator[Problem]:
    # Not by member: the new id of a static member is shown a moment before it is in the log.
    written = [sorted(member.partitions or () for member in one.members) for one in logged]
    for one in described:
        if one.state == STABLE and sorted(owned for _, owned in one.members) not in written:
            yield Problem("described otherwise", f"{one}")
        counted = Counter(partition for _, partitions in one.members for partition in partitions)
        for partition, times in counted.items():
            if times > 1:
                yield Problem("described twice", f"{one.state}: partition {partition}, {one.members}")


def _read_by_owners(events: Iterable[Event]) -> Iterator[Problem]:
    """Who reads was given it, and not told yet that it is gone."""
    owned: dict[str, set[int]] = defaultdict(set)
    for one in events:
        match one:
            case Assigned():
                owned[one.process] = set(one.partitions)
            case Revoked():
                owned[one.process] -= set(one.partitions)
            case Consumed() if one.partition not in owned[one.process]:
                yield Problem("read by another", f"{one}")
