"""Who is there, and what disk it has."""

from typing import NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.additions.directed import answering, asking, parties_of, register_directed, store_of
from wireproto.dafka.fields import Cursor
from wireproto.dafka.messages import Frames

ANY_STORE = "*"
"""The incarnation in a PING's topic that every one of our stores subscribes to."""


class Ping(NamedTuple):
    """PING 'P': asks one store, or `ANY_STORE`, who it is; its answer proves the link both ways."""

    store: str
    requester: str

    def frames(self) -> Frames:
        return [asking(ids.PING, self.store, self.requester)]


class Pong(NamedTuple):
    """The answer to PING: the store's incarnation, cluster id ("" before its first OPEN) and name, and the
    bytes that are free on its disk and its disk's size (0: not known).
    """

    requester: str
    store: str
    cluster_id: str
    name: str
    free_bytes: int = 0
    disk_bytes: int = 0

    def frames(self) -> Frames:
        return [
            answering(ids.PONG, self.requester, self.store)
            + fields.string(self.cluster_id)
            + fields.string(self.name)
            + fields.sequence(self.free_bytes)
            + fields.sequence(self.disk_bytes)
        ]


def _pong(topic: str, cursor: Cursor) -> Pong:
    parties, about, free = parties_of(topic), (cursor.string(), cursor.string()), cursor.sequence()
    # A store of an older version does not tell the size.
    return Pong(*parties, *about, free, cursor.sequence() if cursor.left else 0)


register_directed(ids.PING, lambda topic, cursor: Ping(store_of(topic), cursor.name()))
register_directed(ids.PONG, _pong)
