"""The judges of compacted topics and of committed offsets find each broken promise."""

from __future__ import annotations

import pytest

from tests.faults.committing import check_commits
from tests.faults.keyed import check_keyed

SENT = {0: (1, "a"), 1: (1, "b"), 2: (2, "c"), 3: (2, None), 4: (3, "d"), 5: (3, "e")}
ACKED = {1: 1, 2: 3, 3: 4}


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        ([(1, 1, "b"), (2, 3, None), (3, 4, "d")], []),
        ([(1, 0, "a"), (1, 1, "b"), (3, 4, "d"), (3, 5, "e")], []),
        ([(1, 1, "b"), (3, 5, "e")], []),
        ([(1, 1, "b"), (2, 2, "c"), (3, 5, "e")], ["lost"]),
        ([(1, 0, "a"), (3, 5, "e")], ["lost"]),
        ([(3, 5, "e")], ["lost"]),
        ([(1, 1, "x"), (3, 5, "e")], ["wrong content"]),
        ([(1, 1, None), (3, 5, "e")], ["wrong content"]),
        ([(3, 1, "b"), (1, 1, "b"), (3, 5, "e")], ["wrong content"]),
        ([(1, 9, "b"), (3, 5, "e")], ["wrong content"]),
        ([(1, 1, "b"), (1, 0, "a"), (3, 5, "e")], ["reordered", "lost"]),
    ],
)
def test_what_is_left_of_keys(found: list[tuple[int, int, str | None]], kinds: list[str]) -> None:
    assert [problem.kind for problem in check_keyed(SENT, ACKED, found)] == kinds


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        ({0: 5}, []),
        ({0: 7}, []),
        ({0: 4}, ["lost"]),
        ({0: 8}, ["phantom"]),
        ({}, ["lost"]),
        ({0: -1001}, ["lost"]),
    ],
)
def test_what_groups_have_committed(found: dict[int, int], kinds: list[str]) -> None:
    known = {("g", partition): offset for partition, offset in found.items()}
    assert [problem.kind for problem in check_commits({("g", 0): 7}, {("g", 0): 5}, known)] == kinds
