"""A store's ingest: which records it takes, what it commits, and what it says afterwards.

Rules:

* an address is kept without gaps from sequence 0 (contiguity);
* nothing is acknowledged, served, sealed or reported beyond what a commit has made durable;
* a sealed address takes nothing more from its writer; a deleted one stays deleted;
* an epoch below the highest known for a log, the same epoch in another gateway life, or another cluster's
  segment, is refused; a higher one seals what other lives have open of the log;
* what a gateway writes is kept only where it was announced;
* from other stores a record is taken as `copying` says, and acknowledged to a writer only while the address
  is open.

Theory of operation: events (`on_record`, `on_head`, `on_request`, ...) change the states in memory and queue
work; `take_commit` hands out one `Commit` at a time; when the shell has written and fsynced it, `committed`
gives the effects: acknowledgements (one per address, cumulative) and answers. So every answer passes through
the commit queue after the records that came before it; it does not wait for the records that come later, or
it would starve while producers are faster than the disk. What needs no disk (a repeated ACK, a FETCH for
a gap) is an effect at once, taken with `take_effects`. What is missing and the writer does not give is told
with `take_wants`: whoever fetches it from other stores gives it to `on_copy`. After a start `resume` is to be
called with every address that the disk keeps as unfinished.

The states, and what requests do to them, are in `segments`; what is missing is in `gaps`, what waits for the
disk in `commit_queue`, what is answered in `answering`.

`Disk` is what the machine asks of its past: a few small point reads when an address is first met. An address
whose past cannot be read is answered for with STATUS_STORAGE_ERROR, and what comes for it is dropped.
"""

import logging
from collections.abc import Sequence

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.answering import acknowledges, status_of
from mesh.protocol.catalog_memory import CatalogMemory
from mesh.protocol.commit import Accepted, Commit, Repair
from mesh.protocol.copying import Taken, Want, check_copy, copy_end, is_unfinished
from mesh.protocol.disk import Disk, StoreCorrupt
from mesh.protocol.segments import Segments
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from wireproto.dafka import ids
from wireproto.dafka.additions import STATUS_SEALED, AddressStatus, Answer, Keep, Kept, Request
from wireproto.dafka.messages import UNANNOUNCED, Ack, Fetch, Head, Record
from wireproto.records.batch import InvalidBatch
from wireproto.records.row import Row, row_of

MAX_QUEUED_BYTES = 128 * 1024 * 1024
"""Content that waits for a commit. Beyond it records are not taken; their writer's HEAD brings them back.
Above the gateway's window, so that it only ever stops strangers."""

MAX_COPIED_BYTES = 8 * 1024 * 1024
"""Records that wait for a commit, beyond which copied ones are not taken: producers wait for one commit of
them at most."""

MAX_WAITING_REQUESTS = 1024
"""OPEN, SEAL, CLOSE, DELETE and COPY that wait for their commit; further ones are not taken, and asked again.
A gateway has a few on their way at a time."""

MAX_WAITING_KEEPS = 16
"""KEEPs that wait for their commit, of up to 2 MiB each. A gateway has one on its way."""

logger = logging.getLogger(__name__)


