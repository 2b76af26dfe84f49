"""SCRAM, the client's side (RFC 5802), for who has the salted password already. Pure.

client = ScramClient(Hash.SHA_256, name, salted_password, nonce)
client.first()               goes to the server
client.final(its answer)     goes to the server
client.check(its answer)     raises NotTheServer if that does not know the password
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from typing import Final

from gateway.security.scram import Hash

_CHALLENGE: Final = re.compile(r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=[A-Za-z0-9+/=]+,i=[1-9][0-9]{0,9}")
_HEADER: Final = "n,,"


class NotTheServer(Exception):
    """What came is not what a server says that knows the password."""


class ScramClient:
    """One login. `name` needs no escapes: it has neither commas nor equals signs."""

    def __init__(self, kind: Hash, name: str, salted_password: bytes, nonce: bytes) -> None:
        self._kind = kind
        self._salted = salted_password
        self._nonce = b64encode(nonce).decode()
        self._bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"{_HEADER}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Raises NotTheServer."""
        text = challenge.decode("ascii", errors="replace")
        found = _CHALLENGE.fullmatch(text)
        if found is None or not found["nonce"].startswith(self._nonce):
            raise NotTheServer("its challenge is malformed, or the answer to somebody else")
        unsigned = f"c={b64encode(_HEADER.encode()).decode()},r={found['nonce']}"
        signed = f"{self._bare},{text},{unsigned}".encode()
        algorithm = self._kind.algorithm
        client_key = hmac.digest(self._salted, b"Client Key", algorithm)
        of_client = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
        proof = bytes(a ^ b for a, b in zip(client_key, of_client, strict=True))
        server_key = hmac.digest(self._salted, b"Server Key", algorithm)
        self._signature = hmac.digest(server_key, signed, algorithm)
        return f"{unsigned},p={b64encode(proof).decode()}".encode()

    def check(self, verifier: bytes) -> None:
        """Raises NotTheServer."""
        if not self._signature or not hmac.compare_digest(verifier, b"v=" + b64encode(self._signature)):
            raise NotTheServer("it does not know the password")
