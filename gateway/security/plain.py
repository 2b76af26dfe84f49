"""SASL PLAIN (RFC 4616): a name and a password, readable by whoever reads the connection.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.security.mechanism import Authenticated, Refused, Step
from gateway.security.principal import USER, Principal

MAX_TOKEN_BYTES: Final = 8 * 1024
"""Longest token that is looked at."""

_PARTS: Final = 3


class PlainExchange:
    """`is_right` says whether this is the user's password. For a user that is not known it takes as long."""

    def __init__(self, is_right: Callable[[str, str], bool]) -> None:
        self._is_right = is_right

    def takes_long(self, token: bytes) -> bool:  # noqa: ARG002 - the password is hashed
        """See `gateway.security.mechanism.Exchange`."""
        return True

    def step(self, token: bytes) -> Step:
        """See `gateway.security.mechanism.Exchange`."""
        if len(token) > MAX_TOKEN_BYTES:
            raise Refused(f"a token of {len(token)} bytes")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise Refused("its token is not UTF-8") from None
        if len(parts) != _PARTS:
            raise Refused(
                f"its token has {len(parts)} parts",
                "Invalid SASL/PLAIN response: expected three parts, separated by NUL: "
                "an authorization id or nothing, the user, the password",
            )
        authorization_id, user, password = parts
        if not user or not password:
            missing = "password" if user else "user"
            raise Refused(f"it names no {missing}", f"Authentication failed: {missing} not specified")
        if not self._is_right(user, password):
            raise Refused("wrong user or password", "Authentication failed: Invalid username or password")
        if authorization_id not in {"", user}:
            raise Refused(
                "it asks to be another user",
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        return Step(b"", Authenticated(Principal(USER, user)))
