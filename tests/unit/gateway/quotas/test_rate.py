from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quotas.rate import MAX_THROTTLE_MS, Rate, Windows
from gateway.quotas.token_bucket import TokenBucket

TEN_AND_ONE = Windows()


@pytest.mark.parametrize(
    ("uses", "now", "used", "span", "rate", "excess"),
    [
        pytest.param([], 5_000, 0, 10_000, 0, 0, id="nothing"),
        pytest.param([(0, 1_000)], 0, 1_000, 10_000, 100, 0, id="a burst within ten windows of the bound"),
        pytest.param([(0, 1_001)], 0, 1_001, 10_000, 100.1, 10, id="one more"),
        pytest.param([(0, 2_000)], 0, 2_000, 10_000, 200, 10_000, id="twice the burst"),
        pytest.param([(0, 2_000)], 500, 2_000, 10_500, 2_000 / 10.5, 9_500, id="half a second of it waited"),
        pytest.param([(0, 2_000)], 10_999, 2_000, 10_999, 2_000 / 10.999, 9_001, id="it counts so long"),
        pytest.param([(0, 2_000)], 11_000, 0, 10_000, 0, 0, id="and is forgotten then"),
        pytest.param(
            [(0, 500), (999, 1_500)], 11_500, 2_000, 11_500, 2_000 / 11.5, 8_500,
            id="a sample counts as its last use does",
        ),
        pytest.param([(0, 100), (1_000, 5), (3_500, 5)], 3_500, 110, 10_500, 110 / 10.5, 0, id="pauses"),
    ],
)  # fmt: skip
def test_rate(
    uses: list[tuple[int, float]], now: int, used: float, span: int, rate: float, excess: int
) -> None:
    kept = Rate()
    for at, value in uses:
        kept.record(value, at)
    assert (kept.used(now), kept.span_ms(now), kept.excess_ms(100, now)) == (used, span, excess)
    assert kept.per_second(now) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("used", "bound"),
    [
        pytest.param(2**22, 1, id="more than an int32"),
        pytest.param(100, 1e-320, id="more than a float"),
    ],
)
def test_no_time_is_longer_than_an_answer_can_say(used: int, bound: float) -> None:
    assert MAX_THROTTLE_MS == 2**31 - 1
    rate, bucket = Rate(), TokenBucket()
    rate.record(used, 0)
    bucket.spend(used, bound, 0)
    assert (rate.excess_ms(bound, 0), bucket.debt_ms(bound, 0)) == (MAX_THROTTLE_MS, MAX_THROTTLE_MS)


windows = st.builds(Windows, st.integers(2, 12), st.sampled_from([100, 1_000, 3_000]))
steps = st.lists(st.tuples(st.integers(0, 15_000), st.integers(0, 10_000)), min_size=1, max_size=60)
"""Milliseconds after the one before, and how much is used."""


