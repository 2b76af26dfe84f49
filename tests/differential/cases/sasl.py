"""SaslHandshake 0-1 and SaslAuthenticate 0-2: who somebody is, and what he may ask before that is known."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from tests.differential.case import REGISTERED, as_nobody, case
from tests.differential.cases.api_versions import only_ours
from tests.differential.principals import ALLOWED, PASSWORDS, PLAIN, plain_token
from tests.differential.samples import sample
from tests.differential.side import Side

SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NONSENSE = "NONSENSE"
SHOWN = plain_token(ALLOWED, PASSWORDS[ALLOWED])
UNKNOWN_VERSION = 99
FEATURES_SINCE = 3
NONCE = "client"
NOT_SAID = b"r=client,s=eA==,i=4096"
"""What a client goes on with that was refused: the two servers are asked the same things."""
OF_SASL = (SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY)


def shake(version: int, mechanism: str = PLAIN) -> Any:
    return SaslHandshakeRequest(version=version, mechanism=mechanism)


def show(version: int, token: bytes) -> Any:
    return SaslAuthenticateRequest(version=version, auth_bytes=token)


def ask_versions(side: Side, version: int, label: str) -> None:
    """What is offered is compared elsewhere."""
    answer = side.ask(sample(side, ApiVersionsRequest.API_KEY, version), label)
    if not isinstance(answer, str):
        only_ours(answer)
        if version >= FEATURES_SINCE:
            answer.supported_features, answer.finalized_features = [], []


def ask_who(side: Side, label: str) -> None:
    """Something that is only answered once it is known who asks."""
    side.ask(DescribeClusterRequest(version=0), label)


# ------------------------------------------------------------------------------------- listeners without SASL


@case(SaslHandshakeRequest)
def shaken_without_sasl(side: Side, version: int) -> None:
    for mechanism in (PLAIN, NONSENSE, ""):
        side.ask(shake(version, mechanism), f"mechanism {mechanism!r}")
    ask_who(side, "it goes on")


@case(SaslAuthenticateRequest)
def authenticated_without_sasl(side: Side, version: int) -> None:
    for token in (SHOWN, b""):
        side.ask(show(version, token), f"{len(token)} bytes")
    ask_who(side, "it goes on")


# ---------------------------------------------------------------------------------------------- the handshake


@as_nobody(SaslHandshakeRequest)
def mechanisms(side: Side, version: int) -> None:
    for mechanism in (PLAIN, *SCRAM, NONSENSE, "", "GSSAPI", "plain", "PLAIN\0"):
        side.ask(shake(version, mechanism), f"mechanism {mechanism!r}")
        side.hang_up()


@as_nobody(SaslHandshakeRequest)
def after_an_unknown_mechanism(side: Side, version: int) -> None:
    side.ask(shake(version, NONSENSE), "unknown")
    side.connection.send(b"")
    heard = side.connection.receive()
    assert heard is None, f"{side.server.name} says {heard!r}"


@as_nobody(SaslHandshakeRequest, [1])
def shaken_twice(side: Side, version: int) -> None:
    for second in REGISTERED[SaslHandshakeRequest.API_KEY]:
        side.ask(shake(version), f"first before {second}")
        side.ask(shake(second), f"second, version {second}")
        side.hang_up()


@as_nobody(ApiVersionsRequest)
def versions_first(side: Side, version: int) -> None:
    """Once, and then only the handshake."""
    ask_versions(side, version, "versions")
    side.ask(shake(1), "handshake")
    side.ask(show(2, SHOWN), "token")
    ask_who(side, "known")
    side.hang_up()
    ask_versions(side, version, "versions again")
    ask_versions(side, version, "and twice")


@as_nobody(ApiVersionsRequest, [4])
def unknown_versions_first(side: Side, version: int) -> None:
    """One that is not known is answered, and does not count."""
    for number in range(3):
        _unknown_version(side, f"unknown {number}")
    ask_versions(side, version, "known")
    _unknown_version(side, "unknown again")


def _unknown_version(side: Side, label: str) -> None:
    """Its answer is compared elsewhere, too: here, that there is one."""
    answer = side.ask_body(ApiVersionsRequest.API_KEY, UNKNOWN_VERSION, b"", label)
    if not isinstance(answer, str):
        answer.api_keys = []


@as_nobody(SaslHandshakeRequest, [1])
def unknown_handshake(side: Side, version: int) -> None:
    side.ask_body(SaslHandshakeRequest.API_KEY, UNKNOWN_VERSION, b"\0\5PLAIN", "unknown version")


@as_nobody(SaslHandshakeRequest, [1])
def others_before(side: Side, version: int) -> None:
    """Each API, before anything."""
    for key in sorted(REGISTERED.keys() - {*OF_SASL, ApiVersionsRequest.API_KEY}):
        side.ask(sample(side, key, REGISTERED[key][-1]), f"API {key}")
        side.hang_up()


@as_nobody(SaslAuthenticateRequest)
def tokens_before(side: Side, version: int) -> None:
    side.ask(show(version, SHOWN))


@as_nobody(SaslAuthenticateRequest, [2])
def unknown_tokens(side: Side, version: int) -> None:
    side.ask(shake(1), "handshake")
    side.ask_body(SaslAuthenticateRequest.API_KEY, UNKNOWN_VERSION, b"\0\0\0\0", "unknown version")


@as_nobody(SaslHandshakeRequest, [1])
def others_between(side: Side, version: int) -> None:
    """Each API, while a token is awaited."""
    for key in sorted(REGISTERED.keys() - {*OF_SASL}):
        side.ask(shake(version), f"handshake before {key}")
        answer = side.ask(sample(side, key, REGISTERED[key][-1]), f"API {key}")
        if key == ApiVersionsRequest.API_KEY and not isinstance(answer, str):
            only_ours(answer)
        side.hang_up()


@as_nobody(SaslHandshakeRequest, [1])
def no_requests(side: Side, version: int) -> None:
    """Bytes that are none, before and after the handshake."""
    for label, data in {"short": b"\0\0\0\2xx", "long": b"\x7f\xff\xff\xff", "HTTP": b"GET / HTTP/1.0\r\n",
                        "TLS": b"\x16\3\1\2\0\1\0\1\xfc\3\3", "too long": b"\0\x08\0\1"}.items():  # fmt: skip
        side.ask_bytes(-1, 0, data, f"{label}, before")
        side.hang_up()
        side.ask(shake(version), f"handshake before {label}")
        side.ask_bytes(-1, 0, data, f"{label}, between")
        side.hang_up()


# ------------------------------------------------------------------------------------------------------ PLAIN


@as_nobody(SaslAuthenticateRequest)
def plain(side: Side, version: int) -> None:
    side.ask(shake(1), "handshake")
    side.ask(show(version, SHOWN), "token")
    ask_who(side, "known")
    side.ask(shake(1), "handshake again")
    side.ask(show(version, SHOWN), "token again")
    ask_who(side, "still known")


@as_nobody(SaslAuthenticateRequest)
def plain_refused(side: Side, version: int) -> None:
    _refused(side, version, "wrong password", plain_token(ALLOWED, "wrong"))
    _refused(side, version, "unknown user", plain_token("nobody", PASSWORDS[ALLOWED]))


@as_nobody(SaslAuthenticateRequest, [2])
def plain_tokens(side: Side, version: int) -> None:
    password = PASSWORDS[ALLOWED]
    for label, token in {
        "as himself": plain_token(ALLOWED, password, ALLOWED),
        "as another": plain_token(ALLOWED, password, "admin"),
        "as another, wrong password": plain_token(ALLOWED, "wrong", "admin"),
        "empty": b"",
        "one part": b"x",
        "two parts": b"x\0y",
        "four parts": SHOWN + b"\0more",
        "no user": plain_token("", password),
        "no password": plain_token(ALLOWED, ""),
        "not UTF-8": b"\0\xff\0\xff",
        "spaces": plain_token(f" {ALLOWED}", password),
    }.items():
        _refused(side, version, label, token)


def _refused(side: Side, version: int, label: str, token: bytes) -> None:
    side.ask(shake(1), f"handshake before {label}")
    side.ask(show(version, token), label)
    ask_who(side, f"after {label}")
    side.hang_up()


@as_nobody(SaslHandshakeRequest, [0])
def plain_frames(side: Side, version: int) -> None:
    side.ask(shake(version), "handshake")
    side.ask_token(SHOWN, "token")
    ask_who(side, "known")
    side.hang_up()
    side.ask(shake(version), "another handshake")
    side.ask_token(plain_token(ALLOWED, "wrong"), "wrong password")


# ------------------------------------------------------------------------------------------------------ SCRAM


Say = Callable[[bytes, str], bytes | None]
"""Says a token; the server's, None if it refuses."""


