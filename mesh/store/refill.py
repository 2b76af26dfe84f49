"""Has another member make a copy that it lacks again, of a segment that is closed and whole here.

A member may have lost what it had: its database was emptied while its name stayed (a disk that is not
mounted), or its directory was put back from an older copy. It does not know what it lacks, and the gateway
does not either: it was told long ago that the copy is whole. So the store that notices asks for it, by the
requests that a gateway makes: COPY, which brings the announcement, and CLOSE, which brings the end. From then
on the member fetches what it lacks as after any outage.

Rule: an end that one member was told is in the catalog and never changes, so any member may pass it on. One
that was told to delete the segment stays as it is. One that knows the end fetches already, if it has the
announcement; it may have been told the end, or to seal the segment, after it lost that. So it is given the
announcement again, and told no end if it does not take it: nobody would look after it any more. One that has
it open is told the end alone, and where there are keys it waits for a gateway's (`mesh.protocol.segments`).
"""

from typing import Final

import trio

from mesh.protocol.address_state import AddressState, Phase
from mesh.requests import Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_INCOMPLETE,
    CloseEntry,
    Copy,
    Remembered,
    Request,
    Verified,
    Verify,
)
from wireproto.dafka.errors import MalformedMessage

ANSWER_SECONDS: Final = 5.0
"""How long a member may take for all of it; it is asked again with the next pass."""


async def refill(requests: Requests, state: AddressState, member: str) -> Phase | None:
    """Have `member` copy a closed segment that it lacks. Gives what it knew of it before (NATIVE: nothing);
    None if it was not asked to, or knew the end.
    """
    with trio.move_on_after(ANSWER_SECONDS):
        phase = await _phase_at(requests, state, member)
        if phase is None or phase is Phase.DELETED:
            return None
        if phase is not Phase.OPEN and not await _ask(requests, ids.COPY, member, _copy(state)):
            return None
        if phase is Phase.CLOSED:
            return None
        await _ask(requests, ids.CLOSE, member, CloseEntry(state.address, state.end, _told(state)).pack())
        return phase
    return None


async def _phase_at(requests: Requests, state: AddressState, member: str) -> Phase | None:
    """What the member knows of it; None if it cannot say."""
    assert state.announcement is not None, "only announced segments are compared"
    asked = ((state.announcement.log, state.address),)
    answer = await requests.ask(member, lambda requester: Verify(member, requester, asked))
    try:
        (verified,) = Verified.unpack_all(answer.content)
        return Phase(verified.phase) if verified.status == STATUS_DONE else None
    except (MalformedMessage, ValueError):
        return None


def _copy(state: AddressState) -> bytes:
    assert state.announcement is not None, "only announced segments are compared"
    return Copy(state.announcement, state.end, (), _told(state)).pack()


def _told(state: AddressState) -> Remembered:
    """What this store was told of it last; a gateway's life is not kept."""
    return Remembered(state.told.lineage, "", state.told.sequence)


async def _ask(requests: Requests, message_id: bytes, member: str, entry: bytes) -> bool:
    """Whether the member does it, or will have done it."""
    answer = await requests.ask(member, lambda requester: Request(message_id, member, requester, (entry,)))
    return all(status.status in (STATUS_DONE, STATUS_INCOMPLETE) for status in answer.statuses)
