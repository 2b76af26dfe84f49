"""Who is there, and what disk it has."""

from typing import NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.additions.directed import answering, asking, parties_of, register_directed, store_of
from wireproto.dafka.fields import Cursor
from wireproto.dafka.messages import Frames

ANY_STORE = "*"
"""The incarnation in a PING's topic that every one of our stores subscribes to."""


class Ping(NamedTuple):
    """PING 'P': asks one store, or `ANY_STORE`, who it is; its answer proves the link both ways.

    With `remembered`, the nonce of a start, it asks one store for the last commit of that start, too.
    """

    store: str
    requester: str
    remembered: bytes = b""

    def frames(self) -> Frames:
        return [asking(ids.PING, self.store, self.requester) + fields.nonce(self.remembered)]


class Pong(NamedTuple):
    """The answer to PING: the store's incarnation, cluster id ("" before its first OPEN) and name, and the
    bytes that are free on its disk and its disk's size (0: not known).

    `nonce` is that of the store's start (b"": not told), `commit` the number of its last durable commit.
    With `remembered`, as the PING had it: the last durable commit of that start is `remembered_commit`, -1
    if this store never had it.
    """

    requester: str
    store: str
    cluster_id: str
    name: str
    free_bytes: int = 0
    disk_bytes: int = 0
    nonce: bytes = b""
    commit: int = 0
    remembered: bytes = b""
    remembered_commit: int = -1

    def frames(self) -> Frames:
        frame = (
            answering(ids.PONG, self.requester, self.store)
            + fields.string(self.cluster_id)
            + fields.string(self.name)
            + fields.sequence(self.free_bytes)
            + fields.sequence(self.disk_bytes)
        )
        if self.nonce:
            frame += fields.nonce(self.nonce) + fields.sequence(self.commit)
        if self.remembered:
            frame += fields.nonce(self.remembered) + fields.sequence_or_none(self.remembered_commit)
        return [frame]


def _pong(topic: str, cursor: Cursor) -> Pong:
    parties, about, free = parties_of(topic), (cursor.string(), cursor.string()), cursor.sequence()
    # A store of an older version does not tell the size, nor anything of its starts.
    pong = Pong(*parties, *about, free, cursor.sequence() if cursor.left else 0)
    if cursor.left:
        pong = pong._replace(nonce=cursor.last_nonce(), commit=cursor.sequence())
    if cursor.left:
        pong = pong._replace(remembered=cursor.last_nonce(), remembered_commit=cursor.sequence_or_none())
    return pong


register_directed(ids.PING, lambda topic, cursor: Ping(store_of(topic), cursor.name(), cursor.last_nonce()))
register_directed(ids.PONG, _pong)
