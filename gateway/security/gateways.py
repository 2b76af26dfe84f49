"""Who the gateways of a cluster are to each other: whoever knows the secret that only their catalog has.

A gateway says who it is by SCRAM, as clients do, under a name that no user can have. There is no password
that anybody could have chosen, so nothing has to be stretched: what SCRAM salts a password to is made from
the secret itself.

Whoever can read the catalog can order everything that a gateway can; so nothing is denied to a gateway.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

from gateway.security.principal import Principal
from gateway.security.scram import MIN_ITERATIONS, SALT_BYTES, Hash, ScramCredential, from_salted

GATEWAY: Final = "Gateway"
"""The kind of their principals; users have another one, so nobody else can be one."""

RESERVED: Final = "__gateway-"
"""What their names begin with. Users' names may not."""

_NAME: Final = re.compile(rf"{RESERVED}([1-9][0-9]{{0,2}})")


def name_of(gateway: int) -> str:
    """By which a gateway (its id) comes in."""
    return f"{RESERVED}{gateway}"


def gateway_of(name: str) -> int | None:
    """Which gateway this is the name of; None: it is no gateway's."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def principal_of(gateway: int) -> Principal:
    return Principal(GATEWAY, str(gateway))


def salted_password(kind: Hash, gateway: int, secret: bytes) -> bytes:
    """What SCRAM takes for a gateway's salted password."""
    return hmac.digest(_own(secret), f"{kind.value} {name_of(gateway)}".encode(), kind.algorithm)


def credential(kind: Hash, gateway: int, secret: bytes) -> ScramCredential:
    """What the other side has of it."""
    salt = hmac.digest(_own(secret), f"salt {name_of(gateway)}".encode(), "sha512")[:SALT_BYTES]
    return from_salted(kind, salted_password(kind, gateway, secret), salt, MIN_ITERATIONS)


def _own(secret: bytes) -> bytes:
    """The gateways' part of the secret: what else is made from it shows some of what comes out."""
    return hmac.digest(secret, b"gateways", "sha512")
