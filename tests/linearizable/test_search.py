"""Histories made by hand, each known to be linearizable or not; and random ones against a search that tries
every order.
"""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any, NamedTuple

import pytest

from tests.linearizable.search import (
    NEVER,
    UNKNOWN,
    Operation,
    Verdict,
    judge,
    judge_each,
)


class Write(NamedTuple):
    value: int


class Swap(NamedTuple):
    """Compare and set: answered with whether `old` was there."""

    old: int
    value: int


class Read(NamedTuple):
    pass


def register(state: int, operation: Operation) -> tuple[bool, int]:
    match operation.asked, operation.answered:
        case Write(value), _:
            return True, value
        case Swap(old, value), answered:
            is_there = state == old
            return answered in (is_there, UNKNOWN), value if is_there else state
        case _, answered:
            return answered == state, state


def is_read(operation: Operation) -> bool:
    return isinstance(operation.asked, Read)


def history(*rows: tuple[str, float, float, Any, Any]) -> list[Operation]:
    return [Operation(*row) for row in rows]


LINEARIZABLE = {
    "nothing": history(),
    "one after the other": history(("a", 0, 1, Write(1), None), ("b", 2, 3, Read(), 1)),
    "a read beside a write sees it": history(("a", 0, 5, Write(1), None), ("b", 1, 2, Read(), 1)),
    "a read beside a write does not see it": history(("a", 0, 5, Write(1), None), ("b", 1, 2, Read(), 0)),
    "two reads beside a write, the later one sees it": history(
        ("a", 0, 9, Write(1), None), ("b", 1, 2, Read(), 0), ("b", 3, 4, Read(), 1)
    ),
    "one of two swaps wins": history(("a", 0, 3, Swap(0, 1), True), ("b", 1, 4, Swap(0, 2), False)),
    "two swaps in the order of their values": history(
        ("a", 0, 9, Swap(1, 2), True), ("b", 0, 9, Swap(0, 1), True), ("c", 10, 11, Read(), 2)
    ),
    "what has no answer took effect late": history(
        ("a", 0, NEVER, Write(1), UNKNOWN), ("b", 2, 3, Read(), 0), ("b", 8, 9, Read(), 1)
    ),
    "what has no answer never took effect": history(
        ("a", 0, NEVER, Write(1), UNKNOWN), ("b", 2, 3, Write(2), None), ("b", 8, 9, Read(), 2)
    ),
    "a swap without an answer that found something else": history(
        ("a", 0, NEVER, Swap(7, 1), UNKNOWN), ("b", 2, 3, Read(), 0), ("b", 4, 5, Read(), 0)
    ),
    "the return of one and the call of another at one time": history(
        ("a", 0, 1, Write(1), None), ("b", 1, 2, Read(), 0)
    ),
    "a wrong choice is taken back": history(
        ("a", 0, 9, Write(1), None), ("b", 0, 9, Write(2), None), ("c", 10, 11, Read(), 1)
    ),
}

