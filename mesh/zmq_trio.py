"""ZeroMQ sockets under trio: what leaves this process. The only file that imports pyzmq.

Rule: `ZMQ_FD` is edge-triggered. It turns readable when something *changed*; it says nothing of what is still
queued. So a reader takes messages until EAGAIN before it waits; and a socket that is also sent on (XPUB reads
subscriptions) is looked at every `LOOK_SECONDS`, because a send may have consumed the edge.

A `PublisherSocket` (XPUB) never blocks: beyond its high-water mark a message to a slow peer is dropped, and
the protocol repairs it (HEAD, FETCH, repeated requests). Nothing here may be called from another thread than
the loop's.

With keys (`mesh.keys`) every socket beyond this process speaks CURVE: what binds is the server, and asks the
table of keys who may connect; what connects names the key of whom it means, so nobody else answers. Of a
message on a socket that connected ZeroMQ does not tell who sent it: such a socket has links to one key only.

Connect to addresses, not to host names (`mesh.host_names`): ZeroMQ looks names up within the one thread that
serves all links, and a name server that does not answer would stop their heartbeats, and so cut them.
"""

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import trio
import zmq
import zmq.backend

from mesh.attempts import Event
from mesh.connections import Connection, Cuts, connection
from mesh.inside import EndpointTaken
from mesh.keys import admission
from mesh.keys.keys import Keys
from mesh.knocks import Knocks
from mesh.link_bounds import (
    BEACONS,
    DATA,
    HANDSHAKE_INTERVAL_MS,
    HEARTBEAT_INTERVAL_MS,
    HEARTBEAT_TIMEOUT_MS,
    MAX_FRAMES,
    MAX_MESSAGES_A_TURN,
    MAX_SUBSCRIPTION_FRAME_BYTES,
    RECONNECT_INTERVAL_MAX_MS,
    RECONNECT_INTERVAL_MS,
    SUBSCRIPTION_BUFFER_BYTES,
    Link,
)
from mesh.link_watch import SEALED_PEER_BYTES, Gathering, LinkWatch
from mesh.protocol.subscriptions import MAX_PEER_BYTES, SUBSCRIBE
from mesh.subscribers import Subscribers

Buffer = bytes | bytearray | memoryview

# What runs for each message calls the compiled socket, with plain numbers: the methods above it and their
# enumerations cost more than the message.
_Socket: Any = zmq.backend.Socket
_send, _receive, _get = _Socket.send, _Socket.recv, _Socket.get
_DONTWAIT, _MORE, _SRCFD = int(zmq.DONTWAIT), int(zmq.DONTWAIT | zmq.SNDMORE), int(zmq.SRCFD)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)

LOOK_SECONDS = 0.05
"""How often a publisher looks for subscriptions that nothing has told it of."""

GATHERED_LOOK_SECONDS = 1.0
"""How often a subscriber looks whether a link brings a message without an end."""

FOLLOWED_TURNS = 16
"""Turns of subscriptions that are taken at once where it matters what a new peer hears."""

LOOKED_AT_BEFORE = 2
"""Messages in a turn behind which is looked whether there is another one; behind later ones it is just taken.
"""

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
"""Where ZeroMQ asks whether a key may connect (RFC 27)."""

ZAP_DOMAIN = "dafka"

SEALING_BYTES = 33
"""What CURVE adds to a frame (RFC 26): the name of the command, a nonce, what proves it whole, and flags."""

