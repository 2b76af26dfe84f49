"""Rows of one address: looked up, read, and digested."""

from typing import NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.additions.directed import (
    answering,
    asking_about,
    parties_of,
    register_directed,
    store_of,
)
from wireproto.dafka.additions.segments import STATUS_DONE, AddressStatus
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Buffer, Cursor
from wireproto.dafka.messages import Frames, register_with_content

LOOKUP_OFFSET = 0
"""The first row whose last offset is at or after the target."""
LOOKUP_TIMESTAMP = 1
"""The first row whose running maximum timestamp is at or after the target."""
LOOKUP_MAX_TIMESTAMP = 2
"""The first row that carries the highest timestamp up to the bound."""

LOOKUP_KINDS = frozenset((LOOKUP_OFFSET, LOOKUP_TIMESTAMP, LOOKUP_MAX_TIMESTAMP))

DIGEST_BYTES = 32
"""SHA-256."""


class Lookup(NamedTuple):
    """LOOKUP 'Q': the first row of `address` that satisfies (`kind`, `target`), up to sequence `bound`."""

    store: str
    requester: str
    address: str
    kind: int
    target: int
    bound: int

    def frames(self) -> Frames:
        return [
            asking_about(b"Q", self.store, self.requester, self.address)
            + fields.number1(self.kind)
            + fields.signed8(self.target)
            + fields.sequence_or_none(self.bound)
        ]


class Found(NamedTuple):
    """The answer to LOOKUP: the row's sequence (-1: no such row) and the row."""

    requester: str
    store: str
    found: AddressStatus

    def frames(self) -> Frames:
        return [answering(b"q", self.requester, self.store) + self.found.pack()]


class GetRows(NamedTuple):
    """ROWS 'R': asks for the rows of `address` from `sequence`, `count` at most."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return [
            asking_about(b"R", self.store, self.requester, self.address)
            + fields.sequence(self.sequence)
            + fields.number4(self.count)
        ]


class Rows(NamedTuple):
    """The answer to ROWS: status with the last row's sequence, and the rows, joined, as content."""

    requester: str
    store: str
    status: AddressStatus
    content: Buffer

    def frames(self) -> Frames:
        return [
            answering(b"r", self.requester, self.store) + self.status.pack(),
            self.content,
        ]


class End(NamedTuple):
    """END 'N' closes the answer to a directed FETCH: the last sequence sent (-1: none), or why none."""

    requester: str
    store: str
    last: AddressStatus

    def frames(self) -> Frames:
        return [answering(b"N", self.requester, self.store) + self.last.pack()]


class Digest(NamedTuple):
    """DIGEST 'T': asks for a digest of the records of `address` from `sequence` on, `count` of them."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return [
            asking_about(b"T", self.store, self.requester, self.address)
            + fields.sequence(self.sequence)
            + fields.number4(self.count)
        ]


class Digested(NamedTuple):
    """The answer to DIGEST: status with the range's last sequence and, in the place of a row, the digest
    (`DIGEST_BYTES`; empty if the status is not `STATUS_DONE`).
    """

    requester: str
    store: str
    digested: AddressStatus

    def frames(self) -> Frames:
        self._check(ValueError)
        return [answering(b"t", self.requester, self.store) + self.digested.pack()]

    def _check(self, error: type[ValueError]) -> None:
        size = len(self.digested.row)
        if size != (DIGEST_BYTES if self.digested.status == STATUS_DONE else 0):
            raise error(f"a digest of {size} bytes")


def _lookup(topic: str, cursor: Cursor) -> Lookup:
    store, requester, address, kind = store_of(topic), cursor.name(), cursor.name(), cursor.number1()
    if kind not in LOOKUP_KINDS:
        raise MalformedMessage(f"LOOKUP of kind {kind}")
    return Lookup(store, requester, address, kind, cursor.signed8(), cursor.sequence_or_none())


def _rows(header: bytes, content: Buffer) -> Rows:
    topic, cursor = fields.open_header(header, fields.MAX_PAIR_BYTES)
    rows = Rows(*parties_of(topic), AddressStatus.take(cursor), content)
    cursor.finish()
    return rows


def _get_rows(topic: str, cursor: Cursor) -> GetRows:
    return GetRows(store_of(topic), cursor.name(), cursor.name(), cursor.sequence(), cursor.number4())


def _digest(topic: str, cursor: Cursor) -> Digest:
    return Digest(store_of(topic), cursor.name(), cursor.name(), cursor.sequence(), cursor.number4())


def _digested(topic: str, cursor: Cursor) -> Digested:
    answer = Digested(*parties_of(topic), AddressStatus.take(cursor))
    answer._check(MalformedMessage)
    return answer


register_directed(b"Q", _lookup)
register_directed(b"q", lambda topic, cursor: Found(*parties_of(topic), AddressStatus.take(cursor)))
register_directed(b"R", _get_rows)
register_with_content(b"r", _rows)
register_directed(b"N", lambda topic, cursor: End(*parties_of(topic), AddressStatus.take(cursor)))
register_directed(b"T", _digest)
register_directed(b"t", _digested)
