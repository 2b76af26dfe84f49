"""What stores are asked about the segments of a gateway: to open, seal, close, copy and delete them.

Each kind of request goes through lists of its own for each member (`AddressRequests`), so a member that does
not answer holds up nobody else's segments. A member that was away when a segment was opened has the
announcement repeated until it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import trio

from mesh.address_requests import LIST_ENTRIES, AddressRequests, Answered
from mesh.protocol.opening import PASSING, Opening
from mesh.protocol.recovery import Seal
from mesh.requests import REPEAT_LAST_SECONDS, Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    NOTHING_REMEMBERED,
    STATUS_DONE,
    STATUS_EPOCH_TOO_HIGH,
    STATUS_FOREIGN_CLUSTER,
    STATUS_NOT_HERE,
    STATUS_OTHER_END,
    STATUS_OTHER_HISTORY,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    CloseEntry,
    DeleteEntry,
    OpenEntry,
    Remembered,
    Request,
    SealedHead,
    SealEntry,
)

REASONS = {
    STATUS_FOREIGN_CLUSTER: "the store belongs to another cluster",
    STATUS_EPOCH_TOO_HIGH: "the leader epoch is more than 16,777,216 above all that the store knows, so it "
    "was not given to this partition in order; a store that was away for that long is to be replaced",
    STATUS_STALE_EPOCH: "the store knows a newer leader epoch of this partition",
    STATUS_OTHER_HISTORY: "the store was told of it by a newer catalog than this one, or by another",
    STATUS_OTHER_END: "the store was told another end of this segment, by another catalog",
    STATUS_SEALED: "the store has this segment sealed",
    STATUS_STORAGE_ERROR: "the store cannot read or write its disk",
    STATUS_NOT_HERE: "the store has no room for another address",
}

logger = logging.getLogger(__name__)


class SegmentRequests:
    """The requests of one gateway life about its segments. Nothing is asked of a store before `run` runs.

    `enough` is called with the address of a segment as soon as enough members have it to write to it. The
    lists `closes` and `copies` may also be asked directly.
    """

    def __init__(self, requests: Requests, enough: Callable[[str], None]) -> None:
        self.closes = AddressRequests(requests, ids.CLOSE)
        self.copies = AddressRequests(requests, ids.COPY)
        self._opens = AddressRequests(requests, ids.OPEN)
        self._seals = AddressRequests(requests, ids.SEAL)
        self._requests = requests
        self._enough = enough

    async def run(self) -> None:
        """Ask, for ever."""
        async with trio.open_nursery() as nursery:
            for asked in (self._opens, self._seals, self.closes, self.copies):
                nursery.start_soon(asked.run)

    def open(
        self,
        segment: Announcement,
        told: Callable[[Opening], None],
        at: Remembered = NOTHING_REMEMBERED,
    ) -> None:
        """Announce a segment to its members, each until it has it or will not. `at` is where the catalog got
        it.

        `told` is called with each answer, before anything is written to the segment: look at `sealed`,
        `enough` and `hopeless`.
        """
        opening = Opening(segment.address, segment.members, segment.w)
        entry = OpenEntry(segment, at).pack()
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
        opening.on_status(member, status.status, SealedHead.unpack_all(status.row))
        if status.status != STATUS_DONE:
            logger.warning("segment %s is not announced: %s", opening.address, why_refused(opening, member))
        if opening.hopeless:
            self._opens.drop(opening.address)
        elif status.status in PASSING:
            again = partial(self._on_opened, opening, entry, told)
            self._opens.ask_later(member, opening.address, entry, again)
        told(opening)
        if opening.enough and not was_enough:
            self._enough(opening.address)

    def unopen(self, address: str) -> None:
        """Nobody has to hear of the segment any more."""
        self._opens.drop(address)

    def seal(self, seal: Seal, epoch: int, told: Callable[[], None]) -> None:
        """Have the members seal a segment, each until it answers. `epoch` is that of this round: the log's
        next. `told` is called with each answer.
        """
        entry = SealEntry(seal.address, epoch).pack()
        for member in seal.members:
            self._seals.ask(member, seal.address, entry, partial(_on_sealed, seal, told))

    def seal_again(self, seal: Seal, epoch: int, member: str, told: Callable[[], None]) -> None:
        """Ask a member again, later, that could not seal."""
        entry = SealEntry(seal.address, epoch).pack()
        self._seals.ask_later(member, seal.address, entry, partial(_on_sealed, seal, told))

    def close(self, member: str, entry: CloseEntry, answered: Answered) -> None:
        """Tell a member the agreed end of a segment, until it answers."""
        self.closes.ask(member, entry.address, entry.pack(), answered)

    def close_again(self, member: str, entry: CloseEntry, answered: Answered) -> None:
        """As `close`, later: it could not, or has not all of it yet."""
        self.closes.ask_later(member, entry.address, entry.pack(), answered)

    def unseal(self, address: str) -> None:
        """No further answers to `seal` are wanted."""
        self._seals.drop(address)

    async def delete(self, member: str, deletions: Sequence[DeleteEntry]) -> list[AddressStatus]:
        """Have one member delete addresses, until it answers: one status for each, STATUS_DONE once it is
        gone.
        """
        entries = [(entry.address, entry.pack()) for entry in deletions]
        statuses: list[AddressStatus] = []
        for start in range(0, len(entries), LIST_ENTRIES):
            statuses += await self._delete_piece(member, dict(entries[start : start + LIST_ENTRIES]))
        return statuses

    async def _delete_piece(self, member: str, missing: dict[str, bytes]) -> list[AddressStatus]:
        statuses: list[AddressStatus] = []
        said = False
        while True:
            answer = await self._requests.ask(member, partial(_delete, member, tuple(missing.values())))
            statuses += [s for s in answer.statuses if missing.pop(s.address, None) is not None]
            if not missing:
                return statuses
            if not said:
                left_out = next(iter(missing))
                logger.warning("store %s answers, and not for %s: it is asked again", member, left_out)
                said = True
            await trio.sleep(REPEAT_LAST_SECONDS)


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
