"""The checker of mixed groups: each promise broken by hand, and each seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mixed_groups
import pytest
from mixed_groups.checker import check, seen
from mixed_groups.events import (
    Assigned,
    Committed,
    Committing,
    Consumed,
    Described,
    End,
    Event,
    Failed,
    LoggedGeneration,
    LoggedMember,
    LoggedOffset,
    LoggedTombstone,
    Refused,
    Revoked,
    Shown,
    StaleCommit,
)

from tests.faults.history import Operation, Result, Sent
from tests.faults.workloads import make_value, read_value

VALUES = [make_value("p", number, 60).decode() for number in range(7)]
# (partition, offset) of each; the last two have no acknowledgement.
PLACES = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2), (1, 3)]


def sent() -> list[Operation]:
    made: list[Operation] = [
        Sent("p", number, PLACES[number][0], read_value(value.encode())[2])
        for number, value in enumerate(VALUES)
    ]
    return made + [Result("p", number, "ok", PLACES[number][1]) for number in range(5)]


def read(process: str, generation: int, number: int) -> Consumed:
    return Consumed(process, generation, *PLACES[number], VALUES[number])


def generation(position: int, number: int, **owned: tuple[int, ...]) -> LoggedGeneration:
    members = tuple(LoggedMember(name.upper(), None, parts) for name, parts in owned.items())
    return LoggedGeneration(position, number, "range", members)


FIRST = generation(0, 1, a=(0, 1))
SECOND = generation(3, 2, a=(0,), b=(1,))
A_COMMITS = Committing("a-1", 1, 1, "A", ((0, 2), (1, 1)))
B_COMMITS = Committing("b-1", 1, 2, "B", ((1, 3),))
GOOD: list[Event] = [
    FIRST,
    Assigned("a-1", 1, "A", (0, 1)),
    read("a-1", 1, 0),
    read("a-1", 1, 2),
    read("a-1", 1, 1),
    A_COMMITS,
    LoggedOffset(1, 0, 2, "a-1/1/1"),
    LoggedOffset(2, 1, 1, "a-1/1/1"),
    Committed("a-1", 1),
    Shown(0, 2),
    Shown(1, 1),
    Described("Stable", (("A", (0, 1)),)),
    SECOND,
    StaleCommit(1, "A", 22),
    Revoked("a-1", (0, 1)),
    Assigned("a-1", 2, "A", (0,)),
    Assigned("b-1", 2, "B", (1,)),
    Described("Stable", (("A", (0,)), ("B", (1,)))),
    read("a-1", 2, 3),
    read("b-1", 2, 4),
    read("b-1", 2, 5),
    B_COMMITS,
    LoggedOffset(4, 1, 3, "b-1/2/1"),
    Committed("b-1", 1),
    Committing("a-1", 2, 2, "A", ((0, 3),)),
    Refused("a-1", 2, "no answer"),
    LoggedOffset(5, 0, 3, "a-1/2/2"),
    generation(6, 3),
    End(0, 3),
    End(1, 3),
    Shown(0, 3),
    Shown(1, 3),
]

Change = Callable[[list[Event]], list[Event]]


def instead(old: Event, *new: Event) -> Change:
    assert old in GOOD
    return lambda events: [put for one in events for put in (new if one == old else (one,))]


def also(*new: Event) -> Change:
    return lambda events: [*events, *new]


def test_a_good_history() -> None:
    assert check(GOOD, sent()) == []
    assert seen(GOOD) == (3, 3, 6, 2, 1, 1, 4, 4)


def test_what_zombies_do_is_no_problem() -> None:
    """One that was stopped while others went on: it reads on, its commit is refused, then it learns of it."""
    wakes: list[Event] = [
        read("a-1", 1, 4),
        Committing("a-1", 9, 1, "A", ((1, 2),)),
        Refused("a-1", 9, "ILLEGAL_GENERATION"),
        Revoked("a-1", (0, 1), lost=True),
    ]
    assert check(instead(Revoked("a-1", (0, 1)), *wakes)(GOOD), sent()) == []


def test_one_that_is_stopped_before_it_is_told_of_its_assignment_is_a_zombie_too() -> None:
    """Its client has no member id any more, and finds what others have committed."""
    assert check([*GOOD, Assigned("c-1", 1, "", (1,)), read("c-1", 1, 6)], sent()) == []


def test_a_static_member_that_was_started_again_is_the_same_owner() -> None:
    before = LoggedGeneration(0, 1, "range", (LoggedMember("A", "one", (0,)),))
    after = LoggedGeneration(1, 1, "range", (LoggedMember("A2", "one", (0,)),))
    events: list[Event] = [before, Assigned("a-1", 1, "A", (0,)), after, Assigned("a-2", 1, "A2", (0,))]
    assert check(events, []) == []


def test_a_cooperative_member_keeps_what_it_keeps() -> None:
    """It commits in the next generation what it has from the one before; nobody has the rest meanwhile."""
    first = replace(FIRST, protocol="cooperative-sticky")
    second = replace(generation(3, 2, a=(0,), b=()), protocol="cooperative-sticky")
    late = Committing("a-1", 2, 1, "A", ((0, 2),))
    events: list[Event] = [
        first,
        Assigned("a-1", 1, "A", (0, 1)),
        read("a-1", 1, 0),
        read("a-1", 1, 1),
        second,
        late,
        LoggedOffset(4, 0, 2, "a-1/1/2"),
        Committed("a-1", 2),
        Revoked("a-1", (1,)),
        Assigned("a-1", 2, "A", (0,)),
        Assigned("b-1", 2, "B", ()),
    ]
    assert check(events, sent()[:2]) == []
    after = replace(generation(5, 3, b=(0, 1)), protocol="cooperative-sticky")
    assert {one.kind for one in check([*events, after, LoggedOffset(6, 0, 2, "a-1/1/2")], sent()[:2])} == {
        "commit of no member"
    }


BAD: dict[str, tuple[Change, set[str]]] = {
    "owned twice by the log": (
        instead(SECOND, generation(3, 2, a=(0, 1), b=(1,))),
        {"owned twice in the log", "assignment other than written", "described otherwise"},
    ),
    "owned twice by the members": (
        instead(Assigned("a-1", 2, "A", (0,)), Assigned("a-1", 2, "A", (0, 1))),
        {"owned twice", "assignment other than written"},
    ),
    "described twice": (
        also(Described("Stable", (("A", (0,)), ("B", (0, 1))))),
        {"described twice", "described otherwise"},
    ),
    "described other than written": (
        also(Described("Stable", (("A", (1,)), ("B", ())))),
        {"described otherwise"},
    ),
    "owned by nobody": (
        instead(SECOND, generation(3, 2, a=(0,), b=())),
        {"owned by nobody", "assignment other than written", "described otherwise"},
    ),
    "an assignment that cannot be read": (
        instead(SECOND, replace(SECOND, members=(*SECOND.members, LoggedMember("C", None, None)))),
        {"unreadable assignment", "described otherwise"},
    ),
    "an assignment before its generation is durable": (
        also(Assigned("a-1", 4, "A", (0,))),
        {"assignment never written"},
    ),
    "generations of the log go back": (
        instead(generation(6, 3), generation(6, 1)),
        {"generation back"},
    ),
    "a generation is given out twice": (
        instead(generation(6, 3), generation(6, 2, a=(0, 1))),
        {"generation changed", "assignment other than written"},
    ),
    "a member's generation goes back": (
        also(Assigned("b-1", 1, "B", ())),
        {"member's generation back", "assignment never written"},
    ),
    "who does not own a partition reads it": (
        instead(read("b-1", 2, 5), read("a-1", 2, 5)),
        {"read by another"},
    ),
    "a committed offset goes back": (
        instead(generation(6, 3), LoggedOffset(6, 0, 2, "a-1/1/1")),
        {"committed offset back", "stale commit kept", "behind at the end"},
    ),
    "the commit of a generation that is over is kept": (
        instead(SECOND, SECOND, LoggedOffset(3, 0, 2, "a-1/1/1")),
        {"stale commit kept"},
    ),
    "a commit that must be refused is kept": (
        instead(SECOND, SECOND, LoggedOffset(3, 0, 2, "stale")),
        {"commit of nobody"},
    ),
    "a commit that must be refused is answered": (also(StaleCommit(1, "A", 0)), {"stale commit taken"}),
    "a commit of who is not in the generation": (
        instead(SECOND, generation(3, 2, b=(1,), c=(0,))),
        {"commit of no member", "assignment never written"},
    ),
    "another offset than was committed": (
        instead(LoggedOffset(4, 1, 3, "b-1/2/1"), LoggedOffset(4, 1, 2, "b-1/2/1")),
        {"committed otherwise", "acknowledged commit lost", "behind at the end", "shown but not written"},
    ),
    "an acknowledged commit is not in the log": (
        instead(LoggedOffset(1, 0, 2, "a-1/1/1")),
        {"acknowledged commit lost", "shown but not written", "started elsewhere"},
    ),
    "a commit is forgotten": (also(LoggedTombstone(7, "partition 0")), {"forgotten"}),
    "what is shown goes back": (also(Shown(0, 2), Shown(0, 3)), {"shown offset back"}),
    "what is shown is not in the log": (instead(Shown(1, 1), Shown(1, 2)), {"shown but not written"}),
    "not all is committed in the end": (
        instead(End(0, 3), End(0, 4)),
        {"behind at the end"},
    ),
    "a record is not consumed": (
        instead(read("a-1", 2, 3)),
        {"not consumed"},
    ),
    "a record is skipped": (
        instead(read("b-1", 2, 4)),
        {"not consumed", "started elsewhere"},
    ),
    "a member begins behind where the group was": (
        instead(read("b-1", 2, 4), read("a-1", 2, 4)),
        {"read by another", "started elsewhere"},
    ),
    "a gap": (
        instead(read("a-1", 1, 1), read("a-1", 1, 3)),
        {"not consumed", "skipped"},
    ),
    "a record is read again within an assignment": (
        instead(read("b-1", 2, 5), read("b-1", 2, 4), read("b-1", 2, 5)),
        {"read again"},
    ),
    "a member starts before what it committed itself": (
        also(Revoked("b-1", (1,)), Assigned("b-1", 2, "B", (1,)), read("b-1", 2, 4)),
        {"started elsewhere"},
    ),
    "other content": (
        instead(read("a-1", 2, 3), replace(read("a-1", 2, 3), value=VALUES[4])),
        {"consumed otherwise", "phantom"},
    ),
    "two contents of one offset": (
        also(replace(read("a-1", -1, 3), value=VALUES[0])),
        {"consumed otherwise", "read again"},
    ),
    "a record that nobody sent": (
        also(Consumed("a-1", -1, 0, 3, make_value("q", 0, 60).decode())),
        {"phantom"},
    ),
    "the server logs an error": (
        also(Failed("server", "2026-11-22T02:00:00Z ERROR gateway.groups.served: an unexpected failure")),
        {"an error in the server's log"},
    ),
    "the log was not read whole": (
        also(Failed("observer", "3 to 5 is missing")),
        {"the log was not read whole"},
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_promise_is_seen(name: str) -> None:
    change, kinds = BAD[name]
    assert {problem.kind for problem in check(change(GOOD), sent())} == kinds


def test_every_kind_of_problem_is_planted() -> None:
    """No check of the three modules is without a case here."""
    folder = Path(mixed_groups.__file__).parent
    text = "".join((folder / f"{name}.py").read_text() for name in ("commits", "consumption", "ownership"))
    named = set(re.findall(r'Problem\(\s*"([^"]+)"', text))
    assert len(named) > 20
    assert {kind for _, found in BAD.values() for kind in found} >= named | {"read again"}
