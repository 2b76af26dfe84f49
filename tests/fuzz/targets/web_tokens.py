"""JSON Web Tokens: good ones with changes, and ones that are signed as they should be and say odd things.

Whoever is let in has a token whose signature, times, issuer, audience and subject are right when they are
looked at once more here, by other code.
"""

from __future__ import annotations

import hmac
import json
import random
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from gateway.security.oauthbearer import BadToken
from gateway.security.web_tokens import LAST_SECOND, BadKeySet, Expected, Validator, read_key_set
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Violation
from tests.unit.gateway.security.test_web_tokens import EC, ED, RSA, public

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
SKEW_SECONDS: Final = 30
FOR_YEARS_SECONDS: Final = 10 * 365 * 86400

_KEY_SET: Final = json.dumps({"keys": [public(RSA, kid="rsa"), public(EC, kid="ec"), public(ED, kid="ed")]})
_KEYS: Final = read_key_set(_KEY_SET.encode())
VALIDATOR: Final = Validator(_KEYS.get, Expected(audience=(AUDIENCE,), issuer=ISSUER))
_PUBLIC: Final = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
"""What a forger takes for a shared secret."""

_ODD: Final[Sequence[Any]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**400,
    1e308,
    -1e308,
    1.5,
    "",
    " ",
    "alice",
    "1999999999",
    "-1",
    "1e999",
    "9" * 5_000,
    "x" * 256,
    "\x00",
    "\ud800",
    [],
    ["kafka"],
    ["web", 1],
    [[]],
    {},
    {"a": 1},
    [None],
    float("inf"),
    float("-inf"),
    float("nan"),
    "User:admin",
    "__gateway-1",
    "a" * 100_000,
)
"""Values of claims and of a header's fields."""

_CLAIMS: Final = ("sub", "iat", "exp", "nbf", "aud", "iss", "jti", "scope", "", "\x00")
_FIELDS: Final = ("alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "cty", "enc")
_ALGORITHMS: Final = (
    "none",
    "None",
    "NONE",
    "",
    "HS256",
    "HS512",
    "RS256",
    "RS1",
    "PS256",
    "ES256",
    "ES256K",
    "EdDSA",
    "A128KW",
)
_NESTED: Final = (b"[" * 8_000, b'{"a":' * 4_000, b'{"alg":"RS256","kid":' + b"[" * 8_000, b"1" * 20_000)
_EVIL_KIDS: Final = (
    "../../../../etc/passwd",
    "rsa' OR 1=1",
    "ec",
    "ed",
    "rsa\x00",
    "http://127.0.0.1/",
    "rsa" * 3_000,
)


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    """As the library reads it: leniently."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signature(kid: object, what: bytes) -> bytes:
    if kid == "rsa":
        return RSA.sign(what, padding.PKCS1v15(), hashes.SHA256())
    if kid == "ed":
        return ED.sign(what)
    r, s = utils.decode_dss_signature(EC.sign(what, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _text(value: Any) -> bytes:
    """As JSON, of a kind."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def token_of(header: Any, claims: Any, *, signed_by: object = "ec") -> str:
    """Signed, whatever it says. Bytes stand for themselves."""
    what = _encoded(_text(header)) + b"." + _encoded(_text(claims))
    signature = hmac.digest(_PUBLIC, what, "sha256") if signed_by == "public" else _signature(signed_by, what)
    return (what + b"." + _encoded(signature)).decode()


def _claims() -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "alice", "iat": now, "exp": now + FOR_YEARS_SECONDS, "aud": AUDIENCE, "iss": ISSUER}


GOOD_TOKENS: Final = [
    token_of({"alg": algorithm, "kid": kid, "typ": "JWT"}, _claims(), signed_by=kid)
    for kid, algorithm in (("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA"))
]


