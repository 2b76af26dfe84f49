"""What was committed: by the log, by OffsetFetch, and by what members were told.

In the partition of `__consumer_offsets` that has a group, the commits of a generation stand behind the
record of that generation and before that of the next one: a member that asks what is committed when it
was given partitions finds all that earlier generations have committed, and nothing of theirs comes
after. So offsets never go back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mixed_groups.events import (
    Committed,
    Committing,
    End,
    Event,
    LoggedGeneration,
    LoggedOffset,
    LoggedTombstone,
    Shown,
    StaleCommit,
)
from tests.faults.checker import Problem

TAKEN = 0
"""Error code of an answer without an error."""

COOPERATIVE = "cooperative-sticky"
"""The one protocol whose members keep partitions over a rebalance, and some have no owner meanwhile."""

Commits = dict[tuple[str, int], Committing]


def check(events: Sequence[Event]) -> Iterator[Problem]:
    made = {(one.process, one.number): one for one in events if isinstance(one, Committing)}
    logged = [one for one in events if isinstance(one, LoggedOffset)]
    yield from _as_logged(events, made)
    yield from _acknowledged(events, made, logged)
    yield from _shown(events, logged)
    yield from _at_the_end(events)
    for one in events:
        if isinstance(one, StaleCommit) and one.error == TAKEN:
            yield Problem("stale commit taken", f"generation {one.generation}: {one.member}")
        if isinstance(one, LoggedTombstone):
            yield Problem("forgotten", f"position {one.position}: {one.what}")


@dataclass
class _Log:
    """The log as far as it was gone through."""

    generation: LoggedGeneration | None = None
    offsets: dict[int, int] = field(default_factory=dict)


def _as_logged(events: Iterable[Event], made: Commits) -> Iterator[Problem]:
    log = _Log()
    for one in events:
        if isinstance(one, LoggedGeneration):
            log.generation = one
        elif isinstance(one, LoggedOffset):
            yield from _origin(one, made, log.generation)
            before = log.offsets.get(one.partition, 0)
            if one.offset < before:
                yield Problem("committed offset back", f"{before} before {one}")
            log.offsets[one.partition] = one.offset


def _origin(one: LoggedOffset, made: Commits, current: LoggedGeneration | None) -> Iterator[Problem]:
    process, _, rest = one.metadata.partition("/")
    _, _, number = rest.partition("/")
    commit = made.get((process, int(number) if number.isdigit() else -1))
    if commit is None:
        yield Problem("commit of nobody", f"{one}")
        return
    if (one.partition, one.offset) not in commit.offsets:
        yield Problem("committed otherwise", f"{one}, not {commit.offsets}")
    # A cooperative member keeps what it keeps from one generation to the next, and may commit it when that
    # has begun: it has to be a member still.
    kept = current is not None and current.protocol == COOPERATIVE
    if current is None or (commit.generation != current.generation and not kept):
        yield Problem("stale commit kept", f"{one} behind {current and current.generation}")
    elif commit.member not in {member.member for member in current.members}:
        yield Problem("commit of no member", f"{one} in generation {current.generation}")


def _acknowledged(
    events: Iterable[Event], made: Commits, logged: Iterable[LoggedOffset]
) -> Iterator[Problem]:
    kept = {(one.partition, one.offset, one.metadata) for one in logged}
    for one in events:
        if not isinstance(one, Committed):
            continue
        commit = made[one.process, one.number]
        metadata = f"{one.process}/{commit.generation}/{one.number}"
        for partition, offset in commit.offsets:
            if (partition, offset, metadata) not in kept:
                yield Problem("acknowledged commit lost", f"{metadata}: {offset} of partition {partition}")


def _shown(events: Iterable[Event], logged: Iterable[LoggedOffset]) -> Iterator[Problem]:
    written: dict[int, set[int]] = defaultdict(set)
    for one in logged:
        written[one.partition].add(one.offset)
    latest: dict[int, int] = {}
    for shown in events:
        if not isinstance(shown, Shown):
            continue
        if shown.offset < latest.get(shown.partition, 0):
            yield Problem("shown offset back", f"{shown} after {latest[shown.partition]}")
        if shown.offset not in written[shown.partition]:
            yield Problem("shown but not written", f"{shown}")
        latest[shown.partition] = shown.offset


def _at_the_end(events: Sequence[Event]) -> Iterator[Problem]:
    shown = {one.partition: one.offset for one in events if isinstance(one, Shown)}
    logged = {one.partition: one.offset for one in events if isinstance(one, LoggedOffset)}
    for one in events:
        if isinstance(one, End) and one.offset:
            for where, offsets in (("shown", shown), ("in the log", logged)):
                if (found := offsets.get(one.partition)) != one.offset:
                    yield Problem("behind at the end", f"{found} {where}: {one}")
