"""The producing side of a gateway's node: opens segments, publishes records, counts acknowledgements.

It owns the `Writer` machines of all open segments and connects them to the node. Whoever appends is told of
progress by `WriterOwner.progressed`, from within the node's receive loop, and of a lost segment by
`WriterOwner.fenced`.

What members are asked about addresses (OPEN, SEAL, CLOSE, COPY) waits in a list for each of them
(`AddressRequests`), so one that does not answer holds up nobody else's segments. A member that was away when
a segment was opened has the announcement repeated until it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

import trio

from mesh.address_requests import LIST_ENTRIES, AddressRequests, Answered
from mesh.node import Node
from mesh.protocol.opening import PASSING, Opening
from mesh.protocol.recovery import Seal
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES, State, Writer
from mesh.requests import REPEAT_LAST_SECONDS, Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    Request,
)
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

REASONS = {
    STATUS_FOREIGN_CLUSTER: "the store belongs to another cluster",
    STATUS_STALE_EPOCH: "the store knows a newer leader epoch of this partition",
    STATUS_SEALED: "the store has this segment sealed",
    STATUS_STORAGE_ERROR: "the store cannot read or write its disk",
    STATUS_NOT_HERE: "the store has no room for another address",
}

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
        self.closes = AddressRequests(requests, ids.CLOSE)
        self.copies = AddressRequests(requests, ids.COPY)
        self._opens = AddressRequests(requests, ids.OPEN)
        self._seals = AddressRequests(requests, ids.SEAL)
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
        """A writer that may be appended to at once; nothing is published before `open` has announced it."""
        writer = Writer(address, subject, members, w)
        self._writers[address] = (writer, owner, RecordEncoder(address, subject))
        return writer

    def members_written_to(self) -> set[str]:
        """The members of all segments that are open or being opened."""
        return {member for writer, *_ in self._writers.values() for member in writer.members}

    def open(self, segment: Announcement, told: Callable[[Opening], None]) -> None:
        """Announce a segment to its members, each until it has it or will not.

        What its writer holds is published once enough members have it. `told` is called with each answer:
        look at `enough` and `hopeless`.
        """
        opening = Opening(segment.address, segment.members, segment.w)
        entry = segment.pack()
        for member in opening.members:
            self._opens.ask(member, segment.address, entry, partial(self._on_opened, opening, entry, told))

    def _on_opened(
        self,
        opening: Opening,
        entry: bytes,
        told: Callable[[Opening], None],
        member: str,
        status: AddressStatus,
    ) -> None:
        was_enough = opening.enough
        opening.on_status(member, status.status)
        if status.status != STATUS_DONE:
            logger.warning("segment %s is not announced: %s", opening.address, why_refused(opening, member))
        if opening.hopeless:
            self._opens.drop(opening.address)
        elif status.status in PASSING:
            again = partial(self._on_opened, opening, entry, told)
            self._opens.ask_later(member, opening.address, entry, again)
        if opening.enough and not was_enough:
            self._publish_held(opening.address)
        told(opening)

    def _publish_held(self, address: str) -> None:
        held = self._writers.get(address)
        if held is not None:
            writer, _, encoder = held
            for sequence, content in writer.opened(trio.current_time()):
                self._node.publisher.send(encoder.frames(sequence, content))

    def seal(self, seal: Seal, told: Callable[[], None]) -> None:
        """Have the members seal a segment, each until it answers. `told` is called with each answer."""
        entry = _entry(seal.address)
        for member in seal.members:
            self._seals.ask(member, seal.address, entry, partial(_on_sealed, seal, told))

    def seal_again(self, seal: Seal, member: str, told: Callable[[], None]) -> None:
        """Ask a member again, later, that could not seal."""
        self._seals.ask_later(member, seal.address, _entry(seal.address), partial(_on_sealed, seal, told))

    def close(self, member: str, address: str, end: int, answered: Answered) -> None:
        """Tell a member the agreed end of a segment, until it answers."""
        self.closes.ask(member, address, _entry(address, end), answered)

    def close_again(self, member: str, address: str, end: int, answered: Answered) -> None:
        """As `close`, later: it could not, or has not all of it yet."""
        self.closes.ask_later(member, address, _entry(address, end), answered)

    def unseal(self, address: str) -> None:
        """No further answers to `seal` are wanted."""
        self._seals.drop(address)

    async def delete(self, member: str, addresses: Sequence[str]) -> list[AddressStatus]:
        """Have one member delete addresses, until it answers: one status for each, STATUS_DONE once it is
        gone.
        """
        entries = [(address, _entry(address)) for address in addresses]
        statuses: list[AddressStatus] = []
        for start in range(0, len(entries), LIST_ENTRIES):
            statuses += await self._delete_piece(member, dict(entries[start : start + LIST_ENTRIES]))
        return statuses

    async def _delete_piece(self, member: str, missing: dict[str, bytes]) -> list[AddressStatus]:
        statuses: list[AddressStatus] = []
        said = False
        while True:
            answer = await self.requests.ask(member, partial(_delete, member, tuple(missing.values())))
            statuses += [s for s in answer.statuses if missing.pop(s.address, None) is not None]
            if not missing:
                return statuses
            if not said:
                left_out = next(iter(missing))
                logger.warning("store %s answers, and not for %s: it is asked again", member, left_out)
                said = True
            await trio.sleep(REPEAT_LAST_SECONDS)

    def forget(self, writer: Writer) -> None:
        """The segment is closed or deleted: no acknowledgement of it is expected any more."""
        if self._writers.pop(writer.address, None) is not None:
            self.window_bytes -= _held(writer)
            self._unacknowledged.pop(writer.address, None)
            self._unstick(writer.address)
            self._opens.drop(writer.address)

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
        before = _held(writer)
        if ack.store in writer.members:
            self.requests.heard.add(ack.store)
        if writer.on_ack(ack.store, ack.sequence, trio.current_time()):
            self.window_bytes -= before - _held(writer)
            if not writer:
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
            for asked in (self._opens, self._seals, self.closes, self.copies):
                nursery.start_soon(asked.run)
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


def _delete(member: str, packed: tuple[bytes, ...], requester: str) -> Request:
    return Request(ids.DELETE, member, requester, packed)


def why_refused(opening: Opening, member: str) -> str:
    """For messages: which store, and what it said."""
    status = opening.refused.get(member, STATUS_DONE)
    return f"store {member}: {REASONS.get(status, f'status {status}')}"


def _on_sealed(seal: Seal, told: Callable[[], None], member: str, status: AddressStatus) -> None:
    if status.status == STATUS_DONE:
        seal.on_sealed(member, status.sequence, status.row)
    elif status.status == STATUS_NOT_HERE:
        seal.on_sealed(member, -1, b"", known=False)
    else:
        seal.on_refused(member, status.status)
    told()


def _entry(address: str, sequence: int = -1) -> bytes:
    """An entry of a SEAL, CLOSE or DELETE; -1 where no sequence is meant."""
    return AddressStatus(address, STATUS_DONE, sequence).pack()


def _held(writer: Writer) -> int:
    return writer.bytes + len(writer) * RECORD_OVERHEAD_BYTES
