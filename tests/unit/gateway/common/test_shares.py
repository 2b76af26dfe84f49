"""One bound for what clients have the gateway keep, and a fair share of it for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.common.clients import NOBODY, client_of
from gateway.common.shares import Shares


def fill(shares: Shares, client: str, size: int = 1) -> int:
    """Take until there is no more; what was taken."""
    taken = 0
    while shares.has_room(client, size):
        shares.charge(client, size)
        taken += size
    return taken


def test_each_client_gets_half_of_what_the_others_leave() -> None:
    shares = Shares(64)
    assert [fill(shares, client) for client in "abc"] == [32, 16, 8]
    assert shares.used == 56
    assert not shares.has_room("a", 1)
    shares.charge("b", -16)
    assert fill(shares, "d") > 8
    assert shares.has_room("a", 0)


def test_what_is_nobodys_leaves_less_for_all_and_is_nobodys_share() -> None:
    shares = Shares(100)
    shares.charge(NOBODY, 120)
    assert shares.used == 120
    assert not shares.has_room("a", 1)
    assert not shares.has_room(NOBODY, 1)
    shares.charge(NOBODY, -80)
    assert shares.share("a") == 30
    assert shares.share(NOBODY) == 60
    shares.move(NOBODY, "a", 40)
    assert (shares.held("a"), shares.used, shares.share("a")) == (40, 40, 50)


def addresses(count: int) -> list[str]:
    """Clients of one network of 48 bits."""
    return [client_of(f"2001:db8:1:{number:x}::1") for number in range(count)]


def test_a_network_gets_three_quarters_of_what_others_leave_however_many_clients_it_has() -> None:
    shares = Shares(6400)
    first, second, *others = addresses(1000)
    assert [fill(shares, client) for client in (first, second, *others[:3])] == [3200, 1600, 0, 0, 0]
    assert sum(fill(shares, client) for client in others) == 0
    assert fill(shares, client_of("10.0.0.1")) == 800
    assert fill(shares, client_of("2001:db8:2::1")) == 400
    shares.charge(second, -1600)
    assert shares.share(others[0]) == 700
    assert shares.held(first) == 3200


def test_what_a_network_holds_is_counted_as_its_clients_give_back() -> None:
    shares = Shares(100)
    first, second = addresses(2)
    shares.charge(first, 60)
    shares.charge(second, 30)
    assert not shares.has_room(second, 1)
    shares.charge(first, -60)
    shares.charge(second, -30)
    assert (shares.used, shares.share(first)) == (0, 50)
    shares.move(NOBODY, "10.0.0.1", 0)
    assert not shares._held_by_network


def test_nobody_gives_back_more_than_it_holds() -> None:
    shares = Shares(10)
    shares.charge("a", 3)
    with pytest.raises(RuntimeError, match="a gives back 1 more than it holds"):
        shares.charge("a", -4)
    with pytest.raises(ValueError, match="an account of 0"):
        Shares(0)


@given(st.integers(8, 10_000), st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3_000))))
def test_whatever_the_greedy_do_a_newcomer_finds_room(total: int, asked: list[tuple[str, int]]) -> None:
    shares = Shares(total)
    held = dict.fromkeys("abcd", 0)
    for client, size in asked:
        if shares.has_room(client, size):
            shares.charge(client, size)
            held[client] += size
    assert shares.used == sum(held.values()) <= total
    assert {client: shares.held(client) for client in "abcd"} == held
    assert shares.has_room("newcomer", max(1, (total - shares.used) // 2))
