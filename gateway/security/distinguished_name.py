"""The name of a certificate's subject as Java writes it, and as Kafka's principals and rules have it
(RFC 2253, ``X500Principal.getName()``).

Most specific part first. Nine types have keywords; of every other the value is written as the hexadecimal
digits of its DER, e-mail addresses, too. What Java does besides the RFC is done here: `=` and `#` are escaped
everywhere, and text of each kind is read as UTF-8, whatever its kind says. (Of text that is no UTF-8 each
wrong part becomes U+FFFD; how many one has may differ from Java where it has surrogates.)
"""

from __future__ import annotations

from typing import Final

from gateway.security.certificate import OBJECT_IDENTIFIER, SEQUENCE, SET, NotACertificate, elements

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.11": "OU",
    "2.5.4.10": "O",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}

TEXT_TAGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java takes for text."""

MAX_TYPE_BYTES: Final = 64
"""Of one type; those that exist have a dozen. To read one takes a time that grows with its square."""

ESCAPED: Final = frozenset(',=+<>#;"\\')

BLANK: Final = " \r"
"""Escaped at both ends of a value."""


def distinguished_name(subject: bytes) -> str:
    """The name whose DER this is; "" of one that is empty. Raises NotACertificate."""
    names = list(elements(subject))
    if len(names) != 1 or names[0].tag != SEQUENCE:
        raise NotACertificate("a subject that is no name")
    return ",".join(_relative(part.tag, part.content) for part in reversed(list(elements(names[0].content))))


def _relative(tag: int, content: bytes) -> str:
    if tag != SET:
        raise NotACertificate("a part of a name that is none")
    return "+".join(_attribute(one.tag, one.content) for one in elements(content))


def _attribute(tag: int, content: bytes) -> str:
    parts = list(elements(content))
    if tag != SEQUENCE or len(parts) != 2 or parts[0].tag != OBJECT_IDENTIFIER:
        raise NotACertificate("a part of a name without a type and a value")
    kind, value = _dotted(parts[0].content), parts[1]
    keyword = KEYWORDS.get(kind)
    if keyword is None or value.tag not in TEXT_TAGS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(errors='replace'))}"


def _dotted(content: bytes) -> str:
    """An object identifier; the first two numbers are in one."""
    if not 1 <= len(content) <= MAX_TYPE_BYTES or content[-1] & 0x80:
        raise NotACertificate("a type that is none")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(one) for one in (first, numbers[0] - 40 * first, *numbers[1:]))


def _escaped(text: str) -> str:
    """A value; whatever has a meaning in a name has a backslash before it."""
    inner = text.strip(BLANK)
    begin = len(text) - len(text.lstrip(BLANK))
    shown = "".join("\\00" if one == "\0" else "\\" + one if one in ESCAPED else one for one in inner)
    return _blanks(text[:begin]) + shown + _blanks(text[begin + len(inner) :])


def _blanks(text: str) -> str:
    return "".join("\\" + one for one in text)
