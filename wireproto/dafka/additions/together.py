"""DIRECT-RECORDS 'd': what a store answers to a FETCH of native records, many in one message.

Theory of operation: a record of a hundred bytes costs its two frames many times what its bytes do, at the
sender, in both sockets and at the receiver. Whoever takes this message says so by subscribing to its id and
its own name, or its life; others get DIRECT-RECORDs.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Buffer, open_header
from wireproto.dafka.messages import Frames, answer_topic, register_with_content

MAX_RECORDS_TOGETHER = fields.MAX_LIST_ENTRIES
"""Records in one DIRECT-RECORDS."""

_LENGTH_BYTES = 4


class DirectRecords(NamedTuple):
    """The records of one native address from `sequence` on, without gaps: an answer to FETCH."""

    requester: str
    address: str
    subject: str
    sequence: int
    contents: Sequence[bytes]

    def frames(self) -> Frames:
        return DirectRecordsEncoder(self.requester, self.address, self.subject).frames(
            self.sequence, self.contents
        )


class DirectRecordsEncoder:
    """Those that answer one FETCH: what is the same in all of them is made once.

    Raises ValueError for names over 255 bytes or with a NUL inside.
    """

    __slots__ = ("_prefix",)

    def __init__(self, requester: str, address: str, subject: str) -> None:
        self._prefix = (
            fields.header(ids.DIRECT_RECORDS, answer_topic(requester, ""))
            + fields.name(address)
            + fields.string(subject)
        )

    def frames(self, sequence: int, contents: Sequence[bytes]) -> Frames:
        """[header, lengths and contents]. Raises ValueError for what decoding refuses."""
        count = len(contents)
        _check(sequence, count, ValueError)
        header = self._prefix + fields.sequence(sequence) + fields.number4(count)
        return [header, struct.pack(f">{count}I", *map(len, contents)) + b"".join(contents)]


def _check(sequence: int, count: int, error: type[ValueError]) -> None:
    if not 0 < count <= MAX_RECORDS_TOGETHER or sequence + count - 1 > fields.MAX_SEQUENCE:
        raise error(f"{count} records together, from {sequence} on")


def _decode(header: bytes, content: Buffer) -> DirectRecords:
    topic, cursor = open_header(header)
    requester, address, subject = fields.checked_name(topic), cursor.name(), cursor.string()
    sequence, count = cursor.sequence(), cursor.number4()
    cursor.finish()
    _check(sequence, count, MalformedMessage)
    return DirectRecords(requester, address, subject, sequence, _split(bytes(content), count))


def _split(data: bytes, count: int) -> tuple[bytes, ...]:
    begin = count * _LENGTH_BYTES
    if len(data) < begin:
        raise MalformedMessage(f"{len(data)} bytes where {count} lengths should be")
    ends = list(accumulate(struct.unpack_from(f">{count}I", data), initial=begin))
    if ends[-1] != len(data):
        raise MalformedMessage(f"{ends[-1]} bytes of lengths and contents are told, and {len(data)} are here")
    return tuple([data[start:end] for start, end in pairwise(ends)])


register_with_content(ids.DIRECT_RECORDS, _decode)
