"""The end of a segment, for every set of members that may answer a recovery: n up to 5, every w, every way in
which members can be prefixes of what the writer published.

What may have been acknowledged is up to the w-th highest durable head. Whoever answers, the end must not lie
below it, must be something that an answering member has, and too few answers must decide nothing.
"""

from functools import cache
from itertools import combinations, product

import pytest

from mesh.protocol.recovery import Seal

MEMBERS = tuple(f"{number:032X}" for number in range(1, 6))
STRANGER = "F" * 32
PUBLISHED = 3
"""Records that the writer has published: heads are -1 to 2."""

CLUSTERS = [(n, w) for n in range(1, 6) for w in range(1, n + 1)]


def row_of(head: int) -> bytes:
    return b"row %d" % head


def acknowledged(heads: tuple[int, ...], w: int) -> int:
    """The highest sequence that w members have: all that a producer can have been told is durable."""
    return sorted(heads, reverse=True)[w - 1]


def seal_of(heads: tuple[int, ...], w: int, answering: tuple[int, ...]) -> Seal:
    """A recovery that these members have answered, after a stranger that claims more than anybody has."""
    seal = Seal("A" * 32, MEMBERS[: len(heads)], w)
    seal.on_sealed(STRANGER, PUBLISHED + 5, row_of(PUBLISHED + 5))
    for number in answering:
        seal.on_sealed(MEMBERS[number], heads[number], row_of(heads[number]))
    return seal


@cache
def end_of(heads: tuple[int, ...], w: int, answering: tuple[int, ...]) -> int:
    return seal_of(heads, w, answering).end()[0]


def subsets(n: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(n + 1) for chosen in combinations(range(n), size)]


@pytest.mark.parametrize(("n", "w"), CLUSTERS)
def test_no_set_of_answers_loses_what_was_acknowledged(n: int, w: int) -> None:
    sets = subsets(n)
    for heads in product(range(-1, PUBLISHED), repeat=n):
        promised = acknowledged(heads, w)
        for answering in sets:
            seal = seal_of(heads, w, answering)
            if len(answering) < n - w + 1:
                assert not seal.decidable
                continue
            assert seal.decidable
            end, row = seal.end()
            assert end >= promised, (heads, answering)
            assert row == row_of(end)
            assert end in {heads[number] for number in answering}


@pytest.mark.parametrize(("n", "w"), CLUSTERS)
def test_a_second_recovery_keeps_what_the_first_one_had_copied(n: int, w: int) -> None:
    """A gateway dies behind its recovery's copies, before the catalog knows: another set answers the next."""
    sets = [chosen for chosen in subsets(n) if len(chosen) >= n - w + 1]
    for heads in product((-1, 0, 2), repeat=n):
        promised = acknowledged(heads, w)
        for first in sets:
            end = end_of(heads, w, first)
            # Copied to as many of those that answered as w asks for; the last copy may be under way.
            order = sorted(first, key=lambda number: -heads[number])
            for copied in range(1, len(order) + 1):
                after = list(heads)
                for number in order[:copied]:
                    after[number] = max(after[number], end)
                whole = sum(head >= end for head in after) >= w
                for second in sets:
                    again = end_of(tuple(after), w, second)
                    assert again >= promised, (heads, first, second)
                    if whole:
                        # It may have been closed at this end, and shown.
                        assert again >= end, (heads, first, second)


@pytest.mark.parametrize(("n", "w"), CLUSTERS)
def test_one_answer_fewer_would_not_do(n: int, w: int) -> None:
    """That the table can fail: with n-w answers there always is a way to lose what was acknowledged."""
    heads = tuple(0 if number < w else -1 for number in range(n))
    answering = tuple(range(w, n))
    assert len(answering) == n - w
    assert acknowledged(heads, w) == 0
    assert max((heads[number] for number in answering), default=-1) < 0
    assert not seal_of(heads, w, answering).decidable