class WebTokens:
    """See above."""

    name = "jwt"

    def __init__(self) -> None:
        self.good = [token.encode() for token in GOOD_TOKENS]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        pass

    def make(self, chooser: random.Random) -> bytes:
        """See above."""
        kind = chooser.randrange(6)
        if kind < 2:
            return mutated(chooser.choice(self.good), self.good, chooser)
        if kind == 2:
            return self._parts_changed(chooser)
        header: dict[str, Any] = {"alg": "ES256", "kid": "ec"}
        claims: Any = _claims()
        if kind == 3:
            for name in chooser.sample(_CLAIMS, chooser.randrange(1, 3)):
                claims[name] = chooser.choice(_ODD)
            for name in chooser.sample(_CLAIMS, chooser.randrange(2)):
                claims.pop(name, None)
            return token_of(header, claims).encode()
        if kind == 4:
            for name in chooser.sample(_FIELDS, chooser.randrange(1, 3)):
                header[name] = chooser.choice(
                    _ALGORITHMS if name == "alg" else (*_EVIL_KIDS, *_ODD) if name == "kid" else _ODD
                )
            return token_of(header, claims, signed_by=chooser.choice(("ec", "ed", "public"))).encode()
        if chooser.random() < 0.5:
            return token_of(header, chooser.choice((*_NESTED, *_ODD))).encode()
        return token_of(chooser.choice((*_NESTED, *_ODD)), claims).encode()

    def _parts_changed(self, chooser: random.Random) -> bytes:
        """One part of a good one, changed before it is encoded; its signature is of another one, or none."""
        parts = [_decoded(part) for part in chooser.choice(GOOD_TOKENS).split(".")]
        at = chooser.randrange(3)
        parts[at] = mutated(parts[at], parts, chooser)
        if chooser.random() < 0.2:
            parts[2] = b""
        return b".".join(map(_encoded, parts))

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        text = data.decode("ascii", errors="replace")
        try:
            bearer = VALIDATOR.validate(text)
        except BadToken as error:
            return f"refused: {str(error).split(':')[0].split(chr(39))[0]}"
        subject, expires_ms = _looked_at_again(text)
        if (bearer.subject, bearer.expires_ms) != (subject, expires_ms):
            raise Violation(f"{bearer} is told of a token of {subject!r} until {expires_ms}")
        return "let in, rightly"


def _looked_at_again(token: str) -> tuple[str, int]:
    """The subject, and when it ends, of a token that was taken. Raises Violation."""
    what, _, signature = token.rpartition(".")
    header, claims = (json.loads(_decoded(part)) for part in what.split("."))
    try:
        _verify(header["kid"], header["alg"], _decoded(signature), what.encode())
    except InvalidSignature:
        raise Violation("its signature is wrong") from None
    times = [claims[name] for name in ("exp", "iat", "nbf") if name in claims]
    if any(type(one) not in {int, float} for one in times):
        raise Violation(f"it is taken with times that are none: {times!r}")
    claims["sub"].encode()
    now = time.time()
    wrong = {
        "exp": not now - SKEW_SECONDS - 1 < claims["exp"] < LAST_SECOND + 1,
        "iat": claims["iat"] > now + SKEW_SECONDS,
        "nbf": claims.get("nbf", 0) > now + SKEW_SECONDS,
        "aud": AUDIENCE not in (claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]),
        "iss": claims["iss"] != ISSUER,
        "sub": not isinstance(claims["sub"], str) or not 1 <= len(claims["sub"].strip()) <= 255,
    }
    if any(wrong.values()):
        raise Violation(f"it is taken with a wrong {[name for name, is_wrong in wrong.items() if is_wrong]}")
    return claims["sub"], int(claims["exp"] * 1000)


def _verify(kid: str, algorithm: str, signature: bytes, what: bytes) -> None:
    key: Any = _KEYS[kid].key
    if isinstance(key, ed25519.Ed25519PublicKey) and algorithm == "EdDSA":
        key.verify(signature, what)
    elif isinstance(key, rsa.RSAPublicKey) and algorithm == "RS256":
        key.verify(signature, what, padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm == "ES256":
        r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
        key.verify(utils.encode_dss_signature(r, s), what, ec.ECDSA(hashes.SHA256()))
    else:
        raise Violation(f"{algorithm} by {kid}")


class KeySets:
    """The set of keys (JWKS), which comes from whoever signs tokens."""

    name = "jwks"

    def __init__(self) -> None:
        self.good = [_KEY_SET.encode()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        pass

    def make(self, chooser: random.Random) -> bytes:
        """A set with a key changed, or other bytes."""
        if chooser.random() < 0.5:
            return mutated(self.good[0], [*self.good, *_NESTED], chooser)
        whole = json.loads(_KEY_SET)
        key = chooser.choice(whole["keys"])
        key[chooser.choice([*key, "d", "use", "alg", "kty", "x5c"])] = chooser.choice(_ODD)
        return json.dumps(whole).encode()

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        try:
            keys = read_key_set(data)
        except BadKeySet as error:
            return f"refused: {str(error)[:40]}"
        for key in keys.values():
            if any(algorithm.startswith(("HS", "none")) for algorithm in key.algorithms):
                raise Violation(f"a key may be used with {key.algorithms}")
        return f"{len(keys)} keys"
