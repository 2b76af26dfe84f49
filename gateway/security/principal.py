"""Who somebody is, as access control knows him (``KafkaPrincipal``)."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A kind and a name; `User` is the only kind that a connection has."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class InvalidPrincipal(ValueError):
    """A text that names nobody. The message says how one is written."""


USER: Final = "User"

MAX_NAME_CHARS: Final = 1_000
"""Of a principal's name, the longest of which are a certificate's: ACLs and logs have it, and each connection
keeps it."""

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever comes in where nobody is asked who he is."""


def parse_principal(text: str) -> Principal:
    """`Type:name`; the name may have colons. Raises InvalidPrincipal."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise InvalidPrincipal(f"{text!r} is not a principal: write it as User:NAME")
    return Principal(kind, name)
