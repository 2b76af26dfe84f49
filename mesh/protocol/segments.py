"""The state of a store's segments, and what requests (OPEN, COPY, SEAL, CLOSE, DELETE) do to it.

Each request changes the state in memory at once, and puts what is to be on the disk after the records that
came before it (`CommitQueue.latest`); what is answered is the state as it is once that is durable. A request
that is refused has changed nothing.

Rule: an OPEN of a higher epoch seals, in its own commit, what is open of the same log, has a lower epoch and
is of another gateway life: nobody else would, where the newer life does not know of it. It takes no SEAL's
place, because the members of the two may be others; and it leaves the same life's alone, which may still
write them. The answer names what this store is a member of.

Rule: a request of a gateway that is not the newest one any more, or whose catalog is an older one, changes
nothing: SEAL carries the epoch of its round, which is above the address's; DELETE a place in the catalog's
history, which is not before what was told of the address last. That is compared for each address: a maximum
of all would refuse what another gateway has rightly decided a moment earlier.

Rule: an end is decided by gateways, and other stores pass it on (`mesh.store.refill`). Where keys tell who
says it, one that a store passes on counts for a segment that was announced here and takes no records of its
writer any more, and cuts nothing; it stays until a gateway tells the end. What that has told stays for good.
An announcement that a store passes on ends nothing that is here, and says nothing of epochs, lives and the
cluster: OPENs of gateways are not measured by it.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mesh.protocol.address_state import NO_END, AddressState, Phase, Told, life_of
from mesh.protocol.addresses import Addresses
from mesh.protocol.commit import Answered, Copying, Opened, Truncation
from mesh.protocol.commit_queue import CommitQueue
from mesh.protocol.copying import Want, copy_end, is_unfinished, same_segment, sources_of
from mesh.protocol.disk import Disk, StoreCorrupt
from mesh.protocol.gaps import Gaps
from mesh.protocol.unended import MAX_NAMED, Unended
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    NO_EPOCH,
    STATUS_DONE,
    STATUS_EPOCH_TOO_HIGH,
    STATUS_FOREIGN_CLUSTER,
    STATUS_NOT_HERE,
    STATUS_OPEN,
    STATUS_OTHER_END,
    STATUS_OTHER_HISTORY,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    CloseEntry,
    Copy,
    DeleteEntry,
    OpenEntry,
    Remembered,
    Request,
    SealEntry,
)

MAX_EPOCH_STEP = 1 << 24
"""How far an epoch may be above all that a store knows. Each segment takes one, of its log or of the cluster,
and a catalog that is read back a thousand: so many are not used up while a store is away. Epochs end at 2^32,
and one OPEN there would leave a partition none."""

logger = logging.getLogger(__name__)

Asked = TypeVar("Asked", OpenEntry, SealEntry, CloseEntry, DeleteEntry, Copy)
"""What a request carries a list of."""


class Segments:
    """The states of one store's addresses, what waits for its disk, and what is missing. `lineage` tells that
    of the catalog that the store remembers, "" for none.
    """

    def __init__(
        self, incarnation: str, disk: Disk, cluster_id: str, lineage: Callable[[], str] = lambda: ""
    ) -> None:
        self.incarnation = incarnation
        self.cluster_id = cluster_id
        self.addresses = Addresses(disk)
        self.queue = CommitQueue()
        self.gaps = Gaps()
        self.repeat: dict[str, AddressState] = {}
        """Addresses whose ACK is to be said again."""
        self._wants: dict[str, Want | None] = {}
        self._unended = Unended(self.addresses, disk)
        self._lineage = lineage

    def handle(self, request: Request, passed_on: bool = False) -> list[Answered]:
        """OPEN, SEAL, CLOSE, DELETE or COPY: what is answered of each entry once that is durable;
        `passed_on`: another store says so. Raises `MalformedMessage` for entries that cannot be read.
        """
        self.queue.here()
        if request.id == ids.OPEN:
            segments = [OpenEntry.unpack(entry) for entry in request.entries]
            return [self._read(self._open, segment) for segment in segments]
        if request.id == ids.COPY:
            copies = [Copy.unpack(entry) for entry in request.entries]
            states = [self._read(partial(self._copy, passed_on=passed_on), copy) for copy in copies]
            self._note_asker(request.requester, states)
            return states
        if request.id == ids.SEAL:
            seals = [SealEntry.unpack(entry) for entry in request.entries]
            return [self._read(self._seal, entry) for entry in seals]
        if request.id == ids.CLOSE:
            ends = [CloseEntry.unpack(entry) for entry in request.entries]
            return [self._read(partial(self._close, passed_on=passed_on), entry) for entry in ends]
        deletions = [DeleteEntry.unpack(entry) for entry in request.entries]
        return [self._read(self._delete, entry) for entry in deletions]

    def _read(self, handle: Callable[[Asked], Answered], asked: Asked) -> Answered:
        """Handle one entry of a request; nothing has changed if the disk cannot be read."""
        try:
            return handle(asked)
        except StoreCorrupt as error:
            self.addresses.unreadable += 1
            logger.error("%s", error)
            return AddressStatus(asked.address, STATUS_STORAGE_ERROR, -1)

    # what is missing --------------------------------------------------------------------------------------

    def take_wants(self) -> dict[str, Want | None]:
        """What is to be fetched from other stores, by address, as far as that has changed; None: nothing more
        of this one.
        """
        wants = self._wants
        if wants:
            self._wants = {}
        return wants

    def want(self, state: AddressState, last: int) -> None:
        """Have fetched what lies up to `last` of an address whose writer does not give it."""
        sources = sources_of(state, self.incarnation)
        if sources:
            self._wants[state.address] = Want(state, last, sources, lasting=False)

    def want_rest(self, state: AddressState) -> None:
        """Have fetched what lies before the end of a sealed or closed address, or nothing any more."""
        last, sources = copy_end(state), sources_of(state, self.incarnation)
        lacks = state.phase in (Phase.SEALED, Phase.CLOSED) and state.accepted < last
        self._wants[state.address] = Want(state, last, sources, lasting=True) if lacks and sources else None

    def whole(self, state: AddressState) -> None:
        """Everything up to the end that CLOSE or COPY named was accepted: say so when it is durable."""
        waiting = self.queue.here()
        self.want_rest(state)
        if state.phase is Phase.CLOSED:
            waiting.unfinished[state.address] = False
            waiting.closed.append(state)
        if state.asker:
            waiting.answers.append((ids.COPIED, state.asker, [Copying(state, state.accepted)]))
            state.asker = ""

    # requests ---------------------------------------------------------------------------------------------

    def _open(self, entry: OpenEntry) -> Answered:
        segment = entry.announcement
        if self.cluster_id and segment.cluster_id != self.cluster_id:
            return AddressStatus(segment.address, STATUS_FOREIGN_CLUSTER, -1)
        state = self.addresses.state(segment.address, segment.subject)
        if state is None:
            return AddressStatus(segment.address, STATUS_NOT_HERE, -1)
        if state.announcement == segment and state.phase is Phase.OPEN:
            return Opened(state, self._named(self._unended.before(segment)))
        if state.phase is not Phase.NATIVE:
            return AddressStatus(segment.address, STATUS_SEALED, state.head)
        if segment.epoch < self.addresses.highest_epoch(segment.log)[0] or self._is_of_another_life(segment):
            self.addresses.drop_empty(state)
            return AddressStatus(segment.address, STATUS_STALE_EPOCH, -1)
        if self._is_too_high(segment):
            self.addresses.drop_empty(state)
            return AddressStatus(segment.address, STATUS_EPOCH_TOO_HIGH, -1)
        before = self._unended.before(segment)
        self._announce(state, segment, Phase.OPEN, entry.at)
        for other in before:
            if other.phase is Phase.OPEN:
                self._seal_now(other)
        if sources_of(state, self.incarnation):
            self.queue.latest.unfinished[state.address] = True
            self.gaps.watch(state)
        return Opened(state, self._named(before))

    def _named(self, before: list[AddressState]) -> list[AddressState]:
        """Those of these addresses that the answer to OPEN names: those that this store counts for. What it
        keeps of the store that it was before says nothing: the catalog has forgotten that one, and what only
        that one had not deleted yet.
        """
        named = [one for one in before if one.announcement and self.incarnation in one.announcement.members]
        return named[:MAX_NAMED]

    def _copy(self, copy: Copy, passed_on: bool) -> Answered:
        segment = copy.announcement
        if self.cluster_id and segment.cluster_id != self.cluster_id:
            return AddressStatus(copy.address, STATUS_FOREIGN_CLUSTER, -1)
        state = self.addresses.state(copy.address, segment.subject)
        if state is None:
            return AddressStatus(copy.address, STATUS_NOT_HERE, -1)
        refusal = self._refuses_copy(state, copy, passed_on)
        if refusal != STATUS_DONE:
            self.addresses.drop_empty(state)
            return AddressStatus(copy.address, refusal, state.head)
        if state.phase is Phase.OPEN:
            self._seal_now(state)
        if state.announcement is None:
            self._announce(state, segment, max(state.phase, Phase.SEALED), copy.at, passed_on)
            if state.accepted < state.end:
                self.queue.latest.unfinished[state.address] = True
                self.addresses.revive(state)
        else:
            if not passed_on and segment.epoch > self.addresses.highest_epoch(segment.log)[0]:
                self._learn(segment)  # another store had passed it on
            self._join(state, state.announcement, segment.members)
            self._hear(state, copy.at)
        if state.phase is Phase.CLOSED and copy.end > state.end:
            self._end_at(state, copy.end, passed_on=True)  # its CLOSE follows
        if state.phase is Phase.SEALED:
            state.wanted = max(state.wanted, copy.end)
        state.sources = copy.sources or state.sources
        self.want_rest(state)
        return Copying(state, copy.end)

    def _join(self, state: AddressState, known: Announcement, members: tuple[str, ...]) -> None:
        """Keep the members that a COPY names, if this store is one of them and was none so far: it was
        another store when the segment was announced to it. A catalog that is rebuilt counts on what stores
        keep.
        """
        if self.incarnation in members and self.incarnation not in known.members:
            state.announcement = known._replace(members=members)
            self.queue.latest.metas[state.address] = state.pack_meta()

    def _refuses_copy(self, state: AddressState, copy: Copy, passed_on: bool) -> int:
        """Why a segment is not copied here, STATUS_DONE if it is. An older epoch alone is no reason: a chain
        has many, and its segments come in any order. Nor is one that is open here and was announced to the
        store that this one was before it lost something: nobody seals it, because this one is no member.
        """
        known = state.announcement
        if state.phase is Phase.OPEN and (known is None or self.incarnation in known.members):
            return STATUS_OPEN
        if passed_on and known is None and state.accepted >= 0:
            return STATUS_NOT_HERE
        if (
            state.phase is Phase.DELETED
            or (state.phase is Phase.CLOSED and copy.end > state.end and self._is_settled(state, passed_on))
            or (known is not None and not same_segment(known, copy.announcement))
        ):
            return STATUS_SEALED
        if known is None and self._is_of_another_life(copy.announcement):
            return STATUS_STALE_EPOCH
        if known is None and self._is_too_high(copy.announcement):
            return STATUS_EPOCH_TOO_HIGH
        return STATUS_DONE

    def _note_asker(self, requester: str, copies: list[Answered]) -> None:
        for copy in copies:
            if isinstance(copy, Copying) and copy.state.accepted < copy.end:
                copy.state.asker = requester

    def _is_too_high(self, segment: Announcement) -> bool:
        """Whether an epoch is out of all proportion to what this store knows. One that knows no log yet has
        nothing to compare with.
        """
        if segment.epoch <= self.addresses.highest_epoch(segment.log)[0] + MAX_EPOCH_STEP:
            return False
        highest = self.addresses.highest_epoch_of_all()
        return highest >= 0 and segment.epoch > highest + MAX_EPOCH_STEP

    def _is_of_another_life(self, segment: Announcement) -> bool:
        """Whether another life announced the same epoch of the same log: one of both is not in the chain."""
        epoch, life = self.addresses.highest_epoch(segment.log)
        return segment.epoch == epoch and life_of(segment.address) != life

    def _hear(self, state: AddressState, at: Remembered) -> None:
        """Keep the place in the catalog's history where an address was told of last."""
        told = state.told
        is_later = at.sequence > told.sequence if at.lineage == told.lineage else self._may_follow(told, at)
        if is_later:
            state.told = Told(at.lineage, at.sequence)
            self.queue.latest.metas[state.address] = state.pack_meta()

    def _may_follow(self, told: Told, at: Remembered) -> bool:
        """Whether another lineage takes the place of that which told of an address: the catalog's own."""
        return bool(at.lineage) and (not told.lineage or at.lineage == self._lineage())

    def _announce(
        self,
        state: AddressState,
        segment: Announcement,
        phase: Phase,
        at: Remembered,
        passed_on: bool = False,
    ) -> None:
        """Keep an announcement. What the address holds without one has no rows, counts for nobody, and goes:
        from now on nothing of it is served, and what came out of turn does not follow its writer's records.
        """
        self.gaps.end(state.address)
        self.repeat.pop(state.address, None)
        if state.accepted >= 0:
            state.head = state.accepted = state.running_max = -1
            state.begins = 0
            state.head_row = state.last_row = b""
            self.queue.latest.truncations.append(Truncation(state, -1, b"", -1))
            self.queue.end_commit()
        if not passed_on:
            self._learn(segment)
        state.announcement, state.subject, state.phase = segment, segment.subject, phase
        state.told = Told(at.lineage, at.sequence)
        self._list(segment, phase)
        self.queue.latest.metas[segment.address] = state.pack_meta()

    def _learn(self, segment: Announcement) -> None:
        """A gateway announces: this is the store's cluster, and OPENs of the log are measured by it."""
        if not self.cluster_id:
            self.cluster_id = self.queue.latest.cluster_id = segment.cluster_id
        if segment.epoch >= self.addresses.highest_epoch(segment.log)[0]:
            announced = segment.epoch, life_of(segment.address)
            self.queue.latest.epochs[segment.log] = announced
            self.addresses.set_epoch(segment.log, announced)

    def _list(self, segment: Announcement | None, phase: Phase) -> None:
        """List a segment among those of its log, or no more. One that another version announced is not in the
        list yet when it is sealed or closed.
        """
        if segment is not None:
            self.queue.latest.announced[segment.log, segment.start, segment.address] = phase
            self._unended.note(segment.log, segment.address, phase)

    def _seal(self, wanted: SealEntry) -> Answered:
        state = self.addresses.state(wanted.address, "")
        if state is None:
            # Not STATUS_NOT_HERE: that one says that the seal is on the disk.
            return AddressStatus(wanted.address, STATUS_STORAGE_ERROR, -1)
        if state.announcement is not None and wanted.epoch <= state.announcement.epoch:
            return AddressStatus(wanted.address, STATUS_STALE_EPOCH, -1)
        if state.phase < Phase.SEALED:
            self._seal_now(state)
        return state

    def _seal_now(self, state: AddressState) -> None:
        state.phase = Phase.SEALED
        self._list(state.announcement, Phase.SEALED)
        self.gaps.end(state.address)
        self.want_rest(state)
        self.queue.latest.metas[state.address] = state.pack_meta()
        self.queue.latest.sealing = True

    def _close(self, wanted: CloseEntry, passed_on: bool) -> Answered:
        state, end = self.addresses.known_or_new(wanted.address, ""), wanted.end
        if state.phase is Phase.DELETED:
            return state
        refusal = self._refuses_end(state, end, passed_on)
        if refusal != STATUS_DONE:
            self.addresses.drop_empty(state)
            return AddressStatus(wanted.address, refusal, state.head)
        if state.phase is not Phase.CLOSED or (state.is_passed_on and not passed_on):
            self._end_at(state, end, passed_on)
        elif is_unfinished(state):
            self.want_rest(state)
        self._hear(state, wanted.at)
        return state

    def _refuses_end(self, state: AddressState, end: int, passed_on: bool) -> int:
        """Why this is not the end of an address, STATUS_DONE if it is."""
        if state.phase is Phase.CLOSED and self._is_settled(state, passed_on):
            return STATUS_DONE if end == state.end else STATUS_OTHER_END
        if not passed_on:
            return STATUS_DONE
        if state.phase is Phase.OPEN:
            return STATUS_OPEN
        if state.announcement is None:
            return STATUS_NOT_HERE
        return STATUS_DONE if end >= state.accepted else STATUS_OTHER_END

    def _is_settled(self, state: AddressState, passed_on: bool) -> bool:
        """Whether the end of a closed address stays, whatever is told now."""
        return passed_on or not state.is_passed_on

    def _end_at(self, state: AddressState, end: int, passed_on: bool) -> None:
        """Close an address, or one whose end was only passed on once more."""
        if state.accepted > end:
            state.last_row, state.running_max = self._row_at(state, end)
            state.accepted = end
            cut = Truncation(state, end, state.last_row, state.running_max)
            self.queue.latest.truncations.append(cut)
        state.phase, state.end, state.is_passed_on = Phase.CLOSED, end, passed_on
        self._list(state.announcement, Phase.CLOSED)
        self.gaps.end(state.address)
        self.queue.latest.metas[state.address] = state.pack_meta()
        self.queue.latest.closed.append(state)
        self.queue.latest.unfinished[state.address] = state.accepted < end
        self.addresses.revive(state)
        self.want_rest(state)

    def _row_at(self, state: AddressState, sequence: int) -> tuple[bytes, int]:
        """(row, running maximum) of a sequence that was accepted. Raises `StoreCorrupt`."""
        if sequence < 0:
            return b"", -1
        entry = self.queue.find(state, sequence)
        if entry is not None:
            return entry.row, entry.running_max
        row, running_max = self.addresses.row(state.address, sequence)
        if state.announcement is not None and not row:
            raise StoreCorrupt(f"address {state.address}: the row of sequence {sequence} is missing")
        return row, running_max

    def _refuses_delete(self, state: AddressState, wanted: DeleteEntry) -> int:
        """Why an address is not deleted, STATUS_DONE if it is."""
        at, told, announced = wanted.at, state.told, state.announcement
        remembered = self._lineage()
        if remembered and at.lineage != remembered:
            return STATUS_OTHER_HISTORY
        if at.lineage == told.lineage and at.sequence < told.sequence:
            return STATUS_OTHER_HISTORY
        if announced is not None and (
            wanted.log not in ("", announced.log) or NO_EPOCH < wanted.epoch < announced.epoch
        ):
            return STATUS_STALE_EPOCH
        return STATUS_DONE

    def _delete(self, wanted: DeleteEntry) -> Answered:
        state = self.addresses.known_or_new(wanted.address, "")
        if state.phase is not Phase.DELETED:
            refusal = self._refuses_delete(state, wanted)
            if refusal != STATUS_DONE:
                self.addresses.drop_empty(state)
                return AddressStatus(wanted.address, refusal, state.head)
            self._list(state.announcement, Phase.DELETED)
            state.phase, state.announcement, state.end = Phase.DELETED, None, NO_END
            state.is_passed_on, state.told = False, Told()
            self.gaps.end(state.address)
            self.want_rest(state)
            self.queue.latest.metas[state.address] = state.pack_meta()
            self.queue.latest.unfinished[state.address] = False
            self.queue.latest.deletions.append(state)
        return AddressStatus(wanted.address, STATUS_DONE, -1)
