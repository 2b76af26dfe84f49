"""Which etcd a catalog is in, and below which of its keys. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mesh.protocol.endpoints import in_brackets

SCHEME: Final = "etcd://"

DEFAULT_PREFIX: Final = "/dafka"
"""What all keys in etcd begin with, if the address does not say it."""

DEFAULT_PORT: Final = 2379

MAX_MEMBERS: Final = 16
"""Addresses that are tried: clusters of etcd have up to seven members."""

_MEMBER: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?"
)
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_FORM: Final = "etcd://HOST:PORT,HOST:PORT, or that with /PREFIX behind it"


class EtcdAddress(NamedTuple):
    """`members` are (host, port) in the order in which they are tried first."""

    members: tuple[tuple[str, int], ...]
    prefix: str = DEFAULT_PREFIX

    @classmethod
    def parse(cls, text: str) -> EtcdAddress:
        """From what a user writes. Raises ValueError, with what is wrong and what is right."""
        rest = text.removeprefix(SCHEME)
        if rest == text:
            raise ValueError(f"{text!r} does not begin with {SCHEME}: write {_FORM}")
        hosts, slash, path = rest.partition("/")
        prefix = slash + path.rstrip("/") if path else DEFAULT_PREFIX
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(f"the prefix {prefix!r} has something else than letters, digits, '.', '_', '-'")
        members = tuple(dict.fromkeys(_member(one.strip()) for one in hosts.split(",")))
        if len(members) > MAX_MEMBERS:
            raise ValueError(f"{len(members)} members of etcd, more than {MAX_MEMBERS}")
        return cls(members, prefix)

    def __str__(self) -> str:
        hosts = ",".join(f"{in_brackets(host)}:{port}" for host, port in self.members)
        return f"{SCHEME}{hosts}{'' if self.prefix == DEFAULT_PREFIX else self.prefix}"


def _member(text: str) -> tuple[str, int]:
    found = _MEMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no HOST:PORT of a member of etcd: write {_FORM}")
    port = int(found["port"] or DEFAULT_PORT)
    if not 0 < port < 2**16:
        raise ValueError(f"{text!r} has a port that there is not")
    return found["v6"] or found["host"], port
