"""Which lines about others are written."""

from __future__ import annotations

from mesh.log_bounds import (
    AGAIN_SECONDS,
    MAX_LINES,
    MAX_LINES_OF_SOURCE,
    MAX_REMEMBERED,
    WINDOW_SECONDS,
    LogBounds,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_same_is_said_again_after_a_while_only() -> None:
    clock = Clock()
    bounds = LogBounds(clock)
    assert bounds.may("key A", "host")
    assert not bounds.may("key A", "host")
    assert bounds.may("key B", "host")
    clock.now += AGAIN_SECONDS
    assert bounds.may("key A", "host")


def test_one_source_uses_up_its_own_lines_and_nobody_elses() -> None:
    clock = Clock()
    bounds = LogBounds(clock)
    said = [bounds.may(f"key {number}", "a stranger") for number in range(100)]
    assert said == [True] * MAX_LINES_OF_SOURCE + [False] * (100 - MAX_LINES_OF_SOURCE)
    assert bounds.may("key of a store", "its host")
    clock.now += WINDOW_SECONDS
    assert bounds.may("key 100", "a stranger")


def test_many_sources_fill_no_log() -> None:
    clock = Clock()
    bounds = LogBounds(clock)
    for _ in range(3):
        assert (
            sum(bounds.may(f"{clock.now} {number}", f"host {number}") for number in range(100)) == MAX_LINES
        )
        clock.now += WINDOW_SECONDS


def test_what_is_remembered_has_a_bound() -> None:
    clock = Clock()
    bounds = LogBounds(clock)
    assert bounds.may("the first", "host")
    for number in range(MAX_REMEMBERED):
        clock.now += AGAIN_SECONDS / MAX_REMEMBERED / 2
        bounds._lines.clear()
        assert bounds.may(f"key {number}", "host")
    assert len(bounds._said) == MAX_REMEMBERED
    bounds._lines.clear()
    assert bounds.may("the first", "host"), "forgotten before its time"
