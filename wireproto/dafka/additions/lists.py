"""Requests about many segments at once, and the list of those that a store keeps."""

from collections.abc import Callable
from typing import NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.additions.directed import answering, asking, parties_of, register_directed, store_of
from wireproto.dafka.additions.publishing import PublishEntry
from wireproto.dafka.additions.segments import (
    AddressStatus,
    Announcement,
    CloseEntry,
    Copy,
    DeleteEntry,
    OpenEntry,
    SealedHead,
    SealEntry,
)
from wireproto.dafka.fields import Cursor
from wireproto.dafka.messages import Frames

LEAST_ENTRY_BYTES = 4
"""What one entry in a list has at least: its length."""
LEAST_STATUS_BYTES = 1 + 1 + 8 + 4
"""What one status in a list has at least: an address's length, status, sequence, the row's length."""


class Request(NamedTuple):
    """A request that carries a list: OPEN 'O', SEAL 'S', CLOSE 'C', DELETE 'X', COPY 'Y', BEGINNINGS 'B' or
    PUBLISH 'A', told apart by `id`.

    `entries` are packed `OpenEntry`s, `SealEntry`s, `CloseEntry`s, `DeleteEntry`s, `Copy`s, `PublishEntry`s,
    or for BEGINNINGS `AddressStatus`es with the last row that is wanted.
    Those of a decoded request have been read once, so unpacking them raises nothing.
    """

    id: bytes
    store: str
    requester: str
    entries: tuple[bytes, ...]

    def frames(self) -> Frames:
        return [
            asking(self.id, self.store, self.requester)
            + fields.entries([fields.long_bytes(entry) for entry in self.entries])
        ]


class Answer(NamedTuple):
    """The answer to a `Request`: one status per address asked about; in those of OPEN's answer the row holds
    `SealedHead`s. `nonce` is that of the store's start, b"" where it is not told.
    """

    id: bytes
    requester: str
    store: str
    statuses: tuple[AddressStatus, ...]
    nonce: bytes = b""

    def frames(self) -> Frames:
        statuses = fields.entries([status.pack() for status in self.statuses])
        return [answering(self.id, self.requester, self.store) + statuses + fields.nonce(self.nonce)]


class ListSegments(NamedTuple):
    """LIST 'I': asks for the announcements a store keeps, from address `first` on, `count` at most.

    `first` itself comes first if it is here, so one known address can be asked for; "" is the beginning.
    """

    store: str
    requester: str
    first: str
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return [
            asking(ids.LIST, self.store, self.requester)
            + fields.string(self.first)
            + fields.number4(self.count)
        ]


class Listed(NamedTuple):
    """The answer to LIST: pairs of (announcement, status with state in `status` and head in `sequence`).

    Fewer pairs than asked for: that was the end. `nonce` as in `Answer`.
    """

    requester: str
    store: str
    segments: tuple[tuple[Announcement, AddressStatus], ...]
    nonce: bytes = b""

    def frames(self) -> Frames:
        return [
            answering(ids.LISTED, self.requester, self.store)
            + fields.entries([fields.long_bytes(a.pack()) + s.pack() for a, s in self.segments])
            + fields.nonce(self.nonce)
        ]


def _register_list_messages(message_id: bytes, unpack_entry: Callable[[bytes], object]) -> None:
    answer_id = ids.answer_id(message_id)

    def request(topic: str, cursor: Cursor) -> Request:
        requester = cursor.name()
        entries = tuple(cursor.long_bytes() for _ in range(cursor.count(LEAST_ENTRY_BYTES)))
        for entry in entries:
            unpack_entry(entry)
        return Request(message_id, store_of(topic), requester, entries)

    def answer(topic: str, cursor: Cursor) -> Answer:
        statuses = tuple(AddressStatus.take(cursor) for _ in range(cursor.count(LEAST_STATUS_BYTES)))
        if answer_id == ids.OPENED:
            for status in statuses:
                SealedHead.unpack_all(status.row)
        return Answer(answer_id, *parties_of(topic), statuses, cursor.last_nonce())

    register_directed(message_id, request)
    register_directed(answer_id, answer)


def _listed(topic: str, cursor: Cursor) -> Listed:
    segments = tuple(
        (Announcement.unpack(cursor.long_bytes()), AddressStatus.take(cursor))
        for _ in range(cursor.count(LEAST_ENTRY_BYTES + LEAST_STATUS_BYTES))
    )
    return Listed(*parties_of(topic), segments, cursor.last_nonce())


_ENTRIES: dict[bytes, Callable[[bytes], object]] = {
    ids.OPEN: OpenEntry.unpack,
    ids.SEAL: SealEntry.unpack,
    ids.CLOSE: CloseEntry.unpack,
    ids.DELETE: DeleteEntry.unpack,
    ids.COPY: Copy.unpack,
    ids.PUBLISH: PublishEntry.unpack,
}
for _id in ids.LIST_REQUESTS:
    _register_list_messages(_id, _ENTRIES.get(_id, AddressStatus.unpack))
register_directed(
    ids.LIST,
    lambda topic, cursor: ListSegments(store_of(topic), cursor.name(), cursor.string(), cursor.number4()),
)
register_directed(ids.LISTED, _listed)
