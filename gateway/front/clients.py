"""The clients that are connected: how many connections each may have, and its shares of the memory.

A connection takes a place of its address. What it has besides, it shares by its address until it has said who
it is, and then with all that are the same principal.

The last places are not for everybody: one in ten is kept for clients that have been there for a minute, now
or before, and of these one in ten for this machine, where operators are. So who opens connections from many
addresses shuts out other newcomers, and nobody else.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from gateway.common.clients import LOOPBACK, NETWORK_CLIENTS, client_of, network_of
from gateway.common.shared_budget import Share
from gateway.common.turns import Attendance, Turns
from gateway.front.limits import KNOWN_SECONDS, LOOPBACK_PART, MAX_KNOWN_CLIENTS, RESERVED_PART

if TYPE_CHECKING:
    from gateway.front.context import ConnectionContext

REFUSALS: Final = {
    "all": "there are as many as allowed",
    "client": "its client, or the network it is of, has as many as one may have",
    "ip": "its address has as many as `max.connections.per.ip` or its overrides allow",
    "reserved": "the places that are left are for clients that have been here before",
}
"""Why a connection is refused: a word for the metrics, and for people."""


class Network:
    """The clients that are bounded together, while they have connections: most often it is one."""

    __slots__ = ("connections", "turns")

    def __init__(self, attendance: Attendance) -> None:
        self.connections = 0
        self.turns = Turns(attendance)


class Client:
    """One client (`gateway.common.clients` says who is one), while it has connections.

    Its connections have their `turns` together, with those of its network. Its shares of the memory have the
    names that the budgets have in `ConnectionContext`.
    """

    __slots__ = (
        "connections",
        "decoded_memory",
        "name",
        "network",
        "produced_memory",
        "request_memory",
        "response_memory",
        "since",
        "small_request_memory",
        "turns",
    )

    def __init__(self, name: str, network: Network, context: ConnectionContext, since: float) -> None:
        self.name = name
        self.since = since
        self.connections = 0
        self.network = network
        self.turns = network.turns
        self.request_memory = Share(context.request_memory, name)
        self.small_request_memory = Share(context.small_request_memory, name)
        self.decoded_memory = Share(context.decoded_memory, name)
        self.produced_memory = Share(context.produced_memory, name)
        self.response_memory = Share(context.response_memory, name)


class Clients:
    """All that are connected, and those that were. Times are trio's clock's."""

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._connected: dict[str, Client] = {}
        self._networks: dict[str, Network] = {}
        self._attendance = Attendance()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._count = 0
        self._most = context.limits.max_connections
        self._most_of_one = context.limits.max_client_connections

    def allow(self, most: int) -> None:
        """There are places for so many connections: no more than the limits say."""
        limits = self._context.limits
        self._most = most
        self._most_of_one = max(1, limits.max_client_connections * most // limits.max_connections)

    def admit(self, host: str, now: float) -> Client | str:
        """The client of a new connection from `host`, or why there is no place for it (of REFUSALS)."""
        name = client_of(host)
        client = self._connected.get(name)
        if self._count >= self._most:
            return "all"
        if client is not None and client.connections >= self._most_of_one:
            return "client"
        network = self._networks.get(network_of(name))
        if network is not None and network.connections >= self._most_of_one * NETWORK_CLIENTS:
            return "client"
        if name != LOOPBACK:
            reserved = self._most // RESERVED_PART
            kept = reserved // LOOPBACK_PART if self._is_known(name, client, now) else reserved
            if self._most - self._count <= kept:
                return "reserved"
        self._count += 1
        return self._come(name, now)

    def leave(self, client: Client, now: float) -> None:
        """A connection has ended."""
        self._count -= 1
        if self._go(client) and now - client.since >= KNOWN_SECONDS:
            self._known[client.name] = None
            self._known.move_to_end(client.name)
            if len(self._known) > MAX_KNOWN_CLIENTS:
                self._known.popitem(last=False)

    def identify(self, principal: str, now: float) -> Client:
        """The client of a connection that has said who it is: from now on it shares with all others of this
        name, wherever they are. Its place stays its address's.
        """
        return self._come(principal, now)

    def part(self, client: Client) -> None:
        """A connection of one that was identified has ended."""
        self._go(client)

    def _come(self, name: str, now: float) -> Client:
        """The client of another connection."""
        client = self._connected.get(name)
        if client is None:
            network = self._networks.get(network_of(name))
            if network is None:
                network = self._networks[network_of(name)] = Network(self._attendance)
            client = self._connected[name] = Client(name, network, self._context, now)
        client.connections += 1
        client.network.connections += 1
        return client

    def _go(self, client: Client) -> bool:
        """Whether that was its last connection."""
        client.connections -= 1
        client.network.connections -= 1
        if not client.network.connections:
            del self._networks[network_of(client.name)]
        if client.connections:
            return False
        del self._connected[client.name]
        return True

    def _is_known(self, name: str, client: Client | None, now: float) -> bool:
        return name in self._known or (client is not None and now - client.since >= KNOWN_SECONDS)
