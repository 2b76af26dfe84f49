"""OAUTHBEARER as Kafka's clients speak it, and as nobody should."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.mechanism import Authenticated, Refused
from gateway.security.oauthbearer import (
    INVALID_TOKEN,
    MAX_MESSAGE_BYTES,
    BadToken,
    Bearer,
    OauthBearerExchange,
)
from gateway.security.principal import Principal

ALICE = Authenticated(Principal("User", "alice"), 77)


def validate(token: str) -> Bearer:
    if token == "right.t0-k_en~+/==":
        return Bearer("alice", 77)
    raise BadToken("it is over")


def exchange() -> OauthBearerExchange:
    return OauthBearerExchange(validate)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer right.t0-k_en~+/==\x01\x01",
        b"n,a=alice,\x01auth=bearer right.t0-k_en~+/==\x01\x01",
        b"n,,\x01auth=BEARER   right.t0-k_en~+/==\x01logicalCluster=lkc-1\x01identityPoolId=a b\x01\x01",
        b"n,,\x01trace=x\x01auth=Bearer right.t0-k_en~+/== \x01\x01",
    ],
)
def test_who_shows_a_token_is_its_subject(message: bytes) -> None:
    step = exchange().step(message)
    assert (step.token, step.authenticated) == (b"", ALICE)


@pytest.mark.parametrize("said", [b"\x01", b"", b"n,,\x01auth=Bearer right.t0-k_en~+/==\x01\x01"])
def test_a_token_that_shows_nothing_is_told_and_then_refused(said: bytes) -> None:
    one = exchange()
    step = one.step(b"n,,\x01auth=Bearer wrong\x01\x01")
    assert (step.token, step.authenticated) == (INVALID_TOKEN.encode(), None)
    with pytest.raises(Refused, match="its token is not valid: it is over") as raised:
        one.step(said)
    assert raised.value.told == '{"status":"invalid_token"}'


def test_nobody_is_another_one_than_his_token_says() -> None:
    with pytest.raises(Refused, match="another one than its token's subject") as raised:
        exchange().step(b"n,a=bob,\x01auth=Bearer right.t0-k_en~+/==\x01\x01")
    assert raised.value.told is not None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer right.t0-k_en~+/==\x01auth=Bearer right.t0-k_en~+/==\x01\x01",
        b"n,,\x01auth=Bearer right.t0-k_en~+/==\x01",
        b"n,,\x01auth=Bearer right.t0-k_en~+/==\x01\x01x",
        b"y,,\x01auth=Bearer right.t0-k_en~+/==\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer right.t0-k_en~+/==\x01\x01",
        b"n,a=,\x01auth=Bearer right.t0-k_en~+/==\x01\x01",
        b"n,a=a=b,\x01auth=Bearer right.t0-k_en~+/==\x01\x01",
        b"n,,\x01auth=Bearer right.t0-k_en~+/==\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * MAX_MESSAGE_BYTES + b"\x01\x01",
    ],
)
def test_what_is_malformed_is_refused_without_a_hint(message: bytes) -> None:
    with pytest.raises(Refused) as raised:
        exchange().step(message)
    assert raised.value.told is None


@given(
    st.lists(
        st.binary(max_size=80) | st.text("n,a=\x01uthBearer k.-", max_size=60).map(str.encode), max_size=3
    )
)
def test_whatever_comes_is_answered_or_refused(messages: list[bytes]) -> None:
    one = exchange()
    with suppress(Refused):
        for message in messages:
            assert one.step(message).authenticated is None
