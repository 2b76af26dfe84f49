"""The two links of a node to one tower: its beacons go out on one, all nodes' come in on the other."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from mesh.protocol.endpoints import in_brackets
from mesh.zmq_trio import BEACONS, Context, Publisher, Subscriber
from wireproto.dafka.beacons import TOPIC, WELCOME, TowerBeacon, decode_tower_beacon
from wireproto.dafka.errors import MalformedMessage

RETRY_SECONDS = 10.0
"""A link to a tower that is not up for so long is made anew. ZeroMQ does that itself, and gives up for ever
where it met something that does not speak its protocol."""


class TowerAddress(NamedTuple):
    """A tower as nodes reach it; `host` has no brackets."""

    host: str
    port_in: int
    """Where nodes publish their beacons."""
    port_out: int
    """Where nodes hear the tower."""

    def __str__(self) -> str:
        return f"{in_brackets(self.host)}:{self.port_in}:{self.port_out}"


class TowerStatus(NamedTuple):
    """A tower as people are shown it."""

    address: TowerAddress
    connected: bool
    """Whether both links are live."""
    silent_seconds: float | None
    """Since anything was heard from it; None if nothing ever was."""


class _Side:
    """One of the two links: made anew where ZeroMQ has given up."""

    def __init__(self, socket: Publisher | Subscriber, endpoint: str, on_ready: Callable[[], None]) -> None:
        self.live = False
        self._on_ready = on_ready
        self._socket = socket
        self._endpoint = endpoint
        self._tried = math.inf
        """When it was made, or lost."""

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._socket.follow_links, self._on_link)
            self._tried = trio.current_time()
            self._socket.connect(self._endpoint)
            nursery.start_soon(self._socket.run)

    def retry(self, now: float) -> None:
        if not self.live and now - self._tried >= RETRY_SECONDS:
            self._tried = now
            self._socket.disconnect(self._endpoint)
            self._socket.connect(self._endpoint)

    def _on_link(self, _endpoint: str, live: bool) -> None:
        self.live = live
        self._tried = trio.current_time()
        if live:
            self._on_ready()


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
        self._publisher = Publisher(context, BEACONS, on_subscribed=lambda _prefix: on_ready())
        self._subscriber = Subscriber(context, self._on_frames, link=BEACONS)
        for prefix in (TOPIC, WELCOME):
            self._subscriber.subscribe(prefix)
        self._sides = (
            _Side(self._publisher, f"tcp://{in_brackets(address.host)}:{address.port_in}", on_ready),
            _Side(self._subscriber, f"tcp://{in_brackets(address.host)}:{address.port_out}", on_ready),
        )

    def beacon(self) -> None:
        """Tell the tower that the node is here; and look after the links."""
        for side in self._sides:
            side.retry(trio.current_time())
        self._publisher.send(self._frames)

    def status(self, now: float) -> TowerStatus:
        silent = None if self._heard is None else now - self._heard
        return TowerStatus(self.address, all(side.live for side in self._sides), silent)

    async def run(self) -> None:
        """Follow the tower until cancelled."""
        async with trio.open_nursery() as nursery:
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
