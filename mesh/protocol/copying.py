"""What a store takes from other stores: up to where, from whom, and what it checks.

Rule: a copy is taken as carefully as if a stranger had sent it. A record is taken only in the order of
sequences, up to the end that a recovery or the catalog named (an open address: what its gap is about), and
only if it is a whole batch under its CRC, of an epoch that the segment may have, after the batch before it.
The row made of it is the one that the normal path makes, so that members stay byte for byte equal.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from mesh.protocol.address_state import NO_END, AddressState, Phase
from wireproto.dafka.additions import Announcement
from wireproto.dafka.fields import MAX_SEQUENCE
from wireproto.records.batch import check_stored
from wireproto.records.errors import corrupt
from wireproto.records.header import NO_TIMESTAMP
from wireproto.records.row import Row, row_of

MAX_SOURCES = 16
"""Sources of one address that are asked: more than any segment has members."""


class Want(NamedTuple):
    """The records of an address up to `last` are to be fetched from `sources`, some of which may have them.

    `last` -1: whatever they have. `lasting`: until they are here; otherwise until the sources have no more.
    """

    state: AddressState
    last: int
    sources: tuple[str, ...]
    lasting: bool


class Taken(Enum):
    """What became of a copied record. NOT_NOW: there is no room, give it again. UNWANTED: not the next one,
    or nothing more is to be copied.
    """

    TAKEN = "taken"
    NOT_NOW = "not now"
    BAD = "bad"
    UNWANTED = "unwanted"


def copy_end(state: AddressState) -> int:
    """The last sequence that may be copied to an address, `NO_END` for none."""
    if state.phase is Phase.OPEN:
        return MAX_SEQUENCE
    if state.phase is Phase.SEALED:
        return state.wanted
    return state.end if state.phase is Phase.CLOSED else NO_END


def is_unfinished(state: AddressState) -> bool:
    """Whether a closed address lacks records that it should have."""
    return state.phase is Phase.CLOSED and state.head < state.end


def sources_of(state: AddressState, own: str) -> tuple[str, ...]:
    """Whom to ask for what an address lacks: those that COPY named, else the other members."""
    if state.announcement is None:
        return ()
    sources = state.sources or state.announcement.members
    return tuple(source for source in sources if source != own)[:MAX_SOURCES]


def same_segment(first: Announcement, second: Announcement) -> bool:
    """Whether both announce the same run of the same log; members may have changed since."""
    return first[:6] == second[:6]


def fits_epoch(announcement: Announcement, epoch: int) -> bool:
    """Whether a batch of this leader epoch may be in the segment: none is newer than its writer's.

    Older ones are in compacted segments, whose batches keep the epochs that they were written with, and
    those never go down.
    """
    return 0 <= epoch <= announcement.epoch


def check_copy(state: AddressState, content: bytes) -> int:
    """Check that `content` may follow what the address holds; its leader epoch. Raises `InvalidBatch`."""
    announcement = state.announcement
    assert announcement is not None, "only announced addresses are copied"
    header = check_stored(content)
    if not fits_epoch(announcement, header.leader_epoch):
        raise corrupt(f"leader epoch {header.leader_epoch} in a segment of epoch {announcement.epoch}")
    if header.leader_epoch < state.copied_epoch:
        raise corrupt(f"leader epoch {header.leader_epoch} behind {state.copied_epoch}")
    next_offset = Row.unpack(state.last_row).last_offset + 1 if state.last_row else announcement.start
    if header.base_offset < next_offset:
        raise corrupt(f"base offset {header.base_offset}, and {next_offset} is the next")
    return header.leader_epoch


def rows_between(
    announcement: Announcement, before: bytes, after: bytes, contents: Sequence[bytes]
) -> list[bytes]:
    """The rows of records that are to be written again, behind the record whose row is `before` (b"": they
    are the first ones), before the one whose row is `after` (b"": the last ones).

    Raises `InvalidBatch` when one is not a whole batch that may stand there.
    """
    next_offset, running_max = announcement.start, NO_TIMESTAMP
    if before:
        row = Row.unpack(before)
        next_offset, running_max = row.last_offset + 1, row.running_max_timestamp
    rows = []
    for content in contents:
        header = check_stored(content)
        if not fits_epoch(announcement, header.leader_epoch):
            raise corrupt(f"leader epoch {header.leader_epoch} in a segment of epoch {announcement.epoch}")
        if header.base_offset < next_offset:
            raise corrupt(f"base offset {header.base_offset}, and {next_offset} is the next")
        row = row_of(content, running_max)
        next_offset, running_max = row.last_offset + 1, row.running_max_timestamp
        rows.append(row.pack())
    if after and Row.unpack(after).base_offset < next_offset:
        raise corrupt(f"it ends at offset {next_offset - 1}, and the next one begins before that")
    return rows
