"""What a page shows, once a second, as server-sent events: only what has changed.

Rule: a slow client holds up nobody and is owed nothing. Nothing is made for it while it does not take what
was sent; then it is told how long that was, and what has changed since what it has.
"""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.common.failures import ends_process
from gateway.http.failures import Failure
from gateway.http.texts import encoded

if TYPE_CHECKING:
    from gateway.http.connection import Send
    from gateway.http.view import View

TICK_SECONDS: Final = 1.0
"""Seconds between two looks."""

COMMENT_SECONDS: Final = 15.0
"""Seconds after which something is sent where nothing changes: proxies cut what is silent for long."""

RETRY_MS: Final = 2000
"""Milliseconds after which a browser connects again."""

Rows = dict[str, dict[str, Any]]

logger = logging.getLogger(__name__)


class Source(abc.ABC):
    """What one view shows. `events` gives what is new since it was asked last."""

    @abc.abstractmethod
    async def events(self) -> list[Event]:
        """New events, at most once a second. Raises Failure: there is nothing to show any more."""


class Event:
    """One event; `id` is what the client names when it comes again."""

    __slots__ = ("data", "id", "name")

    def __init__(self, name: str, data: dict[str, Any], event_id: str = "") -> None:
        self.name = name
        self.data = data
        self.id = event_id


async def follow(view: View, sources: list[Source], send: Send) -> None:
    """Send the events of these sources, until the client goes or a source ends."""
    await send(f"retry: {RETRY_MS}\n\n".encode())
    sent = began = trio.current_time()
    late = 0.0
    while True:
        view.sums.looked()
        events = [Event("skipped", {"seconds": round(late, 1)})] if late >= TICK_SECONDS else []
        ended = await _collect(sources, events)
        data = await _written(view, events)
        now = trio.current_time()
        if not data and now - sent >= COMMENT_SECONDS:
            data = b": still here\n\n"
        if data:
            await send(data)
            sent = trio.current_time()
        late = sent - now if data else 0.0
        if ended:
            return
        # In step with the seconds since the beginning, however long this took.
        began += TICK_SECONDS * max(1, (trio.current_time() - began) // TICK_SECONDS + 1)
        await trio.sleep_until(began)


async def _collect(sources: list[Source], events: list[Event]) -> bool:
    """Add what is new; True at the end of the stream."""
    try:
        for source in sources:
            events += await source.events()
    except Failure as failure:
        events.append(Event("failed", {"detail": failure.detail, "next_step": failure.next_step}))
        return True
    except Exception as error:
        if ends_process(error):
            raise
        logger.exception("a stream of the status page failed unexpectedly")
        step = "See the gateway's log."
        events.append(Event("failed", {"detail": "this is a defect", "next_step": step}))
        return True
    return False


async def _written(view: View, events: list[Event]) -> bytes:
    pieces = []
    for event in events:
        if event.id:
            pieces.append(f"id: {event.id}\n".encode())
        async with view.turns.working():
            body = await encoded(event.data, view.turns)
        pieces.append(b"event: %s\ndata: %s\n" % (event.name.encode(), body))
    return b"".join(pieces)


def changed(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not as they were."""
    if before is None:
        return after
    return {name: value for name, value in after.items() if name not in before or before[name] != value}


def rows_changed(before: Rows, after: Rows) -> tuple[Rows, list[str]]:
    """The rows that are not as they were, with their changed fields, and the keys of those that are gone."""
    rows = {key: fields for key, row in after.items() if (fields := changed(before.get(key), row))}
    return rows, [key for key in before if key not in after]