HANDSHAKE_FAILED = int(
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
"""What becomes of a handshake that does not succeed."""

OTHER_MECHANISM = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
"""One of the two has keys, and the other one has none."""

MAX_SOCKETS_WITH_KEYS = 4096
"""Each link is a socket of its own then, with two for its monitor: four times as many as ZeroMQ allows."""


SocketError = zmq.ZMQError
"""What making or connecting a socket raises, as where no descriptor is left for it."""


class Sockets:
    """What the sockets of one process have in common: one ZeroMQ context, and who may connect.

    With `keys` there are links to other processes only by them, and `run` must run.
    """

    def __init__(self, keys: Keys | None, knocks: Knocks) -> None:
        self.raw = zmq.Context()
        self.keys = keys
        self.knocks = knocks
        self._zap: zmq.Socket[bytes] | None = None
        if keys is not None:
            self.raw.set(zmq.MAX_SOCKETS, MAX_SOCKETS_WITH_KEYS)
            # Before anything is bound: a server that finds nobody to ask refuses everybody.
            self._zap = self.raw.socket(zmq.ROUTER)
            self._zap.setsockopt(zmq.LINGER, 0)
            self._zap.bind(ZAP_ENDPOINT)

    async def run(self) -> None:
        """Answer who may connect, and follow the keys, for ever; without keys there is nothing to do."""
        if self.keys is None or self._zap is None:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.keys.run)
            while True:
                self._answer_zap(self._zap, self.keys)
                await trio.lowlevel.wait_readable(self._zap.fileno())

    @staticmethod
    def _answer_zap(zap: "zmq.Socket[bytes]", keys: Keys) -> None:
        with contextlib.suppress(zmq.Again):
            while True:
                reply = admission.answer(zap.recv_multipart(zmq.DONTWAIT), keys.admits)
                if reply is not None:
                    zap.send_multipart(reply, zmq.DONTWAIT)

    def close(self) -> None:
        self.raw.destroy(linger=0)


def _configure(socket: "zmq.Socket[bytes]", link: Link) -> None:
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.SNDHWM, link.high_water_mark),
        (zmq.RCVHWM, link.high_water_mark),
        (zmq.MAXMSGSIZE, link.max_frame_bytes),
        (zmq.HEARTBEAT_IVL, HEARTBEAT_INTERVAL_MS),
        (zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS),
        (zmq.HANDSHAKE_IVL, HANDSHAKE_INTERVAL_MS),
        (zmq.RECONNECT_IVL, RECONNECT_INTERVAL_MS),
        (zmq.RECONNECT_IVL_MAX, RECONNECT_INTERVAL_MAX_MS),
        (zmq.IPV6, 1),
    ):
        socket.setsockopt(option, value)


