"""Who loses its place since most of the others miss it."""

import pytest

from gateway.leadership.deaths import missed_by_most

A, B, C = "A" * 16, "B" * 16, "C" * 16


@pytest.mark.parametrize(
    ("living", "missed", "lose"),
    [
        ({1: A, 2: B, 3: C}, {}, []),
        ({1: A, 2: B, 3: C}, {3: {1: C}}, []),
        ({1: A, 2: B, 3: C}, {3: {2: C, 1: C}}, [(3, 1)]),
        ({1: A, 2: B, 3: C}, {1: {2: A, 3: A}}, [(1, 2)]),
        ({1: A, 2: B, 3: C}, {3: {1: C, 2: "earlier"}}, []),
        ({1: A, 2: B, 3: C}, {3: {1: C, 4: C}}, []),
        ({1: A, 2: B, 3: C}, {3: {1: C, 3: C}}, []),
        ({1: A, 2: B, 3: C}, {4: {1: C, 2: C}}, []),
        ({1: A, 2: B}, {2: {1: B}}, []),
        ({1: A}, {1: {1: A}}, []),
        (dict.fromkeys(range(1, 6), A), {5: {2: A, 3: A}}, []),
        (dict.fromkeys(range(1, 6), A), {5: {2: A, 3: A, 4: A}}, [(5, 2)]),
        (dict.fromkeys(range(1, 6), A), {5: {1: A, 2: A, 3: A}, 4: {1: A, 2: A, 3: A}}, [(4, 1), (5, 1)]),
    ],
    ids=[
        "nobody is missed", "by one of two", "by both", "the first one that is left acts", "another life",
        "by one that is not alive", "by itself", "not alive", "two cannot tell", "alone",
        "by half", "by most", "two at once",
    ],
)  # fmt: skip
def test_who_is_missed_by_most(
    living: dict[int, str], missed: dict[int, dict[int, str]], lose: list[tuple[int, int]]
) -> None:
    assert list(missed_by_most(living, missed)) == lose
