"""The producing side of a gateway's node: opens segments, publishes records, counts acknowledgements.

It owns the `Writer` machines of all open segments and connects them to the node. Whoever appends is told of
progress by `WriterOwner.progressed`, from within the node's receive loop, and of a lost segment by
`WriterOwner.fenced`.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

import trio

from mesh.node import Node
from mesh.protocol.recovery import Seal
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES, State, Writer
from mesh.requests import REPEAT_LAST_SECONDS, Requests
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    AddressStatus,
    Announcement,
    Answer,
    Request,
)
from wireproto.dafka.messages import Ack, DirectRecordEncoder, Fetch, Head, RecordEncoder

TICK_SECONDS = 0.05
"""How often the writers with unacknowledged records are asked whether HEAD is due."""

SEAL_GRACE_SECONDS = 0.5
"""How long recovery waits for the members that it could do without."""

LIST_ENTRIES = 256
"""Entries in one OPEN, SEAL, CLOSE or DELETE."""

REASONS = {
    STATUS_FOREIGN_CLUSTER: "the store belongs to another cluster",
    STATUS_STALE_EPOCH: "the store knows a newer leader epoch of this partition",
    STATUS_SEALED: "the store has this segment sealed",
}

logger = logging.getLogger(__name__)


class SegmentRefused(Exception):
    """A store will not take this segment; the text says which and why."""


class WriterOwner(Protocol):
    """Who appends to a writer."""

    def progressed(self, writer: Writer, /) -> None:
        """`writer.committed` or `writer.first` moved."""

    def fenced(self, writer: Writer, reason: str, /) -> None:
        """The segment takes nothing more; what was not committed may be kept or not."""


class Producer:
    """All writers of one gateway life."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self.requests = requests
        self.window_bytes = 0
        """Content in all windows together, with `RECORD_OVERHEAD_BYTES` for each record."""
        self._node = node
        self._writers: dict[str, tuple[Writer, WriterOwner, RecordEncoder]] = {}
        self._unacknowledged: set[str] = set()
        self._work = trio.Event()
        node.on(Ack, self._on_ack)
        node.on(Fetch, self._on_fetch)
        for message_id in (b"K", b"F"):
            node.subscribe(message_id + requests.prefix.encode())
        requests.unclaimed = self._on_unclaimed

    # segments ---------------------------------------------------------------------------------------------

    def start(self, address: str, subject: str, members: Sequence[str], w: int, owner: WriterOwner) -> Writer:
        """A writer that may be appended to at once; nothing is published before `open` has announced it."""
        writer = Writer(address, subject, members, w)
        self._writers[address] = (writer, owner, RecordEncoder(address, subject))
        return writer

    async def open(self, segments: Sequence[Announcement]) -> dict[str, str]:
        """Announce segments and publish what their writers hold already. Gives address -> why it was refused.

        Returns when for each segment enough members (w, and n-w+1) have the announcement on disk, or one
        refused.
        """
        refused: dict[str, str] = {}
        confirmed: dict[str, set[str]] = {segment.address: set() for segment in segments}
        needed = {s.address: max(s.w, len(s.members) - s.w + 1) for s in segments}
        enough = trio.Event()

        async def announce(member: str) -> None:
            mine = [segment for segment in segments if member in segment.members]
            statuses = await self._ask_list(b"O", member, [(s.address, s.pack()) for s in mine])
            for status in statuses:
                if status.status == STATUS_DONE:
                    confirmed[status.address].add(member)
                else:
                    reason = REASONS.get(status.status, f"status {status.status}")
                    refused[status.address] = f"store {member}: {reason}"
            if all(a in refused or len(confirmed[a]) >= needed[a] for a in confirmed):
                enough.set()

        async with trio.open_nursery() as nursery:
            for member in sorted({member for segment in segments for member in segment.members}):
                nursery.start_soon(announce, member)
            await enough.wait()
            nursery.cancel_scope.cancel()
        for address in confirmed:
            if address not in refused:
                self._publish_held(address)
        return refused

    def _publish_held(self, address: str) -> None:
        held = self._writers.get(address)
        if held is not None:
            writer, _, encoder = held
            for sequence, content in writer.opened(trio.current_time()):
                self._node.publisher.send(encoder.frames(sequence, content))

    async def seal(self, seals: Sequence[Seal]) -> None:
        """Fill in `seals` from their members.

        Returns when each is decidable (and a grace for the others is over) or never will be, because
        members refused it. Waits for ever for members that do not answer: look at `Seal.missing`.
        """

        async def ask(member: str) -> None:
            mine = {seal.address: seal for seal in seals if member in seal.members}
            entries = _entries((address, -1) for address in mine)
            for status in await self._ask_list(b"S", member, entries):
                seal = mine[status.address]
                if status.status == STATUS_DONE:
                    seal.on_sealed(member, status.sequence, status.row)
                elif status.status == STATUS_NOT_HERE:
                    seal.on_sealed(member, -1, b"", known=False)
                else:
                    seal.on_refused(member, status.status)
            progress.set()

        progress = trio.Event()
        async with trio.open_nursery() as nursery:
            for member in sorted({member for seal in seals for member in seal.members}):
                nursery.start_soon(ask, member)
            while not all(seal.decidable or seal.complete for seal in seals):
                await progress.wait()
                progress = trio.Event()
            with trio.move_on_after(SEAL_GRACE_SECONDS):
                while not all(seal.complete for seal in seals):
                    await progress.wait()
                    progress = trio.Event()
            nursery.cancel_scope.cancel()

    async def close(self, member: str, ends: Sequence[tuple[str, int]]) -> list[AddressStatus]:
        """Tell one member the agreed ends of segments, until it answers: one status for each."""
        return await self._ask_list(b"C", member, _entries(ends))

    async def delete(self, member: str, addresses: Sequence[str]) -> list[AddressStatus]:
        """Have one member delete addresses, until it answers: one status for each, STATUS_DONE once it is
        gone.
        """
        return await self._ask_list(b"X", member, _entries((address, -1) for address in addresses))

    async def _ask_list(
        self, message_id: bytes, member: str, entries: Sequence[tuple[str, bytes]]
    ) -> list[AddressStatus]:
        """One status for each address of `entries`, which has each once, and for no other."""
        statuses: list[AddressStatus] = []
        for start in range(0, len(entries), LIST_ENTRIES):
            statuses += await self._ask_piece(message_id, member, dict(entries[start : start + LIST_ENTRIES]))
        return statuses

    async def _ask_piece(
        self, message_id: bytes, member: str, missing: dict[str, bytes]
    ) -> list[AddressStatus]:
        statuses: list[AddressStatus] = []
        said = False
        while True:
            packed = tuple(missing.values())
            answer = await self.requests.ask(member, partial(_request, message_id, member, packed))
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
            self._unacknowledged.discard(writer.address)

    # records ----------------------------------------------------------------------------------------------

    def append(self, writer: Writer, content: bytes | bytearray | memoryview) -> int:
        """Append one record and publish it (once the segment is open). Its sequence."""
        sequence = writer.append(content, trio.current_time())
        self.window_bytes += len(content) + RECORD_OVERHEAD_BYTES
        if not self._unacknowledged:
            self._work.set()
        self._unacknowledged.add(writer.address)
        if writer.state is State.OPEN:
            encoder = self._writers[writer.address][2]
            self._node.publisher.send(encoder.frames(sequence, content))
        return sequence

    def _on_ack(self, ack: Ack) -> None:
        held = self._writers.get(ack.address)
        if held is None:
            return
        writer, owner, _ = held
        before = _held(writer)
        if writer.on_ack(ack.store, ack.sequence, trio.current_time()):
            self.window_bytes -= before - _held(writer)
            if not writer:
                self._unacknowledged.discard(ack.address)
            owner.progressed(writer)

    def _on_fetch(self, fetch: Fetch) -> None:
        held = self._writers.get(fetch.address)
        if held is None or fetch.store:
            return
        writer = held[0]
        encoder = DirectRecordEncoder(fetch.requester, "", writer.address, writer.subject)
        for sequence, content in writer.on_fetch(fetch.sequence, fetch.count):
            self._node.publisher.send(encoder.frames(sequence, content))

    def _on_unclaimed(self, answer: Answer) -> None:
        """No request waits for this answer: it may be the SEALED that a store sends to a writer."""
        held = self._writers.get(answer.requester)
        if held is None or answer.id != b"s":
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

    async def run(self) -> None:
        """Publish HEAD for writers whose records stay unacknowledged, for ever."""
        while True:
            if not self._unacknowledged:
                self._work = trio.Event()
                await self._work.wait()
            await trio.sleep(TICK_SECONDS)
            now = trio.current_time()
            for address in list(self._unacknowledged):
                writer = self._writers[address][0]
                if writer.on_tick(now):
                    self._node.send(Head(address, writer.subject, writer.next_sequence - 1))


def _entries(wanted: Iterable[tuple[str, int]]) -> list[tuple[str, bytes]]:
    """(address, entry) of a SEAL, CLOSE or DELETE, from (address, sequence; -1 where none is meant)."""
    return [(address, AddressStatus(address, STATUS_DONE, sequence).pack()) for address, sequence in wanted]


def _held(writer: Writer) -> int:
    return writer.bytes + len(writer) * RECORD_OVERHEAD_BYTES


def _request(message_id: bytes, member: str, packed: tuple[bytes, ...], requester: str) -> Request:
    return Request(message_id, member, requester, packed)
