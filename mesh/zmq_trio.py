"""ZeroMQ sockets under trio. The only file that imports pyzmq.

Rule: `ZMQ_FD` is edge-triggered. It turns readable when something *changed*; it says nothing of what is still
queued. So a reader takes messages until EAGAIN before it waits, and whoever sends on a socket that is also
read (XPUB reads subscriptions) looks at ZMQ_EVENTS afterwards, because the send may have consumed the edge
that the reader waits for.

A `Publisher` (XPUB) never blocks: beyond its high-water mark a message to a slow peer is dropped, and the
protocol repairs it (HEAD, FETCH, repeated requests). Nothing here may be called from another thread than the
loop's.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import trio
import zmq
import zmq.backend

Buffer = bytes | bytearray | memoryview

# What runs for each message calls the compiled socket, with plain numbers: the methods above it and their
# enumerations cost more than the message.
_Socket: Any = zmq.backend.Socket
_send, _receive, _get = _Socket.send, _Socket.recv, _Socket.get
_DONTWAIT, _MORE, _RCVMORE = int(zmq.DONTWAIT), int(zmq.DONTWAIT | zmq.SNDMORE), int(zmq.RCVMORE)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)

HIGH_WATER_MARK_MESSAGES = 20_000
"""Messages queued per peer before PUB drops. Above `mesh.protocol.writer.MAX_WINDOW_RECORDS`, so that a
healthy member sees no drops. Worst case in memory: this x largest message x peers."""

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""Largest message taken from a peer; ZeroMQ closes the connection beyond it. Above Kafka's largest request
(100 MiB)."""

MAX_MESSAGES_A_TURN = 512
"""Messages taken from one socket before other tasks run."""

HEARTBEAT_INTERVAL_MS = 1_000
HEARTBEAT_TIMEOUT_MS = 5_000
"""A TCP peer that stays silent for so long is disconnected, which frees what is queued for it."""

HANDSHAKE_INTERVAL_MS = 5_000
RECONNECT_INTERVAL_MS = 50
RECONNECT_INTERVAL_MAX_MS = 1_000


class EndpointTaken(Exception):
    """A publisher's endpoint cannot be bound; the text names it and the cause."""


class Context:
    """One ZeroMQ context. Sockets linked over `inproc://` must share it."""

    def __init__(self) -> None:
        self.raw = zmq.Context()
        self.local: list[Subscriber] = []
        """Subscribers with a link inside this process."""

    def deliver(self) -> None:
        """Take what has just been published inside this process, without waiting for the loop to notice.

        The frames have crossed their link either way; this only saves the turns of the loop until its edge is
        seen. Call it where nothing is half done: handlers of both ends may run.
        """
        for subscriber in self.local:
            subscriber.take_if_ready()

    def close(self) -> None:
        self.raw.destroy(linger=0)


def _configure(socket: "zmq.Socket[bytes]") -> None:
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.SNDHWM, HIGH_WATER_MARK_MESSAGES),
        (zmq.RCVHWM, HIGH_WATER_MARK_MESSAGES),
        (zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES),
        (zmq.HEARTBEAT_IVL, HEARTBEAT_INTERVAL_MS),
        (zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS),
        (zmq.HANDSHAKE_IVL, HANDSHAKE_INTERVAL_MS),
        (zmq.RECONNECT_IVL, RECONNECT_INTERVAL_MS),
        (zmq.RECONNECT_IVL_MAX, RECONNECT_INTERVAL_MAX_MS),
        (zmq.IPV6, 1),
    ):
        socket.setsockopt(option, value)


