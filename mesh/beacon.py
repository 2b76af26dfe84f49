"""A node's side of the towers: it beacons to all of them, follows theirs, and connects the node accordingly.

`mesh.protocol.peers` decides; this shell has the sockets and the clock. Towers are independent of each other:
one link, one publisher and one subscriber for each, and whatever one of them does says nothing of the others.
When all are gone, links stay as they are.
"""

import ipaddress
import logging
from collections.abc import Callable, Sequence
from uuid import uuid4

import trio

from mesh.host_names import HostNames
from mesh.keys.keys import Keys
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.log_bounds import LogBounds
from mesh.node import Node
from mesh.protocol.endpoints import Endpoint, TowerAddress, parse_endpoint, parse_host
from mesh.protocol.peers import Connect, Disconnect, Effect, Greet, Peers, PeerStatus, Unreached
from mesh.tower_link import TowerLink, TowerStatus
from wireproto.dafka.beacons import NodeBeacon, TowerBeacon
from wireproto.dafka.errors import MalformedMessage

BEACON_SECONDS = 1.0
"""Between two beacons, as the C nodes do it; they drop who is silent for 4 s."""

GREET_LEAST_SECONDS = 0.1
"""Least time between two beacons, however many new nodes are heard of: a stranger can make them up."""

MALFORMED_LOGGED = 10
"""Malformed beacons that are logged; further ones are only counted."""