def scram(say: Say, mechanism: str, user: str, password: str, **changed: bytes) -> None:
    """A client by RFC 5802. `changed` replaces what it says: `first`, `bare`, `channel`, `nonce`, `proof`."""
    bare = changed.get("bare", f"n={user},r={NONCE}".encode())
    answer = say(changed.get("first", b"n,,") + bare, "first") or NOT_SAID
    fields = dict(part.split(b"=", 1) for part in answer.split(b","))
    nonce = changed.get("nonce", fields[b"r"])
    without = b"c=" + changed.get("channel", b64encode(b"n,,")) + b",r=" + nonce
    digest = SCRAM[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b64decode(fields[b"s"]), int(fields[b"i"]))
    key = hmac.digest(salted, b"Client Key", digest)
    signed = hmac.digest(hashlib.new(digest, key).digest(), b",".join((bare, answer, without)), digest)
    proof = bytes(a ^ b for a, b in zip(key, signed, strict=True))
    say(without + b",p=" + changed.get("proof", b64encode(proof)), "final")


def _scram_case(
    side: Side, version: int, label: str, mechanism: str, user: str, password: str, **changed: bytes
) -> None:
    side.ask(shake(1, mechanism), f"{label}, handshake")

    def say(token: bytes, which: str) -> bytes | None:
        answer = side.ask_own_id(show(version, token), f"{label}, {which}")
        return None if isinstance(answer, str) or answer.error_code else bytes(answer.auth_bytes)

    scram(say, mechanism, user, password, **changed)
    ask_who(side, f"{label}, then")
    side.hang_up()


