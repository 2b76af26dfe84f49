"""What stores keep of the gateways' catalog: where its history is, and those entries that only it knows."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.additions.directed import answering, asking, parties_of, register_directed, store_of
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Cursor
from wireproto.dafka.messages import Frames

MAX_ENTRY_KEY_BYTES: Final = 1024
"""The longest key of an entry in UTF-8, as in the catalog (`gateway.catalog.interface.MAX_KEY_BYTES`)."""

MAX_KEEP_BYTES: Final = 2 * 1024 * 1024
"""Bytes of entries in one message. Who sends aims at `PIECE_BYTES`; one entry alone may have more."""

PIECE_BYTES: Final = 1024 * 1024
"""Bytes of entries after which the next message begins."""

LEAST_ENTRY_BYTES: Final = 4 + 4
"""What an entry in a list has at least: the lengths of its key and value."""

KEEP_QUESTION = 0
"""Nothing is to be kept: what is remembered?"""
KEEP_CHANGES = 1
"""What has changed since the sequence that the store has."""
KEEP_PIECE = 2
"""A piece of a whole copy, and not the last one."""
KEEP_LAST_PIECE = 3
"""The last piece of a whole copy, which takes the place of what is kept."""

KEEP_KINDS = frozenset((KEEP_QUESTION, KEEP_CHANGES, KEEP_PIECE, KEEP_LAST_PIECE))

KEPT_DONE = 0
KEPT_FOREIGN_CLUSTER = 1
KEPT_OTHER_HISTORY = 2
"""The store remembers another lineage, or more of this one."""
KEPT_OUT_OF_TURN = 3
"""What is remembered is not what the changes follow, or the piece is not the next one."""
KEPT_TOO_LARGE = 4
KEPT_STORAGE_ERROR = 5


class Remembered(NamedTuple):
    """A place in a catalog's history: its lineage ("" and -1: none), the gateway life that was there, and the
    sequence, which every transaction raises.
    """

    lineage: str = ""
    life: str = ""
    sequence: int = -1

    def pack(self) -> bytes:
        """The fields of the wire, as a store keeps them too. Raises ValueError for what `take` refuses."""
        self._check(ValueError)
        return fields.string(self.lineage) + fields.string(self.life) + fields.sequence_or_none(self.sequence)

    @classmethod
    def take(cls, cursor: Cursor) -> "Remembered":
        """The next one of a message. Raises `MalformedMessage`."""
        value = cls(cursor.string(), cursor.string(), cursor.sequence_or_none())
        value._check(MalformedMessage)
        return value

    def _check(self, error: type[ValueError]) -> None:
        if bool(self.lineage) != (self.sequence >= 0):
            raise error("a lineage that is not a sequence's, or a sequence of none")


NOTHING_REMEMBERED = Remembered()


class Keep(NamedTuple):
    """KEEP 'U': has a store keep the catalog's entries as they are at `at`, or asks what it remembers.

    kind: one of `KEEP_KINDS`.
    parent: the lineage that this one goes on from, if the store is to give that one up for it; else "".
    base: of changes, the sequence that the store has; of a piece of a whole copy, the piece's number.
    """

    store: str
    requester: str
    cluster_id: str
    kind: int
    at: Remembered = NOTHING_REMEMBERED
    parent: str = ""
    base: int = 0
    puts: Mapping[str, bytes] = {}
    deletes: Sequence[str] = ()

    def frames(self) -> Frames:
        if self.kind not in KEEP_KINDS:
            raise ValueError(f"{self.kind} is not in the range of KEEP's kinds")
        return [
            asking(ids.KEEP, self.store, self.requester)
            + fields.string(self.cluster_id)
            + fields.number1(self.kind)
            + self.at.pack()
            + fields.string(self.parent)
            + fields.sequence(self.base)
            + pack_entries(self.puts)
            + fields.entries([_packed_key(key) for key in self.deletes])
        ]


class Kept(NamedTuple):
    """The answer to KEEP: what the store remembers, on its disk, and whose cluster it belongs to ("": none).

    pieces: how many pieces it has of the whole copy that KEEP was a part of.
    nonce: that of the store's start, b"" where it is not told.
    """

    requester: str
    store: str
    status: int
    cluster_id: str
    memory: Remembered
    pieces: int = 0
    nonce: bytes = b""

    def frames(self) -> Frames:
        return [
            answering(ids.KEPT, self.requester, self.store)
            + fields.number1(self.status)
            + fields.string(self.cluster_id)
            + self.memory.pack()
            + fields.number4(self.pieces)
            + fields.nonce(self.nonce)
        ]


class Recall(NamedTuple):
    """RECALL 'J': asks for the entries that are kept, those after the key `after`, in the order of keys."""

    store: str
    requester: str
    after: str

    def frames(self) -> Frames:
        after = _packed_key(self.after) if self.after else fields.long_bytes(b"")
        return [asking(ids.RECALL, self.store, self.requester) + after]


class Recalled(NamedTuple):
    """The answer to RECALL: some entries; `more` if others follow them. `memory` is what they belong to,
    `nonce` as in `Kept`.
    """

    requester: str
    store: str
    status: int
    cluster_id: str
    memory: Remembered
    entries: Mapping[str, bytes] = {}
    more: bool = False
    nonce: bytes = b""

    def frames(self) -> Frames:
        return [
            answering(ids.RECALLED, self.requester, self.store)
            + fields.number1(self.status)
            + fields.string(self.cluster_id)
            + self.memory.pack()
            + fields.number1(self.more)
            + pack_entries(self.entries)
            + fields.nonce(self.nonce)
        ]


def pack_entries(entries: Mapping[str, bytes]) -> bytes:
    """A list of keys with values. Raises ValueError beyond `fields.MAX_LIST_ENTRIES`."""
    return fields.entries([_packed_key(key) + fields.long_bytes(value) for key, value in entries.items()])


def _packed_key(key: str) -> bytes:
    packed = key.encode()
    if not 0 < len(packed) <= MAX_ENTRY_KEY_BYTES or "\0" in key:
        raise ValueError(f"an entry's key holds at most {MAX_ENTRY_KEY_BYTES} bytes, and no NUL")
    return fields.long_bytes(packed)


def _take_key(cursor: Cursor) -> str:
    key = cursor.long_bytes()
    if not 0 < len(key) <= MAX_ENTRY_KEY_BYTES:
        raise MalformedMessage(f"an entry's key of {len(key)} bytes")
    return fields.text(key)


def _take_entries(cursor: Cursor) -> dict[str, bytes]:
    count = cursor.count(LEAST_ENTRY_BYTES)
    entries = {_take_key(cursor): cursor.long_bytes() for _ in range(count)}
    if len(entries) != count:
        raise MalformedMessage("a key comes twice")
    return entries


def _keep(topic: str, cursor: Cursor) -> Keep:
    if cursor.left > MAX_KEEP_BYTES:
        raise MalformedMessage(f"KEEP of {cursor.left} bytes")
    keep = Keep(
        store_of(topic),
        cursor.name(),
        cursor.string(),
        cursor.number1(),
        Remembered.take(cursor),
        cursor.string(),
        cursor.sequence(),
        _take_entries(cursor),
        tuple(_take_key(cursor) for _ in range(cursor.count(4))),
    )
    if keep.kind not in KEEP_KINDS:
        raise MalformedMessage(f"KEEP of kind {keep.kind}")
    return keep


def _kept(topic: str, cursor: Cursor) -> Kept:
    parties, status, cluster_id = parties_of(topic), cursor.number1(), cursor.string()
    return Kept(*parties, status, cluster_id, Remembered.take(cursor), cursor.number4(), cursor.last_nonce())


def _recall(topic: str, cursor: Cursor) -> Recall:
    store, requester = store_of(topic), cursor.name()
    after = cursor.long_bytes()
    if len(after) > MAX_ENTRY_KEY_BYTES:
        raise MalformedMessage(f"an entry's key of {len(after)} bytes")
    return Recall(store, requester, fields.text(after))


def _recalled(topic: str, cursor: Cursor) -> Recalled:
    parties, status, cluster_id = parties_of(topic), cursor.number1(), cursor.string()
    memory, more = Remembered.take(cursor), cursor.number1()
    if more > 1:
        raise MalformedMessage(f"a truth of {more}")
    entries = _take_entries(cursor)
    return Recalled(*parties, status, cluster_id, memory, entries, bool(more), cursor.last_nonce())


register_directed(ids.KEEP, _keep)
register_directed(ids.KEPT, _kept)
register_directed(ids.RECALL, _recall)
register_directed(ids.RECALLED, _recalled)
