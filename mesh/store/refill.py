"""Has another member make a copy that it lacks again, of a segment that is closed and whole here.

A member may have lost what it had: its database was emptied while its name stayed (a disk that is not
mounted), or its directory was put back from an older copy. It does not know what it lacks, and the gateway
does not either: it was told long ago that the copy is whole. So the store that notices asks for it, by the
requests that a gateway makes: COPY, which brings the announcement, and CLOSE, which brings the end. From then
on the member fetches what it lacks as after any outage.

Rule: an end that one member was told is in the catalog and never changes, so any member may pass it on. One
that was told to delete the segment stays as it is, and so does one that knows the end: it fetches already.
"""

from typing import Final

import trio

from mesh.protocol.address_state import AddressState, Phase
from mesh.requests import Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import STATUS_DONE, AddressStatus, Copy, Request, Verified, Verify
from wireproto.dafka.errors import MalformedMessage

ANSWER_SECONDS: Final = 5.0
"""How long a member may take for all of it; it is asked again with the next pass."""


async def refill(requests: Requests, state: AddressState, member: str) -> Phase | None:
    """Have `member` copy a closed segment that it lacks. Gives what it knew of it before (NATIVE: nothing);
    None if it was not asked to.
    """
    with trio.move_on_after(ANSWER_SECONDS):
        phase = await _phase_at(requests, state, member)
        if phase is None or phase >= Phase.CLOSED:
            return None
        if phase is Phase.NATIVE:
            await _ask(requests, ids.COPY, member, _copy(state))
        await _ask(requests, ids.CLOSE, member, AddressStatus(state.address, STATUS_DONE, state.end).pack())
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
    return Copy(state.announcement, state.end, ()).pack()


async def _ask(requests: Requests, message_id: bytes, member: str, entry: bytes) -> None:
    await requests.ask(member, lambda requester: Request(message_id, member, requester, (entry,)))
