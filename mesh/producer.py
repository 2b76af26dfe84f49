"""The producing side of a gateway's node: publishes records, counts acknowledgements.

It owns the `Writer` machines of all open segments and connects them to the node. Whoever appends is told of
progress by `WriterOwner.progressed`, from within the node's receive loop, and of a lost segment by
`WriterOwner.fenced`.

What stores are asked about whole segments is `SegmentRequests`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import trio

from mesh.node import Node
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES, State, Writer
from mesh.requests import Requests
from mesh.segment_requests import SegmentRequests
from wireproto.dafka import ids
from wireproto.dafka.additions import Answer
from wireproto.dafka.messages import Ack, DirectRecordEncoder, Fetch, Head, RecordEncoder

TICK_SECONDS = 0.05
"""How often the writers with unacknowledged records are asked whether HEAD is due."""

STUCK_SECONDS = 1.0
"""A window that has waited so long without an acknowledgement that counts is stuck: what it holds is told
apart from what moves, so that it need not stop others."""

BEHIND_FIRST_SECONDS = 1.0
BEHIND_LAST_SECONDS = 30.0
"""A member that is there and lacks what enough others have is told so by HEAD at these intervals: it may have
been away, and would learn it only from the next record."""

BEHIND_AT_ONCE = 1000
"""Segments with such members that are looked at in one turn."""

logger = logging.getLogger(__name__)


class WriterOwner(Protocol):
    """Who appends to a writer."""

    def progressed(self, writer: Writer, /) -> None:
        """`writer.committed` or `writer.first` moved."""

    def fenced(self, writer: Writer, reason: str, /) -> None:
        """The segment takes nothing more; what was not committed may be kept or not."""


class ProducerListener(Protocol):
    """Who has the log that is written with this producer."""

    def looked_for_stuck(self) -> None:
        """It was looked which windows are stuck, and some are or were."""

    def copied(self, member: str, address: str, /) -> None:
        """A COPY that was answered earlier is done."""

    def is_live(self, member: str, /) -> bool:
        """Whether a member is there."""


class Stuck(NamedTuple):
    """A window that waits without progress, and the bytes in it, with `RECORD_OVERHEAD_BYTES` each."""

    writer: Writer
    held: int


class Producer:
    """All writers of one gateway life. Nothing is asked of a store before `run` runs."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self.requests = requests
        self.window_bytes = 0
        """Content in all windows together, with `RECORD_OVERHEAD_BYTES` for each record."""
        self.stuck_bytes = 0
        """What of it is in windows that wait for longer than `STUCK_SECONDS`."""
        self.segments = SegmentRequests(requests, self._publish_held)
        self._node = node
        self._writers: dict[str, tuple[Writer, WriterOwner, RecordEncoder]] = {}
        self._unacknowledged: dict[str, None] = {}
        """In the order in which their windows began to wait; so is what is sent about them."""
        self._stuck: dict[str, int] = {}
        self._listener: ProducerListener | None = None
        self._quiet: dict[str, None] = {}
        """Segments whose window has become empty."""
        self._behind: dict[str, tuple[float, float]] = {}
        """Those among them with a member that lacks something: when to tell it, and the interval."""
        self._work = trio.Event()
        for message_id in (ids.ACK, ids.FETCH):
            node.subscribe(message_id + requests.prefix.encode())
        requests.unclaimed = self._on_unclaimed

    def connect(self, listener: ProducerListener) -> None:
        """Have `listener` told from now on. Raises RuntimeError if there is one already.

        No argument of the constructor: a gateway's node, and its producer, run while it still asks the stores
        who they are; only then there is a log that could listen. Until then every member counts as there.
        """
        if self._listener is not None:
            raise RuntimeError("somebody listens to this producer already")
        self._listener = listener

    # segments ---------------------------------------------------------------------------------------------

    def start(self, address: str, subject: str, members: Sequence[str], w: int, owner: WriterOwner) -> Writer:
        """A writer that may be appended to at once. What it holds is published once `segments.open` has
        announced it to enough members.
        """
        writer = Writer(address, subject, members, w)
        self._writers[address] = (writer, owner, RecordEncoder(address, subject))
        return writer

    def _publish_held(self, address: str) -> None:
        """Enough members have the segment: publish what was appended until now."""
        held = self._writers.get(address)
        if held is not None:
            writer, _, encoder = held
            for sequence, content in writer.opened(trio.current_time()):
                self._node.publisher.send(encoder.frames(sequence, content))

    def forget(self, writer: Writer) -> None:
        """The segment is closed or deleted: no acknowledgement of it is expected any more."""
        if self._writers.pop(writer.address, None) is not None:
            self.window_bytes -= _held(writer)
            self._unacknowledged.pop(writer.address, None)
            self._unstick(writer.address)
            self.segments.unopen(writer.address)

    # records ----------------------------------------------------------------------------------------------

    def append(self, writer: Writer, content: bytes | bytearray | memoryview) -> int:
        """Append one record and publish it (once the segment is open). Its sequence."""
        sequence = writer.append(content, trio.current_time())
        self.window_bytes += len(content) + RECORD_OVERHEAD_BYTES
        if not self._unacknowledged:
            self._work.set()
        self._unacknowledged[writer.address] = None
        if writer.state is State.OPEN:
            encoder = self._writers[writer.address][2]
            self._node.publisher.send(encoder.frames(sequence, content))
        return sequence

    def on_ack(self, ack: Ack) -> None:
        """A store has everything up to there."""
        held = self._writers.get(ack.address)
        if held is None:
            return
        writer, owner, _ = held
        vouched = self.requests.vouched
        if vouched is not None and vouched.get(ack.store) != ack.nonce:
            if ack.store in writer.members:
                self.requests.drop_unvouched(ack.store, ack.nonce)
            return
        records, size = len(writer), writer.bytes
        if ack.store in writer.members:
            self.requests.heard.add(ack.store)
        if writer.on_ack(ack.store, ack.sequence, trio.current_time()):
            left = len(writer)
            self.window_bytes -= size - writer.bytes + (records - left) * RECORD_OVERHEAD_BYTES
            if not left:
                self._unacknowledged.pop(ack.address, None)
                self._quiet[ack.address] = None
            if self._stuck:
                self._unstick(ack.address)
            owner.progressed(writer)

    def on_fetch(self, fetch: Fetch) -> None:
        """A store lacks records of a segment that is written here."""
        held = self._writers.get(fetch.address)
        if held is None or fetch.store:
            return
        writer = held[0]
        encoder = DirectRecordEncoder(fetch.requester, "", writer.address, writer.subject)
        for sequence, content in writer.on_fetch(fetch.sequence, fetch.count):
            self._node.publisher.send(encoder.frames(sequence, content))

    def _on_unclaimed(self, answer: Answer) -> None:
        """No request waits for this answer: it may be the SEALED that a store sends to a writer, or tell that
        a copy is done.
        """
        if answer.id == ids.COPIED:
            for status in answer.statuses:
                if self._listener is not None:
                    self._listener.copied(answer.store, status.address)
        held = self._writers.get(answer.requester)
        if held is None or answer.id != ids.SEALED:
            return
        writer, owner, _ = held
        if answer.store in writer.members and writer.state is State.OPEN:
            reason = f"store {answer.store} has the segment sealed: another gateway took it over"
            self._fence(writer, owner, reason)

    def _fence(self, writer: Writer, owner: WriterOwner, reason: str) -> None:
        self.forget(writer)
        writer.fence()
        logger.error("segment %s of %s is lost to this gateway: %s", writer.address, writer.subject, reason)
        owner.fenced(writer, reason)

    # windows that wait ------------------------------------------------------------------------------------

    def stuck(self) -> list[Stuck]:
        """The windows that wait without progress, as of the last look."""
        return [Stuck(self._writers[address][0], held) for address, held in self._stuck.items()]

    def give_up(self, writer: Writer, reason: str) -> None:
        """Take nothing more for a segment and keep nothing of what waits: its members decide what is kept."""
        held = self._writers.get(writer.address)
        if held is not None:
            self._fence(writer, held[1], reason)

    def _look_for_stuck(self, now: float) -> None:
        before = self._stuck
        self._stuck = {}
        for address in self._unacknowledged:
            writer = self._writers[address][0]
            if now - writer.waiting_since >= STUCK_SECONDS:
                self._stuck[address] = _held(writer)
        self.stuck_bytes = sum(self._stuck.values())
        if self._listener is not None and (before or self._stuck):
            self._listener.looked_for_stuck()

    def _unstick(self, address: str) -> None:
        self.stuck_bytes -= self._stuck.pop(address, 0)

    # the background ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask the stores what is to be asked, and publish HEAD for writers whose records stay unacknowledged,
        for ever.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.segments.run)
            nursery.start_soon(self._publish_heads)
            nursery.start_soon(self._tell_who_is_behind)

    async def _tell_who_is_behind(self) -> None:
        """Members beyond the w that a record needs may have missed it, and no record may follow."""
        while True:
            await trio.sleep(BEHIND_FIRST_SECONDS)
            now = trio.current_time()
            quiet, self._quiet = self._quiet, {}
            for address in quiet:
                self._behind.setdefault(address, (now, BEHIND_FIRST_SECONDS))
            for address in list(islice(self._behind, BEHIND_AT_ONCE)):
                self._tell_behind(address, *self._behind.pop(address), now)

    def _tell_behind(self, address: str, due: float, interval: float, now: float) -> None:
        held = self._writers.get(address)
        if held is None or not (members := held[0].behind()):
            return
        writer = held[0]
        listener = self._listener
        if listener is not None and not any(map(listener.is_live, members)):
            interval = BEHIND_FIRST_SECONDS
        elif now >= due:
            self._node.send(Head(address, writer.subject, writer.next_sequence - 1))
            due, interval = now + interval, min(2 * interval, BEHIND_LAST_SECONDS)
        self._behind[address] = due, interval

    async def _publish_heads(self) -> None:
        next_look = 0.0
        while True:
            if not self._unacknowledged:
                self._look_for_stuck(trio.current_time())
                self._work = trio.Event()
                await self._work.wait()
            await trio.sleep(TICK_SECONDS)
            now = trio.current_time()
            for address in list(self._unacknowledged):
                writer = self._writers[address][0]
                if writer.on_tick(now):
                    self._node.send(Head(address, writer.subject, writer.next_sequence - 1))
            if now >= next_look:
                next_look = now + STUCK_SECONDS / 2
                self._look_for_stuck(now)


def _held(writer: Writer) -> int:
    return writer.bytes + len(writer) * RECORD_OVERHEAD_BYTES
