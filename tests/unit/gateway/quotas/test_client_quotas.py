from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.quotas.client_quotas import UNLIMITED, Charges, ClientQuotas
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.entities import CLIENT_ID, IP, USER, Entity
from gateway.quotas.meters import Meters

ALICE: Entity = frozenset({(USER, "alice")})
ANYBODY: Entity = frozenset({(USER, None)})
ANY_CLIENT: Entity = frozenset({(CLIENT_ID, None)})


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quotas(clock: Clock) -> ClientQuotas:
    return ClientQuotas(clock)


def throttled(quotas: ClientQuotas) -> dict[str, tuple[int, int]]:
    return {key: (one.times, one.milliseconds) for key, one in quotas.throttled.items() if one.times}


def test_without_quotas_nothing_is_counted(quotas: ClientQuotas) -> None:
    assert not quotas.is_on
    charges = quotas.charges("alice", "app")
    charges.produced(10**12)
    charges.worked(10**12)
    assert charges.may_fetch(10**12)
    assert charges.may_change(10**6, strictly=True)
    assert (charges.throttle_ms, charges.most_to_fetch, quotas.measured) == (0, UNLIMITED, 0)


@pytest.mark.parametrize(
    ("key", "use", "ms"),
    [
        # 1,000 a second: 10,000 may be used at once, and 15,000 are five seconds too much.
        pytest.param("producer_byte_rate", lambda charges: charges.produced(15_000), 5_000, id="produce"),
        # 1,000 %: ten seconds of work a second. However much it was, it is one window.
        pytest.param("request_percentage", lambda charges: charges.worked(101e9), 100, id="requests"),
        pytest.param("request_percentage", lambda charges: charges.worked(150e9), 1_000, id="one window"),
        pytest.param(
            "controller_mutation_rate",
            lambda charges: charges.may_change(11_500, strictly=False), 500, id="mutations of old versions",
        ),
    ],
)  # fmt: skip
def test_how_long_it_is_not_listened_to(
    quotas: ClientQuotas, key: str, use: Callable[[Charges], object], ms: int
) -> None:
    quotas.put(ALICE, {key: 1_000})
    assert quotas.is_on
    charges = quotas.charges("alice", "app")
    use(charges)
    charges.count()
    assert charges.throttle_ms == ms
    assert throttled(quotas) == {key: (1, ms)}


def test_the_longest_counts(quotas: ClientQuotas) -> None:
    quotas.put(ALICE, {"producer_byte_rate": 1_000, "request_percentage": 1})
    charges = quotas.charges("alice", "app")
    charges.produced(15_000)
    charges.worked(10e9)
    charges.count()
    assert charges.throttle_ms == 5_000
    assert throttled(quotas) == {"producer_byte_rate": (1, 5_000)}


def test_a_fetch_over_its_quota_is_not_given_and_does_not_count(quotas: ClientQuotas, clock: Clock) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    assert quotas.charges("alice", "app").most_to_fetch == 10_000
    assert quotas.charges("alice", "app").may_fetch(6_000)
    refused = quotas.charges("alice", "app")
    assert not refused.may_fetch(6_000)
    assert refused.throttle_ms == 2_000
    clock.now_ms += 2_000
    small = quotas.charges("alice", "app")
    assert small.may_fetch(4_000)
    assert small.throttle_ms == 0


def test_a_batch_larger_than_a_window_of_the_quota_is_given_where_nothing_else_was(
    quotas: ClientQuotas, clock: Clock
) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    charges = quotas.charges("alice", "app")
    assert charges.may_fetch(30_000)
    assert charges.throttle_ms == 20_000
    again = quotas.charges("alice", "app")
    assert not again.may_fetch(30_000)
    clock.now_ms += 20_000
    assert quotas.charges("alice", "app").may_fetch(30_000)


def test_what_an_answer_has_beside_its_records_counts_for_the_next(quotas: ClientQuotas) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    charges = quotas.charges("alice", "app")
    assert charges.may_fetch(9_000)
    charges.answered_fetch(9_900)
    assert charges.throttle_ms == 0
    assert quotas.charges("alice", "app").may_fetch(100)
    assert not quotas.charges("alice", "app").may_fetch(1)


EMPTY = 60
"""Bytes of an answer without records."""


def fetch(quotas: ClientQuotas, size: int, client: str = "app") -> tuple[bool, int]:
    """Whether so many bytes of records were given, and how long the client waits."""
    charges = quotas.charges("alice", client)
    is_given = charges.may_fetch(size)
    charges.answered_fetch(EMPTY + (size if is_given else 0))
    return is_given, charges.throttle_ms


