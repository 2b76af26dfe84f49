"""Where the gateway listens, and the address that Metadata gives to whoever came in there.

A listener is written as Kafka users know it, in one argument instead of three settings
(`listeners`, `advertised.listeners`, `listener.security.protocol.map`):

    [NAME=][PROTOCOL://]HOST:PORT[@ADVERTISED_HOST:PORT]

    127.0.0.1:9092                        one address
    localhost:9092                        every address of the name, the same port on all of them
    [::1]:0                               an IPv6 address; port 0 picks a free one
    0.0.0.0:9092                          every IPv4 address; `[::]:9092` and `:9092` IPv6 as well
    OUTSIDE=0.0.0.0:9094@kafka.example:9094   a name, and what clients are told to connect to
    SASL_PLAINTEXT://0.0.0.0:9095             clients say who they are; the name is the protocol's

A client connects to its bootstrap address once and from then on only to what Metadata answers, so a
wrong advertised address is the most common reason that a client "connects and then hangs". Hence the
rule here: the advertised address of the listener the request came in on, else the host as it was
given, and for a wildcard the address that this very connection reached. Never 0.0.0.0 or `::`.

Parsing only; `gateway.front.listener_sockets` binds.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from gateway.security.protocol import SecurityProtocol

DEFAULT_LISTENER_NAME = "PLAINTEXT"
"""Name of a listener that was given none; Kafka's name for one without encryption."""

MAX_PORT = 65_535
"""The highest port of TCP."""

WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound here
"""Hosts that mean "every address": they can be bound, and can never be advertised."""


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")
_EXAMPLE = "for example 127.0.0.1:9092, [::1]:9092 or OUTSIDE=0.0.0.0:9092@kafka.example:9092"


class InvalidListener(ValueError):
    """A listener text that cannot be understood. The message says what to write instead."""


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A listener as the user asked for it.

    `host` has no brackets; a wildcard is "0.0.0.0" (IPv4 only) or "::" (IPv6 and IPv4). `port` 0 means
    that the system picks one. `advertised_port` None means the bound port.
    """

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def is_wildcard(self) -> bool:
        return self.host in WILDCARD_HOSTS

    def __str__(self) -> str:
        text = join_host_port(self.host, self.port)
        if self.protocol is not SecurityProtocol.PLAINTEXT:
            text = f"{self.protocol.value}://{text}"
        if self.name != self.protocol.value:
            text = f"{self.name}={text}"
        if self.advertised_host is not None:
            text = f"{text}@{join_host_port(self.advertised_host, self.advertised_port or 0)}"
        return text


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener that is bound: `port` is the real one. Several sockets may share it (one per address)."""

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def is_wildcard(self) -> bool:
        return self.host in WILDCARD_HOSTS

    def advertised(self, local_host: str) -> tuple[str, int]:
        """The (host, port) that Metadata answers on a connection whose own end has the IP `local_host`.

        As Kafka's `advertised.listeners`, which falls back to `listeners`; but Kafka refuses to start
        with a wildcard there, where we answer what evidently works: the address the client reached.
        """
        if self.advertised_host is not None:
            return self.advertised_host, self.advertised_port or self.port
        if self.is_wildcard:
            return plain_ip(local_host), self.port
        return self.host, self.port


def parse_listener(text: str) -> ListenerSpec:
    """`[NAME=][PROTOCOL://]HOST:PORT[@ADVERTISED_HOST:PORT]` as a ListenerSpec.

    Raises InvalidListener with what is wrong and an example.
    """
    bind_text, at, advertised_text = text.strip().partition("@")
    name, equals, bind_text = bind_text.rpartition("=")
    if equals and not _NAME.fullmatch(name):
        raise InvalidListener(f"listener {text!r}: {name!r} is not a listener name (letters, digits, . _ -)")
    protocol_text, scheme, bind_text = bind_text.rpartition("://")
    protocol = _protocol(protocol_text, text) if scheme else SecurityProtocol.PLAINTEXT
    host, port = split_host_port(bind_text, text)
    advertised_host: str | None = None
    advertised_port: int | None = None
    if at:
        advertised_host, advertised_port = split_host_port(advertised_text, text)
        advertised_port = advertised_port or None
        if advertised_host in WILDCARD_HOSTS:
            raise InvalidListener(
                f"listener {text!r}: clients cannot connect to {advertised_host!r}; after the @ write a host "
                "name or address by which they reach this machine"
            )
    return ListenerSpec(name or protocol.value, host, port, advertised_host, advertised_port, protocol)


def _protocol(name: str, whole: str) -> SecurityProtocol:
    try:
        return SecurityProtocol(name)
    except ValueError:
        offered = ", ".join(one.value for one in SecurityProtocol)
        raise InvalidListener(
            f"listener {whole!r}: {name!r} is not a protocol that is offered; write one of {offered}"
        ) from None


def split_host_port(text: str, whole: str | None = None) -> tuple[str, int]:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every address, "::") as (host without brackets, port).

    `whole` is what the user typed, for the message. Raises InvalidListener: no port, a port out of range,
    an IPv6 address without brackets, not a host.
    """
    whole = text if whole is None else whole
    host, colon, port_text = text.rpartition(":")
    if not colon or not port_text or text.endswith("]"):
        raise InvalidListener(f"listener {whole!r}: {text!r} has no port; write HOST:PORT, {_EXAMPLE}")
    # More than five digits are not looked at: int() of a long text takes quadratic time.
    if not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > MAX_PORT:
        raise InvalidListener(f"listener {whole!r}: {port_text!r} is not a port from 0 to {MAX_PORT}")
    return _checked_host(host, whole), int(port_text)


def _checked_host(host: str, whole: str) -> str:
    if host in ("", "*"):
        return "::"
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise InvalidListener(f"listener {whole!r}: {host!r} is not an IPv6 address") from None
    if ":" in host:
        raise InvalidListener(f"listener {whole!r}: write an IPv6 address in brackets, as [{host}]:PORT")
    if not _HOST_NAME.fullmatch(host):
        raise InvalidListener(f"listener {whole!r}: {host!r} is not a host name or address; {_EXAMPLE}")
    return host


def join_host_port(host: str, port: int) -> str:
    """(host, port) as a user writes it, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def plain_ip(host: str) -> str:
    """An IP as `getsockname` gives it, as another machine can use it: no zone, no IPv4-mapped IPv6."""
    host = host.partition("%")[0]
    if host.startswith("::ffff:") and "." in host:
        return host[len("::ffff:") :]
    return host
