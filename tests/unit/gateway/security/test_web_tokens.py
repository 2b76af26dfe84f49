"""Tokens as providers sign them, and as forgers do."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from gateway.security.oauthbearer import BadToken
from gateway.security.web_tokens import (
    MAX_KEYS,
    BadKeySet,
    Expected,
    SigningKey,
    Validator,
    read_key_set,
)

RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
SMALL = rsa.generate_private_key(65537, 1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public(key: Any, **more: Any) -> dict[str, Any]:
    algorithm: Any = (
        RSAAlgorithm
        if isinstance(key, rsa.RSAPrivateKey)
        else ECAlgorithm
        if isinstance(key, ec.EllipticCurvePrivateKey)
        else OKPAlgorithm
    )
    return {**json.loads(algorithm.to_jwk(key.public_key())), **more}


def key_set(*entries: Any) -> dict[str, SigningKey]:
    return read_key_set(json.dumps({"keys": entries}).encode())


KEYS = key_set(public(RSA, kid="rsa", use="sig"), public(EC, kid="ec"), public(ED, kid="ed"))


def validator(expected: Expected | None = None) -> Validator:
    return Validator(KEYS.get, expected or Expected())


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
    """A token of this moment; times are seconds from now, and what is None is left out."""
    whole = {"sub": "alice", "iat": 0, "exp": 600, **claims}
    now = int(time.time())
    for name in ("iat", "exp", "nbf"):
        if isinstance(whole.get(name), int):
            whole[name] += now
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(
        {name: value for name, value in whole.items() if value is not None}, key, algorithm, headers=headers
    )


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [
        (RSA, "RS256", "rsa"),
        (RSA, "RS512", "rsa"),
        (RSA, "PS256", "rsa"),
        (EC, "ES256", "ec"),
        (ED, "EdDSA", "ed"),
    ],
)
def test_a_token_is_about_its_subject_until_it_is_over(key: Any, algorithm: str, kid: str) -> None:
    before = int(time.time())
    subject, expires_ms = validator().validate(signed(key, algorithm, kid))
    assert subject == "alice"
    assert before + 600 <= expires_ms / 1000 <= time.time() + 600


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"key": OTHER}, "InvalidSignatureError"),
        ({"kid": "nobody's"}, 'its key "nobody\'s" is not in the set'),
        ({"kid": None}, "is not in the set"),
        ({"kid": "ec"}, "its algorithm 'RS256' is not the key's"),
        ({"key": "x" * 32, "algorithm": "HS256"}, "its algorithm 'HS256' is not the key's"),
        ({"exp": -31}, "ExpiredSignatureError"),
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"iat": None}, "MissingRequiredClaimError"),
        ({"iat": 100}, "ImmatureSignatureError"),
        ({"nbf": 100}, "ImmatureSignatureError"),
        ({"exp": "soon"}, "DecodeError"),
        ({"aud": "somebody else"}, "InvalidAudienceError"),
        ({"sub": None}, "names nobody"),
        ({"sub": ""}, "names nobody"),
        ({"sub": "  "}, "names nobody"),
        ({"sub": "x" * 256}, "names nobody"),
    ],
)
def test_what_shows_nothing(made: dict[str, Any], why: str) -> None:
    with pytest.raises(BadToken, match=why):
        validator().validate(signed(**made))


@pytest.mark.parametrize("text", ["", ".", "a.b.c", "a" * 10_000, "eyJ"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(BadToken, match="no JSON Web Token"):
        validator().validate(text)


def test_a_token_that_was_cut_is_none() -> None:
    whole = signed()
    for kept in range(0, len(whole), 7):
        with pytest.raises(BadToken):
            validator().validate(whole[:kept])


def test_none_is_no_signature_and_a_public_key_is_no_secret() -> None:
    now = int(time.time())
    body = urlsafe_b64encode(json.dumps({"sub": "alice", "iat": now, "exp": now + 600}).encode()).rstrip(b"=")
    for algorithm in ("none", "None", "NONE"):
        head = urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "rsa"}).encode()).rstrip(b"=")
        with pytest.raises(BadToken, match="is not the key's"):
            validator().validate(f"{head.decode()}.{body.decode()}.")
    pem = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head = urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "rsa"}).encode()).rstrip(b"=")
    signature = urlsafe_b64encode(hmac.digest(pem, head + b"." + body, hashlib.sha256)).rstrip(b"=")
    with pytest.raises(BadToken, match="is not the key's"):
        validator().validate(b".".join((head, body, signature)).decode())


@pytest.mark.parametrize(
    ("expected", "claims", "fits"),
    [
        (Expected(audience=("kafka",)), {"aud": "kafka"}, True),
        (Expected(audience=("kafka", "log")), {"aud": ["web", "log"]}, True),
        (Expected(audience=("kafka",)), {"aud": "web"}, False),
        (Expected(audience=("kafka",)), {}, False),
        (Expected(issuer="https://i"), {"iss": "https://i"}, True),
        (Expected(issuer="https://i"), {"iss": "https://j"}, False),
        (Expected(issuer="https://i"), {}, False),
        (Expected(), {"iss": "https://i"}, True),
        (Expected(subject_claim="azp"), {"azp": "alice", "sub": None}, True),
        (Expected(subject_claim="azp"), {}, False),
        (Expected(skew_seconds=60), {"exp": -31}, True),
    ],
)
def test_what_is_expected(expected: Expected, claims: dict[str, Any], fits: bool) -> None:
    if fits:
        assert validator(expected).validate(signed(**claims)).subject == "alice"
    else:
        with pytest.raises(BadToken):
            validator(expected).validate(signed(**claims))


def test_keys_that_sign_nothing_are_left_out() -> None:
    oct_key = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}
    found = key_set(
        public(RSA, kid="good"),
        public(RSA, kid="of encryption", use="enc"),
        public(SMALL, kid="small"),
        public(EC, kid="one algorithm", alg="ES256"),
        public(EC, kid="another's", alg="RS256"),
        oct_key,
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
    )
    assert {kid: list(key.algorithms) for kid, key in found.items()} == {
        "good": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
        "one algorithm": ["ES256"],
    }


def test_a_private_key_in_the_set_is_taken_for_its_public_part() -> None:
    whole = {**json.loads(RSAAlgorithm.to_jwk(RSA)), "kid": "rsa"}
    (found,) = key_set(whole).values()
    assert isinstance(found.key, rsa.RSAPublicKey)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no set of keys"),
        (b"[]", "no set of keys"),
        (b"{}", "no set of keys"),
        (b'{"keys": 1}', "no set of keys"),
        (b'{"keys": [1]}', "no set of keys"),
        (b"[" * 100_000, "no set of keys"),
        (b'{"keys": []}', "none of its keys"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "none of its keys"),
        (json.dumps({"keys": [{}] * (MAX_KEYS + 1)}).encode(), "more than 100"),
    ],
)
def test_what_is_no_set_of_keys(text: bytes, why: str) -> None:
    with pytest.raises(BadKeySet, match=why):
        read_key_set(text)


@given(st.text(max_size=200) | st.text("eyJ.hbGciOiJub25lIn0", max_size=60))
def test_whatever_comes_is_refused(token: str) -> None:
    with pytest.raises(BadToken):
        validator().validate(token)
