"""What the scenarios of Connect and Streams would notice."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from frameworks.checks import same_but_for_steps_back, same_lines
from frameworks.meanwhile import meanwhile
from frameworks.side import Record
from kafka_streams.lines import Lines, latest, number

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


def test_what_must_come_out_of_lines() -> None:
    lines = Lines()
    made = [*lines.more(150), *lines.more(50)]
    words = [word for record in made for word in (record.value or b"").decode().split()]
    assert len({record.key for record in made}) == 200
    assert lines.counts().total() == lines.windows().total() == len(words)
    assert lines.counts()[words[0]] == words.count(words[0])
    starts = {int(window.split("@")[1]) for window in lines.windows()}
    assert len(starts) > 1
    assert all(start % 10_000 == 0 for start in starts)
    places = lines.places()[words[0]].split(",")
    assert places[0] == f"{words[0]}@line000000"
    assert len(places) == sum(words[0].encode() in (record.value or b"").split() for record in made)


def test_latest_value_of_each_key() -> None:
    records = [Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", b"3")]
    assert latest(records) == {"a": b"3", "b": b"2"}
    assert number((-5).to_bytes(8, "big", signed=True)) == -5


def test_what_happens_meanwhile_is_not_lost() -> None:
    tried = threading.Event()

    def fails() -> None:
        tried.set()
        raise ValueError("not written")

    with pytest.raises(ValueError, match="not written"), meanwhile(fails, 0.0):
        tried.wait()
    tried.clear()
    with meanwhile(tried.set, 0.0):
        assert tried.wait(60)
