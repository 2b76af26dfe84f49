"""What natives may subscribe to: their own answers, and what producers publish.

A store publishes what it answers, and ZeroMQ gives it to whoever subscribed to how it begins. So a native
that subscribed to less than a whole id, or to one of a gateway's, would hear what gateways read.

Rule: a gateway's ids begin with its life, 16 characters, which is no secret: towers tell it. A publisher
learns a life from the gateway's subscriptions and, before it answers, from its requests. A native's ids may
not begin so, and one that had such an id already, before the life was known, listens to a gateway as well
(`mesh.keys.keys` looks for it). Stores draw the lives of their requests at random, say them to nobody but
stores, and have subscribed before they ask: no native can have guessed one. So nothing is learned from
stores, and none of them can have natives shut out.
"""

from mesh.keys.roles import Role
from wireproto.dafka import ids

ID_BYTES = 32
"""How long the ids of natives are: those of producers' addresses, and of readers."""

LIFE_BYTES = 16
"""How many of an id's first characters are those of the life that made it."""

MAX_LIVES_OF_KEY = 16
"""Lives of gateways that are remembered of each key; the one that was learned first goes first. A process has
one, and it is learned again with its next request."""

NATIVES = (Role.PRODUCER, Role.READER)
_PUBLISHED = (ids.RECORD, ids.HEAD)
_DIRECTED = (ids.ACK, ids.FETCH, ids.DIRECT_RECORD, ids.DIRECT_HEAD, ids.STORE_HELLO, ids.END)


class Hearing:
    """Remembers the lives of gateways, by the keys that they were learned from."""

    def __init__(self) -> None:
        self._keys: dict[bytes, str] = {}
        """Life -> the key that it was learned from last."""
        self._lives: dict[str, dict[bytes, None]] = {}

    def learn(self, key: str, name: bytes) -> bytes | None:
        """A gateway with this key has an id that begins so: its life, if that was not known."""
        life = name[:LIFE_BYTES]
        owner = self._keys.get(life)
        if owner == key or len(life) < LIFE_BYTES:
            return None
        if owner is not None:
            del self._lives[owner][life]
        lives = self._lives.setdefault(key, {})
        if len(lives) >= MAX_LIVES_OF_KEY:
            first = next(iter(lives))
            del lives[first], self._keys[first]
        lives[life] = None
        self._keys[life] = key
        return life if owner is None else None

    def forget(self, key: str) -> None:
        """This key is nobody's any more."""
        for life in self._lives.pop(key, {}):
            del self._keys[life]

    def owners(self) -> list[str]:
        """The keys that something was learned from."""
        return list(self._lives)

    def may(self, role: Role, prefix: bytes) -> bool:
        """Whether who has this role may subscribe to that."""
        if role not in NATIVES:
            return True
        letter, name = prefix[:1], prefix[1:]
        if letter in _PUBLISHED:
            return True
        # What begins with "@" is said to one store.
        return letter in _DIRECTED and len(name) == ID_BYTES and name.isalnum() and not self.is_gateways(name)

    def is_gateways(self, name: bytes) -> bool:
        """Whether an id is of a gateway's life."""
        return name[:LIFE_BYTES] in self._keys


def life_in(prefix: bytes) -> bytes | None:
    """The life that begins the whole id which is subscribed to; None if it is no such subscription."""
    return prefix[1 : 1 + LIFE_BYTES] if len(prefix) == 1 + ID_BYTES else None
