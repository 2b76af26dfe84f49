"""What a client says to show who it is: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802, 7677). Pure.

The other side is `gateway.security`. A server of SCRAM has to show, too, that it knows the password.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Generator
from typing import Final

MIN_ITERATIONS: Final = 4096
"""Fewer are refused: whoever pretends to be the server could guess the password the faster."""

MAX_ITERATIONS: Final = 1_000_000
"""More are refused: about a second of work, for which a server could keep a client busy."""

_ALGORITHMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SERVER_FIRST: Final = re.compile(rb"r=([\x21-\x2B\x2D-\x7E]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")


class BadServer(Exception):
    """The server says what no server with this password says. The message says what."""


def conversation(mechanism: str, user: str, password: str, nonce: bytes) -> Generator[bytes, bytes, None]:
    """Yields tokens for the server and is sent the server's answers. `nonce` are random bytes.

    Raises BadServer.
    """
    if mechanism == "PLAIN":
        yield f"\0{user}\0{password}".encode()
        return
    algorithm = _ALGORITHMS[mechanism]
    name = user.replace("=", "=3D").replace(",", "=2C")
    own_nonce = b64encode(nonce)
    bare = b"n=" + name.encode() + b",r=" + own_nonce
    challenge = yield b"n,," + bare
    found = _SERVER_FIRST.fullmatch(challenge)
    if found is None or not found[1].startswith(own_nonce):
        raise BadServer("its first message of SCRAM is malformed")
    iterations = int(found[3])
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise BadServer(f"it wants {iterations} iterations")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), _decoded(found[2]), iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    unsigned = b"c=biws,r=" + found[1]
    signed = b",".join((bare, challenge, unsigned))
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verifier = yield unsigned + b",p=" + b64encode(proof)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(verifier, b"v=" + b64encode(expected)):
        raise BadServer("it does not know the password either")


def _decoded(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise BadServer("its salt is not in base64") from None