@pytest.mark.parametrize("times", [10.1, 12, 20.5, 100])
def test_a_large_batch_is_given_although_answers_without_records_came_before(
    quotas: ClientQuotas, clock: Clock, times: float
) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    assert fetch(quotas, 0) == (True, 0)
    clock.now_ms += 500
    assert fetch(quotas, round(times * 1_000))[0]


@pytest.mark.parametrize("times", [10.1, 12, 20.5])
def test_large_batches_are_given_again_and_again(quotas: ClientQuotas, clock: Clock, times: float) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    size, given, began = round(times * 1_000), 0, clock.now_ms
    while clock.now_ms - began < 220_000:
        is_given, wait_ms = fetch(quotas, size)
        given += is_given
        clock.now_ms += wait_ms
    # A client is told to wait for what it was refused, too: it has half of its quota at least.
    assert 110_000 <= given * size <= 220_000 + 10_000 + size


def test_answers_without_records_are_not_charged(quotas: ClientQuotas) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    assert fetch(quotas, 14_940) == (True, 4_940)
    assert [fetch(quotas, 15_000, f"app-{n}") for n in range(100)] == [(False, 20_000)] * 100
    assert [fetch(quotas, 0) for _ in range(100)] == [(True, 0)] * 100
    assert fetch(quotas, 1) == (False, 5_001)


def test_a_large_batch_is_given_although_others_use_a_little_all_the_time(
    quotas: ClientQuotas, clock: Clock
) -> None:
    quotas.put(ALICE, {"consumer_byte_rate": 1_000})
    for _ in range(40):
        assert fetch(quotas, 100, "small")[0]
        clock.now_ms += 500
    assert fetch(quotas, 12_000, "large")[0]
    assert not fetch(quotas, 100, "small")[0]
    assert not fetch(quotas, 12_000, "large")[0]


def test_changes_are_refused_while_more_was_spent_than_there_is(quotas: ClientQuotas, clock: Clock) -> None:
    quotas.put(ALICE, {"controller_mutation_rate": 10})
    assert quotas.charges("alice", "app").may_change(150, strictly=True)
    refused = quotas.charges("alice", "app")
    assert not refused.may_change(1, strictly=True)
    assert refused.throttle_ms == 4_000
    clock.now_ms += 4_000
    assert quotas.charges("alice", "app").may_change(1, strictly=True)


def test_what_is_changed_beside_something_else_is_not_waited_for(quotas: ClientQuotas) -> None:
    quotas.put(ALICE, {"controller_mutation_rate": 10})
    charges = quotas.charges("alice", "app")
    asked = [charges.may_change(60, strictly=True, waits=False) for _ in range(3)]
    assert (asked, charges.throttle_ms) == ([True, True, False], 0)


def test_nobody_feels_what_others_use(quotas: ClientQuotas) -> None:
    quotas.put(ANYBODY, {"producer_byte_rate": 1_000})
    for _ in range(100):
        quotas.charges("mallory", "app").produced(10**6)
    alice = quotas.charges("alice", "app")
    alice.produced(10_000)
    assert alice.throttle_ms == 0


def test_all_clients_of_a_user_share_what_is_his(quotas: ClientQuotas) -> None:
    quotas.put(ALICE, {"producer_byte_rate": 1_000})
    quotas.charges("alice", "app").produced(9_000)
    job = quotas.charges("alice", "job")
    job.produced(2_000)
    assert job.throttle_ms == 1_000


def test_other_quotas_are_in_force_at_once_and_what_was_used_counts(quotas: ClientQuotas) -> None:
    quotas.put(ALICE, {"producer_byte_rate": 10_000})
    quotas.charges("alice", "app").produced(20_000)
    quotas.put(ALICE, {"producer_byte_rate": 1_000})
    charges = quotas.charges("alice", "app")
    charges.produced(0)
    assert charges.throttle_ms == 10_000
    quotas.put(ALICE, {})
    assert not quotas.is_on


def test_client_ids_make_no_more_meters_than_there_may_be(quotas: ClientQuotas) -> None:
    quotas.put(ANY_CLIENT, {"producer_byte_rate": 1_000})
    for client in range(5_100):
        quotas.charges("mallory", f"id-{client}").produced(1)
    assert quotas.measured == 5_000


