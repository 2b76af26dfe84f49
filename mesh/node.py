"""A mesh node: one publisher, one subscriber, and a table of who handles which message (see `mesh.routing`).

A malformed message is dropped and counted, and the node lives. Handlers are plain functions and never block;
what takes time goes to a task or a thread of the handler's own.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from mesh.zmq_trio import Context, Publisher, Subscriber
from wireproto.dafka import additions  # noqa: F401  registers our own messages with the decoder
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.messages import decode

MALFORMED_LOGGED = 10
"""Malformed messages that a node logs; further ones are only counted, so that a stranger cannot fill the log.
"""

Routes = Mapping[type[Any], Callable[[Any], None]]
"""Type of a message -> what handles it."""

logger = logging.getLogger(__name__)


class Node:
    """One node's sockets. `route` before `run`; `on_drained` is called when all that was there is
    handled.
    """

    def __init__(self, context: Context) -> None:
        self.publisher = Publisher(context, on_subscribed=self._when_subscribed)
        self.malformed = 0
        self.unexpected = 0
        self._subscriber = Subscriber(context, self._on_frames, self._when_drained)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {}
        self._drained: Callable[[], None] = lambda: None
        self._subscribed: Callable[[bytes], None] = lambda _prefix: None

    @property
    def cut(self) -> int:
        """Links that were cut because the peer subscribed to too much, or sent a message without an end."""
        return self.publisher.cut + self._subscriber.cut

    def route(self, routes: Routes) -> None:
        """Have messages of these types handled. Raises ValueError for one that has a handler already."""
        for message_type, handler in routes.items():
            if message_type in self._handlers:
                raise ValueError(f"two handlers of {message_type.__name__} at one node")
            self._handlers[message_type] = handler

    def on_drained(self, handler: Callable[[], None]) -> None:
        """Have `handler` called each time that no more messages are waiting."""
        self._drained = handler

    def on_subscribed(self, handler: Callable[[bytes], None]) -> None:
        """Have `handler` told of each prefix that nobody was subscribed to here before."""
        self._subscribed = handler

    def subscribe(self, prefix: bytes) -> None:
        self._subscriber.subscribe(prefix)

    def connect(self, endpoint: str) -> None:
        """Hear what the node at this endpoint publishes."""
        self._subscriber.connect(endpoint)

    def disconnect(self, endpoint: str) -> None:
        self._subscriber.disconnect(endpoint)

    async def follow_links(
        self,
        on_link: Callable[[str, bool], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Tell of the links to others' publishers that come and go, for ever; see `LinkMonitor`."""
        await self._subscriber.follow_links(on_link, task_status=task_status)

    def send(self, message: Any) -> None:
        """Publish a message (anything with `frames()`)."""
        self.publisher.send(message.frames())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve both sockets until cancelled, then close them."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.publisher.run)
                nursery.start_soon(self._subscriber.run)
                task_status.started()
        finally:
            self.publisher.close()
            self._subscriber.close()

    def _when_subscribed(self, prefix: bytes) -> None:
        self._subscribed(prefix)

    def _when_drained(self) -> None:
        self._drained()

    def _on_frames(self, frames: Sequence[bytes]) -> None:
        try:
            message = decode(frames)
            handler = self._handlers.get(type(message))
            if handler is None:
                self.unexpected += 1
            else:
                handler(message)
        except MalformedMessage as error:
            self.malformed += 1
            if self.malformed <= MALFORMED_LOGGED:
                logger.warning("dropped a malformed mesh message of %d frames: %s", len(frames), error)
