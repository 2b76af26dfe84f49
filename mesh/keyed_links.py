"""A node's links to other processes where there are keys: one socket for each, because ZeroMQ does not tell
who sent a message that came on a socket that connected. A socket's links are to the key that it was given.

Each costs descriptors, and where others are is said by themselves, so nobody's key may use them up: nodes of
one key are bounded (`mesh.protocol.peers`), links that are given up are closed before others are made, and
one that cannot be made is a link that is down, until it is tried again.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from mesh.attempts import Attempts, Event, next_step
from mesh.links import Context
from mesh.log_bounds import LogBounds

if TYPE_CHECKING:
    from mesh.zmq_trio import SubscriberSocket

OnFrames = Callable[[str, list[bytes]], None]
"""Takes a message with the key of who sent it."""

logger = logging.getLogger(__name__)


class _Link:
    """One link: to whom, and what ends it."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.scope = trio.CancelScope()
        self.attempts = Attempts()
        self.closed = trio.Event()
        """Once it was served, and is no more."""


class KeyedLinks:
    """Links by endpoint, each to the holder of one key. `run` serves them."""

    def __init__(self, context: Context, on_frames: OnFrames, on_drained: Callable[[], None]) -> None:
        self.on_link: Callable[[str, bool], None] = lambda _endpoint, _is_live: None
        self._context = context
        self._on_frames = on_frames
        self._on_drained = on_drained
        self._prefixes: list[bytes] = []
        self._links: dict[str, _Link] = {}
        self._subscribers: dict[_Link, SubscriberSocket] = {}
        """Those of the links that are being served."""
        self._cut = 0
        self._log_bounds = LogBounds()
        self._is_short = False
        """Whether it was said that a link cannot be made."""
        self._nursery: trio.Nursery | None = None

    @property
    def cut(self) -> int:
        """Links that were cut, see `SubscriberSocket`."""
        return self._cut + sum(subscriber.cut for subscriber in self._subscribers.values())

    def subscribe(self, prefix: bytes) -> None:
        self._prefixes.append(prefix)
        for subscriber in self._subscribers.values():
            subscriber.subscribe(prefix)

    def connect(self, endpoint: str, key: str) -> None:
        """Hear who has this key there, and nobody else any more; nobody, if it is none of ours."""
        self.disconnect(endpoint)
        keys = self._context.keys
        if keys is None or keys.peer(key) is None:
            return
        link = self._links[endpoint] = _Link(key)
        if self._nursery is not None:
            self._nursery.start_soon(self._serve, endpoint, link)

    def is_explained(self, endpoint: str) -> bool:
        """Whether its attempts have shown why there is no link to it: then that is in the log."""
        link = self._links.get(endpoint)
        return link is not None and link.attempts.cause(trio.current_time()) is not None

    def disconnect(self, endpoint: str) -> bool:
        """Whether there was such a link."""
        link = self._links.pop(endpoint, None)
        if link is not None:
            link.scope.cancel()
        return link is not None

    async def run(self) -> None:
        """Serve until cancelled."""
        keys = self._context.keys
        if keys is None:
            return
        keys.on_change(self._drop_strangers)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for endpoint, link in self._links.items():
                    nursery.start_soon(self._serve, endpoint, link)
                await trio.sleep_forever()
        finally:
            self._nursery = None
            keys.forget(self._drop_strangers)

    def _drop_strangers(self) -> None:
        """The keys are others: who is no member any more is not heard."""
        keys = self._context.keys
        for endpoint, link in list(self._links.items()):
            if keys is None or keys.peer(link.key) is None:
                self.disconnect(endpoint)
                self.on_link(endpoint, False)

    async def _serve(self, endpoint: str, link: _Link) -> None:
        from mesh.zmq_trio import SocketError

        with link.scope:
            await self._until_others_are_closed()
            try:
                await self._follow(endpoint, link)
            except* SocketError as errors:
                self._say_short(endpoint, errors)
                # A socket may also break while its link is live, and nobody else tells that it is down.
                if not link.scope.cancel_called:
                    self.on_link(endpoint, False)

    async def _follow(self, endpoint: str, link: _Link) -> None:
        """Hear the link. Raises `SocketError`, maybe in a group, where there is no socket for it."""
        from mesh.zmq_trio import SubscriberSocket

        on_frames = partial(self._on_frames, link.key)
        subscriber = SubscriberSocket(self._context.sockets, on_frames, self._on_drained)
        self._subscribers[link] = subscriber
        try:
            for prefix in self._prefixes:
                subscriber.subscribe(prefix)
            async with trio.open_nursery() as nursery:
                attempted = partial(self._on_attempt, endpoint, link)
                await nursery.start(subscriber.follow_links, self._tell(link), attempted)
                subscriber.connect(endpoint, link.key)
                self._is_short = False
                nursery.start_soon(subscriber.run)
        finally:
            self._cut += subscriber.cut
            del self._subscribers[link]
            subscriber.close()
            link.closed.set()

    async def _until_others_are_closed(self) -> None:
        """Wait until those that are given up are closed: each has four descriptors."""
        await trio.lowlevel.checkpoint()  # given up already, maybe
        while True:
            leaving = next((other for other in self._subscribers if other.scope.cancel_called), None)
            if leaving is None:
                return
            await leaving.closed.wait()

    def _say_short(self, endpoint: str, errors: BaseExceptionGroup[Exception]) -> None:
        if not self._is_short:
            self._is_short = True
            why: BaseException = errors
            while isinstance(why, BaseExceptionGroup):
                why = why.exceptions[0]
            logger.error(
                "no link to %s can be made, and maybe to others: %s. It is tried again; allow this process "
                "more open files (ulimit -n, LimitNOFILE)",
                endpoint,
                why,
            )

    def _tell(self, link: _Link) -> Callable[[str, bool], None]:
        """Tells of one link, as long as it is wanted."""

        def tell(endpoint: str, is_live: bool) -> None:
            if is_live:
                link.attempts.clear()
            if not link.scope.cancel_called:
                self.on_link(endpoint, is_live)

        return tell

    def _on_attempt(self, endpoint: str, link: _Link, event: Event) -> None:
        """Say it if the link cannot be: the other one's log alone would not tell this one's people."""
        keys, now = self._context.keys, trio.current_time()
        link.attempts.happened(event, now)
        cause = link.attempts.cause(now)
        member = None if keys is None else keys.holder(link.key)
        if keys is None or member is None or cause is None or link.scope.cancel_called:
            return
        if self._log_bounds.may(link.key, member.name):
            why = next_step(cause, keys.path)
            logger.warning("no link to %s, a %s, at %s: %s", member.name, member.role, endpoint, why)