class NaiveRate:
    """As Kafka's classes say it: samples that are never deleted, and all are looked at each time."""

    def __init__(self, kept: Windows) -> None:
        self.windows = kept
        self.samples: list[list[int]] = []

    def record(self, value: int, now: int) -> None:
        if not self.samples or now - self.samples[-1][0] >= self.windows.each_ms:
            self.samples.append([now, now, 0])
        self.samples[-1][1] = now
        self.samples[-1][2] += value

    def measure(self, now: int) -> tuple[int, int]:
        counted = [one for one in self.samples if now - one[1] < self.windows.samples * self.windows.each_ms]
        elapsed = now - min((one[0] for one in counted), default=now)
        missing = max(0, self.windows.samples - 1 - elapsed // self.windows.each_ms)
        return sum(one[2] for one in counted), max(1, elapsed + missing * self.windows.each_ms)


@given(windows, steps)
def test_is_what_kafka_measures(kept: Windows, uses: list[tuple[int, int]]) -> None:
    rate, naive, now = Rate(kept), NaiveRate(kept), 0
    for pause, value in uses:
        now += pause
        rate.record(value, now)
        naive.record(value, now)
        assert (rate.used(now), rate.span_ms(now)) == naive.measure(now)


@given(windows, steps, st.integers(1, 5_000))
def test_what_was_used_is_forgotten_bit_by_bit(
    kept: Windows, uses: list[tuple[int, int]], bound: int
) -> None:
    rate, now = Rate(kept), 0
    for pause, value in uses:
        now += pause
        rate.record(value, now)
    before = rate.used(now)
    for wait in range(0, 2 * kept.samples * kept.each_ms, kept.each_ms // 2):
        used = rate.used(now + wait)
        assert 0 <= used <= before
        assert rate.excess_ms(bound, now + wait) >= 0
        before = used
    assert not before


def use_obediently(kept: Windows, uses: list[tuple[int, int]], bound: float) -> list[tuple[int, int]]:
    """(when, how much) of a client that waits as long as it is told to."""
    rate, now, used = Rate(kept), 0, []
    for pause, value in uses:
        now += pause
        rate.record(value, now)
        used.append((now, value))
        now += rate.excess_ms(bound, now)
    return used


def most_over_any_time(used: list[tuple[int, int]], allowed: Callable[[int], float]) -> None:
    """No stretch from one use to another has more than is allowed in so long, and its last use."""
    for first, (began, _) in enumerate(used):
        total = 0
        for now, value in used[first:]:
            assert total <= allowed(now - began)
            total += value


@given(windows, st.lists(st.tuples(st.integers(0, 15_000), st.floats(0, 1)), max_size=60), st.integers(1, 50))
def test_over_any_time_small_uses_are_the_bound_and_one_burst(
    kept: Windows, uses: list[tuple[int, float]], windowful: int
) -> None:
    small = [(pause, round(part * windowful)) for pause, part in uses]
    per_ms = windowful / kept.each_ms
    rounded = len(small)
    burst_ms = (kept.samples + 1) * kept.each_ms + rounded
    used = use_obediently(kept, small, windowful * 1_000 / kept.each_ms)
    most_over_any_time(used, lambda passed: per_ms * (passed + burst_ms))


@given(windows, steps, st.integers(1, 5_000))
def test_over_any_time_large_ones_are_twice_as_much_at_most(
    kept: Windows, uses: list[tuple[int, int]], bound: int
) -> None:
    """Each that is larger than a burst has a burst for nothing, as in Kafka: it is forgotten meanwhile."""
    span_ms = (kept.samples + 1) * kept.each_ms + len(uses)
    forgotten_ms = kept.samples * kept.each_ms
    most_over_any_time(
        use_obediently(kept, uses, bound),
        lambda passed: bound * (passed + span_ms * (passed / forgotten_ms + 1)) / 1_000,
    )


@given(windows, steps)
def test_taking_back_what_was_just_recorded_leaves_nothing(
    kept: Windows, uses: list[tuple[int, int]]
) -> None:
    rate, without, now = Rate(kept), Rate(kept), 0
    for at, (pause, value) in enumerate(uses):
        now += pause
        rate.record(value, now)
        if at % 2:
            rate.record(-value, now)
        without.record(0 if at % 2 else value, now)
        assert rate.used(now) == without.used(now) >= 0


@pytest.mark.parametrize(
    ("spent", "now", "tokens", "debt"),
    [
        pytest.param([], 0, 110, 0, id="full at first use"),
        pytest.param([(0, 10)], 0, 100, 0, id="some are spent"),
        pytest.param([(0, 10)], 500, 105, 0, id="they come back"),
        pytest.param([(0, 10)], 9_000, 110, 0, id="up to a burst"),
        pytest.param([(0, 130)], 0, -20, 2_000, id="more than there are"),
        pytest.param([(0, 130)], 2_000, 0, 0, id="until they are back"),
    ],
)
def test_tokens(spent: list[tuple[int, int]], now: int, tokens: float, debt: int) -> None:
    bucket = TokenBucket()
    for at, count in spent:
        bucket.spend(count, 10, at)
    assert (bucket.tokens(10, now), bucket.debt_ms(10, now)) == (tokens, debt)
    assert bucket.is_in_debt(10, now) is (tokens < 0)


@given(windows, steps, st.integers(1, 50))
def test_over_any_time_no_more_is_changed_than_comes_back_and_one_burst(
    kept: Windows, uses: list[tuple[int, int]], rate: int
) -> None:
    bucket, now, accepted = TokenBucket(kept), 0, []
    for pause, count in uses:
        now += pause
        if not bucket.is_in_debt(rate, now):
            bucket.spend(count, rate, now)
            accepted.append((now, count))
    burst = kept.samples * kept.each_ms / 1_000 * rate
    for first, (began, _) in enumerate(accepted):
        total = 0
        for now, count in accepted[first:]:
            # The last one may take more than there is.
            assert total <= burst + rate * (now - began) / 1_000 + 1e-6
            total += count


@given(windows, st.integers(1, 50), st.integers(1, 100_000))
def test_a_debt_is_over_when_it_says_so(kept: Windows, rate: int, spent: int) -> None:
    bucket = TokenBucket(kept)
    bucket.spend(spent, rate, 0)
    debt = bucket.debt_ms(rate, 0)
    assert debt >= 0
    assert bucket.debt_ms(rate, debt) <= 1