def test_what_is_remembered_of_clients_is_bounded(quotas: ClientQuotas) -> None:
    quotas.put(ANY_CLIENT, {"producer_byte_rate": 1_000})
    for client in range(5_000):
        quotas.charges("mallory", f"id-{client}")
        quotas.charges("mallory", f"id-{client}" + "x" * 30_000).produced(1)
    assert len(quotas._limits) <= 4_096
    assert max(len(user) + len(client_id) for user, client_id in quotas._limits) <= 256


class TestMeters:
    @pytest.fixture
    def meters(self) -> Meters[list[int]]:
        return Meters(list, most=4, most_of_one=3)

    def test_the_same_bucket_has_the_same(self, meters: Meters[list[int]]) -> None:
        meters.of(("k", "alice", ""), 0).append(1)
        assert meters.of(("k", "alice", ""), 1) == [1]
        assert meters.of(("l", "alice", ""), 1) == []
        assert meters.of(("k", "", "alice"), 1) == []
        assert len(meters) == 3

    def test_who_has_many_forgets_his_own(self, meters: Meters[list[int]]) -> None:
        meters.of(("k", "alice", ""), 0).append(1)
        for client in range(50):
            meters.of(("k", "mallory", str(client)), client).append(1)
        assert meters.of(("k", "alice", ""), 50) == [1]
        assert [meters.of(("k", "mallory", str(client)), 50) for client in (47, 48, 49)] == [[1]] * 3
        assert len(meters) == 4

    def test_of_all_those_are_forgotten_that_nobody_asks_for(self, meters: Meters[list[int]]) -> None:
        for user in ("alice", "bob", "carol", "dave"):
            meters.of(("k", user, ""), 0).append(1)
        meters.of(("k", "alice", ""), 1)
        meters.of(("k", "erin", ""), 2)
        assert meters.of(("k", "alice", ""), 3) == [1]
        assert meters.of(("k", "bob", ""), 3) == []

    def test_an_idle_one_is_forgotten(self, meters: Meters[list[int]]) -> None:
        meters.of(("k", "alice", ""), 0)
        meters.of(("k", "bob", ""), 3_600_000)
        assert len(meters) == 1

    def test_long_names_are_kept_apart(self, meters: Meters[list[int]]) -> None:
        meters.of(("k", "", "x" * 30_000 + "y"), 0).append(1)
        assert meters.of(("k", "", "x" * 30_000 + "z"), 0) == []
        assert meters.of(("k", "", "x" * 30_000 + "y"), 0) == [1]


class TestConnectionRates:
    @pytest.fixture
    def rates(self, clock: Clock) -> ConnectionRates:
        return ConnectionRates(clock)

    def connect(self, rates: ConnectionRates, address: str, times: int, client: str = "") -> list[int]:
        return [rates.excess_ms(address, client or address) for _ in range(times)]

    def test_addresses_have_their_own(self, rates: ConnectionRates) -> None:
        rates.set(lambda: {frozenset({(IP, "10.0.0.1")}): {"connection_creation_rate": 1}}, is_on=True)
        assert rates.is_on
        # Ten at once; the eleventh waits a second, and does not count.
        assert self.connect(rates, "10.0.0.1", 12) == [0] * 10 + [1_000] * 2
        assert self.connect(rates, "10.0.0.2", 100) == [0] * 100
        assert (rates.throttled.times, rates.throttled.milliseconds) == (2, 2_000)

    def test_by_the_default_those_of_one_client_are_one(self, rates: ConnectionRates) -> None:
        rates.set(lambda: {frozenset({(IP, None)}): {"connection_creation_rate": 1}}, is_on=True)
        assert self.connect(rates, "2001:db8::1", 10, "2001:db8::/64") == [0] * 10
        assert self.connect(rates, "2001:db8::2", 1, "2001:db8::/64") == [1_000]
        assert self.connect(rates, "2001:db8:1::1", 1, "2001:db8:1::/64") == [0]

    def test_time_passes(self, rates: ConnectionRates, clock: Clock) -> None:
        rates.set(lambda: {frozenset({(IP, None)}): {"connection_creation_rate": 1}}, is_on=True)
        self.connect(rates, "10.0.0.1", 10)
        clock.now_ms += 1_000
        assert self.connect(rates, "10.0.0.1", 1) == [1_000]
        clock.now_ms += 10_000
        assert self.connect(rates, "10.0.0.1", 2) == [0, 0]

    def test_none(self, rates: ConnectionRates) -> None:
        rates.set(lambda: {frozenset({(IP, None)}): {"connection_creation_rate": 1}}, is_on=True)
        rates.set(dict, is_on=False)
        assert not rates.is_on
        assert self.connect(rates, "10.0.0.1", 100) == [0] * 100
