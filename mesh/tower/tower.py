"""The tower: what a node beacons to it, it tells all nodes; nothing else passes through.

Byte-compatible with the C tower and the C nodes: nodes publish to the in-port and subscribe to the out-port,
where each new link gets the frame `W` first. A beacon without a host gets the address that it came from. What
is malformed is dropped and counted, so one node's mistake is never another node's (the C tower takes the next
node's frames for the rest of a short beacon). Where there are keys it says of each node which key that has
proved to have, so no node can speak for another one. A tower keeps nothing that matters: any number of them
may run, and each may be started again at any time.
"""

import logging
from collections.abc import Sequence

import trio

from mesh.link_bounds import BEACONS
from mesh.links import Context
from mesh.protocol.endpoints import Endpoint, in_brackets, is_loopback, parse_host
from mesh.protocol.token_bucket import TokenBucket
from mesh.tower.register import News, Register
from mesh.zmq_trio import Inlet, PublisherSocket
from wireproto.dafka.beacons import TOPIC, WELCOME, TowerBeacon, decode_node_beacon
from wireproto.dafka.errors import MalformedMessage

FORGET_TICK_SECONDS = 1.0
"""How often silent nodes are looked for."""

MALFORMED_LOGGED = 10
"""Malformed beacons that are logged; further ones are only counted."""

PLACES_LOGGED_PER_SECOND = 32.0
"""Lines that say where a node is, a second, and at once: a node may say another place with each beacon."""

logger = logging.getLogger(__name__)


class Tower:
    """One tower on `host`, an address or `*`; port 0 picks one."""

    def __init__(self, context: Context, host: str, port_in: int, port_out: int) -> None:
        self.host = host
        self.port_in = port_in
        self.port_out = port_out
        self.register = Register()
        self.beacons = 0
        """Beacons that were passed on."""
        self.malformed = 0
        """Messages that break the format, or name no place that one can connect to."""
        self._keys = context.keys
        self._warned_of_loopback = False
        self._said = TokenBucket(PLACES_LOGGED_PER_SECOND)
        self._inlet = Inlet(context.sockets, TOPIC, self._on_frames)
        self._outlet = PublisherSocket(context.sockets, BEACONS, welcome=WELCOME)

    @property
    def cut(self) -> int:
        """Links that were cut, see `PublisherSocket`."""
        return self._outlet.cut + self._inlet.cut

    def bind(self) -> tuple[int, int]:
        """The ports, in and out. Raises `EndpointTaken`."""
        self.port_in = self._port(self._inlet.bind(self._endpoint(self.port_in)))
        self.port_out = self._port(self._outlet.bind(self._endpoint(self.port_out)))
        return self.port_in, self.port_out

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Pass beacons on until cancelled, then close the ports."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._inlet.run)
                nursery.start_soon(self._outlet.run)
                nursery.start_soon(self._forget)
                task_status.started()
        finally:
            self.close()

    def close(self) -> None:
        self._inlet.close()
        self._outlet.close()

    def _endpoint(self, port: int) -> str:
        return f"tcp://{in_brackets(self.host)}:{port or '*'}"

    @staticmethod
    def _port(endpoint: str) -> int:
        return int(endpoint.rpartition(":")[2])

    async def _forget(self) -> None:
        while True:
            await trio.sleep(FORGET_TICK_SECONDS)
            for node in self.register.forget(trio.current_time()):
                logger.info("node %s is gone: it is silent", node)

    def _on_frames(self, frames: Sequence[bytes], address: str, key: str) -> None:
        source, owner = address, ""
        if self._keys is not None:
            sender = self._keys.peer(key)
            if sender is None:
                self._keys.refuse("a key that was removed", "a beacon")
                return
            source, owner = sender.name, f"{sender.name}/"
        try:
            beacon = decode_node_beacon(frames)
            endpoint = Endpoint(parse_host(beacon.host or address), beacon.port)
        except MalformedMessage as error:
            self._on_malformed(error, address)
            return
        # The same id with another key is another node: nobody takes anybody's.
        node = owner + beacon.node
        news = self.register.heard(node, endpoint, trio.current_time(), source)
        if news is News.REFUSED:
            return
        if news is not News.KNOWN:
            self._say_where(node, endpoint)
            self._warn_of_loopback(endpoint, told=bool(beacon.host))
        self.beacons += 1
        self._outlet.send(TowerBeacon(beacon.node, str(endpoint), key).frames())

    def _say_where(self, node: str, endpoint: Endpoint) -> None:
        now = trio.current_time()
        if self._said.has_some(now):
            self._said.take(1)
            logger.info("node %s is at %s", node, endpoint)

    def _on_malformed(self, error: MalformedMessage, address: str) -> None:
        self.malformed += 1
        if self.malformed <= MALFORMED_LOGGED:
            logger.warning("dropped a malformed beacon from %s: %s", address or "an unknown address", error)

    def _warn_of_loopback(self, endpoint: Endpoint, *, told: bool) -> None:
        """Nodes elsewhere are told an address that leads each of them to itself."""
        if self._warned_of_loopback or is_loopback(self.host) or not is_loopback(endpoint.host):
            return
        self._warned_of_loopback = True
        how = (
            "it says so itself (--mesh-advertise, or beacon/address at a C node)"
            if told
            else "it reaches this tower there: give it this machine's own address for the tower, or the host "
            "that others are to use (--mesh-advertise, or beacon/address at a C node)"
        )
        logger.warning("nodes on other machines cannot reach the node at %s: %s", endpoint, how)
