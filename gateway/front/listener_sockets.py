"""Binding listeners: the sockets for what `gateway.front.listeners` has parsed."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from gateway.front.limits import LISTEN_BACKLOG
from gateway.front.listeners import Listener, ListenerSpec, join_host_port

PORT_ATTEMPTS = 20
"""Free ports to try for a name with several addresses, until one is free on all of them."""

_NO_SUCH_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})

logger = logging.getLogger(__name__)


class ListenError(Exception):
    """A listener cannot be bound: the user's to mend (exit code 2). The message says how."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class ListenerSocket:
    """One listening socket (non-blocking) and the listener it belongs to."""

    socket: socket.socket
    listener: Listener


async def open_listeners(specs: Sequence[ListenerSpec], option: str = "--listen") -> list[ListenerSocket]:
    """Binds every address of every listener and starts listening.

    A host name binds all of its addresses, on the same port also when that is 0; an address that this
    machine does not have is left out with a notice as long as another one of the name can be bound
    (localhost is often ::1 as well where IPv6 is off). Raises ListenError, which names the `option` that they
    were given with; then nothing stays bound.
    """
    bound: list[ListenerSocket] = []
    try:
        for spec in specs:
            taken = {entry.socket.getsockname()[:2] for entry in bound}
            bound += await _open_listener(spec, taken, option)
    except BaseException:
        close_all(bound)
        raise
    return bound


def close_all(sockets: Sequence[ListenerSocket]) -> None:
    """Closes the sockets; no connection is accepted from now on."""
    for entry in sockets:
        entry.socket.close()


async def _open_listener(
    spec: ListenerSpec, taken: set[tuple[str, int]], option: str
) -> list[ListenerSocket]:
    addresses = await _addresses(spec)
    for attempt in range(1, PORT_ATTEMPTS + 1):
        try:
            sockets = _bind_all(spec, addresses, taken)
        except OSError as error:
            if spec.port == 0 and error.errno == errno.EADDRINUSE and attempt < PORT_ATTEMPTS:
                continue
            raise ListenError(_explain(spec, error, option)) from error
        port = sockets[0].getsockname()[1]
        listener = Listener(
            spec.name, spec.host, port, spec.advertised_host, spec.advertised_port, spec.protocol
        )
        return [ListenerSocket(sock, listener) for sock in sockets]
    raise AssertionError("unreachable")


async def _addresses(spec: ListenerSpec) -> list[tuple[socket.AddressFamily, str]]:
    """Every (family, IP) of the listener's host, each once, in the resolver's order."""
    if spec.host == "::":
        # Two sockets instead of one that takes both: a client's IPv4 address then stays what it is, and
        # it works where IPv6 is off.
        return [(socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")]  # noqa: S104 - as the user asked
    try:
        found = await trio.socket.getaddrinfo(spec.host, spec.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ListenError(
            f"cannot listen on {spec}: the host name {spec.host!r} has no address ({error.strerror}). "
            "Give an address of this machine, or 0.0.0.0 for all of them"
        ) from error
    usable = (socket.AF_INET, socket.AF_INET6)
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found if family in usable))


def _bind_all(
    spec: ListenerSpec, addresses: list[tuple[socket.AddressFamily, str]], taken: set[tuple[str, int]]
) -> list[socket.socket]:
    """Binds and listens on all addresses, on one port. Raises OSError; then nothing stays bound."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    port = spec.port
    try:
        for family, host in addresses:
            if spec.is_wildcard and (host, port) in taken:
                continue  # [::]:9092 after 0.0.0.0:9092: its IPv4 half is there already
            try:
                sockets.append(_bind(family, host, port))
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY or len(addresses) == 1:
                    raise
                missing = error
                logger.info("not listening on %s: this machine does not have it", join_host_port(host, port))
                continue
            port = sockets[0].getsockname()[1]
        if not sockets:
            raise missing or OSError(errno.EADDRINUSE, "bound already")
        return sockets
    except BaseException:
        for sock in sockets:
            sock.close()
        raise


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Restarts must not wait for the old connections' TIME_WAIT; a second listener is still refused.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(LISTEN_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _explain(spec: ListenerSpec, error: OSError, option: str) -> str:
    where = join_host_port(spec.host, spec.port)
    if error.errno == errno.EADDRINUSE:
        return (
            f"cannot listen on {where}: the port is taken, perhaps by another gateway or by Kafka. Stop that "
            f"one (`ss -ltnp sport = :{spec.port}` names it) or choose another port: "
            f"{option} {join_host_port(spec.host, 0)} finds a free one"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"cannot listen on {where}: this machine has no such address. Listen on one it has (`ip address` "
            f"lists them) and give the other to clients: {option} 0.0.0.0:{spec.port}@{where}"
        )
    if error.errno == errno.EACCES:
        return f"cannot listen on {where}: ports below 1024 are for root. Choose a higher one, as 9092"
    return f"cannot listen on {where}: {error.strerror}"
