"""A store's ingest: which records it takes, what it commits, and what it says afterwards.

Rules: an address is kept without gaps from sequence 0 (contiguity); nothing is acknowledged, served, sealed
or reported beyond what a commit has made durable; a sealed address takes nothing more from its writer; a
deleted one stays deleted; an epoch below the highest known for a log, the same epoch in another gateway life,
or another cluster's segment, is refused.

Theory of operation: events (`on_record`, `on_head`, `on_open`, ...) change the states in memory and queue
work; `take_commit` hands out one `Commit` at a time; when the shell has written and fsynced it, `committed`
gives the effects: acknowledgements (one per address, cumulative) and answers. So every answer passes through
the commit queue behind the records that came before it; the records that come behind it are nothing to it,
or it would starve while producers are faster than the disk. What needs no disk (a repeated ACK, a FETCH for
a gap) is an effect at once, taken with `take_effects`.

`Disk` is what the machine asks of its past: a few small point reads when an address is first met. An address
whose past cannot be read is answered for with STATUS_STORAGE_ERROR, and what comes for it is dropped.
"""

import logging
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from mesh.protocol.address_state import NO_END, AddressState, Phase, life_of
from mesh.protocol.gaps import Gap
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    Request,
)
from wireproto.dafka.messages import Ack, Fetch, Head, Record
from wireproto.records.batch import InvalidBatch
from wireproto.records.row import row_of

MAX_QUEUED_BYTES = 128 * 1024 * 1024
"""Content that waits for a commit. Beyond it records are not taken; their writer's HEAD brings them back.
Above the gateway's window, so that it only ever stops strangers."""

MAX_COMMIT_BYTES = 8 * 1024 * 1024
"""Content in one commit: bounds the time of one write and so the latency behind it."""

MAX_COMMIT_RECORDS = 4096
"""Records in one commit: each costs the write some microseconds, however small it is."""

MAX_WAITING_REQUESTS = 1024
"""OPEN, SEAL, CLOSE and DELETE that wait for their commit; further ones are not taken, and asked again. A
gateway has a few on their way at a time."""

MAX_CLOSED_STATES = 4096
"""Closed, deleted and unreadable addresses kept in memory; others are read again when asked about."""

MAX_ADDRESSES = 200_000
"""Open, sealed and native addresses kept in memory; further ones are not opened or sealed, and their records
are not taken."""

logger = logging.getLogger(__name__)


class StoreCorrupt(Exception):
    """A stored value could not be read back whole."""


class Disk(Protocol):
    """Point reads of what is durable. All raise `StoreCorrupt`."""

    def load(self, address: str) -> AddressState | None:
        """What is kept of an address, or None."""

    def row(self, address: str, sequence: int) -> tuple[bytes, int]:
        """A record's row and the running maximum timestamp in it; (b"", -1) where no row is kept."""

    def highest_epoch(self, log: str) -> tuple[int, str]:
        """The highest epoch that any OPEN announced for this log and the life that did; (-1, "") for none."""


class Accepted(NamedTuple):
    """A record on its way to the disk. `row` is empty for native addresses."""

    state: AddressState
    sequence: int
    content: bytes
    row: bytes
    running_max: int


class Truncation(NamedTuple):
    """Everything of an address behind `head` goes; `row` and `running_max` are those at `head`."""

    state: AddressState
    head: int
    row: bytes
    running_max: int


