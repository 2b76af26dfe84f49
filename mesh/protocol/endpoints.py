"""Where a node's publisher is: `tcp://host:port`, brought into one form, so that it can be compared.

Nodes and towers write the same place in several ways (`::ffff:127.0.0.1`, `[::1]`, `::1`), and ZeroMQ's own
notation has more in it than hosts (`tcp://interface;host:port`, `*`). Whatever is not plainly an address or a
host name is refused.
"""

import ipaddress
import re
from typing import NamedTuple

from wireproto.dafka.errors import MalformedMessage

TRANSPORT = "tcp://"

_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,252})")
_NUMERIC_END = re.compile(r"(.*\.)?[0-9]+\.?")
"""Resolvers take `1.2` and `017.0.0.1` for addresses; nobody means what they make of them."""


class Endpoint(NamedTuple):
    """A place to connect to: an IP address (no brackets, shortest form) or a host name in lower case."""

    host: str
    port: int

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address, and not a name that must be looked up."""
        return ":" in self.host or _NUMERIC_END.fullmatch(self.host) is not None

    def __str__(self) -> str:
        return f"{TRANSPORT}{in_brackets(self.host)}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """`tcp://host:port`, with or without brackets around an IPv6 address. Raises `MalformedMessage`."""
    host, colon, port = text.removeprefix(TRANSPORT).rpartition(":")
    if not text.startswith(TRANSPORT) or not colon:
        raise MalformedMessage("endpoint is not tcp://host:port")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise MalformedMessage("endpoint: port is not 1 to 65535")
    return Endpoint(parse_host(host), int(port))


def parse_host(text: str) -> str:
    """A host that others can connect to, in the form of `Endpoint.host`. Raises `MalformedMessage`."""
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _host_name(host)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_unspecified or address.is_multicast:
        raise MalformedMessage("host is no address of one machine")
    return str(address)


def _host_name(text: str) -> str:
    name = text.lower()
    if not _HOST_NAME.fullmatch(name) or _NUMERIC_END.fullmatch(name):
        raise MalformedMessage("host is neither an address nor a host name")
    return name


def in_brackets(host: str) -> str:
    """A host as it stands in front of a port."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host: an address of it, or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class TowerAddress(NamedTuple):
    """A tower as nodes reach it; `host` has no brackets."""

    host: str
    port_in: int
    """Where nodes publish their beacons."""
    port_out: int
    """Where nodes hear the tower."""

    def __str__(self) -> str:
        return f"{in_brackets(self.host)}:{self.port_in}:{self.port_out}"


class MeshListen(NamedTuple):
    """Where a node's publisher binds: the first free port from `first_port` to `last_port`; 0: any."""

    host: str
    first_port: int = 0
    last_port: int = 0
