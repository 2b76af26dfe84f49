"""Each input is copied exactly once in each group, and the group's offsets move with the copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.checker import Problem
from tests.faults.transactions.clients import GROUPS, INPUTS, copies_of
from tests.faults.transactions.facts import NEVER, Facts, Place
from tests.faults.transactions.history import original_of


def check_copying(facts: Facts) -> Iterator[Problem]:
    """Every broken promise about groups and copies. Pure."""
    for group in GROUPS:
        copies = _copies(facts, copies_of(group))
        yield from _exactly_once(facts, group, copies)
        yield from _fit(facts, group, copies)
    yield from _back(facts)
    yield from _pending_shown(facts)


def _copies(facts: Facts, topic: str) -> dict[str, list[str]]:
    """The committed ones, by what they are copies of."""
    copies: dict[str, list[str]] = defaultdict(list)
    for (of, _), stored in facts.stored.items():
        for offset, value, _, end in stored.records:
            original = original_of(value)
            if of == topic and end == "commit" and original is not None:
                copies[original].append(f"{value} at {of}-{stored.partition}/{offset}")
    return copies


def _inputs(facts: Facts) -> Iterator[tuple[Place, int, str]]:
    for place, stored in facts.stored.items():
        if place[0] == INPUTS:
            for offset, value, _, end in stored.records:
                if end == "commit":
                    yield place, offset, value


def _exactly_once(facts: Facts, group: str, copies: dict[str, list[str]]) -> Iterator[Problem]:
    there = set()
    for place, offset, value in _inputs(facts):
        there.add(value)
        found = copies.get(value, [])
        if not found:
            yield Problem("not copied", f"{value} at {place}/{offset} by {group}")
        elif len(found) > 1:
            yield Problem("copied twice", f"{value} at {place}/{offset} by {group}: {found}")
    for value in copies.keys() - there:
        yield Problem("copy of what is not there", f"{value} by {group}: {copies[value]}")


def _fit(facts: Facts, group: str, copies: dict[str, list[str]]) -> Iterator[Problem]:
    """In the end the group's offsets are behind everything that is copied, and nothing else."""
    ends = {
        (topic, partition): offset
        for known in facts.known
        if known.group == group
        for topic, partition, offset in known.offsets
    }
    for place, offset, value in _inputs(facts):
        if (value in copies) != (offset < ends.get(place, 0)):
            what = "copied" if value in copies else "not copied"
            where = f"{value} at {place}/{offset}"
            yield Problem("offsets without copies", f"{where} is {what}, {group} is at {ends.get(place)}")


def _back(facts: Facts) -> Iterator[Problem]:
    highest: dict[tuple[str, Place], int] = {}
    for known in facts.known:
        for topic, partition, offset in known.offsets:
            place = known.group, (topic, partition)
            if offset < highest.get(place, 0):
                yield Problem("group offset back", f"{place}: {offset} after {highest[place]}")
            highest[place] = max(highest.get(place, 0), offset)


def _pending_shown(facts: Facts) -> Iterator[Problem]:
    """An offset is told only once a transaction that has sent it was asked to commit."""
    asked: dict[tuple[str, Place, int], int] = defaultdict(lambda: NEVER)
    for one in facts.transactions.values():
        if one.outcome != "aborted":
            for each in one.offsets:
                asked[each] = min(asked[each], one.commit_asked)
    for known in facts.known:
        for topic, partition, offset in known.offsets:
            if known.at < asked[known.group, (topic, partition), offset]:
                where = f"{known.group} {topic}-{partition}: {offset}"
                yield Problem("pending offset shown", where)
