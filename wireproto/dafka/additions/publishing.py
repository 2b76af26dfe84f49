"""What a gateway tells stores of a topic whose values are native records: PUBLISH, piece by piece."""

from typing import NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Cursor

ABORTED_BYTES = 8 + 8 + 8
"""One `AbortedSpan`."""


class AbortedSpan(NamedTuple):
    """An aborted transaction of a producer: its batches from `first` to `last`, the offset of its marker."""

    producer_id: int
    first: int
    last: int


class PublishEntry(NamedTuple):
    """A piece of a partition: the offsets from `first` to `last` (-1: none any more), all of which may be
    shown, and lie in one segment. `piece` names it among all; the answer has that name.

    `address` and `subject` are those of the native records; `start` is the first offset of the partition that
    is there. Who `answers` does so at once, and says how far the partition goes; others answer who asks
    again. `aborted` are the transactions of which nothing is shown.
    """

    piece: str
    address: str
    subject: str
    segment: str
    first: int
    last: int
    start: int
    answers: bool
    aborted: tuple[AbortedSpan, ...] = ()

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `unpack` refuses."""
        self._check(ValueError)
        return b"".join(
            (
                fields.name(self.piece),
                fields.name(self.address),
                fields.string(self.subject),
                fields.name(self.segment),
                fields.sequence(self.first),
                fields.sequence_or_none(self.last),
                fields.sequence(self.start),
                fields.number1(self.answers),
                fields.entries([b"".join(map(fields.sequence, span)) for span in self.aborted]),
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> "PublishEntry":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(
            cursor.name(),
            cursor.name(),
            cursor.string(),
            cursor.name(),
            cursor.sequence(),
            cursor.sequence_or_none(),
            cursor.sequence(),
            _flag(cursor.number1()),
            tuple(
                AbortedSpan(cursor.sequence(), cursor.sequence(), cursor.sequence())
                for _ in range(cursor.count(ABORTED_BYTES))
            ),
        )
        cursor.finish()
        value._check(MalformedMessage)
        return value

    def _check(self, error: type[ValueError]) -> None:
        if self.last >= 0 and self.last < self.first:
            raise error(f"a piece from {self.first} to {self.last}")


def _flag(value: int) -> bool:
    if value > 1:
        raise MalformedMessage(f"{value} is neither yes nor no")
    return bool(value)
