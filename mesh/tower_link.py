"""The two links of a node to one tower: its beacons go out on one, all nodes' come in on the other."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from mesh.attempts import Attempts, Event
from mesh.host_names import look_up
from mesh.keys.keys import Keys
from mesh.link_bounds import BEACONS
from mesh.links import Context
from mesh.protocol.endpoints import TowerAddress, in_brackets
from mesh.tower_watch import TowerWatch
from mesh.zmq_trio import PublisherSocket, SubscriberSocket
from wireproto.dafka.beacons import TOPIC, WELCOME, TowerBeacon, decode_tower_beacon
from wireproto.dafka.errors import MalformedMessage

RETRY_SECONDS = 10.0
"""A link to a tower that is not up for so long is made anew, its host name looked up again. ZeroMQ tries
again by itself, but gives up for ever where it met something that does not speak its protocol."""

KEY_RETRY_SECONDS = 2.0
"""The same where there are keys: nobody says which of the towers' keys the one at this address has, so they
are tried in turn."""

LOOKUP_AGAIN_SECONDS = 2.0
"""A tower's host name that has no address is looked up again after so long."""

logger = logging.getLogger(__name__)


class TowerStatus(NamedTuple):
    """A tower as people are shown it."""

    address: TowerAddress
    connected: bool
    """Whether both links are live."""
    silent_seconds: float | None
    """Since anything was heard from it; None if nothing ever was."""


class _Side:
    """One of the two links, kept up."""

    def __init__(
        self,
        socket: PublisherSocket | SubscriberSocket,
        host: str,
        port: int,
        on_ready: Callable[[], None],
        keys: Keys | None,
        attempts: Attempts,
    ) -> None:
        self.live = False
        self._attempts = attempts
        self._keys = keys
        self._key = ""
        """Of the tower that is tried, or linked."""
        self._tried = ""
        """Whose turn it was last."""
        self._proven = ""
        """The key by which there was a link last."""
        self._retry_seconds = RETRY_SECONDS if keys is None else KEY_RETRY_SECONDS
        self._socket = socket
        self._host = host
        self._port = port
        self._on_ready = on_ready
        self._endpoint = ""
        self._changed = 0.0
        """When the link was made, or came up, or went down."""

    async def run(self) -> None:
        if self._keys is not None:
            self._keys.on_change(self._on_keys)
        try:
            await self._follow()
        finally:
            if self._keys is not None:
                self._keys.forget(self._on_keys)

    async def _follow(self) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._socket.follow_links, self._on_link, self._on_attempt)
            nursery.start_soon(self._socket.run)
            nursery.start_soon(self._keep_up)

    async def _keep_up(self) -> None:
        while True:
            address = await _address(self._host)
            if not self.live:
                self._connect(f"tcp://{in_brackets(address)}:{self._port}")
            await self._down_for_long()

    def _connect(self, endpoint: str) -> None:
        if self._endpoint:
            self._socket.disconnect(self._endpoint)
        self._endpoint = ""
        self._changed = trio.current_time()
        if self._keys is not None and not self._next_key(self._keys.towers()):
            return
        self._endpoint = endpoint
        self._socket.connect(endpoint, self._key)

    def _next_key(self, known: Sequence[str]) -> bool:
        """Try a key; false if there is none. Every second time it is the one that the tower had last, if it
        is known still: it may be away for a while. The others take turns.
        """
        if self._proven in known and self._key != self._proven:
            self._key = self._proven
        elif known:
            after = known.index(self._tried) + 1 if self._tried in known else 0
            self._key = self._tried = known[after % len(known)]
        return bool(known)

    def _on_keys(self) -> None:
        """The keys are others: a tower whose key was removed is heard no longer."""
        if self._keys is not None and self._endpoint and self._key not in self._keys.towers():
            self._socket.disconnect(self._endpoint)
            self._endpoint = ""
            self.live = False

    async def _down_for_long(self) -> None:
        wait = self._retry_seconds
        while wait > 0:
            await trio.sleep(wait)
            down = self._changed + self._retry_seconds - trio.current_time()
            wait = self._retry_seconds if self.live else down

    def _on_link(self, _endpoint: str, live: bool) -> None:
        if live != self.live:  # attempts that fail, with another key as well, are told of too
            self._changed = trio.current_time()
        self.live = live
        if live:
            self._proven = self._key
            self._attempts.clear()
            self._on_ready()

    def _on_attempt(self, event: Event) -> None:
        self._attempts.happened(event, trio.current_time())


async def _address(host: str) -> str:
    """The tower's address, once its name has one."""
    said = False
    while True:
        try:
            return await look_up(host)
        except (OSError, UnicodeError) as error:
            if not said:
                logger.warning("the tower's host name %s has no address: %s; trying on", host, error)
                said = True
        await trio.sleep(LOOKUP_AGAIN_SECONDS)


class TowerLink:
    """Beacons of one node (`frames`) to one tower, and what the tower says: `on_beacon`, `on_malformed`.

    `on_ready` is called when the tower is there (anew): what was sent to it before may be lost.
    """

    def __init__(
        self,
        context: Context,
        address: TowerAddress,
        frames: Sequence[bytes],
        on_beacon: Callable[[TowerBeacon], None],
        on_malformed: Callable[[MalformedMessage], None],
        on_ready: Callable[[], None],
    ) -> None:
        self.address = address
        self._frames = frames
        self._on_beacon = on_beacon
        self._on_malformed = on_malformed
        self._heard: float | None = None
        self._on_ready = on_ready
        # Of a link that was lost and is back it has kept the subscriptions, and tells of no new one.
        self._publisher = PublisherSocket(context.sockets, BEACONS, on_subscribed=lambda _prefix: on_ready())
        self._subscriber = SubscriberSocket(context.sockets, self._on_frames, link=BEACONS)
        for prefix in (TOPIC, WELCOME):
            self._subscriber.subscribe(prefix)
        self._watch = TowerWatch(address, context.keys, lambda: all(side.live for side in self._sides))
        keys, side = context.keys, self._watch.side
        self._sides = (
            _Side(self._publisher, address.host, address.port_in, on_ready, keys, side()),
            _Side(self._subscriber, address.host, address.port_out, on_ready, keys, side()),
        )

    def beacon(self) -> None:
        """Tell the tower that the node is here."""
        self._publisher.send(self._frames)

    def status(self, now: float) -> TowerStatus:
        silent = None if self._heard is None else now - self._heard
        return TowerStatus(self.address, all(side.live for side in self._sides), silent)

    async def run(self) -> None:
        """Follow the tower until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch.run)
            for side in self._sides:
                nursery.start_soon(side.run)

    def close(self) -> None:
        self._publisher.close()
        self._subscriber.close()

    def _on_frames(self, frames: Sequence[bytes]) -> None:
        self._heard = trio.current_time()
        if list(frames) == [WELCOME]:
            self._on_ready()
            return
        try:
            beacon = decode_tower_beacon(frames)
        except MalformedMessage as error:
            self._on_malformed(error)
        else:
            self._on_beacon(beacon)
