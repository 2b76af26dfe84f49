"""One segment of a partition's log, as the catalog keeps it.

Rule: members and w are fixed when the segment is opened, and a closed segment never changes again.
"""

import json
from dataclasses import dataclass, replace

from gateway.catalog import keys

NO_TIMESTAMP = -1
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of the log under one address. `end_offset` (exclusive) and `last_sequence` are None while it is
    open.
    """

    address: str
    epoch: int
    start_offset: int
    members: tuple[str, ...]
    w: int
    opened_ms: int
    end_offset: int | None = None
    last_sequence: int | None = None
    max_timestamp: int = NO_TIMESTAMP
    """The highest record timestamp in it, ms; known once closed."""
    announced: bool = False
    """Its members have confirmed the announcement: from then on one that has never heard of it is not the
    store that it was. Noted a moment after the first records, so false proves nothing."""
    confirmed: tuple[str, ...] = ()
    """Those of its members that had the announcement on their disks when that was noted."""
    size: int = UNKNOWN
    """Bytes of its batches; known once closed by the life that wrote it, or when somebody has counted."""
    closed_ms: int = 0
    """When it was closed, ms since 1970; 0 when nobody noted it."""
    cleaned_to: int = UNKNOWN
    """Below this offset a compaction has left the newest record of each key only; UNKNOWN: it was never
    compacted. Its batches may leave gaps between their offsets, and come from several epochs."""

    aborted: int = 0
    """Aborted transactions whose markers lie in it; UNKNOWN: its end was agreed on by a recovery, and nobody
    has counted. While it is open, those of its window count."""
    lowest_aborted: int = UNKNOWN
    """The lowest first offset of these; UNKNOWN without any."""
    first_unstable: int = UNKNOWN
    """The first offset of the oldest transaction that was open when it began; UNKNOWN: none was."""
    copying: tuple[str, ...] = ()
    """Stores that are no members, and may have a copy of some of it: each was to take a member's place."""

    @property
    def is_open(self) -> bool:
        return self.end_offset is None

    @property
    def keepers(self) -> tuple[str, ...]:
        """The stores that may have something of it, and are to forget it once it has left its chain."""
        return self.members + self.copying

    @property
    def ends_nothing_below(self) -> int:
        """No transaction whose marker lies in it, or in a later one, begins below this offset."""
        return self.start_offset if self.first_unstable == UNKNOWN else self.first_unstable

    @property
    def is_compacted(self) -> bool:
        return self.cleaned_to != UNKNOWN

    @property
    def largest_timestamp(self) -> int:
        """The time that retention goes by, ms: the highest of its records' timestamps; without one the time
        when it was closed (`LogSegment.largestTimestamp`, which takes the file's).
        """
        return self.max_timestamp if self.max_timestamp >= 0 else max(self.closed_ms, self.opened_ms)

    def closed(
        self,
        end_offset: int,
        last_sequence: int,
        max_timestamp: int,
        *,
        size: int = UNKNOWN,
        closed_ms: int = 0,
        aborted: int = UNKNOWN,
        lowest_aborted: int = UNKNOWN,
    ) -> "Segment":
        """This segment with its agreed end."""
        return replace(
            self,
            end_offset=end_offset,
            last_sequence=last_sequence,
            max_timestamp=max_timestamp,
            size=size,
            closed_ms=closed_ms,
            aborted=aborted,
            lowest_aborted=lowest_aborted,
        )

    def reopened(self) -> "Segment":
        """This segment as if its end had never been agreed on, nor its announcement confirmed."""
        return replace(self, end_offset=None, last_sequence=None, announced=False, confirmed=())

    def pack(self) -> bytes:
        """As the catalog's value."""
        return json.dumps(
            {
                "address": self.address,
                "epoch": self.epoch,
                "start": self.start_offset,
                "members": self.members,
                "w": self.w,
                "opened_ms": self.opened_ms,
                "end": self.end_offset,
                "last_sequence": self.last_sequence,
                "max_timestamp": self.max_timestamp,
                "announced": self.announced,
                "confirmed": self.confirmed,
                "size": self.size,
                "closed_ms": self.closed_ms,
                "cleaned_to": self.cleaned_to,
                **({"copying": self.copying} if self.copying else {}),
                **({"aborted": [self.aborted, self.lowest_aborted]} if self.aborted else {}),
                **({} if self.first_unstable == UNKNOWN else {"first_unstable": self.first_unstable}),
            }
        ).encode()

    @classmethod
    def unpack(cls, value: bytes) -> "Segment":
        """From the catalog's value. Raises KeyError or ValueError when it is not one."""
        data = keys.unpack(value)
        aborted, lowest_aborted = data.get("aborted", (0, UNKNOWN))
        return cls(
            data["address"],
            data["epoch"],
            data["start"],
            tuple(data["members"]),
            data["w"],
            data["opened_ms"],
            data["end"],
            data["last_sequence"],
            data["max_timestamp"],
            data.get("announced", False),
            tuple(data.get("confirmed", ())),
            data.get("size", UNKNOWN),
            data.get("closed_ms", 0),
            data.get("cleaned_to", UNKNOWN),
            aborted,
            lowest_aborted,
            data.get("first_unstable", UNKNOWN),
            tuple(data.get("copying", ())),
        )