@as_nobody(SaslAuthenticateRequest)
def scram_well(side: Side, version: int) -> None:
    mechanism = "SCRAM-SHA-256"
    _scram_case(side, version, "right", mechanism, ALLOWED, PASSWORDS[ALLOWED])
    _scram_case(side, version, "wrong password", mechanism, ALLOWED, "wrong")


@as_nobody(SaslAuthenticateRequest, [2])
def scram_nobody(side: Side, version: int) -> None:
    """Who is not there, and who has a password by the other mechanism only."""
    _scram_case(side, version, "unknown user", "SCRAM-SHA-256", "nobody", "x")
    _scram_case(side, version, "other mechanism", "SCRAM-SHA-512", ALLOWED, PASSWORDS[ALLOWED])


@as_nobody(SaslAuthenticateRequest, [2])
def scram_messages(side: Side, version: int) -> None:
    wrong: dict[str, dict[str, bytes]] = {
        "channel binding y": {"first": b"y,,"},
        "channel binding p": {"first": b"p=tls-unique,,"},
        "as himself": {"first": b"n,a=allowed,", "channel": b64encode(b"n,a=allowed,")},
        "as another": {"first": b"n,a=admin,", "channel": b64encode(b"n,a=admin,")},
        "extension": {"bare": b"n=allowed,r=client,x=y"},
        "reserved extension": {"bare": b"m=x,n=allowed,r=client"},
        "no nonce": {"bare": b"n=allowed"},
        "empty nonce": {"bare": b"n=allowed,r="},
        "escaped badly": {"bare": b"n=all=owed,r=client"},
        "nonsense": {"first": b"", "bare": b"\xff\xff"},
        "empty": {"first": b"", "bare": b""},
        "another nonce": {"nonce": b"clientother"},
        "another binding": {"channel": b64encode(b"y,,")},
        "short proof": {"proof": b64encode(b"x")},
        "no base64": {"proof": b"***"},
    }
    for label, changed in wrong.items():
        _scram_case(side, version, label, "SCRAM-SHA-256", ALLOWED, PASSWORDS[ALLOWED], **changed)