def new_key_pair() -> tuple[str, str]:
    """A public and a secret key of CURVE."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def public_key_of(secret: str) -> str:
    """The public key that belongs to a secret one."""
    return zmq.curve_public(secret.encode()).decode()


def _serve_keys(sockets: Sockets, socket: "zmq.Socket[bytes]") -> None:
    """Before the socket is bound: only who has a key of ours connects to it."""
    if sockets.keys is None:
        return
    own = sockets.keys.own
    for option, value in (
        (zmq.CURVE_SERVER, 1),
        (zmq.CURVE_PUBLICKEY, own.public.encode()),
        (zmq.CURVE_SECRETKEY, own.secret.encode()),
        (zmq.ZAP_DOMAIN, ZAP_DOMAIN.encode()),
        (zmq.ZAP_ENFORCE_DOMAIN, 1),
    ):
        socket.setsockopt(option, value)


def _expect_key(sockets: Sockets, socket: "zmq.Socket[bytes]", endpoint: str, key: str) -> None:
    """Before the socket is connected: whoever is there must have this key. Raises ValueError without one."""
    if sockets.keys is None:
        return
    if not key:
        raise ValueError(f"a mesh with keys has no link to {endpoint} without its key")
    own = sockets.keys.own
    for option, value in (
        (zmq.CURVE_PUBLICKEY, own.public),
        (zmq.CURVE_SECRETKEY, own.secret),
        (zmq.CURVE_SERVERKEY, key),
    ):
        socket.setsockopt(option, value.encode())


def _bind(socket: "zmq.Socket[bytes]", endpoint: str) -> str:
    """The endpoint that was bound. Raises `EndpointTaken`."""
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise EndpointTaken(_why_not_bound(endpoint, error.errno or 0)) from None
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)


def _why_not_bound(endpoint: str, number: int) -> str:
    text = f"cannot bind the mesh to {endpoint}: {os.strerror(number)}"
    if number == errno.EADDRINUSE:
        port = endpoint.rpartition(":")[2]
        return f"{text}. Stop what uses it (`ss -ltnp sport = :{port}` names it), or choose another port"
    if number in {errno.EADDRNOTAVAIL, errno.ENODEV}:
        return f"{text}. Give an address that this machine has (`ip address` lists them), or 0.0.0.0 for all"
    if number == errno.EACCES:
        return f"{text}. Ports below 1024 are for root: choose a higher one"
    return text


def _refuse_old_protocols(socket: "zmq.Socket[bytes]") -> None:
    """Have no link to peers that speak ZMTP 1 or 2, as ZeroMQ before 4.0 (2013) did: of those it does not
    tell on which connection a message came. It refuses them where peers may have to authenticate; nobody asks
    them to.
    """
    socket.setsockopt_string(zmq.ZAP_DOMAIN, ZAP_DOMAIN)


class LinkMonitor:
    """Tells which of a socket's links are live, from ZeroMQ's own monitor: `on_link(endpoint, live)`.

    Live means that both sides have agreed on the protocol. The endpoint is as ZeroMQ writes it, which need
    not be as it was given to `connect`. What becomes of attempts is told as well: `on_attempt`. The monitor's
    socket is edge-triggered as all are.
    """

    def __init__(
        self,
        sockets: Sockets,
        socket: "zmq.Socket[bytes]",
        on_link: Callable[[str, bool], None],
        on_connected: Callable[[int], None] = lambda _descriptor: None,
        on_attempt: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self._watched = socket
        self._on_link = on_link
        self._on_attempt = on_attempt
        self._on_connected = on_connected
        self._events = sockets.raw.socket(zmq.PAIR)
        self._events.setsockopt(zmq.LINGER, 0)
        # ZeroMQ waits, with its I/O thread, for room in this queue: so it must have no bound. What is in it
        # is bounded by how often links can be made (`RECONNECT_INTERVAL_MS`).
        self._events.setsockopt(zmq.RCVHWM, 0)
        name = f"inproc://links-{uuid4().hex}"
        links = zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        try:
            socket.monitor(name, links | HANDSHAKE_FAILED)
            self._events.connect(name)
        except SocketError:
            self.close()
            raise

    async def run(self) -> None:
        """Tell, for ever."""
        while True:
            self._take()
            await trio.lowlevel.wait_readable(self._events.fileno())

    def stop(self) -> None:
        """Have no more events made: before the watched socket is closed, and before `close`. Without a reader
        ZeroMQ would wait for one, for ever.
        """
        if not self._watched.closed:
            self._watched.disable_monitor()

    def close(self) -> None:
        self.stop()
        self._events.close(linger=0)

    def _take(self) -> None:
        with contextlib.suppress(zmq.Again):
            while True:
                event, endpoint = self._events.recv_multipart(zmq.DONTWAIT)
                kind, value = struct.unpack("=Hi", event)
                if kind == zmq.EVENT_CONNECTED:
                    self._on_connected(value)
                    self._on_attempt(Event.CONNECTED)
                elif kind & HANDSHAKE_FAILED:
                    self._on_attempt(Event.OTHER_MECHANISM if value == OTHER_MECHANISM else Event.CLOSED)
                else:
                    self._on_link(endpoint.decode(errors="replace"), kind == zmq.EVENT_HANDSHAKE_SUCCEEDED)


class _Linked:
    """What sockets that connect have in common."""

    def __init__(self, sockets: Sockets, kind: int, link: Link) -> None:
        self._sockets = sockets
        self._socket = sockets.raw.socket(kind)
        self._monitor: LinkMonitor | None = None
        _configure(self._socket, link)

    async def follow_links(
        self,
        on_link: Callable[[str, bool], None],
        on_attempt: Callable[[Event], None] = lambda _event: None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Tell of links that come and go, for ever; see `LinkMonitor`. Of those made before it has started
        nothing is told.
        """
        monitor = LinkMonitor(self._sockets, self._socket, on_link, self._on_connected, on_attempt)
        self._monitor = monitor
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_links)
                await monitor.run()
        finally:
            monitor.close()

    def _on_connected(self, descriptor: int) -> None:
        """A connection is made."""

    async def _watch_links(self) -> None:
        """Look after the connections, for ever."""

    def connect(self, endpoint: str, key: str = "") -> None:
        """Connect to who has this key, where there are keys."""
        _expect_key(self._sockets, self._socket, endpoint, key)
        self._socket.connect(endpoint)

    def disconnect(self, endpoint: str) -> None:
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(endpoint)

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()
        self._socket.close(linger=0)


