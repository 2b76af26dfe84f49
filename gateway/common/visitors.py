"""Who is on a port that serves HTTP, and who goes when there are too many.

A stranger may open connections without end, and send or read slowly on each. Whoever probes or scrapes says
what it wants at once and is answered at once: so a new one always comes in, and of the host that has most
connections the oldest goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

MAX_VISITORS = 64
"""Connections to metrics and health at once; a scraper needs one. For a further one the oldest of the host
with most goes."""


class Visitors:
    """The connections of one port, by their hosts: `most` of them."""

    def __init__(self, most: int = MAX_VISITORS) -> None:
        self._most = most
        self._hosts: dict[str, dict[trio.CancelScope, None]] = {}
        self._count = 0

    @contextmanager
    def visit(self, host: str) -> Iterator[None]:
        """A connection for the length of the block, which is left early if it has to go."""
        with trio.CancelScope() as scope:
            self._hosts.setdefault(host, {})[scope] = None
            self._count += 1
            if self._count > self._most:
                crowd = max(self._hosts, key=lambda one: len(self._hosts[one]))
                oldest = next(iter(self._hosts[crowd]))
                self._remove(crowd, oldest)
                oldest.cancel()
            try:
                yield
            finally:
                self._remove(host, scope)

    def _remove(self, host: str, scope: trio.CancelScope) -> None:
        scopes = self._hosts.get(host, {})
        if scope in scopes:
            del scopes[scope]
            self._count -= 1
            if not scopes:
                del self._hosts[host]
