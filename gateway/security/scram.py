"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), the server's side, as Kafka has it.

Pure, and without PBKDF2: what is kept of a password is derived once, so a login costs a few HMACs. Theory:
the client proves that it has ClientKey = HMAC(SaltedPassword, "Client Key"), of which the server keeps the
hash; and the server proves that it has ServerKey. Both sign all that was said::

    client   n,,n=USER,r=NONCE[,EXTENSION=VALUE ...]
    server   r=NONCE and more,s=SALT,i=ITERATIONS
    client   c=biws,r=the whole nonce,p=PROOF
    server   v=SIGNATURE

Differences from Kafka, on purpose:

* a user that is not known is refused at the second step, like a wrong password: until then it gets a salt of
  its own that is always the same. Kafka refuses it at the first step, and so tells who exists;
* `c=` is compared with what was said at first (RFC 5802, 7), where Kafka passes over it;
* `m=`, which is reserved for what a server must not ignore, is refused by name.

Channel binding is not offered (`y,` and `p=` are refused), and passwords are not prepared (SASLprep): their
UTF-8 is what counts.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from gateway.security.mechanism import Authenticated, Refused, Step
from gateway.security.principal import Principal

MAX_MESSAGE_BYTES: Final = 4 * 1024
"""Longest message that is looked at. The extensions that there are need a few dozen bytes."""

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""How many a credential may have (``ScramMechanism``)."""

NONCE_BYTES: Final = 18
"""Random bytes of the server's own part of the nonce."""

SALT_BYTES: Final = 20
"""Length of the salts that are made here; also of a user that is not known, so that he looks like others."""

TOKEN_EXTENSION: Final = "tokenauth"  # noqa: S105 - the name of a field
"""With the value `true` the name is a delegation token's id (KIP-48)."""

_NAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSION = r",[A-Za-z]+=[\x01-\x2B\x2D-\x7F]+"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>(?:{_EXTENSION})*))"
)
_FINAL: Final = re.compile(
    rf"(?P<unsigned>c=(?P<binding>[A-Za-z0-9+/=]*),r=(?P<nonce>{_PRINTABLE})(?:{_EXTENSION})*?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class Hash(Enum):
    """By the names of their mechanisms; the number is the one of the administration's protocol (KIP-554)."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        return 1 if self is Hash.SHA_256 else 2

    @property
    def algorithm(self) -> str:
        """The name of the hash in `hashlib`."""
        return "sha256" if self is Hash.SHA_256 else "sha512"


class ScramCredential(NamedTuple):
    """What is kept of a password. Whoever has it can check a client, and cannot be one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Known(NamedTuple):
    """Somebody who may come in."""

    credential: ScramCredential
    principal: Principal
    expires_ms: int | None = None
    """When it is over, ms since 1970; None: never."""
    token_id: str = ""
    """The delegation token that this is; "": it is a user."""


Lookup = Callable[[str, bool], Known | None]
"""Who has this name, or if that is asked for, this id of a delegation token."""


def credential_of(kind: Hash, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """What is kept of a password. Takes milliseconds of processor time."""
    return from_salted(kind, salted_password(kind, password, salt, iterations), salt, iterations)


def salted_password(kind: Hash, password: str, salt: bytes, iterations: int) -> bytes:
    """SaltedPassword of RFC 5802. Takes milliseconds of processor time."""
    return hashlib.pbkdf2_hmac(kind.algorithm, password.encode(), salt, iterations)


def from_salted(kind: Hash, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The same of a password that its user's own program has salted (KIP-554)."""
    client_key = hmac.digest(salted_password, b"Client Key", kind.algorithm)
    return ScramCredential(
        salt,
        hashlib.new(kind.algorithm, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", kind.algorithm),
        iterations,
    )


def is_password(kind: Hash, credential: ScramCredential, password: str) -> bool:
    """Whether it is the one of which this is kept. Takes milliseconds of processor time."""
    found = credential_of(kind, password, credential.salt, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def nobody(kind: Hash, name: str, secret: bytes) -> ScramCredential:
    """What somebody would have whom nobody knows: always the same, and nothing is right for it."""
    seed = hmac.digest(secret, f"{kind.value} {name}".encode(), "sha512")
    size = hashlib.new(kind.algorithm).digest_size
    return ScramCredential(seed[:SALT_BYTES], seed[-size:], seed[-size:], MIN_ITERATIONS)


class ScramExchange:
    """One login. `secret` makes the salts of users that are not known: it is to be the same for the whole
    life of a cluster. `nonce` are random bytes, which are used once.
    """

    def __init__(self, kind: Hash, lookup: Lookup, secret: bytes, nonce: bytes) -> None:
        self._kind = kind
        self._lookup = lookup
        self._secret = secret
        self._own_nonce = b64encode(nonce).decode()
        self._who = "", False
        """What is looked up: the name, and whether it is a token's."""
        self._known: Known | None = None
        self._credential: ScramCredential | None = None
        """Of who has begun; one of nobody if he is not known."""
        self._header = ""
        self._nonce = ""
        self._said = ""
        """Both first messages, as they are signed."""

    def takes_long(self, token: bytes) -> bool:
        """See `gateway.security.mechanism.Exchange`. What is kept of a delegation token's password is derived
        when it is asked for first.
        """
        return self._credential is None and f"{TOKEN_EXTENSION}=".encode() in token

    def step(self, token: bytes) -> Step:
        """See `gateway.security.mechanism.Exchange`."""
        if len(token) > MAX_MESSAGE_BYTES:
            raise Refused(f"a message of {len(token)} bytes")
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            raise Refused("its message is not ASCII") from None
        return self._begin(text) if self._credential is None else self._end(text)

    def _begin(self, text: str) -> Step:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise Refused("its first message is malformed, or wants channel binding")
        name = _plain_name(found["name"])
        if found["authorization"] and _plain_name(found["authorization"]) != name:
            raise Refused("it asks to be another user")
        self._who = name, _extensions(found["extensions"]).get(TOKEN_EXTENSION) == "true"
        self._known = self._lookup(*self._who)
        self._credential = self._known.credential if self._known else nobody(self._kind, name, self._secret)
        self._header, self._nonce = found["header"], found["nonce"] + self._own_nonce
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{found['bare']},{answer}"
        return Step(answer.encode())

    def _end(self, text: str) -> Step:
        credential, known, algorithm = self._credential, self._known, self._kind.algorithm
        assert credential is not None, "it has begun"
        found = _FINAL.fullmatch(text)
        if found is None:
            raise Refused("its last message is malformed")
        if found["nonce"] != self._nonce:
            raise Refused(
                "its nonce is another one than before. librdkafka before 2.6.1 repeats its own: use a newer "
                "one, or PLAIN over TLS"
            )
        if found["binding"] != b64encode(self._header.encode()).decode():
            raise Refused("its channel binding is another one than before")
        signed = f"{self._said},{found['unsigned']}".encode()
        proof = _bytes(found["proof"])
        signature = hmac.digest(credential.stored_key, signed, algorithm)
        if len(proof) != len(signature):
            raise Refused("its proof has another length than its hash")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), credential.stored_key)
        if not is_right or known is None:
            raise Refused("wrong user or password")
        now = self._lookup(*self._who)
        if now is None or (now.credential, now.principal) != (known.credential, known.principal):
            raise Refused("its password was changed, or it was deleted, in the middle of the login")
        verifier = b64encode(hmac.digest(credential.server_key, signed, algorithm))
        return Step(b"v=" + verifier, Authenticated(now.principal, now.expires_ms, now.token_id))


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _extensions(text: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in text.split(",") if one)
    return {name: value for name, _, value in pairs}


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise Refused("its proof is not in base64") from None