class PublisherSocket(_Linked):
    """An XPUB socket: what a node publishes, and who subscribed to it.

    `welcome` is a message for every new link. `on_subscribed` is told of each prefix that nobody was
    subscribed to before. Who subscribes to more than `mesh.protocol.subscriptions` allows is cut.

    ZeroMQ applies all subscriptions that have come before it tells of the first: what a bound socket's peers
    send meanwhile is watched by a thread (`mesh.link_watch`). For it to run, nothing here that applies
    subscriptions may hold the interpreter's lock: `recv` and `send` do not, to look at ZMQ_EVENTS does.
    """

    def __init__(
        self,
        sockets: Sockets,
        link: Link = DATA,
        *,
        welcome: bytes = b"",
        on_subscribed: Callable[[bytes], None] = lambda _prefix: None,
    ) -> None:
        super().__init__(sockets, zmq.XPUB, link)
        for option, value in (
            (zmq.RCVHWM, 0),  # never stops to read: see `mesh.link_watch`
            (zmq.RCVBUF, SUBSCRIPTION_BUFFER_BYTES),
            (zmq.MAXMSGSIZE, MAX_SUBSCRIPTION_FRAME_BYTES),
            (zmq.XPUB_VERBOSE, 1),  # it also tells who subscribes to what others have
        ):
            self._socket.setsockopt(option, value)
        _refuse_old_protocols(self._socket)
        self._subscribers = Subscribers()
        self._keys: Keys | None = None
        """Asked who subscribes, once it is bound: of a socket that connects ZeroMQ tells as the user what the
        other side says."""
        self._watch: LinkWatch | None = None
        self._on_subscribed = on_subscribed
        if welcome:
            self._socket.setsockopt(zmq.XPUB_WELCOME_MSG, welcome)

    def bind(self, endpoint: str) -> str:
        """Bind to e.g. `tcp://127.0.0.1:*`; the endpoint that was bound. Raises `EndpointTaken`."""
        self._ask_keys()
        if self._watch is None:
            _serve_keys(self._sockets, self._socket)
            self._watch_events = _watched(self._sockets, self._socket)
            allowed = MAX_PEER_BYTES if self._keys is None else SEALED_PEER_BYTES
            self._watch = LinkWatch(partial(_accepted, self._watch_events, self._sockets.knocks), allowed)
        return _bind(self._socket, endpoint)

    def _ask_keys(self) -> None:
        keys = self._keys = self._sockets.keys
        if keys is not None:
            keys.on_change(self._cut_strangers)
            keys.on_life(self._subscribers.listeners)

    def _cut_strangers(self) -> None:
        """The keys are others: who is no member any more hears nothing more."""
        keys = self._keys
        if keys is not None:
            self._subscribers.cut_unless(lambda public: keys.peer(public) is not None)

    def close(self) -> None:
        if self._keys is not None:
            self._keys.forget(self._cut_strangers)
            self._keys.forget_listeners(self._subscribers.listeners)
        if self._watch is not None:
            self._watch.stop()
            self._socket.disable_monitor()
            self._watch.join()
            self._watch_events.close(linger=0)
            self._watch = None
        super().close()

    def send(self, frames: Sequence[Buffer]) -> None:
        """Publish one message to every peer that subscribed to a prefix of its first frame. Never blocks.

        Once it is closed nobody hears: what still runs at the end of a process may send.
        """
        sock = self._socket
        try:
            for frame in frames[:-1]:
                _send(sock, frame, _MORE)
            _send(sock, frames[-1], _DONTWAIT)
        except zmq.Again:
            pass
        except zmq.ZMQError:
            if not sock.closed:
                raise

    @property
    def cut(self) -> int:
        """Connections that were cut because they subscribed to, or sent, too much."""
        return self._subscribers.cut + (0 if self._watch is None else self._watch.cut)

    def subscribed(self, prefix: bytes) -> bool:
        """Whether some peer is subscribed to exactly this prefix now."""
        return prefix in self._subscribers.prefixes

    async def run(self) -> None:
        """Follow the subscriptions, for ever, and look often: `send` may have consumed the edge."""
        while True:
            if self._take_subscriptions():
                with trio.move_on_after(LOOK_SECONDS):
                    await trio.lowlevel.wait_readable(self._socket.fileno())
            else:
                await trio.lowlevel.checkpoint()

    def follow_subscriptions(self) -> None:
        """Look at once what peers have subscribed to: all of it, unless they go on and on."""
        for _ in range(FOLLOWED_TURNS):
            if self._socket.closed or self._take_subscriptions():
                return

    def _take_subscriptions(self) -> bool:
        """Take what is there, `MAX_MESSAGES_A_TURN` at most; true if that was all."""
        new: list[bytes] = []
        is_all = is_stranger = False
        keys = self._keys
        try:
            for _ in range(MAX_MESSAGES_A_TURN):
                frame = self._socket.recv(zmq.DONTWAIT, copy=False)
                user = "" if keys is None else _user(frame)
                message, descriptor = frame.bytes, _descriptor(frame)
                if keys is not None and not _may_subscribe(keys, user, descriptor, message):
                    is_stranger = True
                prefix = self._subscribers.heard(message, descriptor, user)
                if prefix is not None:
                    new.append(prefix)
        except zmq.Again:
            is_all = True
        if is_stranger:
            self._cut_strangers()
        for prefix in new:
            self._on_subscribed(prefix)
        return is_all


