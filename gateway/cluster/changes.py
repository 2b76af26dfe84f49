"""What administrators change of a cluster: one change after the other, each to its end.

Rule: a client that goes away in the middle leaves nothing half done. Nor does one that waits for a catalog
that is away: after a while it is told so, and the change goes on behind its back; whether it has come about
shows when the catalog is back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

import trio

from gateway.catalog.interface import Catalog
from gateway.common.failures import ProcessEnds
from wireproto.kafka.errors import ErrorCode, KafkaError

LOOK_SECONDS: Final = 1.0
"""Between two looks whether the catalog is still there, while a change is waited for."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class Changes:
    """Those of one gateway."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.forbidden: Callable[[], str | None] = lambda: None
        """Why nothing may be changed now, if that is so."""
        self._turn = trio.Lock()
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Have changes go on when nobody waits for them any more, until cancelled. Without this running each
        is waited for to its end.
        """
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    async def make(self, change: Callable[[], Awaitable[Result]]) -> Result:
        """The result of a change, which is made when those before it are over.

        Raises KafkaError: what `change` raises; POLICY_VIOLATION: nothing may be changed now; NOT_CONTROLLER,
        which administrators' clients try again: the catalog is away, and nothing was done; REQUEST_TIMED_OUT:
        it went away meanwhile.
        """
        if why := self.forbidden():
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"nothing may be changed at present: {why}")
        if trouble := self._catalog.trouble:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"nothing can be changed at present: {trouble}")
        made = _Made(change, self._turn)
        if self._nursery is None:
            await made.run()
        else:
            self._nursery.start_soon(made.run)
            with made.awaited():
                while not (made.over.is_set() or self._catalog.trouble):
                    with trio.move_on_after(LOOK_SECONDS):
                        await made.over.wait()
        return made.result()


class _Made(Generic[Result]):
    """One change."""

    def __init__(self, change: Callable[[], Awaitable[Result]], turn: trio.Lock) -> None:
        self.over = trio.Event()
        self._change = change
        self._turn = turn
        self._results: list[Result] = []
        self._is_awaited = True
        self._error: Exception = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            "the catalog does not answer: the change goes on when it does; look then whether it was made",
        )

    async def run(self) -> None:
        try:
            async with self._turn:
                with trio.CancelScope(shield=True):
                    self._results.append(await self._change())
        except (ProcessEnds, trio.ClosedResourceError):
            raise
        except Exception as error:
            # It is who asked that hears of it: a request that trips over a defect ends no process.
            self._error = error
            if not self._is_awaited and not isinstance(error, KafkaError):
                logger.exception("a change of the catalog failed, for which nobody waits any more")
        finally:
            self.over.set()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Around the wait for it."""
        try:
            yield
        finally:
            self._is_awaited = False

    def result(self) -> Result:
        """Of what is over; else, or if it failed, raises why."""
        if self._results:
            return self._results[0]
        raise self._error
