"""To one gateway, while it lives: one connection, opened when first needed, kept, opened anew when it ends.

Whoever asks while there is no connection waits for the next attempt, and is told why if it fails. Attempts
follow each other more and more slowly.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import trio

from gateway.peers.connection import Connection, Reply
from gateway.peers.conversation import MAX_IN_FLIGHT
from gateway.peers.failures import PeerBusy, PeerFailed, PeerSilent, PeerUnreachable
from gateway.peers.question import Question
from gateway.peers.versions import VERSION_OF_API_VERSIONS, Versions, versions_question

OPEN_SECONDS: Final = 5.0
"""How long opening a connection may take, with the first question over it: a machine that is gone answers
nothing, and whoever waits is to hear of it."""

FIRST_BACKOFF_SECONDS: Final = 0.1
"""Between the end of a connection and the next attempt."""

MOST_BACKOFF_SECONDS: Final = 5.0
"""The same after several, each of which doubles it. A connection that has lasted for so long begins anew."""

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    reply: Reply
    question: Question
    deadline: float


class Channel:
    """`run` has to run until `close`. `open_stream` raises PeerFailed, OSError or ValueError; `on_closed` is
    called when the other side has ended a connection.
    """

    def __init__(
        self,
        who: str,
        client_id: str,
        release: str,
        open_stream: Callable[[], Awaitable[trio.abc.Stream]],
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._who = who
        self._client_id = client_id
        self._greeting = versions_question(release)
        self._open_stream = open_stream
        self._on_closed = on_closed
        self._connection: Connection | None = None
        self._versions: Versions | None = None
        """What the other side of the connection has, once it has said so."""
        self._waiting: list[_Waiting] = []
        """They wait for the connection."""
        self._is_needed = trio.Event()
        self._gone: PeerFailed | None = None
        self._scope = trio.CancelScope()

    async def ask(self, question: Question, deadline: float) -> Any:
        """The answer, at `deadline` (trio's clock) at last. Raises PeerFailed."""
        if self._gone is not None:
            raise type(self._gone)(*self._gone.args)
        waits = _Waiting(Reply(), question, deadline)
        if self._connection is not None and self._versions is not None:
            self._hand_over(self._connection, self._versions, waits)
        elif len(self._waiting) >= MAX_IN_FLIGHT:
            raise PeerBusy(f"{len(self._waiting)} requests wait for a connection to {self._who}")
        else:
            self._waiting.append(waits)
            self._is_needed.set()
        try:
            with trio.move_on_at(deadline):
                return await waits.reply.wait()
        finally:
            if waits in self._waiting:
                self._waiting.remove(waits)
        raise self._silent

    @property
    def _silent(self) -> PeerSilent:
        return PeerSilent(f"{self._who} has not answered in time")

    def close(self, why: PeerFailed) -> None:
        """The gateway lives no more: everybody who waits is told so, and so is who asks after this."""
        self._gone = why
        if self._connection is not None:
            self._connection.end(why)
        self._fail(why)
        self._scope.cancel()

    async def run(self) -> None:
        """Connect whenever somebody asks, until it is closed."""
        backoff = FIRST_BACKOFF_SECONDS
        with self._scope:
            while True:
                if not self._waiting:
                    self._is_needed = trio.Event()
                    await self._is_needed.wait()
                began = trio.current_time()
                try:
                    await self._connect()
                except Exception:  # whatever another gateway sends, or is sent, must not end this one
                    logger.exception("an unexpected failure in the channel to %s", self._who)
                    self._fail(PeerUnreachable(f"the channel to {self._who} has failed"))
                if trio.current_time() - began >= MOST_BACKOFF_SECONDS:
                    backoff = FIRST_BACKOFF_SECONDS
                await trio.sleep(backoff)
                backoff = min(2 * backoff, MOST_BACKOFF_SECONDS)

    async def _connect(self) -> None:
        """One connection, from the attempt to its end."""
        until = trio.current_time() + OPEN_SECONDS
        stream: trio.abc.Stream | None = None
        failure: PeerFailed = PeerUnreachable(f"{self._who} is not reached within {OPEN_SECONDS:g} s")
        with trio.move_on_at(until):
            try:
                stream = await self._open_stream()
            except PeerFailed as error:
                failure = error
            except (OSError, ValueError) as error:
                failure = PeerUnreachable(f"{self._who} is not reached: {error}")
        if stream is None:
            self._fail(failure)
            return
        connection = self._connection = Connection(self._who, self._client_id, stream)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._greet, connection, until)
                await connection.run()
        finally:
            self._connection = self._versions = None
        if connection.was_closed:
            self._on_closed()

    async def _greet(self, connection: Connection, deadline: float) -> None:
        """Ask what the other one has; then whatever waits."""
        reply = Reply()
        try:
            connection.ask(reply, self._greeting, VERSION_OF_API_VERSIONS, deadline)
            versions = self._versions = Versions(self._who, await reply.wait())
        except PeerFailed as failure:
            self._fail(failure)
            connection.end(failure)
            return
        waiting, self._waiting = self._waiting, []
        for waits in waiting:
            try:
                self._hand_over(connection, versions, waits)
            except PeerFailed as failure:
                waits.reply.fail(failure)
            except Exception:  # what one has to ask must not end what the others have
                logger.exception("%s cannot be asked %s", self._who, waits.question.name)
                waits.reply.fail(PeerFailed(f"{waits.question.name} cannot be encoded"))

    def _hand_over(self, connection: Connection, versions: Versions, waits: _Waiting) -> None:
        """Raises PeerFailed."""
        if waits.deadline <= trio.current_time():
            raise self._silent  # it would end the connection at once
        version = versions.choose(waits.question)
        connection.ask(waits.reply, waits.question, version, waits.deadline)

    def _fail(self, failure: PeerFailed) -> None:
        """Those that wait for a connection get none."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            logger.debug("%d requests are not answered: %s", len(waiting), failure)
        for waits in waiting:
            waits.reply.fail(failure)