class SubscriberSocket(_Linked):
    """A SUB socket: everything a node hears from the publishers it is connected to.

    Every message goes to `on_message`, of one with many frames only the first `MAX_FRAMES`; `on_drained` is
    called whenever nothing more is there. Who sends a message without an end is cut while links are followed
    (`follow_links`).
    """

    def __init__(
        self,
        sockets: Sockets,
        on_message: Callable[[list[bytes]], None],
        on_drained: Callable[[], None] = lambda: None,
        link: Link = DATA,
    ) -> None:
        super().__init__(sockets, zmq.SUB, link)
        self._on_message = on_message
        self._on_drained = on_drained
        self._gathering = Gathering(link.max_gathered_bytes)
        self._sealing = 0 if sockets.keys is None else SEALING_BYTES

    @property
    def cut(self) -> int:
        """Links that were cut because of a message without an end."""
        return self._gathering.cut

    def _on_connected(self, descriptor: int) -> None:
        self._gathering.connected(descriptor, trio.current_time())

    async def _watch_links(self) -> None:
        while True:
            await trio.sleep(GATHERED_LOOK_SECONDS)
            if not self._socket.closed and self._take():
                self._gathering.look(trio.current_time())

    def subscribe(self, prefix: bytes) -> None:
        self._socket.subscribe(prefix)

    def connect(self, endpoint: str, key: str = "") -> None:
        """Connect, and look at once, for the edge of what is there may be over."""
        super().connect(endpoint, key)
        self._take()

    async def run(self) -> None:
        """Take messages for ever."""
        while True:
            if self._take():
                await trio.lowlevel.wait_readable(self._socket.fileno())
            else:
                await trio.lowlevel.checkpoint()

    def _take(self) -> bool:
        """Take what is there, `MAX_MESSAGES_A_TURN` at most; true if that was all."""
        if _get(self._socket, _EVENTS) & _POLLIN:
            return self._take_some()
        self._on_drained()
        return True

    def _take_some(self) -> bool:
        """As `_take`, when at least one message is there.

        To look whether there is another one is a system call, and costs twice what it costs to take one; to
        find none when one is taken costs another four. So few are looked at, and many are taken.
        """
        sock, on_message = self._socket, self._on_message
        taken = self._gathering.taken
        sealing = self._sealing
        try:
            for number in range(MAX_MESSAGES_A_TURN):
                try:
                    frame = _receive(sock, _DONTWAIT, False)
                except zmq.Again:
                    return True
                frames = [frame.bytes]
                descriptor = _descriptor(frame)
                size = 0 if descriptor is None else _on_the_wire(frames[0], sealing)
                while frame.more:
                    frame = _receive(sock, _DONTWAIT, False)
                    if descriptor is not None:
                        size += _on_the_wire(frame.bytes, sealing)
                    if len(frames) < MAX_FRAMES:
                        frames.append(frame.bytes)
                if descriptor is not None:
                    taken[descriptor] = taken.get(descriptor, 0) + size
                on_message(frames)
                if number < LOOKED_AT_BEFORE and not _get(sock, _EVENTS) & _POLLIN:
                    return True
            return False
        finally:
            self._on_drained()


