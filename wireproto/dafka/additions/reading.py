"""Rows of one address: looked up, read, and digested."""

from typing import NamedTuple

from wireproto.dafka import fields, ids
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
            asking_about(ids.LOOKUP, self.store, self.requester, self.address)
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
        return [answering(ids.FOUND, self.requester, self.store) + self.found.pack()]


class GetRows(NamedTuple):
    """ROWS 'R': asks for the rows of `address` from `sequence`, `count` at most."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return _asking_for_range(ids.GET_ROWS, self)


class Rows(NamedTuple):
    """The answer to ROWS: status with the last row's sequence, and the rows, joined, as content. `nonce` is
    that of the store's start, b"" where it is not told.
    """

    requester: str
    store: str
    status: AddressStatus
    content: Buffer
    nonce: bytes = b""

    def frames(self) -> Frames:
        return [
            answering(ids.ROWS, self.requester, self.store) + self.status.pack() + fields.nonce(self.nonce),
            self.content,
        ]


class End(NamedTuple):
    """END 'N' closes the answer to a directed FETCH: the last sequence sent (-1: none), or why none."""

    requester: str
    store: str
    last: AddressStatus

    def frames(self) -> Frames:
        return [answering(ids.END, self.requester, self.store) + self.last.pack()]


class Digest(NamedTuple):
    """DIGEST 'T': asks for a digest of the records of `address` from `sequence` on, `count` of them."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return _asking_for_range(ids.DIGEST, self)


class Digested(NamedTuple):
    """The answer to DIGEST: status with the range's last sequence and, in the place of a row, the digest
    (`DIGEST_BYTES`; empty if the status is not `STATUS_DONE`).
    """

    requester: str
    store: str
    digested: AddressStatus

    def frames(self) -> Frames:
        self._check(ValueError)
        return [answering(ids.DIGESTED, self.requester, self.store) + self.digested.pack()]

    def _check(self, error: type[ValueError]) -> None:
        size = len(self.digested.row)
        if size != (DIGEST_BYTES if self.digested.status == STATUS_DONE else 0):
            raise error(f"a digest of {size} bytes")


def _asking_for_range(message_id: bytes, asked: GetRows | Digest) -> Frames:
    return [
        asking_about(message_id, asked.store, asked.requester, asked.address)
        + fields.sequence(asked.sequence)
        + fields.number4(asked.count)
    ]


def _range_of(topic: str, cursor: Cursor) -> tuple[str, str, str, int, int]:
    """The reverse of `_asking_for_range`. Raises `MalformedMessage`."""
    return store_of(topic), cursor.name(), cursor.name(), cursor.sequence(), cursor.number4()


def _lookup(topic: str, cursor: Cursor) -> Lookup:
    store, requester, address, kind = store_of(topic), cursor.name(), cursor.name(), cursor.number1()
    if kind not in LOOKUP_KINDS:
        raise MalformedMessage(f"LOOKUP of kind {kind}")
    return Lookup(store, requester, address, kind, cursor.signed8(), cursor.sequence_or_none())


def _rows(header: bytes, content: Buffer) -> Rows:
    topic, cursor = fields.open_header(header, fields.MAX_PAIR_BYTES)
    rows = Rows(*parties_of(topic), AddressStatus.take(cursor), content, cursor.last_nonce())
    cursor.finish()
    return rows


def _digested(topic: str, cursor: Cursor) -> Digested:
    answer = Digested(*parties_of(topic), AddressStatus.take(cursor))
    answer._check(MalformedMessage)
    return answer


register_directed(ids.LOOKUP, _lookup)
register_directed(ids.FOUND, lambda topic, cursor: Found(*parties_of(topic), AddressStatus.take(cursor)))
register_directed(ids.GET_ROWS, lambda topic, cursor: GetRows(*_range_of(topic, cursor)))
register_with_content(ids.ROWS, _rows)
register_directed(ids.END, lambda topic, cursor: End(*parties_of(topic), AddressStatus.take(cursor)))
register_directed(ids.DIGEST, lambda topic, cursor: Digest(*_range_of(topic, cursor)))
register_directed(ids.DIGESTED, _digested)
