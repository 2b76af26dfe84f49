"""Ranges that are known to be damaged: marked, found, mended in part."""

from __future__ import annotations

import random

import pytest

from mesh.store import damage as module
from mesh.store.damage import BadRange, Damage

ADDRESS = "A" * 32


def test_ranges_are_kept_as_the_set_of_their_records() -> None:
    """Against a set, for many random changes."""
    chooser = random.Random(5)
    damage = Damage()
    bad: set[int] = set()
    for _ in range(3000):
        first = chooser.randrange(60)
        last = min(59, first + chooser.randrange(6))
        records = set(range(first, last + 1))
        if chooser.random() < 0.5:
            assert damage.mark(ADDRESS, BadRange(first, last, "why")) == (not records <= bad)
            bad |= records
        else:
            damage.mended(ADDRESS, first, last)
            bad -= records
        assert {number for number in range(60) if damage.overlap(ADDRESS, number, number)} == bad
        assert (damage.overlap(ADDRESS, first, last) is not None) == bool(records & bad)
        assert bool(damage.addresses) == bool(bad)


def test_what_is_irreparable_is_counted_until_it_is_not() -> None:
    damage = Damage()
    damage.mark(ADDRESS, BadRange(3, 5, "the CRC"))
    assert (damage.irreparable, damage.count, damage.addresses) == (0, 1, {ADDRESS: "the CRC"})
    damage.mark(ADDRESS, BadRange(3, 5, "the CRC", is_irreparable=True))
    assert (damage.irreparable, damage.count) == (1, 1)
    damage.mark(ADDRESS, BadRange(3, 5, "the CRC"))
    assert damage.irreparable == 0
    damage.forget(ADDRESS)
    assert (damage.count, damage.addresses) == (0, {})


def test_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RANGES", 2)
    damage = Damage()
    for first in (1, 3):
        assert not damage.is_full
        damage.mark(ADDRESS, BadRange(first, first, ""))
    assert damage.is_full