class Inlet:
    """A bound SUB socket: what others publish to us, each with the address that it came from. Links of keys
    that are removed are cut.

    `on_message(frames, address, key)`: of a message with many frames only the first `MAX_FRAMES` are kept;
    the address is an IP, "" where ZeroMQ knows none; the key is its sender's, "" where there are no keys.
    """

    def __init__(
        self, sockets: Sockets, prefix: bytes, on_message: Callable[[list[bytes], str, str], None]
    ) -> None:
        self._socket = sockets.raw.socket(zmq.SUB)
        self._on_message = on_message
        self._gathering = Gathering(BEACONS.max_gathered_bytes)
        self._sealing = 0 if sockets.keys is None else SEALING_BYTES
        self._accepted = _watched(sockets, self._socket)
        self._knocks = sockets.knocks
        _configure(self._socket, BEACONS)
        _refuse_old_protocols(self._socket)
        _serve_keys(sockets, self._socket)
        self._keys = sockets.keys
        self._senders: dict[int, tuple[Connection, str]] = {}
        """Descriptor -> the connection on it, and the key that it has proved, where there are keys."""
        self._cuts = Cuts()
        if sockets.keys is not None:
            sockets.keys.on_change(self._cut_strangers)
        self._socket.subscribe(prefix)

    def bind(self, endpoint: str) -> str:
        """The endpoint that was bound. Raises `EndpointTaken`."""
        return _bind(self._socket, endpoint)

    @property
    def cut(self) -> int:
        """Links that were cut because of a message without an end, or of a key that was removed."""
        return self._gathering.cut + self._cuts.count

    async def run(self) -> None:
        """Take messages for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_links)
            while True:
                if self._take():
                    await trio.lowlevel.wait_readable(self._socket.fileno())
                else:
                    await trio.lowlevel.checkpoint()

    async def _watch_links(self) -> None:
        while True:
            await trio.sleep(GATHERED_LOOK_SECONDS)
            for descriptor, is_there in _accepted(self._accepted, self._knocks, 0) or ():
                self._senders.pop(descriptor, None)
                if is_there:
                    self._gathering.connected(descriptor, trio.current_time())
            if self._take():
                self._gathering.look(trio.current_time())

    def _sent(self, descriptor: int, key: str) -> None:
        """A message came of who has this key."""
        known = self._senders.get(descriptor)
        if known is None or known[1] != key:
            found = connection(descriptor)
            if found is None:
                return
            self._senders[descriptor] = found, key
        if self._keys is not None and self._keys.peer(key) is None:
            self._cut_strangers()

    def _cut_strangers(self) -> None:
        """The keys are others: who is no member any more is not linked."""
        for descriptor, (found, key) in list(self._senders.items()):
            if self._keys is not None and self._keys.peer(key) is None:
                del self._senders[descriptor]
                self._cuts.cut(found, "its key is no member's any more")

    def close(self) -> None:
        if self._keys is not None:
            self._keys.forget(self._cut_strangers)
        if not self._socket.closed:
            self._socket.disable_monitor()
        self._accepted.close(linger=0)
        self._socket.close(linger=0)

    def _take(self) -> bool:
        """Take what is there, `MAX_MESSAGES_A_TURN` at most; true if that was all."""
        taken = self._gathering.taken
        for _ in range(MAX_MESSAGES_A_TURN):
            try:
                frame = self._socket.recv(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return True
            address = _peer_address(frame)
            user = "" if self._keys is None else _user(frame)
            descriptor = _descriptor(frame)
            if self._keys is not None and descriptor is not None:
                self._sent(descriptor, user)
            frames = [frame.bytes]
            size = _on_the_wire(frames[0], self._sealing)
            while frame.more:
                frame = self._socket.recv(zmq.DONTWAIT, copy=False)
                size += _on_the_wire(frame.bytes, self._sealing)
                if len(frames) < MAX_FRAMES:
                    frames.append(frame.bytes)
            if descriptor is not None:
                taken[descriptor] = taken.get(descriptor, 0) + size
            self._on_message(frames, address, user)
        return False


def _peer_address(frame: zmq.Frame) -> str:
    try:
        return str(frame.get("Peer-Address"))
    except zmq.ZMQError:
        return ""


def _user(frame: zmq.Frame) -> str:
    """The public key of who sent it, as `admission` has named it; "" where there are no keys."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""


