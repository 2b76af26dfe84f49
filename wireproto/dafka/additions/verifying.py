"""What stores know of logs, so that a catalog that is older than they are is noticed."""

from collections.abc import Sequence
from typing import NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.additions.directed import asking, register_directed, store_of
from wireproto.dafka.fields import Buffer, Cursor
from wireproto.dafka.messages import Frames

LEAST_ASKED_BYTES = 1 + 1
"""What one entry of VERIFY has at least: the lengths of a log and of an address."""
LEAST_VERIFIED_BYTES = 1 + 8 + 1 + 1 + 1 + 8 + 8
"""What one entry of its answer has at least: status, epoch, a life's length, phase, an address's length, two
offsets.
"""


class Verify(NamedTuple):
    """VERIFY 'V': asks what is known of logs, so that a catalog that is older than its stores is noticed.

    `entries` are pairs of a log and an address of it, or "" for none. The answer has the shape of ROWS'
    answer, with `Verified` entries as content.
    """

    store: str
    requester: str
    entries: tuple[tuple[str, str], ...]

    def frames(self) -> Frames:
        return [
            asking(ids.VERIFY, self.store, self.requester)
            + fields.entries([fields.string(log) + fields.string(address) for log, address in self.entries])
        ]


class Verified(NamedTuple):
    """What a store knows of one entry of a VERIFY.

    `epoch` is the highest that any OPEN announced for the log (-1: none), `life` the gateway life that did,
    `phase` that of the address (0: nothing is known of it, or it was not asked for). `newest` is the segment
    of the log that begins last, of all that were announced and are not deleted, `newest_start` the offset
    where it begins, and `newest_end` the offset after what is here of it ("", -1 and -1: none is known).
    """

    status: int
    epoch: int
    life: str
    phase: int
    newest: str = ""
    newest_start: int = -1
    newest_end: int = -1

    @staticmethod
    def pack_all(entries: Sequence["Verified"]) -> bytes:
        """The content of the answer: one entry for each that was asked for, in the same order."""
        return fields.entries(
            [
                fields.number1(status)
                + fields.sequence_or_none(epoch)
                + fields.string(life)
                + fields.number1(phase)
                + fields.string(newest)
                + fields.sequence_or_none(start)
                + fields.sequence_or_none(end)
                for status, epoch, life, phase, newest, start, end in entries
            ]
        )

    @classmethod
    def unpack_all(cls, content: Buffer) -> list["Verified"]:
        """The entries in the content of an answer. Raises `MalformedMessage`."""
        cursor = Cursor(bytes(content), 0)
        found = [
            cls(
                cursor.number1(),
                cursor.sequence_or_none(),
                cursor.string(),
                cursor.number1(),
                cursor.string(),
                cursor.sequence_or_none(),
                cursor.sequence_or_none(),
            )
            for _ in range(cursor.count(LEAST_VERIFIED_BYTES))
        ]
        cursor.finish()
        return found


def _verify(topic: str, cursor: Cursor) -> Verify:
    store, requester = store_of(topic), cursor.name()
    entries = tuple((cursor.string(), cursor.string()) for _ in range(cursor.count(LEAST_ASKED_BYTES)))
    return Verify(store, requester, entries)


register_directed(ids.VERIFY, _verify)