class Commit:
    """One atomic write: records with rows, and the metas, epochs, truncations and deletions that changed.

    What requests change is written behind the commit's records, and may be: a commit holds no record of an
    address from behind the request that sealed, closed or deleted it, because none was accepted.
    """

    def __init__(self, behind: int = 0) -> None:
        self.behind = behind
        """How many records were accepted before the requests: so many must be in commits up to this one."""
        self.records: list[Accepted] = []
        self.metas: dict[str, bytes] = {}
        """address -> meta, packed as it was when it changed: later changes belong to a later commit."""
        self.epochs: dict[str, tuple[int, str]] = {}
        """log -> (highest epoch, the life that announced it)."""
        self.cluster_id: str | None = None
        self.truncations: list[Truncation] = []
        self.closed: list[AddressState] = []
        self.deletions: list[AddressState] = []
        """Everything of these but their metas goes."""
        self.answers: list[tuple[bytes, str, list[AddressState | AddressStatus]]] = []
        """(id of the answer, requester, of what)."""
        self.bytes = 0
        """Content of the records."""
        self.sealing = False

    def take_over(self, later: "Commit") -> None:
        """Take what `later` changes (it has no records yet) into this commit too."""
        self.metas.update(later.metas)
        self.epochs.update(later.epochs)
        self.cluster_id = self.cluster_id or later.cluster_id
        self.truncations += later.truncations
        self.closed += later.closed
        self.deletions += later.deletions
        self.answers += later.answers
        self.sealing = self.sealing or later.sealing

    def __bool__(self) -> bool:
        return bool(self.records or self.metas or self.answers or self.truncations or self.deletions)


Entry = TypeVar("Entry", Announcement, AddressStatus)
"""What a request carries a list of."""


