"""Whether a JSON Web Token (RFC 7519) was signed by who may sign them, and is about somebody now.

Rules, of which none can be switched off:

* a token is signed with a public key of the set that was given (RFC 7517): `none` and shared secrets never
  count, and which algorithms a key may be used with follows from the key, not from the token;
* `exp`, `iat` and a subject are there. A token with an audience counts only where one of those is expected;
  where one is expected, a token without does not count. The same of issuers, where one is expected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jwt
from jwt.types import Options

from gateway.security.oauthbearer import BadToken, Bearer

MAX_KEYS: Final = 100
"""Keys of one set. Providers have a handful."""

MAX_SUBJECT_CHARS: Final = 255
"""Longest name that somebody may have."""

_ALGORITHMS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""By a key's kind and curve. RSA keys below 2,048 bits are left out."""

_PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))
"""Parts of a key that are nobody's business here."""

_MIN_RSA_BITS: Final = 2048


class Expected(NamedTuple):
    """What tokens have to say, by Kafka's names: `sasl.oauthbearer.expected.audience`, `.expected.issuer`,
    `.sub.claim.name`, `.clock.skew.seconds`.
    """

    audience: Sequence[str] = ()
    issuer: str = ""
    subject_claim: str = "sub"
    skew_seconds: int = 30


class SigningKey(NamedTuple):
    """A public key, and the algorithms it may be used with."""

    key: Any
    algorithms: Sequence[str]


class BadKeySet(ValueError):
    """What was given is no set of public keys. The message says why."""


def read_key_set(text: bytes) -> dict[str, SigningKey]:
    """The keys of a JWKS by their ids. Those that sign nothing, or are of a kind that is not known, are left
    out. Raises BadKeySet: there is none.
    """
    try:
        entries = json.loads(text)["keys"]
        usable = [one for one in entries if one.get("use", "sig") == "sig"]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise BadKeySet('it is no set of keys: JSON with a list "keys" is what it has to be') from None
    if len(usable) > MAX_KEYS:
        raise BadKeySet(f"it has {len(usable)} keys, more than {MAX_KEYS}")
    keys: dict[str, SigningKey] = {}
    for entry in usable:
        found = _signing_key(entry)
        if found is not None:
            keys[str(entry.get("kid", ""))] = found
    if not keys:
        raise BadKeySet(
            "none of its keys can verify a signature: public keys of RSA, EC or Ed25519 are needed"
        )
    return keys


def _signing_key(entry: Any) -> SigningKey | None:
    kind = str(entry.get("kty", ""))
    algorithms = _ALGORITHMS.get((kind, "" if kind == "RSA" else str(entry.get("crv", ""))), ())
    named = entry.get("alg")
    if named is not None:
        algorithms = [one for one in algorithms if one == named]
    if not algorithms:
        return None
    public = {name: value for name, value in entry.items() if name not in _PRIVATE}
    try:
        key = jwt.PyJWK(public, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and key.key_size < _MIN_RSA_BITS:
        return None
    return SigningKey(key, tuple(algorithms))


class Validator:
    """`key_of` gives the key with an id, as the set is now; without an id ("") the only one there is."""

    def __init__(self, key_of: Callable[[str], SigningKey | None], expected: Expected) -> None:
        self._key_of = key_of
        self._expected = expected

    def validate(self, token: str) -> Bearer:
        """Whom it is about. Raises BadToken."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise BadToken("it is no JSON Web Token") from None
        key = self._key_of(str(header.get("kid") or ""))
        if key is None:
            raise BadToken(f"its key {str(header.get('kid'))[:64]!r} is not in the set of keys")
        if header.get("alg") not in key.algorithms:
            raise BadToken(f"its algorithm {str(header.get('alg'))[:16]!r} is not the key's")
        return self._bearer(self._claims(token, key))

    def _claims(self, token: str, key: SigningKey) -> dict[str, Any]:
        expected = self._expected
        options: Options = {"require": ["exp", "iat"], "verify_sub": False}
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=list(expected.audience) or None,
                issuer=expected.issuer or None,
                leeway=expected.skew_seconds,
                options=options,
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise BadToken(f"{type(error).__name__}: {str(error)[:100]}") from None
        return claims

    def _bearer(self, claims: dict[str, Any]) -> Bearer:
        subject, expires = claims.get(self._expected.subject_claim), claims["exp"]
        if not isinstance(subject, str) or not subject.strip() or len(subject) > MAX_SUBJECT_CHARS:
            raise BadToken(f"its claim {self._expected.subject_claim!r} names nobody")
        return Bearer(subject, int(expires * 1000))
