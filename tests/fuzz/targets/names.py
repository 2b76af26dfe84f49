"""Certificates of clients, and the rules by which those are named."""

from __future__ import annotations

import datetime as dt
import random
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from gateway.front.principal_rules import InvalidRules, NoPrincipal, PrincipalRules
from gateway.security.principal import MAX_NAME_CHARS
from tests.fuzz.mutate import joined, mutated, taken_apart
from tests.fuzz.target import Violation

_RULES: Final = (
    b"DEFAULT",
    b"RULE:^CN=(.*?),OU=Ops,.*$/$1/L, DEFAULT",
    b"RULE:.*CN=([^,]+).*/$1@x/U,RULE:^(.*)$/\\$$1/",
    b"RULE:(a+)+$/$1/,RULE:(x{1,500}){1,500}/y/,DEFAULT",
    b"RULE:" + b"(" * 500 + b"a" + b")" * 500 + b"/$499/",
)
_NAMES: Final = (
    [(NameOID.COMMON_NAME, "alice"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops"), (NameOID.COUNTRY_NAME, "DE")],
    [(NameOID.EMAIL_ADDRESS, "a@b.example"), (NameOID.COMMON_NAME, 'odd=,+"\\<>;# ')],
    [(NameOID.COMMON_NAME, "line\nUser:admin"), (NameOID.USER_ID, "\u202e\x00é")],
    [(NameOID.COMMON_NAME, "a" * 64)] * 20,
)


class Names:
    """Rules and a certificate (DER), which is not checked here: TLS has done that before."""

    name = "principal-rules"

    def __init__(self) -> None:
        self._certificates = [_certificate(names) for names in _NAMES]
        self.good = [joined([rules, shown]) for rules in _RULES for shown in self._certificates]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        pass

    def make(self, chooser: random.Random) -> bytes:
        """One of both is changed."""
        rules, shown = chooser.choice(_RULES), chooser.choice(self._certificates)
        if chooser.random() < 0.3:
            rules = mutated(rules, _RULES, chooser)[:0xFFFF]
        else:
            shown = mutated(shown, self._certificates, chooser)[:0xFFFF]
        return joined([rules, shown])

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        text, shown, *_ = *taken_apart(data), b"", b""
        try:
            rules = PrincipalRules(text.decode("utf-8", errors="replace"))
        except InvalidRules:
            return "no rules"
        try:
            principal = rules.principal(shown)
        except NoPrincipal as nobody:
            return f"nobody: {str(nobody).split(':')[0][:50]}"
        if principal.type != "User" or not 1 <= len(principal.name) <= MAX_NAME_CHARS:
            raise Violation(f"a certificate names {principal!r}")
        principal.name.encode()
        return "named"


def _certificate(names: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    kinds = {NameOID.EMAIL_ADDRESS: _ASN1Type.IA5String, NameOID.COUNTRY_NAME: _ASN1Type.PrintableString}
    subject = x509.Name(
        [x509.NameAttribute(oid, text, kinds.get(oid, _ASN1Type.UTF8String)) for oid, text in names]
    )
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)