class Publisher:
    """An XPUB socket: what a node publishes, and who subscribed to it."""

    def __init__(self, context: Context) -> None:
        self._socket = context.raw.socket(zmq.XPUB)
        _configure(self._socket)
        self._subscribed: set[bytes] = set()
        self._changed = trio.Event()

    def bind(self, endpoint: str) -> str:
        """Bind to e.g. `tcp://127.0.0.1:*` or `inproc://name`; the endpoint that was bound. Raises
        `EndpointTaken`.
        """
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise EndpointTaken(f"cannot bind the mesh to {endpoint}: {error}") from None
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def send(self, frames: Sequence[Buffer]) -> None:
        """Publish one message to every peer that subscribed to a prefix of its first frame. Never blocks."""
        sock = self._socket
        try:
            for frame in frames[:-1]:
                _send(sock, frame, _MORE)
            _send(sock, frames[-1], _DONTWAIT)
        except zmq.Again:
            pass
        if _get(sock, _EVENTS) & _POLLIN:
            self._take_subscriptions()

    def subscribed(self, prefix: bytes) -> bool:
        """Whether some peer is subscribed to exactly this prefix now."""
        return prefix in self._subscribed

    async def wait_subscribed(self, prefix: bytes) -> None:
        """Return when some peer is subscribed to exactly this prefix."""
        while prefix not in self._subscribed:
            await self._changed.wait()

    async def run(self) -> None:
        """Follow the subscriptions, for ever."""
        while True:
            self._take_subscriptions()
            await trio.lowlevel.wait_readable(self._socket.fileno())

    def close(self) -> None:
        self._socket.close(linger=0)

    def _take_subscriptions(self) -> None:
        changed = False
        with contextlib.suppress(zmq.Again):
            while True:
                message = bytes(self._socket.recv(zmq.DONTWAIT))
                if message[:1] == b"\x01":
                    self._subscribed.add(message[1:])
                    changed = True
                elif message[:1] == b"\x00":
                    self._subscribed.discard(message[1:])
                    changed = True
        if changed:
            self._changed.set()
            self._changed = trio.Event()


class Subscriber:
    """A SUB socket: everything a node hears from the publishers it is connected to.

    Every message goes to `on_message`; `on_drained` is called whenever nothing more is there.
    """

    def __init__(
        self, context: Context, on_message: Callable[[list[bytes]], None], on_drained: Callable[[], None]
    ) -> None:
        self._context = context
        self._socket = context.raw.socket(zmq.SUB)
        self._on_message = on_message
        self._on_drained = on_drained
        _configure(self._socket)

    def subscribe(self, prefix: bytes) -> None:
        self._socket.subscribe(prefix)

    def connect(self, endpoint: str) -> None:
        """Connect, and look at once: an `inproc` pipe gives no edge before it was found empty."""
        self._socket.connect(endpoint)
        if endpoint.startswith("inproc://") and self not in self._context.local:
            self._context.local.append(self)
        self._take()

    def take_if_ready(self) -> None:
        """Take messages if some are there."""
        if self._socket.closed or not _get(self._socket, _EVENTS) & _POLLIN:
            return
        if not self._take():
            # Reading ZMQ_EVENTS has consumed the edge, and there is more: nothing else would wake `run`.
            trio.lowlevel.current_trio_token().run_sync_soon(self.take_if_ready)

    def disconnect(self, endpoint: str) -> None:
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(endpoint)

    async def run(self) -> None:
        """Take messages for ever."""
        while True:
            if self._take():
                await trio.lowlevel.wait_readable(self._socket.fileno())
            else:
                await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if self in self._context.local:
            self._context.local.remove(self)
        self._socket.close(linger=0)

    def _take(self) -> bool:
        """Take what is there, `MAX_MESSAGES_A_TURN` at most; true if that was all."""
        sock, on_message = self._socket, self._on_message
        try:
            for _ in range(MAX_MESSAGES_A_TURN):
                if not _get(sock, _EVENTS) & _POLLIN:
                    return True
                frames = [_receive(sock, _DONTWAIT)]
                while _get(sock, _RCVMORE):
                    frames.append(_receive(sock, _DONTWAIT))
                on_message(frames)
            return False
        finally:
            self._on_drained()
