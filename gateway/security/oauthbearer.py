"""SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-342): a client shows a token that somebody else has signed. Pure.

::

    client   n,[a=WHO],^Aauth=Bearer TOKEN^A[KEY=VALUE^A ...]^A         (^A is the byte 1)
    server   nothing, and the client is known
         or  {"status":"invalid_token"}, for which the client says ^A, and then is refused

Extensions are taken and mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.security.mechanism import Authenticated, Refused, Step
from gateway.security.principal import USER, Principal

MECHANISM: Final = "OAUTHBEARER"

MAX_MESSAGE_BYTES: Final = 32 * 1024
"""Longest message that is looked at: tokens have one or two KiB, and some providers put all of somebody's
groups into them."""

INVALID_TOKEN: Final = '{"status":"invalid_token"}'  # noqa: S105 - what it is about, and none itself
"""What a client is told of a token that shows nothing."""

_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-._~+/A-Za-z0-9]+=*)")


class BadToken(Exception):
    """A token that shows nothing. The message says why, for the log; it has nothing of the token's secret."""


class Bearer(NamedTuple):
    """Whom a token is about, and when it is over, ms since 1970."""

    subject: str
    expires_ms: int


class OauthBearerExchange:
    """`validate` says whom a token is about, or raises BadToken."""

    def __init__(self, validate: Callable[[str], Bearer]) -> None:
        self._validate = validate
        self._error = self._why = ""
        """What the client was told of its token, which it has yet to confirm; and what is wrong with it."""

    def takes_long(self, token: bytes) -> bool:  # noqa: ARG002 - a signature is checked
        """See `gateway.security.mechanism.Exchange`."""
        return True

    def step(self, token: bytes) -> Step:
        """See `gateway.security.mechanism.Exchange`."""
        if self._error:
            raise Refused(self._why, self._error)
        if len(token) > MAX_MESSAGE_BYTES:
            raise Refused(f"a message of {len(token)} bytes")
        authorization, bearer = _parse(token)
        try:
            known = self._validate(bearer)
        except BadToken as error:
            self._why = f"its token is not valid: {error}"
            self._error = INVALID_TOKEN
            return Step(self._error.encode())
        if authorization not in {None, known.subject}:
            raise Refused(
                "it asks to be another one than its token's subject",
                "Authentication failed: Client requested an authorization id that is different from the "
                "token's principal name",
            )
        return Step(b"", Authenticated(Principal(USER, known.subject), known.expires_ms))


def _parse(message: bytes) -> tuple[str | None, str]:
    """The authorization id, if there is one, and the token. Raises Refused."""
    found = _FIRST.fullmatch(message.decode("ascii", errors="replace"))
    if found is None:
        raise Refused("its message is malformed")
    pairs: dict[str, str] = {}
    for pair in found["pairs"].split("\x01")[:-1]:
        key, _, value = pair.partition("=")
        if key in pairs:
            raise Refused(f"its message has {key} twice")
        pairs[key] = value
    bearer = _BEARER.fullmatch(pairs.get("auth", "").strip())
    if bearer is None:
        raise Refused("its message has no bearer token")
    authorization = found["authorization"]
    return authorization and authorization.replace("=2C", ",").replace("=3D", "="), bearer["token"]
