"""Comparisons that say what differs, and waiting for what must come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

# Patience for one step on a loaded machine; nothing here waits for it.
SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.1
BRIEF_CHARACTERS = 300


def equal(found: object, wanted: object, what: str) -> None:
    """Raises AssertionError that shows both, shortened."""
    assert found == wanted, f"{what}: {repr(found)[:BRIEF_CHARACTERS]}, not {repr(wanted)[:BRIEF_CHARACTERS]}"


def until(true: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Look again and again."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(LOOK_AGAIN_SECONDS)


def same_lines(found: Sequence[str], wanted: Sequence[str], what: str) -> None:
    """Exactly these, in this order."""
    for n, (one, other) in enumerate(zip(found, wanted, strict=False)):
        equal(one, other, f"{what}: line {n}")
    equal(len(found), len(wanted), f"{what}: number of lines")


def same_but_for_steps_back(found: Sequence[str], wanted: Sequence[str], most: int, what: str) -> int:
    """All of `wanted` in order, where up to `most` times somebody began again from an earlier line.

    That is all that at-least-once allows: nothing is missing, and nothing out of order between two steps
    back. Lines of `wanted` must differ from each other. Returns how many lines are repeated.
    """
    places = {line: n for n, line in enumerate(wanted)}
    equal(len(places), len(wanted), "lines that differ")
    due = steps_back = 0
    for n, line in enumerate(found):
        place = places.get(line)
        assert place is not None, f"{what}: line {n} is none of those sent: {line!r}"
        assert place <= due, f"{what}: line {n} is {line!r}: {wanted[due]!r} is missing before it"
        steps_back += place < due
        due = place + 1
    equal(due, len(wanted), f"{what}: lines at its end")
    assert steps_back <= most, f"{what}: went back {steps_back} times, where {most} are allowed"
    return len(found) - len(wanted)
