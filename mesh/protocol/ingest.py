"""A store's ingest: which records it takes, what it commits, and what it says afterwards.

Rules: an address is kept without gaps from sequence 0 (contiguity); nothing is acknowledged, served, sealed
or reported beyond what a commit has made durable; a sealed address takes nothing more from its writer; an
epoch below the highest known for a log, or another cluster's segment, is refused.

Theory of operation: events (`on_record`, `on_head`, `on_open`, ...) change the states in memory and queue
work; `take_commit` hands out one `Commit` at a time; when the shell has written and fsynced it, `committed`
gives the effects: acknowledgements (one per address, cumulative) and answers. So every answer passes through
the commit queue behind the records that came before it. What needs no disk (a repeated ACK, a FETCH for a
gap) is an effect at once, taken with `take_effects`.

`Disk` is what the machine asks of its past: a few small point reads when an address is first met.
"""

from typing import NamedTuple, Protocol

from mesh.protocol.address_state import AddressState, Phase
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
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

MAX_CLOSED_STATES = 4096
"""Closed addresses kept in memory; others are read again when asked about."""

MAX_ADDRESSES = 200_000
"""Open, sealed and native addresses kept in memory; records of further ones are not taken."""

FETCH_FIRST_SECONDS = 0.1
FETCH_LAST_SECONDS = 2.0
FETCH_COUNT = 4096
"""A gap is asked for again at these intervals until it is filled, in ranges of so many records."""


class Disk(Protocol):
    """Point reads of what is durable."""

    def load(self, address: str) -> AddressState | None:
        """What is kept of an address, or None."""

    def highest_epoch(self, log: str) -> int:
        """The highest epoch that any OPEN announced for this log, -1 for none."""


class Accepted(NamedTuple):
    """A record on its way to the disk. `row` is empty for native addresses."""

    state: AddressState
    sequence: int
    content: bytes
    row: bytes
    running_max: int


class Commit:
    """One atomic write: records with rows, and the metas, epochs, truncations and deletions that changed."""

    def __init__(self) -> None:
        self.records: list[Accepted] = []
        self.metas: dict[str, AddressState] = {}
        self.epochs: dict[str, int] = {}
        self.cluster_id: str | None = None
        self.truncations: list[tuple[AddressState, int]] = []
        """(state, new head): everything behind the new head goes."""
        self.deletions: list[AddressState] = []
        self.answers: list[tuple[bytes, Request, list[AddressState | AddressStatus]]] = []
        self.bytes = 0
        self.sealing = False

    def __bool__(self) -> bool:
        return bool(self.records or self.metas or self.answers or self.truncations or self.deletions)


