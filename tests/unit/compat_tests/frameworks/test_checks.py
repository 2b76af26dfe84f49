"""What the scenarios of Connect and Streams would notice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from frameworks.checks import same_but_for_steps_back, same_lines

WANTED = ["a", "b", "c", "d"]


def steps_back(found: Sequence[str], most: int = 1) -> int:
    return same_but_for_steps_back(found, WANTED, most, "lines")


def test_a_step_back_may_repeat_what_was_there() -> None:
    assert steps_back(WANTED, most=0) == 0
    assert steps_back(["a", "b", "c", "b", "c", "d"]) == 2
    assert steps_back(["a", "b", "b", "c", "d"]) == 1
    assert steps_back(["a", "a", "b", "a", "b", "c", "d"], most=2) == 3
    assert steps_back([*WANTED, *WANTED]) == 4


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (["a", "b", "d"], "'c' is missing before it"),
        (["a", "b", "c"], "lines at its end"),
        (["a", "b", "c", "d", "b", "c"], "lines at its end"),
        (["a", "b", "a", "c", "d"], "'b' is missing before it"),
        (["b", "a", "c", "d"], "'a' is missing before it"),
        (["a", "b", "x", "c", "d"], "none of those sent"),
        (["a", "a", "b", "b", "c", "d"], "went back 2 times, where 1 are allowed"),
        ([], "lines at its end"),
    ],
)
def test_nothing_else_may_happen(found: list[str], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        steps_back(found)


def test_lines_that_are_the_same_cannot_be_judged() -> None:
    with pytest.raises(AssertionError, match="lines that differ"):
        same_but_for_steps_back(["a", "a"], ["a", "a"], 0, "lines")


@pytest.mark.parametrize("found", [["a", "b", "c"], [*WANTED, "d"], ["a", "c", "b", "d"]])
def test_exact_lines(found: list[str]) -> None:
    same_lines(WANTED, WANTED, "lines")
    with pytest.raises(AssertionError, match="lines"):
        same_lines(found, WANTED, "lines")
