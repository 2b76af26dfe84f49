"""What a store knows of one address, and how that is kept on disk."""

import struct
from enum import IntEnum
from typing import NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.additions import Announcement
from wireproto.dafka.fields import Cursor

NO_END = -2
"""`AddressState.end` before CLOSE named one (an empty segment's end is -1)."""

_META = struct.Struct(">BBqI")
_META_VERSION = 2
_META_WITHOUT_PLACE = 1
"""The version of stores of format 2 and before."""


class Phase(IntEnum):
    """The life of an address. It only ever moves down this list."""

    NATIVE = 0
    """Never OPENed: a native producer's partition."""
    OPEN = 1
    SEALED = 2
    """Takes no records from its writer any more."""
    CLOSED = 3
    """Its end is agreed: nothing is kept or served beyond it."""
    DELETED = 4
    """Nothing of it is kept but this, for good: a late OPEN or RECORD must not bring it back."""


class Told(NamedTuple):
    """Where in the history of the gateways' catalog something was told of an address last. Which gateway life
    was there is not kept: a sequence is higher than those of all earlier lives.
    """

    lineage: str = ""
    sequence: int = -1


def life_of(address: str) -> str:
    """The life of the gateway that made this address: its first sixteen characters."""
    return address[:16]


class AddressState:
    """One address in a store's memory. `head` is durable (committed here), `accepted` what waits for a commit
    too.
    """

    __slots__ = (
        "accepted",
        "address",
        "announcement",
        "asker",
        "begins",
        "copied_epoch",
        "end",
        "head",
        "head_row",
        "is_passed_on",
        "last_row",
        "native_at",
        "phase",
        "running_max",
        "sources",
        "subject",
        "told",
        "wanted",
    )

    def __init__(self, address: str, subject: str = "") -> None:
        self.address = address
        self.subject = subject
        self.phase = Phase.NATIVE
        self.head = -1
        self.accepted = -1
        self.begins = 0
        """The first sequence that is kept here, in memory only: above 0 for a native address whose first
        records are gone everywhere."""
        self.native_at = -1
        """How many lives of gateways were heard of when this was none of theirs: `Lives.changes`."""
        self.running_max = -1
        """The running maximum timestamp (ms) up to `accepted`, -1 before the first row."""
        self.last_row = b""
        """The row at `accepted` (opened addresses only)."""
        self.head_row = b""
        """The row at `head`."""
        self.end = NO_END
        self.is_passed_on = False
        """Only another store has told the end: what a gateway tells takes its place."""
        self.announcement: Announcement | None = None
        self.told = Told()
        """By OPEN, COPY or CLOSE."""
        self.wanted = NO_END
        """How far COPY wants a sealed address, in memory only: a recovery repeats what it asked for."""
        self.sources: tuple[str, ...] = ()
        """Whom COPY named."""
        self.copied_epoch = 0
        """The leader epoch of the record that was copied last, in memory only: none after it is older."""
        self.asker = ""
        """The requester of the latest COPY that found something missing."""

    def pack_meta(self) -> bytes:
        """Phase, end, announcement and what was told last, for the disk (the head is kept apart, in every
        commit). An end that was passed on is kept as that of a sealed address: older versions hear it again.
        """
        details = self.announcement.pack() if self.announcement else b""
        place = b""
        if self.told.lineage:
            place = fields.string(self.told.lineage) + fields.sequence(self.told.sequence)
        phase = Phase.SEALED if self.is_passed_on else self.phase
        return _META.pack(_META_VERSION, phase, self.end, len(details)) + details + place

    @classmethod
    def unpack(cls, address: str, meta: bytes | None, head: tuple[int, bytes, int, str]) -> "AddressState":
        """From the disk: `meta` as packed, head as (sequence, row, running maximum, subject)."""
        state = cls(address, head[3])
        if meta is not None:
            state._unpack_meta(meta)
        state.head = state.accepted = head[0]
        state.last_row, state.running_max = head[1], head[2]
        state.head_row = state.last_row
        return state

    def _unpack_meta(self, meta: bytes) -> None:
        version, phase, self.end, size = _META.unpack_from(meta)
        place = _META.size + size
        if version not in (_META_VERSION, _META_WITHOUT_PLACE) or len(meta) < place:
            raise ValueError(f"the record of address {self.address} has version {version}")
        self.phase = Phase(phase)
        if self.phase is Phase.SEALED and self.end != NO_END:
            self.phase, self.is_passed_on = Phase.CLOSED, True
        if size:
            self.announcement = Announcement.unpack(meta[_META.size : place])
            self.subject = self.announcement.subject
        cursor = Cursor(meta, place)
        if version == _META_VERSION and cursor.left:
            self.told = Told(cursor.string(), cursor.sequence())
        cursor.finish()