NOT_LINEARIZABLE = {
    "a stale read": history(("a", 0, 1, Write(1), None), ("b", 2, 3, Read(), 0)),
    "a read that goes back": history(
        ("a", 0, 9, Write(1), None), ("b", 1, 2, Read(), 1), ("c", 3, 4, Read(), 0)
    ),
    "a lost update": history(
        ("a", 0, 1, Swap(0, 1), True), ("b", 2, 3, Swap(1, 2), True), ("c", 4, 5, Read(), 1)
    ),
    "two swaps win": history(("a", 0, 3, Swap(0, 1), True), ("b", 1, 4, Swap(0, 2), True)),
    "what nobody wrote": history(("a", 0, 1, Write(1), None), ("b", 2, 3, Read(), 9)),
    "what has no answer took effect before it was asked for": history(
        ("b", 0, 1, Read(), 1), ("a", 2, NEVER, Write(1), UNKNOWN)
    ),
    "what has no answer took effect and is gone": history(
        ("a", 0, NEVER, Write(1), UNKNOWN), ("b", 1, 2, Read(), 1), ("b", 3, 4, Read(), 0)
    ),
    "a refused swap that changed something": history(("a", 0, 1, Swap(7, 1), False), ("b", 2, 3, Read(), 1)),
    "a swap without an answer that could not": history(
        ("a", 0, NEVER, Swap(7, 1), UNKNOWN), ("b", 2, 3, Read(), 1)
    ),
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_linearizable(name: str) -> None:
    told = judge(LINEARIZABLE[name], register, 0)
    assert told.is_good
    assert told.stuck is None
    answered = [operation for operation in LINEARIZABLE[name] if operation.returned != NEVER]
    assert set(answered) <= set(told.order)


@pytest.mark.parametrize("name", NOT_LINEARIZABLE)
def test_not_linearizable(name: str) -> None:
    told = judge(NOT_LINEARIZABLE[name], register, 0)
    assert told.verdict is Verdict.NOT_LINEARIZABLE
    assert told.stuck is not None


def test_what_is_stuck_is_named_with_what_came_before() -> None:
    told = judge(NOT_LINEARIZABLE["a stale read"], register, 0)
    assert str(told) == (
        "not linearizable: no place for\n"
        "  b: Read() -> 0 [2 to 3]\n"
        "in the longest order, which ends with\n"
        "  a: Write(value=1) -> None [0 to 1]"
    )


def test_a_search_that_is_too_long_decides_nothing() -> None:
    """Sixteen writes without an answer, and a read of what nobody wrote: every set of them is a place."""
    writes = [Operation("a", 0, NEVER, Write(number), UNKNOWN) for number in range(16)]
    read = Operation("b", 1, 2, Read(), 99)
    told = judge([*writes, read], register, 0, max_places=1000)
    assert told.verdict is Verdict.UNDECIDED
    assert told.places <= 1001
    assert judge([*writes[:8], read], register, 0).verdict is Verdict.NOT_LINEARIZABLE


def test_reads_beside_one_another_are_no_more_than_one_place_each() -> None:
    """Half of them are answered as before the write beside them: tried in all orders, they are too many."""
    reads = [Operation(number, 0, 100, Read(), number % 2) for number in range(30)]
    wrong = history(("a", 0, 100, Write(1), None), ("b", 101, 102, Read(), 0))
    assert judge([*reads, *wrong], register, 0, max_places=5000).verdict is Verdict.UNDECIDED
    told = judge([*reads, *wrong], register, 0, max_places=5000, is_read=is_read)
    assert told.verdict is Verdict.NOT_LINEARIZABLE
    assert told.places < 100


def test_each_key_is_judged_alone() -> None:
    rows = history(("x", 0, 1, Write(1), None), ("y", 0, 1, Write(2), None), ("x", 2, 3, Read(), 1))
    told = judge_each([*rows, Operation("y", 2, 3, Read(), 1)], lambda one: one.process, register, 0)
    assert {key: one.is_good for key, one in told.items()} == {"x": True, "y": False}


def by_every_order(operations: list[Operation]) -> bool:
    """As the definition says it: some order of what was answered and some of the rest."""
    for count in range(len(operations) + 1):
        for order in permutations(operations, count):
            left = set(operations) - set(order)
            if any(one.returned != NEVER for one in left):
                continue
            in_time = all(
                order[later].returned >= order[earlier].invoked
                for earlier in range(count)
                for later in range(earlier + 1, count)
            )
            if in_time and _is_legal(order):
                return True
    return False


def _is_legal(order: tuple[Operation, ...]) -> bool:
    state = 0
    for operation in order:
        is_legal, state = register(state, operation)
        if not is_legal:
            return False
    return True


def a_history(chooser: random.Random) -> list[Operation]:
    operations: list[Operation] = []
    for number in range(chooser.randint(1, 5)):
        invoked = chooser.randint(0, 8)
        returned = NEVER if chooser.random() < 0.2 else invoked + chooser.randint(1, 6)
        asked = chooser.choice((Write(chooser.randint(1, 2)), Swap(chooser.randint(0, 2), 2), Read()))
        if isinstance(asked, Read):
            returned = min(returned, 20)
            answered: Any = chooser.randint(0, 2)
        elif returned == NEVER:
            answered = UNKNOWN
        else:
            answered = chooser.random() < 0.5 if isinstance(asked, Swap) else None
        operations.append(Operation(number, invoked, returned, asked, answered))
    return operations


@pytest.mark.parametrize("block", range(4))
def test_random_histories_are_judged_as_every_order_says(block: int) -> None:
    seen = set()
    for seed in range(block * 250, (block + 1) * 250):
        operations = a_history(random.Random(seed))
        told = judge(operations, register, 0).is_good
        assert told == by_every_order(operations), f"seed {seed}: {[*map(str, operations)]}"
        assert told == judge(operations, register, 0, is_read=is_read).is_good, f"seed {seed}: reads first"
        seen.add(told)
    assert seen == {True, False}
