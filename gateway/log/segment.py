"""One segment of a partition's log, as the catalog keeps it.

Rule: members and w are fixed when the segment is opened, and a closed segment never changes again.
"""

import json
from dataclasses import dataclass, replace

NO_TIMESTAMP = -1


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

    @property
    def is_open(self) -> bool:
        return self.end_offset is None

    def closed(self, end_offset: int, last_sequence: int, max_timestamp: int) -> "Segment":
        """This segment with its agreed end."""
        return replace(self, end_offset=end_offset, last_sequence=last_sequence, max_timestamp=max_timestamp)

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
            }
        ).encode()

    @classmethod
    def unpack(cls, value: bytes) -> "Segment":
        """From the catalog's value. Raises KeyError or ValueError when it is not one."""
        data = json.loads(value)
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
        )
