"""Producer ids say for whom they are, and fit nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.principal import ANONYMOUS, Principal
from gateway.security.producer_ids import (
    BOUND,
    COUNT_BITS,
    HTTP_CLIENTS,
    PROOF_BITS,
    ProducerIdBinding,
    Whom,
)

SECRET = bytes(range(32))
BINDING = ProducerIdBinding(SECRET)
OTHERS = ProducerIdBinding(bytes(reversed(SECRET)))
LAST_COUNT = (1 << COUNT_BITS) - 1
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
PEOPLE: list[Whom] = [
    ALICE, BOB, ANONYMOUS, HTTP_CLIENTS, Principal("Gateway", "1"), "alice", "User:alice", "", "é\udc80"
]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 999, 1_000_000, LAST_COUNT])
@pytest.mark.parametrize("whom", PEOPLE)
def test_an_id_fits_whom_it_was_given_to_and_nobody_else(count: int, whom: Whom) -> None:
    producer_id = BINDING.bind(count, whom)
    assert BOUND <= producer_id < 1 << 63
    assert BINDING.is_mine(producer_id)
    assert [other for other in PEOPLE if BINDING.fits(producer_id, other)] == [whom]


def test_the_layout_stays_as_it_is() -> None:
    """Ids are in logs, and with clients: each release reads those of the ones before."""
    assert BINDING.bind(1_000, ALICE) == 0x59C000003E868797
    assert BINDING.bind(1_000, "alice") == 0x59C000003E8F5DEB
    assert OTHERS.bind(1_000, ALICE) == 0x5F8000003E8D887F


@given(st.integers(0, LAST_COUNT), st.integers(0, LAST_COUNT), st.sampled_from(PEOPLE))
def test_ids_are_as_many_and_in_the_same_order_as_their_counts(one: int, other: int, whom: Whom) -> None:
    assert (BINDING.bind(one, whom) < BINDING.bind(other, whom)) == (one < other)


@given(st.integers(0, LAST_COUNT), st.sampled_from(PEOPLE), st.integers(0, 62))
def test_no_bit_of_an_id_can_be_another_one(count: int, whom: Whom, bit: int) -> None:
    """Whoever changes it has no id, somebody else's secret's, or one that needs another proof."""
    producer_id = BINDING.bind(count, whom) ^ 1 << bit
    if bit < PROOF_BITS:
        assert not BINDING.fits(producer_id, whom)
    assert BINDING.is_mine(producer_id) == (bit < COUNT_BITS + PROOF_BITS)


def test_somebody_elses_id_fits_by_chance_once_in_a_million() -> None:
    """It is known who the first one is in two millions, so this is the same in each run."""
    producer_id = BINDING.bind(7, ALICE)
    assert [name for name in map(str, range(1_560_000, 1_570_000)) if BINDING.fits(producer_id, name)] == [
        "1565542"
    ]


@pytest.mark.parametrize("producer_id", [0, 1, 1_000, BOUND - 1])
def test_ids_of_nobody_in_particular_are_none_of_these(producer_id: int) -> None:
    assert not BINDING.is_mine(producer_id)


@given(st.integers(0, LAST_COUNT), st.sampled_from(PEOPLE))
def test_ids_of_another_secret_are_told_apart(count: int, whom: Whom) -> None:
    assert not BINDING.is_mine(OTHERS.bind(count, whom))
    assert not OTHERS.is_mine(BINDING.bind(count, whom))


def test_what_the_count_has_no_room_for_is_an_id_of_nobody_in_particular() -> None:
    assert BINDING.bind(LAST_COUNT + 1, ALICE) == LAST_COUNT + 1
    assert not BINDING.is_mine(LAST_COUNT + 1)
