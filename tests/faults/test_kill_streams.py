"""Kafka Streams through a few SIGKILLs, and what its judge finds where there is something to find."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_streams.apart import Results, differences
from kafka_streams.kills import AT_LEAST_ONCE, Round

ONE, TWO, THREE = ((b"%d" % number, number) for number in (1, 2, 3))
WANTED: Results = {"word": [ONE, TWO, THREE]}


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ({"word": [ONE, TWO, TWO, THREE]}, "duplicate"),
        ({"word": [ONE, TWO, THREE, (b"4", 3)]}, "duplicate"),
        ({"word": [ONE, THREE]}, "lost"),
        ({}, "lost"),
        ({"word": [ONE, THREE, TWO]}, "reordered"),
        ({"word": [ONE, TWO, (b"4", 3)]}, "wrong content"),
        ({"word": [ONE, TWO, (b"3", 2)]}, "wrong content"),
        ({**WANTED, "other": [ONE]}, "duplicate"),
    ],
)
def test_what_differs_from_a_run_without_kills_is_found(found: Results, kind: str) -> None:
    (problem,) = differences("counts", found, WANTED)
    assert problem.kind == kind


def test_what_is_equal_is_no_problem() -> None:
    assert differences("counts", {"word": [ONE, TWO, THREE]}, WANTED) == []


@pytest.mark.slow
@pytest.mark.long
def test_exactly_once(tmp_path: Path) -> None:
    some = Round(tmp_path, 1, 4)
    assert some.run() == []
    assert some.acked > 0
    assert some.killed.total() >= 4


@pytest.mark.slow
@pytest.mark.long
def test_at_least_once_is_found_to_be_less(tmp_path: Path) -> None:
    """So the comparison can fail: what was counted and not committed is counted again."""
    some = Round(tmp_path, 2, 4, guarantee=AT_LEAST_ONCE, victims={"program killed": 1})
    kinds = {problem.kind for problem in some.run()}
    assert kinds & {"duplicate", "wrong content"}
    assert some.killed == {"program killed": 4}
