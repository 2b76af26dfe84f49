"""A mesh node: one publisher, one subscriber, and a table of who handles which message (see `mesh.routing`).

A malformed message is dropped and counted, and the node lives. Handlers are plain functions and never block;
what takes time goes to a task or a thread of the handler's own.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from mesh.keyed_links import KeyedLinks
from mesh.keys.certificate import Certificate
from mesh.keys.roles import Role
from mesh.links import Context, Publisher, Subscriber
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
        self._keys = context.keys
        self._keyed = KeyedLinks(context, self._on_keyed_frames, self._when_drained)
        """Links to other processes, where there are keys."""
        self._admits: Callable[[Certificate, Any], bool] = lambda _sender, _message: True
        self.sender: Certificate | None = None
        """Who sent the message that is being handled; None where there are no keys, and for this process."""
        self._handlers: dict[type[Any], Callable[[Any], None]] = {}
        self._drained: Callable[[], None] = lambda: None
        self._subscribed: Callable[[bytes], None] = lambda _prefix: None

    @property
    def cut(self) -> int:
        """Links that were cut because the peer subscribed to too much, or sent a message without an end."""
        return self.publisher.cut + self._subscriber.cut + self._keyed.cut

    @property
    def dropped(self) -> int:
        """Messages of other nodes of this process that did not fit."""
        return self._subscriber.dropped

    @property
    def is_keyed(self) -> bool:
        """Whether links to other processes have keys."""
        return self._keys is not None

    @property
    def is_from_store(self) -> bool | None:
        """Whether a store sent the message that is being handled; None where no key tells."""
        return None if self.sender is None else self.sender.role is Role.STORE

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

    def on_admit(self, admits: Callable[[Certificate, Any], bool]) -> None:
        """Have this decide, too, whether a message counts that its sender's role allows."""
        self._admits = admits

    def subscribe(self, prefix: bytes) -> None:
        self._subscriber.subscribe(prefix)
        self._keyed.subscribe(prefix)

    def connect(self, endpoint: str, key: str = "") -> None:
        """Hear what the node at this endpoint publishes, if it has this key where there are keys."""
        if key:
            self._keyed.connect(endpoint, key)
        else:
            self._subscriber.connect(endpoint)

    def is_explained(self, endpoint: str) -> bool:
        """Whether it is in the log why there is no link to this endpoint."""
        return self._keyed.is_explained(endpoint)

    def disconnect(self, endpoint: str) -> None:
        if not self._keyed.disconnect(endpoint):
            self._subscriber.disconnect(endpoint)

    async def follow_links(
        self,
        on_link: Callable[[str, bool], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Tell of the links to others' publishers that come and go, for ever; see `LinkMonitor`."""
        self._keyed.on_link = on_link
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
                nursery.start_soon(self._keyed.run)
                task_status.started()
        finally:
            self.publisher.close()
            self._subscriber.close()

    def _when_subscribed(self, prefix: bytes) -> None:
        self._subscribed(prefix)

    def _when_drained(self) -> None:
        self._drained()

    def _on_keyed_frames(self, key: str, frames: Sequence[bytes]) -> None:
        self._on_frames(frames, key)

    def _may_send(self, key: str, message: Any) -> bool:
        """Whether the message counts of who has this key, at this moment."""
        keys = self._keys
        if keys is None or not keys.allows(key, message):
            return False
        sender = keys.holder(key)
        assert sender is not None, "who may send something is known"
        if self._admits(sender, message):
            self.sender = sender
            return True
        keys.refuse(f"{sender.name}, a {sender.role}", type(message).__name__)
        return False

    def _on_frames(self, frames: Sequence[bytes], key: str = "") -> None:
        self.sender = None
        try:
            message = decode(frames)
            if key and not self._may_send(key, message):
                return
            handler = self._handlers.get(type(message))
            if handler is None:
                self.unexpected += 1
            else:
                handler(message)
        except MalformedMessage as error:
            self.malformed += 1
            if self.malformed <= MALFORMED_LOGGED:
                logger.warning("dropped a malformed mesh message of %d frames: %s", len(frames), error)
