"""One bound for what clients have the gateway keep, and a fair share of it for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.common.clients import LOOPBACK, NOBODY, client_at, client_of
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


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("127.0.0.1:4711", LOOPBACK),
        ("127.9.9.9:4711", LOOPBACK),
        ("[::1]:4711", LOOPBACK),
        ("[::ffff:127.0.0.1]:1", LOOPBACK),
        ("10.1.2.3:9", "10.1.2.3"),
        ("[::ffff:10.1.2.3]:9", "10.1.2.3"),
        ("[2001:db8:1:2:3:4:5:6]:9", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::1%eth0]:9", "2001:db8:1:2::/64"),
        ("gateway:0", "gateway"),
    ],
)
def test_who_is_one_client(address: str, client: str) -> None:
    assert client_of(address) == client


def test_hosts_that_share_a_network_of_64_bits_are_one_client() -> None:
    assert client_at("2001:db8::1") == client_at("2001:db8::ffff:1") != client_at("2001:db8:0:1::1")
