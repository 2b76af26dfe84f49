"""A node's links: what it publishes, and what it hears, inside its process and beyond it.

Inside a process frames are handed over (`mesh.inside`); beyond it they go through ZeroMQ (`mesh.zmq_trio`),
which is loaded, and its sockets made, when the first link to another process is wanted. So a process whose
nodes have links to each other alone has no socket, no thread and no memory for it.

Nothing here may be called from another thread than the loop's.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from mesh.inside import INSIDE, Buffer, Due, EndpointTaken, Inbox, InsideEndpoint
from mesh.keys.keys import Keys
from mesh.knocks import Knocks
from mesh.link_bounds import DATA

if TYPE_CHECKING:
    from mesh.zmq_trio import PublisherSocket, Sockets, SubscriberSocket


class Context:
    """What the nodes of one process share. With `keys` links to others have them, and `run` must run."""

    def __init__(self, keys: Keys | None = None) -> None:
        self.keys = keys
        self.knocks = Knocks(has_keys=keys is not None)
        self.due = Due()
        """Who inside this process has something to hear."""
        self.deliver = self.due.deliver
        """Has what was just published inside this process handled, and what is published because of that,
        without a turn of the loop. Call it where nothing is half done: handlers of both ends may run."""
        self.deliver_after = self.due.deliver_after
        """The same, once something is done that publishes: `deliver_after(act, of)`."""
        self._inside: dict[str, InsideEndpoint] = {}
        self._sockets: Sockets | None = None
        self._is_closed = False

    @property
    def sockets(self) -> "Sockets":
        """What the sockets to other processes share: made when it is wanted first."""
        if self._is_closed:
            raise RuntimeError("the links of this process are closed")
        if self._sockets is None:
            from mesh.zmq_trio import Sockets

            self._sockets = Sockets(self.keys, self.knocks)
        return self._sockets

    def inside(self, endpoint: str) -> InsideEndpoint:
        """An endpoint inside this process, whether or not somebody is bound to it yet."""
        found = self._inside.get(endpoint)
        if found is None:
            found = self._inside[endpoint] = InsideEndpoint()
        return found

    async def run(self) -> None:
        """Answer who may connect, and follow the keys, for ever; without keys there is nothing to do."""
        if self.keys is not None:
            await self.sockets.run()

    def close(self) -> None:
        self._is_closed = True
        if self._sockets is not None:
            self._sockets.close()


Socket = TypeVar("Socket", "PublisherSocket", "SubscriberSocket")


class _Outside(Generic[Socket]):
    """A socket to other processes, made by `make` when it is wanted first; None until then."""

    def __init__(self, make: Callable[[], Socket]) -> None:
        self.socket: Socket | None = None
        self._make: Callable[[], Socket] = make
        self._is_made = trio.Event()

    @property
    def cut(self) -> int:
        """Links that were cut."""
        return 0 if self.socket is None else self.socket.cut

    def open(self) -> Socket:
        if self.socket is None:
            self.socket = self._make()
            self._is_made.set()
        return self.socket

    async def run(self) -> None:
        """Serve it, once it is made, for ever."""
        await self._is_made.wait()
        await self.open().run()

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()


class Publisher:
    """What a node publishes, and who subscribed to it. `on_subscribed` is told of each prefix that nobody was
    subscribed to before.
    """

    def __init__(
        self, context: Context, *, on_subscribed: Callable[[bytes], None] = lambda _prefix: None
    ) -> None:
        self._context = context
        self._on_subscribed = on_subscribed
        self._inside: list[InsideEndpoint] = []
        """Where it is bound inside this process."""
        self._told: deque[tuple[bytes, int]] = deque()
        """Of subscriptions inside this process, what was not looked at yet."""
        self._telling = trio.lowlevel.ParkingLot()
        self._wanted: Counter[bytes] = Counter()
        """What somebody inside this process is subscribed to, by how many are."""
        self._changed = trio.Event()
        self._outside = _Outside(self._make_socket)

    def bind(self, endpoint: str) -> str:
        """Bind to e.g. `tcp://127.0.0.1:*` or `inproc://name`; the endpoint that was bound. Raises
        `EndpointTaken`.
        """
        if not endpoint.startswith(INSIDE):
            return self._outside.open().bind(endpoint)
        inside = self._context.inside(endpoint)
        if inside.is_bound:
            raise EndpointTaken(f"cannot bind the mesh to {endpoint}: another node of this process is there")
        self._inside.append(inside)
        inside.bind(self._on_told)
        return endpoint

    def _make_socket(self) -> "PublisherSocket":
        from mesh.zmq_trio import PublisherSocket

        return PublisherSocket(self._context.sockets, on_subscribed=self._on_told_outside)

    def close(self) -> None:
        for inside in self._inside:
            inside.leave()
        self._inside.clear()
        self._outside.close()

    def send(self, frames: Sequence[Buffer]) -> None:
        """Publish one message to everybody who subscribed to a prefix of its first frame. Never blocks.

        Once it is closed nobody hears: what still runs at the end of a process may send.
        """
        for inside in self._inside:
            for inbox in inside.inboxes:
                inbox.offer(frames)
        socket = self._outside.socket
        if socket is not None:
            socket.send(frames)

    @property
    def cut(self) -> int:
        """Connections that were cut because they subscribed to, or sent, too much."""
        return self._outside.cut

    def subscribed(self, prefix: bytes) -> bool:
        """Whether somebody is subscribed to exactly this prefix now."""
        return prefix in self._wanted or self._is_told_outside(prefix)

    async def wait_subscribed(self, prefix: bytes) -> None:
        """Return when somebody is subscribed to exactly this prefix."""
        while not self.subscribed(prefix):
            await self._changed.wait()

    async def run(self) -> None:
        """Follow the subscriptions, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._outside.run)
            while True:
                self._take_told()
                await self._telling.park()

    def follow_subscriptions(self) -> None:
        """Look at once what is subscribed to: all of it, unless somebody goes on and on."""
        self._take_told()
        socket = self._outside.socket
        if socket is not None:
            socket.follow_subscriptions()

    def _on_told(self, prefix: bytes, change: int) -> None:
        """Somebody inside this process subscribes: handled as what ZeroMQ tells, in a turn of its own."""
        self._told.append((prefix, change))
        self._telling.unpark()

    def _take_told(self) -> None:
        keys, wanted = self._context.keys, self._wanted
        while self._told:
            prefix, change = self._told.popleft()
            before, now = wanted[prefix], wanted[prefix] + change
            wanted[prefix] = now
            if not now:
                del wanted[prefix]
            elif not before:
                if keys is not None:
                    keys.heard_inside(prefix)
                if not self._is_told_outside(prefix):
                    self._is_new(prefix)

    def _is_told_outside(self, prefix: bytes) -> bool:
        socket = self._outside.socket
        return socket is not None and socket.subscribed(prefix)

    def _on_told_outside(self, prefix: bytes) -> None:
        if prefix not in self._wanted:
            self._is_new(prefix)

    def _is_new(self, prefix: bytes) -> None:
        self._changed.set()
        self._changed = trio.Event()
        self._on_subscribed(prefix)