def _may_subscribe(keys: Keys, user: str, descriptor: int | None, message: bytes) -> bool:
    if message[:1] != SUBSCRIBE:
        return True
    return descriptor is not None and keys.may_subscribe(user, message[1:])


def _watched(sockets: Sockets, socket: "zmq.Socket[bytes]") -> "zmq.Socket[bytes]":
    """A monitor of the connections that a socket accepts; before it is bound."""
    monitor = sockets.raw.socket(zmq.PAIR)
    monitor.setsockopt(zmq.LINGER, 0)
    monitor.setsockopt(zmq.RCVHWM, 0)  # as in `LinkMonitor`
    name = f"inproc://accepted-{uuid4().hex}"
    links = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
    socket.monitor(name, links | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
    monitor.connect(name)
    return monitor


def _accepted(monitor: "zmq.Socket[bytes]", knocks: Knocks, seconds: float) -> list[tuple[int, bool]] | None:
    """What a monitor tells within so long: descriptors whose connection was accepted (true) or is gone; None
    once it is closed. Handshakes with who has keys, or none, where we do not are told to `knocks`.
    """
    told: list[tuple[int, bool]] = []
    try:
        if monitor.poll(int(seconds * 1000)):
            while True:
                event, endpoint = monitor.recv_multipart(zmq.DONTWAIT)
                kind, value = struct.unpack("=Hi", event)
                if kind != zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                    told.append((value, kind == zmq.EVENT_ACCEPTED))
                elif value == OTHER_MECHANISM:
                    knocks.heard(endpoint.decode(errors="replace"))
    except zmq.Again:
        pass
    except zmq.ZMQError:
        return None
    return told


def _on_the_wire(frame: bytes, sealing: int) -> int:
    """Bytes of a frame with its head, and with what CURVE adds."""
    size = len(frame) + sealing
    return size + 2 if size < 256 else size + 9


def _descriptor(frame: zmq.Frame) -> int | None:
    """Of the connection that it came on; None if ZeroMQ does not tell."""
    try:
        return frame.get(_SRCFD)
    except zmq.ZMQError:
        return None
