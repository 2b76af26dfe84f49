"""One connection to another gateway: requests go out as they are asked, answers come back in their order.

What is decided is in `conversation`; here are the socket, and the tasks that wait. A task that asks waits for
nothing but its answer, so one that is cancelled leaves the bytes on the wire whole.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from gateway.common.waiting import Waiter
from gateway.peers.conversation import Conversation
from gateway.peers.failures import PeerFailed, PeerSilent, PeerUnreachable
from gateway.peers.question import Question
from wireproto.kafka.errors import MalformedAnswer, MalformedRequest
from wireproto.kafka.framing import FrameReader

MAX_ANSWER_BYTES: Final = 1024 * 1024
"""Bytes of one answer, checked before memory is taken for it. The largest that is asked for names 500
partitions, of as many topics: 150 KB."""

RECEIVE_BYTES: Final = 64 * 1024
"""Bytes that are received at once."""


class Reply:
    """Where one task waits for an answer."""

    __slots__ = ("_answer", "_failure", "_is_here", "_waiter")

    def __init__(self) -> None:
        self._waiter = Waiter()
        self._is_here = False
        self._answer: Any = None
        self._failure: PeerFailed | None = None

    def answer(self, answer: Any) -> None:
        self._answer, self._is_here = answer, True
        self._waiter.wake()

    def fail(self, failure: PeerFailed) -> None:
        """There will be no answer. Nothing changes where there is one."""
        if not self._is_here:
            self._failure, self._is_here = failure, True
            self._waiter.wake()

    async def wait(self) -> Any:
        """The answer. Raises PeerFailed."""
        while not self._is_here:
            await self._waiter.wait()
        if self._failure is not None:
            # Several may have the same reason: each has a traceback of its own.
            raise type(self._failure)(*self._failure.args)
        return self._answer


class Connection:
    """`run` has to run; it returns when the connection has ended, and everybody who waited knows why."""

    def __init__(self, who: str, client_id: str, stream: trio.abc.Stream) -> None:
        self.was_closed = False
        """The other side, or its system, has ended the connection."""
        self._who = who
        self._stream = stream
        self._conversation: Conversation[Reply] = Conversation(who, client_id)
        self._frames = FrameReader(MAX_ANSWER_BYTES)
        self._unsent: list[bytes] = []
        self._has_unsent = Waiter()
        self._patience = trio.CancelScope()
        """Over when the first of those that wait has waited long enough."""
        self._scope = trio.CancelScope()
        self._ended: PeerFailed | None = None

    def ask(self, reply: Reply, question: Question, version: int, deadline: float) -> None:
        """Have it answered by `deadline` (trio's clock). Raises PeerFailed."""
        if self._ended is not None:
            raise type(self._ended)(*self._ended.args)
        self._unsent.append(self._conversation.ask(reply, question, version, deadline))
        self._patience.deadline = self._conversation.deadline
        self._has_unsent.wake()

    def end(self, failure: PeerFailed) -> None:
        """Close it: `failure` is told to those who wait. Only the first reason counts."""
        if self._ended is None:
            self._ended = failure
            for reply in self._conversation.end():
                reply.fail(failure)
        self._scope.cancel()

    async def run(self) -> None:
        """Send and receive until it ends."""
        try:
            with self._scope:
                with self._patience:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._write)
                        await self._read()
                        nursery.cancel_scope.cancel()
                if self._patience.cancelled_caught:
                    self.end(PeerSilent(f"{self._who} has not answered in time"))
        finally:
            self.end(PeerUnreachable(f"the connection to {self._who} has ended"))
            await trio.aclose_forcefully(self._stream)

    async def _write(self) -> None:
        while True:
            while not self._unsent:
                await self._has_unsent.wait()
            frames, self._unsent = self._unsent, []
            try:
                await self._stream.send_all(b"".join(frames))
            except trio.BrokenResourceError as error:
                self._lost(error)

    async def _read(self) -> None:
        while True:
            try:
                received = await self._stream.receive_some(RECEIVE_BYTES)
            except trio.BrokenResourceError as error:
                self._lost(error)
                return
            if not received:
                self._lost(None)
                return
            try:
                self._take(memoryview(received))
            except (MalformedAnswer, MalformedRequest) as error:
                self.end(PeerUnreachable(f"{self._who} does not speak as it should: {error}"))
                return

    def _take(self, received: memoryview) -> None:
        """Raises MalformedAnswer, or MalformedRequest for the size of a frame."""
        while received:
            room = self._frames.buffer()
            count = min(len(room), len(received))
            room[:count] = received[:count]
            self._frames.received(count)
            received = received[count:]
            while (frame := self._frames.next_frame()) is not None:
                reply, answer = self._conversation.take(frame)
                self._patience.deadline = self._conversation.deadline
                reply.answer(answer)

    def _lost(self, error: Exception | None) -> None:
        self.was_closed = True
        how = "was closed" if error is None else f"broke: {error.__cause__ or error}"
        self.end(PeerUnreachable(f"the connection to {self._who} {how}"))