class Subscriber:
    """What a node hears of the publishers that it is connected to.

    Every message goes to `on_message`, of one with many frames only the first `MAX_FRAMES`; `on_drained` is
    called whenever nothing more is there.
    """

    def __init__(
        self,
        context: Context,
        on_message: Callable[[list[bytes]], None],
        on_drained: Callable[[], None] = lambda: None,
        bound: int = DATA.high_water_mark,
    ) -> None:
        self._context = context
        self._on_message = on_message
        self._on_drained = on_drained
        self._inbox = Inbox(context.due, on_message, on_drained, bound)
        self._outside = _Outside(self._make_socket)

    @property
    def cut(self) -> int:
        """Links that were cut because of a message without an end."""
        return self._outside.cut

    @property
    def dropped(self) -> int:
        """Messages from inside this process that did not fit."""
        return self._inbox.dropped

    def subscribe(self, prefix: bytes) -> None:
        self._inbox.subscribe(prefix)
        if self._outside.socket is not None:
            self._outside.socket.subscribe(prefix)

    def connect(self, endpoint: str) -> None:
        """Hear what is published there."""
        if endpoint.startswith(INSIDE):
            self._inbox.connect(self._context.inside(endpoint))
        else:
            self._outside.open().connect(endpoint)

    def disconnect(self, endpoint: str) -> None:
        if endpoint.startswith(INSIDE):
            self._inbox.disconnect(self._context.inside(endpoint))
        elif self._outside.socket is not None:
            self._outside.socket.disconnect(endpoint)

    async def follow_links(
        self,
        on_link: Callable[[str, bool], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Tell of links to other processes that come and go, for ever; see `mesh.zmq_trio.LinkMonitor`."""
        await self._outside.open().follow_links(on_link, task_status=task_status)

    async def run(self) -> None:
        """Take messages for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._inbox.run)
            await self._outside.run()

    def close(self) -> None:
        self._inbox.close()
        self._outside.close()

    def _make_socket(self) -> "SubscriberSocket":
        from mesh.zmq_trio import SubscriberSocket

        made = SubscriberSocket(self._context.sockets, self._on_message, self._on_drained)
        for prefix in self._inbox.prefixes:
            made.subscribe(prefix)
        return made