class Ingest:
    """The machine of one store: it owns what is on its way into the segments, and asks them for the rest.
    `nonce` is that of the store's start: its answers and acknowledgements tell it.
    """

    def __init__(self, incarnation: str, disk: Disk, cluster_id: str = "", nonce: bytes = b"") -> None:
        self._nonce = nonce
        self.catalog_memory = memory = CatalogMemory(incarnation)
        self.segments = segments = Segments(incarnation, disk, cluster_id, lambda: memory.memory.lineage)
        self.queued_bytes = 0
        """Bytes that wait for a commit or are in one, with `RECORD_OVERHEAD_BYTES` for each record."""
        self.refused_records = 0
        self.refused_requests = 0
        """Requests that found `MAX_WAITING_REQUESTS` waiting."""
        self.copied_records = 0
        self.copied_bytes = 0
        self.bad_copies = 0
        """Records from other stores that failed their checks."""
        self._unanswered: set[tuple[bytes, str]] = set()
        """(id of the answer, requester) of the requests that wait, or are in the commit under way."""
        self._keeps = 0
        self._fenced: dict[str, AddressState] = {}
        # What is looked at for each record.
        self._addresses = segments.addresses
        self._live = segments.addresses.live
        self._gaps = segments.gaps
        self._repeat = segments.repeat
        self._enqueue = segments.queue.records.append

    @property
    def incarnation(self) -> str:
        """The store's name in acknowledgements and answers."""
        return self.segments.incarnation

    @property
    def cluster_id(self) -> str:
        """The cluster that the store belongs to, "" before its first OPEN."""
        return self.segments.cluster_id

    @property
    def unreadable(self) -> int:
        """RECORDs, HEADs and requests for addresses whose past cannot be read."""
        return self._addresses.unreadable

    @property
    def unannounced(self) -> int:
        """RECORDs and HEADs of gateways' addresses that were not announced here."""
        return self._addresses.unannounced

    # events: records --------------------------------------------------------------------------------------

    def on_record(self, record: Record, now: float) -> None:
        """A record as its producer published it, or as it sent it again for our FETCH."""
        address, subject, sequence, content = record
        state = self._live.get(address) or self._addresses.heard(address, subject)
        if state is None:
            self.refused_records += 1
            return
        if state.phase is not Phase.OPEN and not self._keeps_unannounced(state):
            return
        expected = state.accepted + 1
        if subject != state.subject:
            self.refused_records += 1
        elif sequence == expected:
            if self._accept(state, sequence, bytes(content)) and self._gaps:
                self._close_gap(state, sequence, now)
        elif sequence > expected:
            self._gaps.keep(self._gaps.ask(state, sequence - 1, now), sequence, bytes(content))
        elif sequence <= state.head:
            self._repeat[address] = state

    def _keeps_unannounced(self, state: AddressState) -> bool:
        """Whether a RECORD or HEAD counts at an address that is not open here: a native producer's does."""
        if state.phase >= Phase.SEALED:
            self._fenced[state.address] = state
            return False
        native = self._addresses.is_native(state)
        if not native:
            # Its gap would keep the state that is forgotten, and fetch for that one when OPEN makes another.
            self._gaps.end(state.address)
        return native

    def _accept(self, state: AddressState, sequence: int, content: bytes) -> bool:
        """Queue the next record of an address, if it is one and there is room for it."""
        if self.queued_bytes + len(content) + RECORD_OVERHEAD_BYTES > MAX_QUEUED_BYTES:
            self.refused_records += 1
            return False
        try:
            self._append(state, sequence, content)
        except InvalidBatch:
            self.refused_records += 1
            return False
        return True

    def _append(self, state: AddressState, sequence: int, content: bytes) -> None:
        """Raises `InvalidBatch`: then nothing has changed."""
        row = b""
        if state.phase is not Phase.NATIVE:
            parsed = row_of(content, state.running_max)
            row = parsed.pack()
            state.running_max = parsed.running_max_timestamp
            state.last_row = row
        state.accepted = sequence
        self.queued_bytes += len(content) + RECORD_OVERHEAD_BYTES
        self._enqueue(Accepted(state, sequence, content, row, state.running_max))

    def _close_gap(self, state: AddressState, sequence: int, now: float) -> None:
        """`sequence` was accepted: so are the records after it that came out of turn."""
        while (content := self._gaps.accepted(state, sequence, now)) is not None:
            sequence += 1
            if not self._accept(state, sequence, content):
                return

    def on_head(self, head: Head, now: float) -> None:
        """The producer says what it has published: repeat the ACK, or ask for what is missing."""
        state = self._live.get(head.address) or self._addresses.heard(head.address, head.subject)
        if state is None or (state.phase is not Phase.OPEN and not self._keeps_unannounced(state)):
            return
        if head.subject != state.subject:
            self.refused_records += 1
            return
        if head.sequence <= state.head:
            self._repeat[head.address] = state
        elif head.sequence > state.accepted:
            self._gaps.ask(state, head.sequence, now)

    def begin_native(self, address: str, first: int, now: float) -> bool:
        """Keep a native address from sequence `first` on: what lies before is nowhere any more. False if some
        of it is here, or it is none.
        """
        state = self._live.get(address)
        if (
            state is None
            or state.phase is not Phase.NATIVE
            or state.accepted >= state.begins
            or first <= state.accepted
        ):
            return False
        ahead = self._gaps.begins_ahead(address)
        state.begins = first if ahead is None else min(first, ahead)
        state.accepted = state.head = state.begins - 1
        self._close_gap(state, state.accepted, now)
        return True

    def on_copy(self, address: str, sequence: int, content: bytes, source: str, now: float) -> Taken:
        """A record of an address in `take_wants`, as store `source` keeps it."""
        state = self._live.get(address)
        if state is None or state.announcement is None or sequence != state.accepted + 1:
            return Taken.UNWANTED
        end = copy_end(state)
        if sequence > end:
            return Taken.UNWANTED
        if self.queued_bytes and self.queued_bytes + len(content) > MAX_COPIED_BYTES:
            return Taken.NOT_NOW
        try:
            epoch = check_copy(state, content)
            self._append(state, sequence, content)
            state.copied_epoch = epoch
        except InvalidBatch as error:
            self.bad_copies += 1
            logger.error("store %s gave a bad copy of %s, sequence %d: %s", source, address, sequence, error)
            return Taken.BAD
        self.copied_records += 1
        self.copied_bytes += len(content)
        if self._gaps:
            self._close_gap(state, sequence, now)
        if sequence == end:
            self.segments.whole(state)
        return Taken.TAKEN

    def take_wants(self) -> dict[str, Want | None]:
        """As `Segments.take_wants`."""
        return self.segments.take_wants()

    def resume(self, address: str) -> None:
        """At a start: the disk keeps this address as one that may lack records."""
        try:
            state = self._addresses.state(address, "")
        except StoreCorrupt as error:
            self._addresses.unreadable += 1
            logger.error("%s", error)
            return
        if state is not None and state.phase is Phase.OPEN:
            self._gaps.watch(state)
        elif state is not None and is_unfinished(state):
            self.segments.want_rest(state)

    def on_repair(self, address: str, first: int, contents: Sequence[bytes], rows: Sequence[bytes]) -> bool:
        """Records of a closed address, with their rows, are to be written over what the disk has lost.

        False if that is not to be: it is no longer closed and whole, or its past cannot be read.
        """
        try:
            state = self._addresses.known_or_new(address, "")
        except StoreCorrupt as error:
            logger.error("%s", error)
            return False
        last = first + len(contents) - 1
        if state.phase is not Phase.CLOSED or is_unfinished(state) or last > state.head:
            return False
        running_max = Row.unpack(rows[-1]).running_max_timestamp
        self.segments.queue.here().repairs.append(Repair(state, first, contents, rows, running_max))
        return True

    # events: requests -------------------------------------------------------------------------------------

    def on_request(self, request: Request, passed_on: bool = False) -> None:
        """OPEN, SEAL, CLOSE, DELETE or COPY; `passed_on`: another store's, where there are keys. Raises
        `MalformedMessage` for entries that cannot be read.

        One that is asked again while its answer waits is not taken twice.
        """
        answer_id = ids.answer_id(request.id)
        if not passed_on:
            self._addresses.lives.heard(request.requester)
        if (answer_id, request.requester) in self._unanswered:
            return
        if len(self._unanswered) >= MAX_WAITING_REQUESTS:
            self.refused_requests += 1
            return
        states = self.segments.handle(request, passed_on)
        self._unanswered.add((answer_id, request.requester))
        self.segments.queue.latest.answers.append((answer_id, request.requester, states))

    def on_keep(self, keep: Keep) -> None:
        """A gateway has something of its catalog kept, or asks what is remembered. Answered when durable."""
        asked = ids.KEPT, keep.requester
        self._addresses.lives.heard(keep.requester)
        if asked in self._unanswered:
            return
        if len(self._unanswered) >= MAX_WAITING_REQUESTS or self._keeps >= MAX_WAITING_KEEPS:
            self.refused_requests += 1
            return
        self._keeps += 1
        waiting = self.segments.queue.here()
        keeping = self.catalog_memory.keep(keep, self.cluster_id)
        if not self.cluster_id and keeping.answer.cluster_id:
            self.segments.cluster_id = waiting.cluster_id = keeping.answer.cluster_id
        self._unanswered.add(asked)
        waiting.keepings.append(keeping)

    def on_asked(self, requester: str) -> None:
        """A PING came from `requester`: addresses that begin as it does are a gateway's."""
        self._addresses.lives.heard(requester)

    # commits ----------------------------------------------------------------------------------------------

    def take_commit(self) -> Commit | None:
        """What is to be made durable next, or None. One at a time: the shell reports it before it takes
        another.
        """
        return self.segments.queue.take()

    def committed(self, commit: Commit) -> list[Ack | Answer | Kept]:
        """The commit is durable: the acknowledgements and answers that may now be sent."""
        self.queued_bytes -= commit.bytes + len(commit.records) * RECORD_OVERHEAD_BYTES
        self.segments.queue.written()
        heads: dict[str, AddressState] = {}
        for state, sequence, _, row, _ in commit.records:
            # Records without rows that came before the announcement are nothing any more.
            if sequence > state.head and (row or state.announcement is None):
                state.head, state.head_row = sequence, row
                heads[state.address] = state
        for repair in commit.repairs:
            if repair.last == repair.state.head:
                repair.state.head_row = repair.state.last_row = repair.rows[-1]
                repair.state.running_max = repair.running_max
        for state, head, row, _ in commit.truncations:
            state.head, state.head_row = head, row
        for state in commit.deletions:
            state.head, state.head_row, state.last_row = -1, b"", b""
        effects: list[Ack | Answer | Kept] = [
            self._ack(state) for state in heads.values() if acknowledges(state)
        ]
        for answer_id, requester, states in commit.answers:
            statuses = tuple(status_of(answer_id, state) for state in states)
            effects.append(Answer(answer_id, requester, self.incarnation, statuses, self._nonce))
            self._unanswered.discard((answer_id, requester))
        self._keeps -= len(commit.keepings)
        for keeping in commit.keepings:
            effects.append(keeping.answer._replace(nonce=self._nonce))
            self._unanswered.discard((ids.KEPT, keeping.answer.requester))
        for state in commit.closed:
            if state.phase is Phase.CLOSED and not is_unfinished(state):
                self._addresses.retire(state)
        for state in commit.deletions:
            self._addresses.forget(state)
            self._gaps.end(state.address)
        return effects

    # effects that need no disk ----------------------------------------------------------------------------

    def take_effects(self, now: float) -> list[Ack | Answer | Fetch]:
        """Repeated ACKs, SEALED notices to writers that were cut off, FETCHes to writers that are due."""
        if not self._repeat and not self._fenced and self._gaps.is_idle(now):
            return []
        effects: list[Ack | Answer | Fetch] = [
            self._ack(state) for state in self._repeat.values() if state.head >= state.begins
        ]
        self._repeat.clear()
        for state in self._fenced.values():
            status = AddressStatus(state.address, STATUS_SEALED, state.head)
            effects.append(Answer(ids.SEALED, state.address, self.incarnation, (status,), self._nonce))
        self._fenced.clear()
        if self._gaps.is_idle(now):
            return effects
        effects += self._gaps.fetches(self.incarnation, now)
        for state, last in self._gaps.take_lagging(now):
            self.segments.want(state, last)
        return effects

    def next_due(self) -> float | None:
        """When `take_effects` has something to do again, or None."""
        return self._gaps.next_due()

    def _ack(self, state: AddressState) -> Ack:
        """Under another name where nothing was announced: it counts for no segment, and C producers get it as
        they know it.
        """
        if state.phase is Phase.NATIVE:
            return Ack(state.address, UNANNOUNCED + self.incarnation, state.subject, state.head)
        return Ack(state.address, self.incarnation, state.subject, state.head, self._nonce)

    # states -----------------------------------------------------------------------------------------------

    def known(self, address: str) -> AddressState | None:
        """The state of an address in memory; its `head` bounds every read. Safe from any thread."""
        return self._addresses.known(address)

    def is_gateways(self, address: str) -> bool:
        """Whether a gateway that was heard of since the start made this address."""
        return self._addresses.lives.has(address)

    def may_drop_native(self, address: str) -> bool:
        """Whether it is a native address of which nothing is on its way to the disk."""
        state = self.known(address)
        return state is None or (state.phase is Phase.NATIVE and state.accepted == state.head)

    def drop_native(self, address: str) -> None:
        """Forget a native address that `may_drop_native`, and whose records the caller has deleted."""
        state = self.known(address)
        if state is not None:
            self._repeat.pop(address, None)
            self._gaps.end(address)
            self._addresses.forget(state)

    def heads(self) -> dict[str, int]:
        """The durable heads of the addresses in memory that may still take records."""
        return {address: state.head for address, state in self._live.items()}
