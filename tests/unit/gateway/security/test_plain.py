"""SASL PLAIN."""

from __future__ import annotations

import pytest

from gateway.security.mechanism import Authenticated, Refused, Step
from gateway.security.plain import MAX_TOKEN_BYTES, PlainExchange
from gateway.security.principal import Principal

OTHER = "Authentication failed: Client requested an authorization id that is different from username"
WRONG = "Authentication failed: Invalid username or password"


def step(token: bytes) -> Step:
    return PlainExchange(lambda user, password: (user, password) == ("älice", "s:cret")).step(token)


@pytest.mark.parametrize("authorization", ["", "älice"])
def test_who_has_the_password_comes_in(authorization: str) -> None:
    found = step(f"{authorization}\0älice\0s:cret".encode())
    assert found == Step(b"", Authenticated(Principal("User", "älice")))


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("\0älice\0wrong", WRONG),
        ("\0bob\0s:cret", WRONG),
        ("bob\0älice\0wrong", WRONG),
        ("bob\0älice\0s:cret", OTHER),
        ("\0\0s:cret", "Authentication failed: user not specified"),
        ("\0älice\0", "Authentication failed: password not specified"),
    ],
)  # fmt: skip
def test_who_has_not(token: str, told: str) -> None:
    with pytest.raises(Refused) as raised:
        step(token.encode())
    assert raised.value.told == told
    assert "s:cret" not in raised.value.why


@pytest.mark.parametrize("token", [b"", b"\0", b"\0a\0b\0", b"\0\xff\0b", b"\0a\0" + b"b" * MAX_TOKEN_BYTES])
def test_a_token_that_is_none(token: bytes) -> None:
    with pytest.raises(Refused):
        step(token)