class Ingest:
    """The machine of one store. `incarnation` is its name in acknowledgements and answers."""

    def __init__(self, incarnation: str, disk: Disk, cluster_id: str = "") -> None:
        self.incarnation = incarnation
        self.cluster_id = cluster_id
        self.queued_bytes = 0
        self.refused_records = 0
        self._disk = disk
        self._states: dict[str, AddressState] = {}
        self._closed: dict[str, AddressState] = {}
        self._epochs: dict[str, int] = {}
        self._next = Commit()
        self._queue: list[Accepted] = []
        self._repeat: dict[str, AddressState] = {}
        self._gaps: dict[str, AddressState] = {}
        self._fenced: dict[str, AddressState] = {}

    # events: records --------------------------------------------------------------------------------------

    def on_record(self, record: Record, now: float) -> None:
        """A record as its producer published it, or as it sent it again for our FETCH."""
        address, subject, sequence, content = record
        state = self._states.get(address) or self._state(address, subject)
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
        if subject != state.subject or self.queued_bytes + len(content) > MAX_QUEUED_BYTES:
            self.refused_records += 1
            return
        try:
            self._accept(state, sequence, bytes(content))
        except InvalidBatch:
            self.refused_records += 1

    def _accept(self, state: AddressState, sequence: int, content: bytes) -> None:
        row = b""
        if state.phase is not Phase.NATIVE:
            parsed = row_of(content, state.running_max)
            row = parsed.pack()
            state.running_max = parsed.running_max_timestamp
            state.last_row = row
        state.accepted = sequence
        self.queued_bytes += len(content)
        self._queue.append(Accepted(state, sequence, content, row, state.running_max))
        if state.requested >= 0 and sequence >= state.requested:
            state.requested = -1
            self._gaps.pop(state.address, None)

    def on_head(self, head: Head, now: float) -> None:
        """The producer says what it has published: repeat the ACK, or ask for what is missing."""
        state = self._states.get(head.address) or self._state(head.address, head.subject)
        if state is None:
            return
        if state.phase >= Phase.SEALED:
            self._fenced[head.address] = state
        elif head.sequence <= state.head:
            self._repeat[head.address] = state
        elif head.sequence > state.accepted:
            self._ask_for_gap(state, head.sequence, now)

    def _ask_for_gap(self, state: AddressState, last: int, now: float) -> None:
        if last <= state.requested:
            return
        if state.requested < 0:
            state.fetch_interval = FETCH_FIRST_SECONDS
            state.fetch_due = now
        state.requested = last
        self._gaps[state.address] = state

    # events: requests -------------------------------------------------------------------------------------

    def on_request(self, request: Request) -> None:
        """OPEN, SEAL, CLOSE or DELETE. Raises `MalformedMessage` for entries that cannot be read."""
        states: list[AddressState | AddressStatus]
        if request.id == b"O":
            segments = [Announcement.unpack(entry) for entry in request.entries]
            states = [self._open(segment) for segment in segments]
        else:
            handle = {b"S": self._seal, b"C": self._close, b"X": self._delete}[request.id]
            wanted = [AddressStatus.unpack(entry) for entry in request.entries]
            states = [handle(entry) for entry in wanted]
        self._next.answers.append((request.id.lower(), request, states))

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
        if segment.epoch < self._highest_epoch(segment.log):
            return AddressStatus(segment.address, STATUS_STALE_EPOCH, -1)
        if not self.cluster_id:
            self.cluster_id = self._next.cluster_id = segment.cluster_id
        self._epochs[segment.log] = self._next.epochs[segment.log] = segment.epoch
        state.announcement, state.subject, state.phase = segment, segment.subject, Phase.OPEN
        self._next.metas[segment.address] = state
        return state

    def _seal(self, wanted: AddressStatus) -> AddressState | AddressStatus:
        state = self._state(wanted.address, "")
        if state is None:
            return AddressStatus(wanted.address, STATUS_NOT_HERE, -1)
        if state.phase < Phase.SEALED:
            state.phase = Phase.SEALED
            state.requested = -1
            self._gaps.pop(state.address, None)
            self._next.metas[state.address] = state
            self._next.sealing = True
        return state

    def _close(self, wanted: AddressStatus) -> AddressState | AddressStatus:
        state = self._state(wanted.address, "")
        if state is None:
            return AddressStatus(wanted.address, STATUS_NOT_HERE, -1)
        if state.phase < Phase.CLOSED:
            state.phase = Phase.CLOSED
            state.end = wanted.sequence
            if state.accepted > state.end:
                state.accepted = state.end
                self._next.truncations.append((state, state.end))
            self._next.metas[state.address] = state
        return state

    def _delete(self, wanted: AddressStatus) -> AddressState | AddressStatus:
        state = self._state(wanted.address, "")
        if state is None:
            return AddressStatus(wanted.address, STATUS_NOT_HERE, -1)
        if state.phase is not Phase.DELETED:
            state.phase = Phase.DELETED
            self._next.deletions.append(state)
        return AddressStatus(wanted.address, STATUS_DONE, -1)

    # commits ----------------------------------------------------------------------------------------------

    def take_commit(self) -> Commit | None:
        """What is to be made durable next, or None. One at a time: the shell reports it before it takes
        another.
        """
        queue = self._queue
        commit = self._next
        size = taken = 0
        for entry in queue:
            size += len(entry.content)
            taken += 1
            if size >= MAX_COMMIT_BYTES:
                break
        if taken < len(queue):
            # Requests wait until every record that came before them is in a commit.
            commit = Commit()
        else:
            self._next = Commit()
        commit.records = queue[:taken]
        commit.bytes = size
        del queue[:taken]
        return commit or None

    def committed(self, commit: Commit) -> list[Ack | Answer]:
        """The commit is durable: the acknowledgements and answers that may now be sent."""
        self.queued_bytes -= commit.bytes
        heads: dict[str, AddressState] = {}
        for state, sequence, *_ in commit.records:
            state.head = max(state.head, sequence)
            heads[state.address] = state
        for state, head in commit.truncations:
            state.head = head
        effects: list[Ack | Answer] = [
            self._ack(state) for state in heads.values() if state.phase <= Phase.SEALED
        ]
        for answer_id, request, states in commit.answers:
            statuses = tuple(self._status(answer_id, state) for state in states)
            effects.append(Answer(answer_id, request.requester, self.incarnation, statuses))
        for state in commit.deletions:
            self._forget(state)
        for state in commit.metas.values():
            if state.phase is Phase.CLOSED:
                # Read again when asked about: a truncation leaves another last row than the one in memory.
                self._forget(state)
        return effects

    def _status(self, answer_id: bytes, state: AddressState | AddressStatus) -> AddressStatus:
        if isinstance(state, AddressStatus):
            return state
        status = STATUS_DONE
        if answer_id == b"c" and state.head < state.end:
            status = STATUS_INCOMPLETE
        return AddressStatus(state.address, status, state.head, state.last_row if answer_id == b"s" else b"")

    # effects that need no disk ----------------------------------------------------------------------------

    def take_effects(self, now: float) -> list[Ack | Answer | Fetch]:
        """Repeated ACKs, SEALED notices to writers that were cut off, FETCHes for gaps that are due."""
        effects: list[Ack | Answer | Fetch] = [self._ack(state) for state in self._repeat.values()]
        self._repeat.clear()
        for state in self._fenced.values():
            status = AddressStatus(state.address, STATUS_SEALED, state.head)
            effects.append(Answer(b"s", state.address, self.incarnation, (status,)))
        self._fenced.clear()
        for state in self._gaps.values():
            if now >= state.fetch_due:
                state.fetch_due = now + state.fetch_interval
                state.fetch_interval = min(state.fetch_interval * 2, FETCH_LAST_SECONDS)
                effects.append(self._fetch(state))
        return effects

    def next_due(self) -> float | None:
        """When `take_effects` has something to do again, or None."""
        return min((state.fetch_due for state in self._gaps.values()), default=None)

    def _fetch(self, state: AddressState) -> Fetch:
        first = state.accepted + 1
        return Fetch(
            state.address,
            self.incarnation,
            state.subject,
            first,
            min(FETCH_COUNT, state.requested - state.accepted),
        )

    def _ack(self, state: AddressState) -> Ack:
        return Ack(state.address, self.incarnation, state.subject, state.head)

    # states -----------------------------------------------------------------------------------------------

    def known(self, address: str) -> AddressState | None:
        """The state of an address in memory; its `head` bounds every read. Safe from any thread."""
        return self._states.get(address) or self._closed.get(address)

    def heads(self) -> dict[str, int]:
        """The durable heads of the addresses in memory that are not closed."""
        return {address: state.head for address, state in self._states.items()}

    def _state(self, address: str, subject: str) -> AddressState | None:
        state = self._states.get(address) or self._closed.get(address)
        if state is None:
            if len(self._states) >= MAX_ADDRESSES:
                return None
            state = self._disk.load(address) or AddressState(address, subject)
            self._keep(state)
        return state

    def _keep(self, state: AddressState) -> None:
        if state.phase is Phase.CLOSED:
            self._retire(state)
        else:
            self._states[state.address] = state

    def _retire(self, state: AddressState) -> None:
        self._states.pop(state.address, None)
        self._closed[state.address] = state
        if len(self._closed) > MAX_CLOSED_STATES:
            del self._closed[next(iter(self._closed))]

    def _forget(self, state: AddressState) -> None:
        self._states.pop(state.address, None)
        self._closed.pop(state.address, None)
        self._gaps.pop(state.address, None)

    def _highest_epoch(self, log: str) -> int:
        epoch = self._epochs.get(log)
        if epoch is None:
            epoch = self._epochs[log] = self._disk.highest_epoch(log)
        return epoch
