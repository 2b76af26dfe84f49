"""When a record was appended, as far as a look a second tells."""

from __future__ import annotations

import pytest

from gateway.log.append_times import MAX_POINTS, AppendTimes


def test_records_between_two_looks_count_as_evenly_spread() -> None:
    times = AppendTimes()
    times.note(100, 10.0)
    times.note(110, 11.0)
    assert times.appended(100) == pytest.approx(10.1)
    assert times.appended(104) == pytest.approx(10.5)
    assert times.appended(109) == pytest.approx(11.0)


def test_what_was_there_before_the_first_look_or_is_not_there_is_not_known() -> None:
    times = AppendTimes()
    assert times.appended(0) is None
    assert times.first is None
    times.note(100, 10.0)
    assert times.appended(99) is None
    assert times.appended(100) is None
    assert times.first == (100, 10.0)


def test_a_record_after_a_silence_is_as_old_as_it_is() -> None:
    times = AppendTimes()
    for second in range(1000):
        times.note(100, float(second))
    times.note(110, 1000.0)
    assert times.appended(100) == pytest.approx(999.1)
    assert len(times) == 3


def test_memory_is_bounded_and_the_newest_pairs_stay_a_look_apart() -> None:
    times = AppendTimes()
    day = 24 * 3600
    for second in range(day):
        times.note(10 * second, float(second))
        assert len(times) <= MAX_POINTS
    assert times.first == (0, 0.0)
    assert times.appended(10 * (day - 5)) == pytest.approx(day - 4, abs=1.0)
    middle = times.appended(10 * (day // 2))
    assert middle == pytest.approx(day / 2, abs=1.0)  # at an even pace thinning costs nothing


def test_what_nobody_asks_for_is_forgotten() -> None:
    times = AppendTimes()
    for second in range(50):
        times.floor = max(0, 10 * (second - 2))
        times.note(10 * second, float(second))
        assert len(times) <= 4
    assert times.appended(475) == pytest.approx(47.6)
