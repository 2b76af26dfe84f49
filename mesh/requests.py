"""Requests to stores, repeated until answered.

Each request has an id of its own (see `wireproto.dafka.additions`), so an answer that comes twice, late, or
from another store than the one asked is recognised and ignored. Whoever asks bounds the wait with a cancel
scope.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import trio

from mesh.node import Node
from wireproto.dafka.additions import Answer, End, Found, Listed, Pong, Rows
from wireproto.dafka.messages import DirectRecord

REPEAT_FIRST_SECONDS = 0.25
REPEAT_LAST_SECONDS = 2.0
"""An unanswered request is sent again at these intervals: the first is far above a healthy answer with its
fsync."""

RANGE_REPEAT_SECONDS = 2.0
"""A directed FETCH is sent again at this interval: its answer takes longer than a request's, and may be
large."""

ANSWER_IDS = b"oscxpqri"
"""The lower-case ids of the answers, and with them D (DIRECT-RECORD) and N (END), that a requester subscribes
to."""

Make = Callable[[str], Any]
"""requester id -> message."""


class Pending:
    """One request on its way: what came back so far, and the final answer."""

    __slots__ = ("answer", "answered", "records", "store")

    def __init__(self, store: str) -> None:
        self.store = store
        self.answered = trio.Event()
        self.answer: Any = None
        self.records: list[DirectRecord] = []


class Requests:
    """The asking side of one node's life. `prefix` starts every id and address that this life makes."""

    def __init__(self, node: Node) -> None:
        self.prefix = uuid4().hex[:16].upper()
        self.refused_answers = 0
        self.unclaimed: Callable[[Answer], None] = lambda _answer: None
        """Called with an answer of list type that no request waits for."""
        self._node = node
        self._count = 0
        self._pending: dict[str, Pending] = {}
        for answer_id in (*(bytes((letter,)) for letter in ANSWER_IDS), b"D", b"N"):
            node.subscribe(answer_id + self.prefix.encode())
        for answer_type in (Answer, Found, Rows, Listed, Pong, End):
            node.on(answer_type, self._on_answer)
        node.on(DirectRecord, self._on_record)

    def new_id(self) -> str:
        """A new address or request id: 32 upper-case hex characters, never given twice."""
        self._count += 1
        return f"{self.prefix}{self._count:016X}"

    async def ask(self, store: str, make: Make) -> Any:
        """Send `make(requester id)` to `store`, again and again until its answer is here."""
        pending, requester = self._begin(store)
        message = make(requester)
        interval = REPEAT_FIRST_SECONDS
        try:
            while True:
                self._node.send(message)
                with trio.move_on_after(interval):
                    await pending.answered.wait()
                    return pending.answer
                interval = min(interval * 2, REPEAT_LAST_SECONDS)
        finally:
            del self._pending[requester]

    async def ask_range(self, store: str, make: Make) -> tuple[list[DirectRecord], End]:
        """Send a directed FETCH until its END is here; with the DIRECT-RECORDs that came."""
        pending, requester = self._begin(store)
        message = make(requester)
        try:
            while True:
                self._node.send(message)
                with trio.move_on_after(RANGE_REPEAT_SECONDS):
                    await pending.answered.wait()
                    return pending.records, pending.answer
        finally:
            del self._pending[requester]

    def _begin(self, store: str) -> tuple[Pending, str]:
        requester = self.new_id()
        pending = self._pending[requester] = Pending(store)
        return pending, requester

    def _on_answer(self, answer: Any) -> None:
        pending = self._pending.get(answer.requester)
        if pending is None:
            if isinstance(answer, Answer):
                self.unclaimed(answer)
            return
        if pending.answered.is_set():
            return
        if pending.store != answer.store and not isinstance(answer, Pong):
            self.refused_answers += 1
            return
        pending.answer = answer
        pending.answered.set()

    def _on_record(self, record: DirectRecord) -> None:
        pending = self._pending.get(record.requester)
        if pending is None or pending.store != record.store:
            self.refused_answers += 1
            return
        pending.records.append(record)
