"""A node without sockets: keeps what is sent, and hands over frames as the real one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from mesh.node import Node, Routes
from wireproto.dafka.messages import decode


class FakeNode:
    """`sent` are the messages and frames that were published; `on_sent` is told of each message."""

    def __init__(self) -> None:
        self.publisher = self
        self.sent: list[Any] = []
        self.on_sent: Callable[[Any], None] = lambda _message: None
        self._handlers: dict[type[Any], Callable[[Any], None]] = {}

    def route(self, routes: Routes) -> None:
        self._handlers.update(routes)

    def subscribe(self, prefix: bytes) -> None: ...

    def send(self, message: Any) -> None:
        self.sent.append(message)
        if not isinstance(message, list):
            self.on_sent(message)

    def hears(self, *messages: Any) -> None:
        """Each message arrives, by way of its frames."""
        for message in messages:
            decoded = decode(message.frames())
            self._handlers[type(decoded)](decoded)

    @property
    def as_node(self) -> Node:
        return cast(Node, self)