WILDCARD_HOSTS = frozenset({"", "*", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound

logger = logging.getLogger(__name__)


def beacon_host(bound: str, advertised: str = "") -> str:
    """The host that others are told: the advertised one; else the bound one, or nothing for a wildcard: then
    a tower tells them the address that it sees.
    """
    return advertised or ("" if bound in WILDCARD_HOSTS else bound)


def _address(host: str) -> str:
    """The host if it is an address, in the form of `Endpoint.host`; "" for a name or nothing."""
    try:
        return str(ipaddress.ip_address(parse_host(host)))
    except (MalformedMessage, ValueError):
        return ""


def _host(endpoint: str) -> str:
    """Of whom to count lines of the log: the host of an endpoint, which others have written; "" if none."""
    try:
        return parse_endpoint(endpoint).host
    except MalformedMessage:
        return ""


class Beacon:
    """Keeps `node` connected to all others.

    Args:
        context: the node's own.
        node: connected and disconnected; its publisher must be bound.
        towers: where to beacon: host (no brackets), port in, port out.
        host: what others are told, see `beacon_host`.
        port: what others are told: the port of the node's publisher as they reach it.
        node_id: of this run of the process, like those of the C nodes: 32 upper-case hex characters.
    """

    def __init__(
        self,
        context: Context,
        node: Node,
        towers: Sequence[TowerAddress],
        *,
        host: str,
        port: int,
        node_id: str = "",
    ) -> None:
        self.node_id = node_id or uuid4().hex.upper()
        self.port = port
        self.malformed = 0
        """Beacons that break the format, or name no place that one can connect to."""
        self.strangers = 0
        """Beacons with keys of nobody whom this node knows, or in its own name."""
        self._strange_log, self._refused_log = LogBounds(), LogBounds()
        self._keys = context.keys
        self._node = node
        self._table = Peers(self.node_id, port, host=_address(host))
        self._names = HostNames()
        self._on_links: list[Callable[[str, Endpoint, bool], None]] = []
        self._greet = trio.Event()
        frames = NodeBeacon(self.node_id, host, port).frames()
        self._towers = [
            TowerLink(
                context,
                TowerAddress(*tower),
                frames,
                self._on_beacon,
                self._on_malformed,
                self._hurry,
            )
            for tower in towers
        ]

    def on_links(self, tell: Callable[[str, Endpoint, bool], None]) -> None:
        """Have this called with a node's id, where it is, and whether the link to it is live, whenever that
        is different: of gateways alone, where keys tell which nodes these are. What others say of themselves
        says nothing of a gateway.
        """
        self._on_links.append(tell)

    @property
    def peers(self) -> list[PeerStatus]:
        """Every node that is known, with the state of the link to it."""
        return self._table.status(trio.current_time())

    @property
    def towers(self) -> list[TowerStatus]:
        now = trio.current_time()
        return [tower.status(now) for tower in self._towers]

    @property
    def refused(self) -> int:
        """Beacons of nodes that were too many."""
        return self._table.refused

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Beacon and follow until cancelled. Links that are live then stay."""
        if self._keys is not None:
            self._keys.on_change(self._on_keys)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._node.follow_links, self._on_link)
                nursery.start_soon(self._names.run)
                for tower in self._towers:
                    nursery.start_soon(tower.run)
                nursery.start_soon(self._beacon)
                task_status.started()
        finally:
            if self._keys is not None:
                self._keys.forget(self._on_keys)
            for tower in self._towers:
                tower.close()

    async def _beacon(self) -> None:
        while True:
            self._greet = trio.Event()
            for tower in self._towers:
                tower.beacon()
            self._do(self._table.tick(trio.current_time()))
            await trio.sleep(GREET_LEAST_SECONDS)
            with trio.move_on_after(BEACON_SECONDS - GREET_LEAST_SECONDS):
                await self._greet.wait()

    def _hurry(self) -> None:
        """Beacon soon: a tower is there (anew), or a node that may not know us."""
        self._greet.set()

    # what is heard ----------------------------------------------------------------------------------------

    def _on_beacon(self, beacon: TowerBeacon) -> None:
        now = trio.current_time()
        if not self._is_a_peers(beacon):
            return
        try:
            named = parse_endpoint(beacon.endpoint)
        except MalformedMessage as error:
            self._on_malformed(error)
            return
        key = "" if self._keys is None else beacon.key
        # Names of nodes that there is no room for are not worth a look-up.
        endpoint = self._names.address(named, now) if self._table.wants(beacon.node, key) else named
        if endpoint is not None:
            refused = self._table.refused
            self._do(self._table.heard(beacon.node, endpoint, now, key))
            if self._table.refused > refused:
                self._say_refused(beacon)

    def _is_a_peers(self, beacon: TowerBeacon) -> bool:
        """Whether this may be somebody to connect to, or this node itself. A tower is believed who is there,
        not who may be.
        """
        keys = self._keys
        if keys is None:
            return True
        is_own = beacon.node == self.node_id
        if (beacon.key != keys.own.public) if is_own else (keys.holder(beacon.key) is None):
            self.strangers += 1
            self._say_strange(beacon, keys, is_own)
            return False
        return is_own or keys.peer(beacon.key) is not None

    def _say_strange(self, beacon: TowerBeacon, keys: Keys, is_own: bool) -> None:
        if not self._strange_log.may(f"key {beacon.key} {is_own}", _host(beacon.endpoint)):
            return
        if is_own:
            logger.warning(
                "a tower tells of key %s at %s under this node's name", beacon.key, beacon.endpoint
            )
            return
        logger.warning(
            "a tower tells of a node with key %s at %s: %s",
            beacon.key,
            beacon.endpoint,
            keys.why_not_admitted(beacon.key),
        )

    def _say_refused(self, beacon: TowerBeacon) -> None:
        holder = None if self._keys is None else self._keys.holder(beacon.key)
        source = _host(beacon.endpoint) if holder is None else holder.name
        if self._refused_log.may(f"node {beacon.node}", source):
            logger.warning(
                "dropped the beacon of node %s at %s: more nodes are known than may be, or another key has "
                "its name or place, with a live link, or had it until some seconds ago",
                beacon.node,
                beacon.endpoint,
            )

    def _on_malformed(self, error: MalformedMessage) -> None:
        self.malformed += 1
        if self.malformed <= MALFORMED_LOGGED:
            logger.warning("dropped a malformed beacon: %s", error)

    def _on_link(self, text: str, live: bool) -> None:
        try:
            endpoint = parse_endpoint(text)
        except MalformedMessage:
            return  # ZeroMQ writes addresses, and only of what we connected to
        now = trio.current_time()
        node = self._table.linked(endpoint, now) if live else self._table.unlinked(endpoint, now)
        if node is not None:
            logger.info("the link to node %s at %s is %s", node, endpoint, "up" if live else "down")
            if self._may_be_a_gateway(endpoint):
                for tell in self._on_links:
                    tell(node, endpoint, live)

    def _may_be_a_gateway(self, endpoint: Endpoint) -> bool:
        if self._keys is None:
            return True
        holder = self._keys.holder(self._table.key_at(endpoint))
        return holder is not None and holder.role is Role.GATEWAY

    def _on_keys(self) -> None:
        """The keys are others: nodes with keys that were removed are none of ours any more."""
        keys = self._keys
        if keys is not None:
            self._do(self._table.forget_unless(lambda key: keys.peer(key) is not None))

    # what follows -----------------------------------------------------------------------------------------

    def _do(self, effects: Sequence[Effect]) -> None:
        # Before links are made anew, which forgets what became of their attempts.
        explained = {
            effect.endpoint
            for effect in effects
            if isinstance(effect, Unreached) and self._node.is_explained(str(effect.endpoint))
        }
        for effect in effects:
            match effect:
                case Connect(endpoint, key):
                    logger.debug("connecting to %s", endpoint)
                    self._node.connect(str(endpoint), key)
                case Disconnect(endpoint):
                    logger.debug("no longer connected to %s", endpoint)
                    self._node.disconnect(str(endpoint))
                case Greet():
                    self._hurry()
                case Unreached(node, endpoint) if endpoint not in explained:
                    logger.warning(
                        "node %s says that it is at %s, and cannot be reached there: is it bound to that "
                        "address (--mesh-listen), is the port open, and is what it tells others right "
                        "(--mesh-advertise)?",
                        node,
                        endpoint,
                    )
