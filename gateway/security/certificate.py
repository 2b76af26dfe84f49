"""What is read of a certificate (RFC 5280): whose it is, and until when it is good.

Only of certificates that OpenSSL has taken already, and only so much of DER as that needs. A length is looked
at before what it is about: bytes that are no certificate raise, whatever they are.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
VERSION: Final = 0xA0
"""Tags. The version is the first field of a certificate, and left out in those of version 1."""

MAX_LENGTH_BYTES: Final = 3
"""Bytes that a length may have: 16 MiB is more than a handshake takes."""

ENDS_SOON: Final = timedelta(days=14)
"""So long before the end of a certificate it is said: as by the alert DafkaCertificateEnds."""

_TRUSTED: Final = "TRUSTED CERTIFICATE"
_IN_PEM: Final = re.compile(
    rf"-----BEGIN (?P<heading>(?:X509 )?CERTIFICATE|{_TRUSTED})-----(?P<base64>[^-]*)"
    r"-----END (?P=heading)-----"
)
"""The headings that OpenSSL takes (PEM_read_bio_X509_AUX): behind a trusted one there is what that is for."""


class NotACertificate(ValueError):
    """Bytes that are none. The message says where they stop to be."""


class Element(NamedTuple):
    """One element of DER. `whole` has its tag and length, too."""

    tag: int
    content: bytes
    whole: bytes


class Certificate(NamedTuple):
    """`subject` is the name's DER; `ends` the last second that it is good for."""

    subject: bytes
    ends: datetime


def parse_certificate(der: bytes) -> Certificate:
    """What is in a certificate. Raises NotACertificate."""
    fields = list(elements(_only(_only(der, SEQUENCE), SEQUENCE, of_several=True)))
    if fields and fields[0].tag == VERSION:
        del fields[0]
    try:
        _serial, _algorithm, _issuer, validity, subject = fields[:5]
        _begins, ends = elements(validity.content)
    except ValueError:
        raise NotACertificate("a certificate without all of its fields") from None
    return Certificate(subject.whole, _time(ends))


def first_in_pem(text: str) -> bytes:
    """The DER of the first certificate in a PEM file, which is the one that its owner shows. Raises
    NotACertificate.
    """
    found = next(all_in_pem(text), None)
    if found is None:
        raise NotACertificate("there is no certificate in it")
    return found


def all_in_pem(text: str) -> Iterator[bytes]:
    """The DER of each certificate in a PEM file. Raises NotACertificate: one of them is none."""
    for found in _IN_PEM.finditer(text):
        try:
            der = base64.decodebytes(found["base64"].encode("ascii"))
        except ValueError as error:
            raise NotACertificate(f"its certificate is broken: {error}") from None
        yield next((one.whole for one in elements(der)), b"") if found["heading"] == _TRUSTED else der


def elements(data: bytes) -> Iterator[Element]:
    """What one thing after the other is. Raises NotACertificate."""
    at = 0
    while at < len(data):
        begin = at
        if len(data) - at < 2:
            raise NotACertificate("an element without a length")
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= MAX_LENGTH_BYTES or len(data) - at < count:
                raise NotACertificate("an element whose length is none")
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if len(data) - at < size:
            raise NotACertificate("an element that is longer than what it is in")
        yield Element(tag, data[at : at + size], data[begin : at + size])
        at += size


def _only(data: bytes, tag: int, *, of_several: bool = False) -> bytes:
    """The content of the element that these bytes are, or begin with."""
    found = next(elements(data), None)
    if found is None or found.tag != tag or (len(found.whole) < len(data) and not of_several):
        raise NotACertificate("something else than a certificate")
    return found.content


def _time(element: Element) -> datetime:
    text = element.content.decode("ascii", errors="replace")
    if element.tag == UTC_TIME:
        # Two digits of a year (RFC 5280, 4.1.2.5.1).
        text = ("19" if text >= "50" else "20") + text
    elif element.tag != GENERALIZED_TIME:
        raise NotACertificate("a certificate without an end")
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise NotACertificate(f"a certificate that ends at {text[:32]!r}, which is no time") from None
