"""PKCS#12 stores (RFC 7292), as keytool and openssl make them: a key with its certificate, or whom to trust.

A store with several keys is refused rather than one of them taken: which one would depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.security.certificate import OBJECT_IDENTIFIER, SEQUENCE, Element, NotACertificate, elements

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

MAX_STORE_BYTES: Final = 1024 * 1024
"""Of one store: Java's own, with all authorities that it trusts, has 150 KiB."""

_JKS: Final = b"\xfe\xed\xfe\xed"
_OCTET_STRING: Final = 0x04
_EXPLICIT: Final = 0xA0
_KEY_BAGS: Final = frozenset(
    bytes.fromhex("2a864886f70d010c0a01" + kind)
    for kind in ("01", "02")  # keyBag, pkcs8ShroudedKeyBag
)


class BadStore(ValueError):
    """A store that is of no use. The message says why and what to do, and nothing of what is in it."""


class LockedStore(BadStore):
    """Its password is missing or wrong, or it is broken."""


class Identity(NamedTuple):
    """A `key` and its certificates as PEM, its own one first; `certificate` is that one's DER. The key is
    encrypted with the password that was asked for.
    """

    pem: bytes
    certificate: bytes


def is_store(data: bytes) -> bool:
    """Whether a file looks like a store, not like PEM, which is text. JKS is one that `identity` refuses."""
    return data[:1] == bytes([SEQUENCE]) or data.startswith(_JKS)


def identity(data: bytes, password: bytes | None, key_password: bytes) -> Identity:
    """The one key of a store. Raises BadStore."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    store = _opened(data, password)
    if (keys := _count_keys(data)) > 1:
        raise BadStore(
            f"there are {keys} private keys in it, and it would be chance which one is taken: make a store "
            "with one: keytool -importkeystore -srcalias ALIAS -srckeystore STORE -destkeystore NEW"
        )
    if store.key is None:
        raise BadStore("there is no private key in it: whom to trust is said by --tls-client-ca")
    if store.cert is None:
        raise BadStore("there is no certificate for the key in it")
    own = store.cert.certificate
    chain = _chain(own, [one.certificate for one in store.additional_certs])
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(key_password))
    pem = b"".join(one.public_bytes(Encoding.PEM) for one in chain)
    return Identity(pem + key, own.public_bytes(Encoding.DER))


def trusted(data: bytes, password: bytes | None) -> bytes:
    """All certificates of a store, one after the other, as DER. Raises BadStore."""
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _opened(data, password)
    found = [*([] if store.cert is None else [store.cert]), *store.additional_certs]
    if not found:
        raise BadStore("there are no certificates in it")
    return b"".join(one.certificate.public_bytes(Encoding.DER) for one in found)


def _opened(data: bytes, password: bytes | None) -> Any:
    # These take longer than all the rest of a start, and few need them.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    if data.startswith(_JKS):
        raise BadStore(
            "it is a store of the kind JKS: make a PKCS#12 of it: "
            "keytool -importkeystore -srckeystore STORE -destkeystore NEW -deststoretype pkcs12"
        )
    if len(data) > MAX_STORE_BYTES:
        raise BadStore(f"it has more than {MAX_STORE_BYTES} bytes")
    try:
        return load_pkcs12(data, password)
    except UnsupportedAlgorithm as error:
        raise BadStore(f"it is encrypted in a way that is not known here: {error}") from None
    except ValueError as error:
        if "password" not in str(error):
            raise BadStore("it is neither PEM nor PKCS#12") from None
        why = "it has a password" if password is None else "the password does not open it"
        raise LockedStore(f"{why}, or it is broken") from None


def _chain(own: Certificate, others: Sequence[Certificate]) -> list[Certificate]:
    """It, and who has signed it, and so on, as far as they are there: clients want them in this order."""
    chain = [own]
    while True:
        last = chain[-1]
        signers = [one for one in others if one not in chain and _has_signed(one, last)]
        if last.subject == last.issuer or not signers:
            return chain
        chain.append(signers[0])


def _has_signed(authority: Certificate, certificate: Certificate) -> bool:
    """By its key, too: an authority with a new key has the name of the old one."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _count_keys(data: bytes) -> int:
    """The private keys of a store that was opened; those in what is encrypted as a whole are not seen, and no
    known tool puts them there.
    """
    try:
        _version, safe, *_mac = elements(_content(data, SEQUENCE))
        bags = [bag for content in elements(_data_of(safe)) for bag in _bags(content)]
        return sum(next(elements(bag.content)).content in _KEY_BAGS for bag in bags)
    except (NotACertificate, StopIteration, ValueError):
        return 0  # it has been read, so it is another shape of the same


def _bags(content: Element) -> Iterator[Element]:
    """Those of a ContentInfo that is not encrypted."""
    kind = next(elements(content.content))
    if kind.content == _DATA:
        yield from elements(_data_of(content))


def _data_of(content_info: Element) -> bytes:
    """The DER that is the data of a ContentInfo: SEQUENCE { id-data, [0] OCTET STRING { SEQUENCE ... } }."""
    kind, wrapped = elements(content_info.content)
    if kind.tag != OBJECT_IDENTIFIER or kind.content != _DATA or wrapped.tag != _EXPLICIT:
        raise NotACertificate("no data")
    return _content(_content(wrapped.content, _OCTET_STRING), SEQUENCE)


def _content(data: bytes, tag: int) -> bytes:
    (found,) = elements(data)
    if found.tag != tag:
        raise NotACertificate("another element")
    return found.content


_DATA: Final = bytes.fromhex("2a864886f70d010701")
"""id-data (RFC 5652)."""
