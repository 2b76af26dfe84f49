"""What natives may subscribe to: their own answers, and what producers publish.

A store publishes what it answers, and ZeroMQ gives it to whoever subscribed to how it begins. So a native
that subscribed to less than a whole id, or to one of a gateway's or a store's, would hear what those read.
"""

from mesh.keys.roles import Role
from wireproto.dafka import ids

ID_BYTES = 32
"""How long the ids of natives are: those of producers' addresses, and of readers."""

MAX_BEGINNINGS = 4096
"""Beginnings of gateways' and stores' ids that are remembered: some of each run of each."""

_NATIVES = (Role.PRODUCER, Role.READER)
_PUBLISHED = (ids.RECORD, ids.HEAD)
_DIRECTED = (ids.ACK, ids.FETCH, ids.DIRECT_RECORD, ids.DIRECT_HEAD, ids.STORE_HELLO, ids.END)


class Hearing:
    """Remembers who hears what at the publishers of one process."""

    def __init__(self) -> None:
        self._beginnings: dict[bytes, None] = {}
        """How the ids begin that answers to gateways and stores go to; the oldest goes first."""

    def may(self, role: Role, prefix: bytes) -> bool:
        """Whether who has this role may subscribe to that; told of every subscription."""
        letter, name = prefix[:1], prefix[1:]
        if role not in _NATIVES:
            if letter == ids.DIRECT_RECORD and name:
                self._remember(name)
            return True
        if letter in _PUBLISHED:
            return True
        if letter not in _DIRECTED or len(name) != ID_BYTES:
            return False
        return not any(map(name.startswith, self._beginnings))

    def _remember(self, name: bytes) -> None:
        self._beginnings.pop(name, None)
        if len(self._beginnings) >= MAX_BEGINNINGS:
            del self._beginnings[next(iter(self._beginnings))]
        self._beginnings[name] = None
