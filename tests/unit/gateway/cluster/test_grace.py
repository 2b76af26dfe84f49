"""What has been in the catalog for a while."""

import math

from gateway.cluster.grace import PARTS, Grace


def test_a_revision_is_old_when_it_was_noted_so_long_ago() -> None:
    grace = Grace(60)
    assert (grace.old_at(0), grace.next) == (-1, math.inf)
    grace.note(1, 7)
    grace.note(5, 9)
    grace.note(9, 8)  # below one that waits since 5
    assert grace.next == 61
    assert [grace.old_at(now) for now in (60.9, 61, 64.9, 65, 1000)] == [-1, 7, 7, 9, 9]
    assert grace.next == math.inf
    grace.note(1000, 9)
    assert grace.next == math.inf, "that one is old"
    grace.note(1000, 10)
    assert (grace.old_at(1059), grace.old_at(1060)) == (9, 10)


def test_without_a_delay_everything_is_old() -> None:
    assert Grace(0).old_at(0) == math.inf


def test_many_at_once_are_one() -> None:
    grace = Grace(60)
    for number in range(10_000):
        grace.note(number * 0.001, number)
    assert len(grace._seen) < 10 * PARTS / 60 + 1
    assert grace.old_at(59.9) == -1
    assert grace.old_at(70) == 9999
