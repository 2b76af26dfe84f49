"""What a store says of an address once what it was asked is on its disk."""

from mesh.protocol.address_state import NO_END, AddressState, Phase
from mesh.protocol.commit import Answered, Copying, Opened
from mesh.protocol.copying import is_unfinished
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    AddressStatus,
    SealedHead,
)


def status_of(answer_id: bytes, state: Answered) -> AddressStatus:
    """What the answer with this id says of one address, when its commit is durable."""
    if isinstance(state, AddressStatus):
        return state
    if isinstance(state, Copying):
        return _copied(state.state, state.end)
    if isinstance(state, Opened):
        sealed = [SealedHead(other.address, other.head) for other in state.sealed]
        return AddressStatus(state.state.address, STATUS_DONE, state.state.head, SealedHead.pack_all(sealed))
    status = STATUS_DONE
    if answer_id == ids.CLOSED and is_unfinished(state):
        status = STATUS_INCOMPLETE
    if answer_id == ids.SEALED and state.announcement is None and state.phase is not Phase.DELETED:
        # Sealed, and never heard of: the asker must be able to tell this from an empty segment.
        return AddressStatus(state.address, STATUS_NOT_HERE, -1)
    if answer_id != ids.SEALED:
        return AddressStatus(state.address, status, state.head)
    if state.accepted < state.head:
        # A CLOSE after this seal has cut the address already, if only in memory.
        return AddressStatus(state.address, status, state.accepted, state.last_row)
    return AddressStatus(state.address, status, state.head, state.head_row)


def acknowledges(state: AddressState) -> bool:
    """Whether what became durable is told to the writer. What a recovery had copied is not: the writer was
    cut off, and another recovery may decide on an earlier end.
    """
    return state.phase < Phase.SEALED or (state.phase is Phase.SEALED and state.wanted == NO_END)


def _copied(state: AddressState, end: int) -> AddressStatus:
    """The answer to COPY up to `end`."""
    if state.head >= end and state.phase is not Phase.DELETED:
        return AddressStatus(state.address, STATUS_DONE, state.head)
    if state.phase is Phase.DELETED or (state.phase is Phase.CLOSED and state.end < end):
        return AddressStatus(state.address, STATUS_SEALED, state.head)
    return AddressStatus(state.address, STATUS_INCOMPLETE, state.head)
