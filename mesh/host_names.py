"""Host names of nodes and towers, looked up without stopping anything.

ZeroMQ would look them up itself, but within the I/O thread that serves all links: a name server that does not
answer would stop their heartbeats. It would also go on with an address after the name had got another.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from mesh.protocol.endpoints import Endpoint, parse_host
from wireproto.dafka.errors import MalformedMessage

MAX_NAMES = 1024
"""Host names remembered; the one that was asked for first goes first."""

MAX_LOOKUPS_AT_ONCE = 8
"""Look-ups under way; for further names the next beacon asks again."""

LOOKUP_AGAIN_SECONDS = 30.0
"""A name is looked up again after so long: a container that was moved has another address."""

FAILED_AGAIN_SECONDS = 2.0
"""One that had no address, after so long: name servers learn of new containers late."""

logger = logging.getLogger(__name__)

Lookup = Callable[[str], Awaitable[str]]
"""host name -> address; raises OSError."""


async def look_up(name: str) -> str:
    """The address of a host name, see `preferred`. Raises OSError, and UnicodeError for what is no name."""
    return preferred(await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))


def preferred(found: Sequence[tuple[Any, ...]]) -> str:
    """The address to bind or to connect to, among those that getaddrinfo found: the same for both.

    An IPv4 one if there is one. `localhost` is `::1` and 127.0.0.1 on many machines; whoever binds one of
    them is not found at the other.
    """
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


class HostNames:
    """Addresses by host name."""

    def __init__(self, lookup: Lookup = look_up) -> None:
        self._lookup = lookup
        self._known: dict[str, tuple[str, float]] = {}
        """name -> address ("" where there is none), and when to look again."""
        self._under_way: set[str] = set()
        self._wanted, self._asked = trio.open_memory_channel[str](MAX_LOOKUPS_AT_ONCE)

    def address(self, endpoint: Endpoint, now: float) -> Endpoint | None:
        """The endpoint with its address; None while that is not known, and a look-up is begun."""
        if endpoint.is_address:
            return endpoint
        address, again = self._known.get(endpoint.host, ("", 0.0))
        if now >= again and endpoint.host not in self._under_way:
            try:
                self._wanted.send_nowait(endpoint.host)
                self._under_way.add(endpoint.host)
            except trio.WouldBlock:
                pass  # the next beacon is a second away
        return Endpoint(address, endpoint.port) if address else None

    async def run(self) -> None:
        """Look names up, for ever."""
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_LOOKUPS_AT_ONCE):
                nursery.start_soon(self._look_up_names)

    async def _look_up_names(self) -> None:
        while True:
            name = await self._asked.receive()
            before = self._known.get(name)
            try:
                address, again = parse_host(await self._lookup(name)), LOOKUP_AGAIN_SECONDS
            except (OSError, UnicodeError, MalformedMessage) as error:
                address, again = before[0] if before else "", FAILED_AGAIN_SECONDS
                if before is None:
                    logger.warning("the host name %s, which a node goes by, has no address: %s", name, error)
            self._remember(name, address, trio.current_time() + again)
            self._under_way.discard(name)

    def _remember(self, name: str, address: str, again: float) -> None:
        self._known.pop(name, None)
        if len(self._known) >= MAX_NAMES:
            del self._known[next(iter(self._known))]
        self._known[name] = (address, again)
