"""Requests to stores, repeated until answered.

Each request has an id of its own (see `wireproto.dafka.additions`), so an answer that comes twice, late, or
from another store than the one asked is recognised and ignored. The ids are counted up, so anybody can guess
them: an answer of another type than the request's, or about another address, is ignored too, and of a range
no more is kept than was asked for. Whoever asks bounds the wait with a cancel scope.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import trio

from mesh.node import Node
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    ANY_STORE,
    Answer,
    Digest,
    Digested,
    End,
    Found,
    GetRows,
    Keep,
    Kept,
    Listed,
    ListSegments,
    Lookup,
    Ping,
    Pong,
    Recall,
    Recalled,
    Request,
    Rows,
    Verify,
)
from wireproto.dafka.messages import DirectRecord, Fetch

REPEAT_FIRST_SECONDS = 0.25
REPEAT_LAST_SECONDS = 2.0
"""An unanswered request is sent again at these intervals: the first is far above a healthy answer with its
fsync."""

RANGE_REPEAT_SECONDS = 2.0
"""A directed FETCH is sent again at this interval: its answer takes longer than a request's, and may be
large."""

ANSWER_TYPES: dict[type[Any], type[Any]] = {
    Request: Answer,
    Ping: Pong,
    Lookup: Found,
    GetRows: Rows,
    Verify: Rows,
    ListSegments: Listed,
    Digest: Digested,
    Keep: Kept,
    Recall: Recalled,
    Fetch: End,
}

TOLD_ADDRESS: dict[type[Any], Callable[[Any], str]] = {
    Found: lambda found: str(found.found.address),
    Rows: lambda rows: str(rows.status.address),
    Digested: lambda digested: str(digested.digested.address),
    End: lambda end: str(end.last.address),
}
"""The address that an answer tells of; that of VERIFY names the store there."""

VOUCHED_TYPES = frozenset((Answer, Listed, Rows, Kept, Recalled))
"""Answers that tell the start of the store that gives them: they count only if that start does."""

Make = Callable[[str], Any]
"""requester id -> message, of a type in `ANSWER_TYPES`."""


class Pending:
    """One request on its way, and its answer."""

    def __init__(self, store: str, message: Any) -> None:
        self.store = store
        self.message = message
        self.answered = trio.Event()
        self.answer: Any = None
        self.pause = trio.CancelScope()
        """Until it is sent again."""
        self.hurried = False

    def fits(self, answer: Any) -> bool:
        """Whether this is of the type that was asked for, from the store and about the address asked."""
        asked = self.message
        if type(answer) is not ANSWER_TYPES[type(asked)]:
            return False
        if isinstance(answer, Answer) and answer.id != ids.answer_id(asked.id):
            return False
        told = TOLD_ADDRESS.get(type(answer))
        if told is not None and told(answer) != (asked.store if isinstance(asked, Verify) else asked.address):
            return False
        return answer.store == self.store or (self.store == ANY_STORE and isinstance(answer, Pong))


class PendingRange(Pending):
    """A directed FETCH on its way, and the records that came: from its first one on, without gaps."""

    def __init__(self, store: str, message: Fetch) -> None:
        super().__init__(store, message)
        self.records: list[DirectRecord] = []
        self._bytes = 0

    def take(self, record: DirectRecord) -> bool:
        """Keep a record if it is the next one that was asked for; a range ends with the record that passes
        its byte cap.
        """
        asked, records = self.message, self.records
        if (
            (record.store, record.address) != (self.store, asked.address)
            or record.sequence != asked.sequence + len(records)
            or len(records) >= asked.count
            or (records and self._bytes >= asked.byte_cap)
            or self.answered.is_set()
        ):
            return False
        self._bytes += len(record.content)
        records.append(record)
        return True


class Requests:
    """The asking side of one node's life. `prefix` (16 upper-case hex characters, a new one if it is not
    given) starts every id and address that this life makes.
    """

    def __init__(self, node: Node, prefix: str = "") -> None:
        self.prefix = prefix or uuid4().hex[:16].upper()
        self.refused_answers = 0
        """Answers and records that were not asked for, or not of their sender, or came twice or out of turn.
        """
        self.unclaimed: Callable[[Answer], None] = lambda _answer: None
        """Called with an answer of list type that no request waits for."""
        self.introduced: Callable[[Pong], None] = lambda _pong: None
        """Called with every PONG, but those that claim to answer another request."""
        self.heard: set[str] = set()
        """Stores that answered or acknowledged something; whoever watches over them empties it."""
        self.vouched: Mapping[str, bytes] | None = None
        """Incarnation -> the nonce of the start whose answers and acknowledgements count; None: all do."""
        self.stranger: Callable[[str, bytes], None] = lambda _store, _nonce: None
        """Called with (store, nonce) of what was dropped because its start does not count."""
        self.unvouched = 0
        """Answers and acknowledgements that were dropped so."""
        self._node = node
        self._count = 0
        self._pending: dict[str, Pending] = {}
        for answer_id in (*ids.ANSWERS, ids.DIRECT_RECORD, ids.END):
            node.subscribe(answer_id + self.prefix.encode())

    def new_id(self) -> str:
        """A new address or request id: 32 upper-case hex characters, never given twice."""
        self._count += 1
        return f"{self.prefix}{self._count:016X}"

    def skip_to(self, count: int) -> None:
        """Go on counting there: an earlier run under the same prefix has used the numbers below."""
        self._count = max(self._count, count)

    def is_awaited(self, requester: str) -> bool:
        """Whether a request with this id waits for its answer."""
        return requester in self._pending

    async def ask(self, store: str, make: Make) -> Any:
        """Send `make(requester id)` to `store`, again and again until its answer is here."""
        pending = Pending(store, make(self.new_id()))
        interval = REPEAT_FIRST_SECONDS
        with self._awaiting(pending):
            while True:
                self._node.send(pending.message)
                with trio.move_on_after(interval) as pending.pause:
                    await pending.answered.wait()
                    return pending.answer
                interval = REPEAT_FIRST_SECONDS if pending.hurried else min(interval * 2, REPEAT_LAST_SECONDS)
                pending.hurried = False

    async def ask_range(self, store: str, make: Make) -> tuple[list[DirectRecord], End]:
        """Send a directed FETCH until its END is here; with the DIRECT-RECORDs that came."""
        pending = PendingRange(store, make(self.new_id()))
        with self._awaiting(pending):
            while True:
                self._node.send(pending.message)
                with trio.move_on_after(RANGE_REPEAT_SECONDS) as pending.pause:
                    await pending.answered.wait()
                    return pending.records, pending.answer

    def hurry(self, store: str) -> None:
        """A store is there again: send what it has not answered at once."""
        for pending in self._pending.values():
            if pending.store == store:
                pending.hurried = True
                pending.pause.cancel()

    @contextmanager
    def _awaiting(self, pending: Pending) -> Iterator[None]:
        requester = pending.message.requester
        self._pending[requester] = pending
        try:
            yield
        finally:
            del self._pending[requester]

    def on_answer(self, answer: Any) -> None:
        """An answer came, to a request of this life or not."""
        if (
            self.vouched is not None
            and type(answer) in VOUCHED_TYPES
            and self.vouched.get(answer.store) != answer.nonce
        ):
            self.drop_unvouched(answer.store, answer.nonce)
            return
        pending = self._pending.get(answer.requester)
        if pending is None:
            self._on_unclaimed(answer)
        elif pending.answer is not None or not pending.fits(answer):
            self.refused_answers += 1
        else:
            pending.answer = answer
            pending.answered.set()
            if type(answer) in VOUCHED_TYPES:
                self.heard.add(answer.store)
            if isinstance(answer, Pong):
                self.introduced(answer)

    def drop_unvouched(self, store: str, nonce: bytes) -> None:
        """Something came of a start that does not count; the caller forgets it."""
        self.unvouched += 1
        self.stranger(store, nonce)

    def _on_unclaimed(self, answer: Any) -> None:
        if isinstance(answer, Answer):
            self.unclaimed(answer)
        elif isinstance(answer, Pong):
            self.introduced(answer)
        else:
            self.refused_answers += 1

    def on_record(self, record: DirectRecord) -> None:
        """A record of a directed FETCH's answer came."""
        pending = self._pending.get(record.requester)
        if not isinstance(pending, PendingRange) or not pending.take(record):
            self.refused_answers += 1
