"""Delegation tokens (KIP-48): by them programs come in as somebody else, for a while, without his password.

Pure. A token is an id, which is no secret, and a password, which is HMAC-SHA-512 of the id under a secret
that gateways have and nobody else: so nothing of the password has to be kept anywhere. Clients come in by
SCRAM with both; what SCRAM needs of the password is derived when somebody comes in first
(`TokenSecret.credential`).
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b64encode, urlsafe_b64encode
from typing import Final, NamedTuple

from gateway.security.principal import Principal
from gateway.security.scram import MIN_ITERATIONS, SALT_BYTES, Hash, ScramCredential, credential_of

ID_BYTES: Final = 16
"""Random bytes of an id."""

MIN_SECRET_BYTES: Final = 32
"""With a shorter secret it could be guessed by whoever has one token; Kafka takes any."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_ALGORITHM: Final = "sha512"


class DelegationToken(NamedTuple):
    """What is known of one; `renewers` may put off its end, besides its owner. Times are ms since 1970."""

    id: str
    owner: Principal
    """Whoever comes in by it is this."""
    requester: Principal
    """Who has asked for it."""
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    """When it ends unless it is renewed."""
    max_ms: int
    """When it ends for good."""

    def is_over(self, now_ms: int) -> bool:
        """Whether nobody comes in by it any more."""
        return now_ms >= min(self.expires_ms, self.max_ms)

    def is_of(self, principal: Principal) -> bool:
        """Whether he may renew and end it (`TokenInformation.ownerOrRenewer`)."""
        return principal == self.owner or principal in self.renewers


def new_id() -> str:
    """One that no token has, written as Kafka's `Uuid`, of which none begins with a dash."""
    while True:
        made = urlsafe_b64encode(secrets.token_bytes(ID_BYTES)).decode().rstrip("=")
        if not made.startswith("-"):
            return made


def is_id(text: str) -> bool:
    """Whether a token may have this id."""
    return _ID.fullmatch(text) is not None


class TokenSecret:
    """What only the gateways of a cluster have: Kafka's `delegation.token.secret.key`."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # Of these no id can be: each has a space.
        self._salts = hmac.digest(secret, b"salts of delegation tokens", _ALGORITHM)
        self.mark = hmac.digest(secret, b"which secret it is", _ALGORITHM)[:8].hex()
        """Tells it from others, and nothing of it."""

    def hmac_of(self, token_id: str) -> bytes:
        """By which administrators name a token, and of which its password is made."""
        return hmac.digest(self._secret, token_id.encode(), _ALGORITHM)

    def credential(self, kind: Hash, token_id: str) -> ScramCredential:
        """What SCRAM checks a client by, always the same. Takes milliseconds of processor time."""
        salt = hmac.digest(self._salts, f"{kind.value} {token_id}".encode(), _ALGORITHM)[:SALT_BYTES]
        password = b64encode(self.hmac_of(token_id)).decode()
        return credential_of(kind, password, salt, MIN_ITERATIONS)
