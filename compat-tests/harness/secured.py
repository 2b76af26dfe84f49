"""A server that asks who comes, for the scenarios of security, and what their programs may ask of it.

Programs make their topics at BOOTSTRAP, where nobody is asked. The other listeners, and what lets in there,
are in their environment (README.md).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from harness.scenarios import REAUTHENTICATING
from tests.peers.secured import PROTOCOLS, Secured

USER: Final = "alice"
WRONG_PASSWORD: Final = "not-his-7f3a"
REAUTHENTICATION_MS: Final = 2000
"""A session's length where clients are asked again who they are; their scenario goes on for some of these."""
TOKEN_SECONDS: Final = 3600


class SecuredServer:
    """A context manager around it. `kind` is a `Scenario.server`."""

    def __init__(self, kind: str, *arguments: str) -> None:
        asks = ("--connections-max-reauth-ms", str(REAUTHENTICATION_MS)) if kind == REAUTHENTICATING else ()
        self._signing = ec.generate_private_key(ec.SECP256R1())
        self._secured = Secured(*arguments, *asks)
        keys = self._secured.folder / "keys.json"
        keys.write_text(json.dumps({"keys": [_public(self._signing)]}))
        self._secured.server.arguments += ("--oauth-keys", str(keys))
        self._password = ""

    def __enter__(self) -> Self:
        self._secured.__enter__()
        self.change_password()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._secured.__exit__()

    @property
    def bootstrap(self) -> str:
        return self._secured.open

    @property
    def log(self) -> str:
        """What the server wrote to standard error."""
        return self._secured.server.log

    def restart(self) -> None:
        """No scenario of security has it killed: its ports would be others."""
        raise NotImplementedError

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program gets besides, as it is now."""
        return {
            **{f"COMPAT_{one}": self._secured.address(one) for one in PROTOCOLS},
            "COMPAT_CA": str(self._secured.ca),
            "COMPAT_OTHER_CA": str(self._secured.other_ca),
            "COMPAT_USER": USER,
            "COMPAT_PASSWORD": self._password,
            "COMPAT_WRONG_PASSWORD": WRONG_PASSWORD,
            "COMPAT_TOKEN": _token(self._signing),
            "COMPAT_WRONG_TOKEN": _token(ec.generate_private_key(ec.SECP256R1())),
        }

    @property
    def tasks(self) -> Mapping[str, Callable[[], str]]:
        """What a program may ask for, by the word that it says; what it is told once it is done."""
        return {"exchange-certificate": self.exchange_certificate, "change-password": self.change_password}

    def exchange_certificate(self) -> str:
        """COMPAT_CA and COMPAT_OTHER_CA change places, for who connects anew."""
        self._secured.exchange_certificate()
        return "exchanged"

    def change_password(self) -> str:
        """The user has a new one."""
        self._password = secrets.token_hex(8)
        self._secured.set_password(USER, self._password)
        return self._password


def _token(key: ec.EllipticCurvePrivateKey) -> str:
    now = int(time.time())
    claims = {"sub": USER, "iat": now, "exp": now + TOKEN_SECONDS}
    return jwt.encode(claims, key, "ES256", headers={"kid": "one"})


def _public(key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    found: dict[str, str] = json.loads(ECAlgorithm.to_jwk(key.public_key()))
    return {**found, "kid": "one", "use": "sig", "alg": "ES256"}
