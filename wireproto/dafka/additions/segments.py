"""What requests and answers say of one segment or one address of it."""

from collections.abc import Sequence
from typing import NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.additions.remembering import NOTHING_REMEMBERED, Remembered
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Cursor

STATUS_DONE = 0
STATUS_NOT_HERE = 1
STATUS_STORAGE_ERROR = 2
STATUS_FOREIGN_CLUSTER = 3
STATUS_STALE_EPOCH = 4
STATUS_SEALED = 5
STATUS_INCOMPLETE = 6
STATUS_OPEN = 7
STATUS_BEGINS_LATER = 8
STATUS_ANSWER_FULL = 9
STATUS_OTHER_HISTORY = 10
STATUS_EPOCH_TOO_HIGH = 11
STATUS_OTHER_END = 12

NO_EPOCH = -1
"""The epoch of a segment, where the catalog has it no more."""

LEAST_SEALED_BYTES = 1 + 8
"""What an entry of OPEN's answer has at least: an address's length and a head."""


class Announcement(NamedTuple):
    """One segment, as OPEN announces it and LIST gives it back.

    `log` names the partition for good; `epoch` is its writer's; `start` is the first offset; `members` are
    incarnations, each once; `w` of them make a record count; `details` is the writer's own.
    """

    address: str
    subject: str
    cluster_id: str
    log: str
    epoch: int
    start: int
    members: tuple[str, ...]
    w: int
    details: bytes

    def pack(self) -> bytes:
        """The fields, as a store keeps them too. Raises ValueError for what `unpack` refuses."""
        self._check(ValueError)
        return b"".join(
            (
                fields.name(self.address),
                fields.string(self.subject),
                fields.string(self.cluster_id),
                fields.string(self.log),
                fields.number4(self.epoch),
                fields.sequence(self.start),
                fields.strings(self.members),
                fields.number1(self.w),
                fields.long_bytes(self.details),
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> "Announcement":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(
            cursor.name(),
            cursor.string(),
            cursor.string(),
            cursor.string(),
            cursor.number4(),
            cursor.sequence(),
            cursor.strings(),
            cursor.number1(),
            cursor.long_bytes(),
        )
        cursor.finish()
        value._check(MalformedMessage)
        return value

    def _check(self, error: type[ValueError]) -> None:
        if not 1 <= self.w <= len(self.members) or len(set(self.members)) != len(self.members):
            raise error(f"w {self.w} of {len(self.members)} members, {len(set(self.members))} different ones")
        if not all(map(fields.is_name, self.members)):
            raise error("a member is not a name")


class AddressStatus(NamedTuple):
    """What a store says of one address: its durable head or end (-1: none), and sometimes its last row."""

    address: str
    status: int
    sequence: int
    row: bytes = b""

    def pack(self) -> bytes:
        """The fields of the wire."""
        return (
            fields.name(self.address)
            + fields.number1(self.status)
            + fields.sequence_or_none(self.sequence)
            + fields.long_bytes(self.row)
        )

    @classmethod
    def take(cls, cursor: Cursor) -> "AddressStatus":
        """The next status of a message. Raises `MalformedMessage`."""
        return cls(cursor.name(), cursor.number1(), cursor.sequence_or_none(), cursor.long_bytes())

    @classmethod
    def unpack(cls, data: bytes) -> "AddressStatus":
        """One status and nothing behind it, as an entry of a `Request`. Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls.take(cursor)
        cursor.finish()
        return value


class OpenEntry(NamedTuple):
    """One segment as OPEN announces it. `at` is the place in the catalog's history where it came into its
    chain, nothing where the catalog has no name yet; so it is below.
    """

    announcement: Announcement
    at: Remembered = NOTHING_REMEMBERED

    @property
    def address(self) -> str:
        return self.announcement.address

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `unpack` refuses."""
        return fields.long_bytes(self.announcement.pack()) + self.at.pack()

    @classmethod
    def unpack(cls, data: bytes) -> "OpenEntry":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(Announcement.unpack(cursor.long_bytes()), Remembered.take(cursor))
        cursor.finish()
        return value


class SealedHead(NamedTuple):
    """One address that a store has sealed because of an OPEN, and its durable head (-1: none)."""

    address: str
    head: int

    @staticmethod
    def pack_all(sealed: Sequence["SealedHead"]) -> bytes:
        """As OPEN's answer has them in a status's `row`: nothing for none."""
        if not sealed:
            return b""
        return fields.entries(
            [fields.name(one.address) + fields.sequence_or_none(one.head) for one in sealed]
        )

    @classmethod
    def unpack_all(cls, row: bytes) -> tuple["SealedHead", ...]:
        """The reverse. Raises `MalformedMessage`."""
        if not row:
            return ()
        cursor = Cursor(row, 0)
        count = cursor.count(LEAST_SEALED_BYTES)
        if not count:
            raise MalformedMessage("a list of no sealed addresses")
        sealed = tuple(cls(cursor.name(), cursor.sequence_or_none()) for _ in range(count))
        cursor.finish()
        return sealed


class SealEntry(NamedTuple):
    """One address that is to be sealed. `epoch` is that of its sender's round, which is above all that its
    log has had.
    """

    address: str
    epoch: int

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError, struct.error for what `unpack` refuses."""
        return fields.name(self.address) + fields.number4(self.epoch)

    @classmethod
    def unpack(cls, data: bytes) -> "SealEntry":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(cursor.name(), cursor.number4())
        cursor.finish()
        return value


class CloseEntry(NamedTuple):
    """The agreed end of one address: its last sequence (-1: it is empty). `at` is where that was told."""

    address: str
    end: int
    at: Remembered = NOTHING_REMEMBERED

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `unpack` refuses."""
        return fields.name(self.address) + fields.sequence_or_none(self.end) + self.at.pack()

    @classmethod
    def unpack(cls, data: bytes) -> "CloseEntry":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(cursor.name(), cursor.sequence_or_none(), Remembered.take(cursor))
        cursor.finish()
        return value


class DeleteEntry(NamedTuple):
    """One address that is to be deleted. `log` ("": not known) and `epoch` (`NO_EPOCH`) are the segment's;
    `at` is where the catalog decided that it goes.
    """

    address: str
    log: str = ""
    epoch: int = NO_EPOCH
    at: Remembered = NOTHING_REMEMBERED

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `unpack` refuses."""
        return (
            fields.name(self.address)
            + fields.string(self.log)
            + fields.sequence_or_none(self.epoch)
            + self.at.pack()
        )

    @classmethod
    def unpack(cls, data: bytes) -> "DeleteEntry":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(cursor.name(), cursor.string(), cursor.sequence_or_none(), Remembered.take(cursor))
        cursor.finish()
        return value


class Copy(NamedTuple):
    """One segment that a store is to have up to sequence `end` (-1: it is empty), as COPY names it.

    `sources` are incarnations that may have it, each once; none: the members of the announcement.
    """

    announcement: Announcement
    end: int
    sources: tuple[str, ...]
    at: Remembered = NOTHING_REMEMBERED

    @property
    def address(self) -> str:
        return self.announcement.address

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `unpack` refuses."""
        self._check(ValueError)
        return b"".join(
            (
                fields.long_bytes(self.announcement.pack()),
                fields.sequence_or_none(self.end),
                fields.strings(self.sources),
                self.at.pack(),
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> "Copy":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(
            Announcement.unpack(cursor.long_bytes()),
            cursor.sequence_or_none(),
            cursor.strings(),
            Remembered.take(cursor),
        )
        cursor.finish()
        value._check(MalformedMessage)
        return value

    def _check(self, error: type[ValueError]) -> None:
        if len(set(self.sources)) != len(self.sources):
            raise error(f"{len(self.sources)} sources, {len(set(self.sources))} different ones")
        if not all(map(fields.is_name, self.sources)):
            raise error("a source is not a name")


class Beginning(NamedTuple):
    """What one segment began with, as the answer to BEGINNINGS has it in a status's `row`: what OPEN
    announced, and the first rows, joined (the status's `sequence` is the last one's).
    """

    announcement: Announcement
    rows: bytes

    def pack(self) -> bytes:
        """The fields of the wire."""
        return fields.long_bytes(self.announcement.pack()) + fields.long_bytes(self.rows)

    @classmethod
    def unpack(cls, data: bytes) -> "Beginning":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(Announcement.unpack(cursor.long_bytes()), cursor.long_bytes())
        cursor.finish()
        return value