class Ingest:
    """The machine of one store. `incarnation` is its name in acknowledgements and answers."""

    def __init__(self, incarnation: str, disk: Disk, cluster_id: str = "") -> None:
        self.incarnation = incarnation
        self.cluster_id = cluster_id
        self.queued_bytes = 0
        """Bytes that wait for a commit or are in one, with `RECORD_OVERHEAD_BYTES` for each record."""
        self.refused_records = 0
        self.refused_requests = 0
        """Requests that found `MAX_WAITING_REQUESTS` waiting."""
        self.unreadable = 0
        """RECORDs, HEADs and requests for addresses whose past cannot be read."""
        self._disk = disk
        self._states: dict[str, AddressState] = {}
        self._closed: dict[str, AddressState] = {}
        self._unreadable: dict[str, None] = {}
        self._epochs: dict[str, tuple[int, str]] = {}
        self._waiting: deque[Commit] = deque()
        """What requests changed and no commit has yet: an entry for each place in the queue of records."""
        self._unanswered: set[tuple[bytes, str]] = set()
        """(id of the answer, requester) of the requests that wait, or are in the commit under way."""
        self._taken = 0
        """Records that were handed out in commits."""
        self._queue: list[Accepted] = []
        self._writing: list[Accepted] = []
        """The records of the commit that the shell has."""
        self._repeat: dict[str, AddressState] = {}
        self._gaps: dict[str, Gap] = {}
        self._fenced: dict[str, AddressState] = {}

    # events: records --------------------------------------------------------------------------------------

    def on_record(self, record: Record, now: float) -> None:
        """A record as its producer published it, or as it sent it again for our FETCH."""
        address, subject, sequence, content = record
        state = self._states.get(address) or self._heard(address, subject)
        if state is None:
            self.refused_records += 1
            return
        if state.phase >= Phase.SEALED:
            self._fenced[address] = state
            return
        expected = state.accepted + 1
        if sequence != expected:
            if sequence > expected:
                self._ask_for_gap(state, sequence - 1, now)
            elif sequence <= state.head:
                self._repeat[address] = state
            return
        if (
            subject != state.subject
            or self.queued_bytes + len(content) + RECORD_OVERHEAD_BYTES > MAX_QUEUED_BYTES
        ):
            self.refused_records += 1
            return
        try:
            self._accept(state, sequence, bytes(content), now)
        except InvalidBatch:
            self.refused_records += 1

    def _accept(self, state: AddressState, sequence: int, content: bytes, now: float) -> None:
        row = b""
        if state.phase is not Phase.NATIVE:
            parsed = row_of(content, state.running_max)
            row = parsed.pack()
            state.running_max = parsed.running_max_timestamp
            state.last_row = row
        state.accepted = sequence
        self.queued_bytes += len(content) + RECORD_OVERHEAD_BYTES
        self._queue.append(Accepted(state, sequence, content, row, state.running_max))
        if self._gaps:
            gap = self._gaps.get(state.address)
            if gap is not None and gap.accepted(sequence, now):
                del self._gaps[state.address]

    def on_head(self, head: Head, now: float) -> None:
        """The producer says what it has published: repeat the ACK, or ask for what is missing."""
        state = self._states.get(head.address) or self._heard(head.address, head.subject)
        if state is None:
            return
        if state.phase >= Phase.SEALED:
            self._fenced[head.address] = state
        elif head.sequence <= state.head:
            self._repeat[head.address] = state
        elif head.sequence > state.accepted:
            self._ask_for_gap(state, head.sequence, now)

    def _ask_for_gap(self, state: AddressState, last: int, now: float) -> None:
        gap = self._gaps.get(state.address)
        if gap is None:
            gap = self._gaps[state.address] = Gap(state, now)
        gap.heard(last)

    # events: requests -------------------------------------------------------------------------------------

    def on_request(self, request: Request) -> None:
        """OPEN, SEAL, CLOSE or DELETE. Raises `MalformedMessage` for entries that cannot be read.

        One that is asked again while its answer waits is not taken twice.
        """
        answer_id = request.id.lower()
        if (answer_id, request.requester) in self._unanswered:
            return
        if len(self._unanswered) >= MAX_WAITING_REQUESTS:
            self.refused_requests += 1
            return
        behind = self._taken + len(self._queue)
        if not self._waiting or self._next.behind < behind:
            self._waiting.append(Commit(behind))
        states: list[AddressState | AddressStatus]
        if request.id == b"O":
            segments = [Announcement.unpack(entry) for entry in request.entries]
            states = [self._read(self._open, segment) for segment in segments]
        else:
            handle = {b"S": self._seal, b"C": self._close, b"X": self._delete}[request.id]
            wanted = [AddressStatus.unpack(entry) for entry in request.entries]
            states = [self._read(handle, entry) for entry in wanted]
        self._unanswered.add((answer_id, request.requester))
        self._next.answers.append((answer_id, request.requester, states))

    @property
    def _next(self) -> Commit:
        """Where the request at hand puts what it changes."""
        return self._waiting[-1]

    def _read(
        self, handle: Callable[[Entry], AddressState | AddressStatus], entry: Entry
    ) -> AddressState | AddressStatus:
        """Handle one entry of a request; nothing has changed if the disk cannot be read."""
        try:
            return handle(entry)
        except StoreCorrupt as error:
            self.unreadable += 1
            logger.error("%s", error)
            return AddressStatus(entry.address, STATUS_STORAGE_ERROR, -1)

    def _open(self, segment: Announcement) -> AddressState | AddressStatus:
        if self.cluster_id and segment.cluster_id != self.cluster_id:
            return AddressStatus(segment.address, STATUS_FOREIGN_CLUSTER, -1)
        state = self._state(segment.address, segment.subject)
        if state is None:
            return AddressStatus(segment.address, STATUS_NOT_HERE, -1)
        if state.announcement == segment and state.phase is Phase.OPEN:
            return state
        if state.phase is not Phase.NATIVE or state.accepted >= 0:
            return AddressStatus(segment.address, STATUS_SEALED, state.head)
        epoch, life = self._highest_epoch(segment.log)
        announcer = life_of(segment.address)
        if segment.epoch < epoch or (segment.epoch == epoch and announcer != life):
            return AddressStatus(segment.address, STATUS_STALE_EPOCH, -1)
        if not self.cluster_id:
            self.cluster_id = self._next.cluster_id = segment.cluster_id
        self._epochs[segment.log] = self._next.epochs[segment.log] = segment.epoch, announcer
        state.announcement, state.subject, state.phase = segment, segment.subject, Phase.OPEN
        self._next.metas[segment.address] = state.pack_meta()
        return state

    def _seal(self, wanted: AddressStatus) -> AddressState | AddressStatus:
        state = self._state(wanted.address, "")
        if state is None:
            # Not STATUS_NOT_HERE: that one says that the seal is on the disk.
            return AddressStatus(wanted.address, STATUS_STORAGE_ERROR, -1)
        if state.phase < Phase.SEALED:
            state.phase = Phase.SEALED
            self._gaps.pop(state.address, None)
            self._next.metas[state.address] = state.pack_meta()
            self._next.sealing = True
        return state

    def _close(self, wanted: AddressStatus) -> AddressState | AddressStatus:
        state, end = self._known_or_new(wanted.address, ""), wanted.sequence
        if state.phase < Phase.CLOSED:
            if state.accepted > end:
                state.last_row, state.running_max = self._row_at(state, end)
                state.accepted = end
                self._next.truncations.append(Truncation(state, end, state.last_row, state.running_max))
            state.phase = Phase.CLOSED
            state.end = end
            self._gaps.pop(state.address, None)
            self._next.metas[state.address] = state.pack_meta()
            self._next.closed.append(state)
        return state

    def _row_at(self, state: AddressState, sequence: int) -> tuple[bytes, int]:
        """(row, running maximum) of a sequence that was accepted. Raises `StoreCorrupt`."""
        if sequence < 0:
            return b"", -1
        for entry in chain(self._queue, self._writing):
            if entry.state is state and entry.sequence == sequence:
                return entry.row, entry.running_max
        row, running_max = self._disk.row(state.address, sequence)
        if state.announcement is not None and not row:
            raise StoreCorrupt(f"address {state.address}: the row of sequence {sequence} is missing")
        return row, running_max

    def _delete(self, wanted: AddressStatus) -> AddressState | AddressStatus:
        state = self._known_or_new(wanted.address, "")
        if state.phase is not Phase.DELETED:
            state.phase, state.announcement, state.end = Phase.DELETED, None, NO_END
            self._gaps.pop(state.address, None)
            self._next.metas[state.address] = state.pack_meta()
            self._next.deletions.append(state)
        return AddressStatus(wanted.address, STATUS_DONE, -1)

    # commits ----------------------------------------------------------------------------------------------

    def take_commit(self) -> Commit | None:
        """What is to be made durable next, or None. One at a time: the shell reports it before it takes
        another.
        """
        queue, waiting = self._queue, self._waiting
        commit = Commit()
        size = taken = 0
        for entry in queue:
            size += len(entry.content)
            taken += 1
            if taken == MAX_COMMIT_RECORDS or size + taken * RECORD_OVERHEAD_BYTES >= MAX_COMMIT_BYTES:
                break
        commit.records = self._writing = queue[:taken]
        commit.bytes = size
        del queue[:taken]
        self._taken += taken
        while waiting and waiting[0].behind <= self._taken:
            commit.take_over(waiting.popleft())
        return commit or None

    def committed(self, commit: Commit) -> list[Ack | Answer]:
        """The commit is durable: the acknowledgements and answers that may now be sent."""
        self.queued_bytes -= commit.bytes + len(commit.records) * RECORD_OVERHEAD_BYTES
        self._writing = []
        heads: dict[str, AddressState] = {}
        for state, sequence, *_ in commit.records:
            state.head = max(state.head, sequence)
            heads[state.address] = state
        for state, head, *_ in commit.truncations:
            state.head = head
        for state in commit.deletions:
            state.head, state.last_row = -1, b""
        effects: list[Ack | Answer] = [
            self._ack(state) for state in heads.values() if state.phase <= Phase.SEALED
        ]
        for answer_id, requester, states in commit.answers:
            statuses = tuple(self._status(answer_id, state) for state in states)
            effects.append(Answer(answer_id, requester, self.incarnation, statuses))
            self._unanswered.discard((answer_id, requester))
        for state in commit.closed:
            if state.phase is Phase.CLOSED:
                self._retire(state)
        for state in commit.deletions:
            self._forget(state)
        return effects

    def _status(self, answer_id: bytes, state: AddressState | AddressStatus) -> AddressStatus:
        if isinstance(state, AddressStatus):
            return state
        status = STATUS_DONE
        if answer_id == b"c" and state.phase is Phase.CLOSED and state.head < state.end:
            status = STATUS_INCOMPLETE
        if answer_id == b"s" and state.announcement is None and state.phase is not Phase.DELETED:
            # Sealed, and never heard of: the asker must be able to tell this from an empty segment.
            return AddressStatus(state.address, STATUS_NOT_HERE, -1)
        if answer_id != b"s":
            return AddressStatus(state.address, status, state.head)
        # A CLOSE behind this seal has cut the address already, if only in memory: head and row of its end.
        return AddressStatus(state.address, status, min(state.head, state.accepted), state.last_row)

    # effects that need no disk ----------------------------------------------------------------------------

    def take_effects(self, now: float) -> list[Ack | Answer | Fetch]:
        """Repeated ACKs, SEALED notices to writers that were cut off, FETCHes for gaps that are due."""
        effects: list[Ack | Answer | Fetch] = [self._ack(state) for state in self._repeat.values()]
        self._repeat.clear()
        for state in self._fenced.values():
            status = AddressStatus(state.address, STATUS_SEALED, state.head)
            effects.append(Answer(b"s", state.address, self.incarnation, (status,)))
        self._fenced.clear()
        for address, gap in list(self._gaps.items()):
            if now >= gap.due and gap.given_up:
                del self._gaps[address]
            elif fetch := gap.fetch(self.incarnation, now):
                effects.append(fetch)
        return effects

    def next_due(self) -> float | None:
        """When `take_effects` has something to do again, or None."""
        return min((gap.due for gap in self._gaps.values()), default=None)

    def _ack(self, state: AddressState) -> Ack:
        return Ack(state.address, self.incarnation, state.subject, state.head)

    # states -----------------------------------------------------------------------------------------------

    def known(self, address: str) -> AddressState | None:
        """The state of an address in memory; its `head` bounds every read. Safe from any thread."""
        return self._states.get(address) or self._closed.get(address)

    def heads(self) -> dict[str, int]:
        """The durable heads of the addresses in memory that are not closed."""
        return {address: state.head for address, state in self._states.items()}

    def _heard(self, address: str, subject: str) -> AddressState | None:
        """Whom a RECORD or HEAD is for; None if its past cannot be read or there is no room for it."""
        try:
            if address not in self._unreadable:
                return self._state(address, subject)
        except StoreCorrupt as error:
            logger.error("%s", error)
            # Remembered until a request asks again: its writer may send many records a second.
            self._unreadable[address] = None
            if len(self._unreadable) > MAX_CLOSED_STATES:
                del self._unreadable[next(iter(self._unreadable))]
        self.unreadable += 1
        return None

    def _state(self, address: str, subject: str) -> AddressState | None:
        """The state of an address, a new one if need be; None if there is no room. Raises `StoreCorrupt`."""
        if len(self._states) >= MAX_ADDRESSES and address not in self._states and address not in self._closed:
            return None
        return self._known_or_new(address, subject)

    def _known_or_new(self, address: str, subject: str) -> AddressState:
        """As `_state`, room or not: for what leaves the memory with its commit."""
        state = self.known(address)
        if state is None:
            state = self._disk.load(address) or AddressState(address, subject)
            self._unreadable.pop(address, None)
            if state.phase >= Phase.CLOSED:
                self._retire(state)
            else:
                self._states[address] = state
        return state

    def _retire(self, state: AddressState) -> None:
        self._states.pop(state.address, None)
        self._closed[state.address] = state
        if len(self._closed) > MAX_CLOSED_STATES:
            del self._closed[next(iter(self._closed))]

    def _forget(self, state: AddressState) -> None:
        self._states.pop(state.address, None)
        self._closed.pop(state.address, None)
        self._gaps.pop(state.address, None)

    def _highest_epoch(self, log: str) -> tuple[int, str]:
        epoch = self._epochs.get(log)
        if epoch is None:
            epoch = self._epochs[log] = self._disk.highest_epoch(log)
        return epoch
