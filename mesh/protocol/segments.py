"""What requests (OPEN, COPY, SEAL, CLOSE, DELETE) do to a store's segments.

Each changes the state in memory at once, and puts what is to be on the disk behind the records that came
before it (`_next`); what is answered is the state as it is once that is durable. One that is refused has
changed nothing.
"""

from collections import deque
from itertools import chain

from mesh.protocol.address_state import NO_END, AddressState, Phase, life_of
from mesh.protocol.addresses import Addresses
from mesh.protocol.commit import Accepted, Answered, Commit, Copying, Truncation
from mesh.protocol.copying import Want, copy_end, is_unfinished, same_segment, sources_of
from mesh.protocol.disk import Disk, StoreCorrupt
from mesh.protocol.gaps import Gaps
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_NOT_HERE,
    STATUS_OPEN,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Copy,
)


class Segments:
    """The states of one store's addresses, and what waits for its disk."""

    def __init__(self, incarnation: str, disk: Disk, cluster_id: str) -> None:
        self.incarnation = incarnation
        self.cluster_id = cluster_id
        self._addresses = Addresses(disk)
        self._live = self._addresses.live
        self._waiting: deque[Commit] = deque()
        """What requests changed and no commit has yet: an entry for each place in the queue of records."""
        self._taken = 0
        """Records that were handed out in commits."""
        self._queue: list[Accepted] = []
        self._writing: list[Accepted] = []
        """The records of the commit that the shell has."""
        self._repeat: dict[str, AddressState] = {}
        self._gaps = Gaps()
        self._wants: dict[str, Want | None] = {}
        self._barriers = 0
        """How many of `_waiting` are barriers."""

    def _here(self) -> Commit:
        """Where is kept what belongs behind the records that are in the queue now."""
        behind = self._taken + len(self._queue)
        if not self._waiting or self._next.behind < behind:
            self._waiting.append(Commit(behind))
        return self._next

    @property
    def _next(self) -> Commit:
        """Where the request at hand puts what it changes."""
        return self._waiting[-1]

    def _want_rest(self, state: AddressState) -> None:
        """Have fetched what lies before the end of a sealed or closed address, or nothing any more."""
        last, sources = copy_end(state), sources_of(state, self.incarnation)
        lacks = state.phase in (Phase.SEALED, Phase.CLOSED) and state.accepted < last
        self._wants[state.address] = Want(state, last, sources, lasting=True) if lacks and sources else None

    def _open(self, segment: Announcement) -> Answered:
        if self.cluster_id and segment.cluster_id != self.cluster_id:
            return AddressStatus(segment.address, STATUS_FOREIGN_CLUSTER, -1)
        state = self._addresses.state(segment.address, segment.subject)
        if state is None:
            return AddressStatus(segment.address, STATUS_NOT_HERE, -1)
        if state.announcement == segment and state.phase is Phase.OPEN:
            return state
        if state.phase is not Phase.NATIVE:
            return AddressStatus(segment.address, STATUS_SEALED, state.head)
        if segment.epoch < self._addresses.highest_epoch(segment.log)[0] or self._is_of_another_life(segment):
            self._addresses.drop_empty(state)
            return AddressStatus(segment.address, STATUS_STALE_EPOCH, -1)
        self._announce(state, segment, Phase.OPEN)
        if sources_of(state, self.incarnation):
            self._next.unfinished[state.address] = True
            self._gaps.watch(state)
        return state

    def _copy(self, copy: Copy) -> Answered:
        segment = copy.announcement
        if self.cluster_id and segment.cluster_id != self.cluster_id:
            return AddressStatus(copy.address, STATUS_FOREIGN_CLUSTER, -1)
        state = self._addresses.state(copy.address, segment.subject)
        if state is None:
            return AddressStatus(copy.address, STATUS_NOT_HERE, -1)
        refusal = self._refuses_copy(state, copy)
        if refusal != STATUS_DONE:
            self._addresses.drop_empty(state)
            return AddressStatus(copy.address, refusal, state.head)
        if state.phase is Phase.OPEN:
            self._seal(AddressStatus(copy.address, STATUS_DONE, -1))
        if state.announcement is None:
            self._announce(state, segment, max(state.phase, Phase.SEALED))
            if state.accepted < state.end:
                self._next.unfinished[state.address] = True
                self._addresses.revive(state)
        if state.phase is Phase.SEALED:
            state.wanted = max(state.wanted, copy.end)
        state.sources = copy.sources or state.sources
        self._want_rest(state)
        return Copying(state, copy.end)

    def _refuses_copy(self, state: AddressState, copy: Copy) -> int:
        """Why a segment is not copied here, STATUS_DONE if it is. An older epoch alone is no reason: a chain
        has many, and its segments come in any order. Nor is one that is open here and was announced to the
        store that this one was before it lost something: nobody seals it, because this one is no member.
        """
        known = state.announcement
        if state.phase is Phase.OPEN and (known is None or self.incarnation in known.members):
            return STATUS_OPEN
        if (
            state.phase is Phase.DELETED
            or (state.phase is Phase.CLOSED and copy.end > state.end)
            or (known is not None and not same_segment(known, copy.announcement))
        ):
            return STATUS_SEALED
        if known is None and self._is_of_another_life(copy.announcement):
            return STATUS_STALE_EPOCH
        return STATUS_DONE

    def _note_asker(self, requester: str, copies: list[Answered]) -> None:
        for copy in copies:
            if isinstance(copy, Copying) and copy.state.accepted < copy.end:
                copy.state.asker = requester

    def _is_of_another_life(self, segment: Announcement) -> bool:
        """Whether another life announced the same epoch of the same log: one of both is not in the chain."""
        epoch, life = self._addresses.highest_epoch(segment.log)
        return segment.epoch == epoch and life_of(segment.address) != life

    def _announce(self, state: AddressState, segment: Announcement, phase: Phase) -> None:
        """Keep an announcement. What the address holds without one has no rows, counts for nobody, and goes:
        from now on nothing of it is served.
        """
        if state.accepted >= 0:
            state.head = state.accepted = state.running_max = -1
            state.begins = 0
            state.head_row = state.last_row = b""
            self._repeat.pop(state.address, None)
            self._gaps.end(state.address)
            self._next.truncations.append(Truncation(state, -1, b"", -1))
            self._barriers += not self._next.barrier
            self._next.barrier = True
        if not self.cluster_id:
            self.cluster_id = self._next.cluster_id = segment.cluster_id
        if segment.epoch >= self._addresses.highest_epoch(segment.log)[0]:
            announced = segment.epoch, life_of(segment.address)
            self._next.epochs[segment.log] = announced
            self._addresses.set_epoch(segment.log, announced)
        state.announcement, state.subject, state.phase = segment, segment.subject, phase
        self._next.metas[segment.address] = state.pack_meta()

    def _seal(self, wanted: AddressStatus) -> Answered:
        state = self._addresses.state(wanted.address, "")
        if state is None:
            # Not STATUS_NOT_HERE: that one says that the seal is on the disk.
            return AddressStatus(wanted.address, STATUS_STORAGE_ERROR, -1)
        if state.phase < Phase.SEALED:
            state.phase = Phase.SEALED
            self._gaps.end(state.address)
            self._want_rest(state)
            self._next.metas[state.address] = state.pack_meta()
            self._next.sealing = True
        return state

    def _close(self, wanted: AddressStatus) -> Answered:
        state, end = self._addresses.known_or_new(wanted.address, ""), wanted.sequence
        if state.phase < Phase.CLOSED:
            if state.accepted > end:
                state.last_row, state.running_max = self._row_at(state, end)
                state.accepted = end
                self._next.truncations.append(Truncation(state, end, state.last_row, state.running_max))
            state.phase = Phase.CLOSED
            state.end = end
            self._gaps.end(state.address)
            self._next.metas[state.address] = state.pack_meta()
            self._next.closed.append(state)
            self._next.unfinished[state.address] = state.accepted < end
            self._want_rest(state)
        elif is_unfinished(state):
            self._want_rest(state)
        return state

    def _row_at(self, state: AddressState, sequence: int) -> tuple[bytes, int]:
        """(row, running maximum) of a sequence that was accepted. Raises `StoreCorrupt`."""
        if sequence < 0:
            return b"", -1
        for entry in chain(reversed(self._queue), reversed(self._writing)):
            if entry.state is state and entry.sequence == sequence:
                return entry.row, entry.running_max
        row, running_max = self._addresses.row(state.address, sequence)
        if state.announcement is not None and not row:
            raise StoreCorrupt(f"address {state.address}: the row of sequence {sequence} is missing")
        return row, running_max

    def _delete(self, wanted: AddressStatus) -> Answered:
        state = self._addresses.known_or_new(wanted.address, "")
        if state.phase is not Phase.DELETED:
            state.phase, state.announcement, state.end = Phase.DELETED, None, NO_END
            self._gaps.end(state.address)
            self._want_rest(state)
            self._next.metas[state.address] = state.pack_meta()
            self._next.unfinished[state.address] = False
            self._next.deletions.append(state)
        return AddressStatus(wanted.address, STATUS_DONE, -1)
