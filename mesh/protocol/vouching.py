"""Whether what answers under a store's name is the store that acknowledged: not an older copy of it, not a
second process on a copy of it, and not an emptied one.

Each start of a store has a nonce, its commits have numbers, and it keeps the chain of its starts with the
last commit of each (`mesh.protocol.starts`). Of each store a (nonce, commit) is remembered, the last that was
seen of it. Rule: who answers has that start on its chain, with a last commit that is not lower; a start that
goes on tells no lower number than before. Until that is shown nothing counts that a start says.

Theory of operation: `told` is given what PONGs say. Where they leave the question open the store is PINGed by
name with the remembered nonce (`Ask`); only an answer to that question refuses anybody, so a late frame of an
earlier start of the same store accuses nobody. A start that passes is remembered before it counts (`Keep`,
then `kept` and `count`), or a copy from before it could pass as well. From then on it is the one that the
next start has to know: so of two processes on copies of one directory one goes on, and the other is refused.

A store of which nothing is remembered is taken as it is seen first, also one of an older version, which tells
no nonce (b""); it may begin to tell one, and not stop to.
"""

from typing import NamedTuple, TypeAlias

MAX_STORES = 1000
"""Stores that are known at once; beyond it one of which nothing is remembered makes room for a new one."""

SAID_SECONDS = 10.0
"""Pause between two refusals of one store that are said."""

MAX_SAID = 16
"""Starts of one store whose refusal is said once and not again."""


class StoreLife(NamedTuple):
    """What is remembered of a store: the nonce of a start, and the number of a commit that it told."""

    nonce: bytes
    commit: int


class Told(NamedTuple):
    """What a PONG says of its sender's starts; see `wireproto.dafka.additions.Pong`."""

    store: str
    nonce: bytes
    commit: int
    remembered: bytes = b""
    remembered_commit: int = -1


class Refusal(NamedTuple):
    """A start that does not count, and why."""

    nonce: bytes
    reason: str
    heard: float
    """When it was last heard of; monotonic."""


class Ask(NamedTuple):
    """PING this store by name, with this nonce."""

    store: str
    remembered: bytes


class Keep(NamedTuple):
    """Remember this of a store, durably; then call `kept` and `count`."""

    store: str
    life: StoreLife


class Refuse(NamedTuple):
    """Somebody should look: this start of a store does not count. Said once, and of many starts of one store
    now and then.
    """

    store: str
    reason: str


Effect: TypeAlias = Ask | Keep | Refuse


class Vouching:
    """The stores that one gateway has heard of, or remembers."""

    def __init__(self) -> None:
        self.counts: dict[str, bytes] = {}
        """Incarnation -> the nonce of the start that counts. Everybody may look at it; only this changes it.
        """
        self.refused: dict[str, Refusal] = {}
        """Incarnation -> the last start under this name that does not count."""
        self._known: dict[str, StoreLife] = {}
        """The last that was seen of each store, or remembered from an earlier life of the gateway."""
        self._kept: dict[str, StoreLife] = {}
        """As it is durably remembered."""
        self._floor: dict[str, int] = {}
        """The commit that was remembered of a start before this gateway heard of it: what it tells here was
        told later. A lower number than another PONG's may be that of a late one."""
        self._keeping: dict[str, bytes] = {}
        """Starts that count as soon as they are remembered."""
        self._asked: set[tuple[str, bytes]] = set()
        self._said: dict[str, tuple[float, tuple[bytes, ...]]] = {}
        """Store -> when a refusal was said last, and which starts' were."""

    def remember(self, store: str, life: StoreLife) -> None:
        """This is durably remembered. Another start than that has to show that it knows it."""
        self._kept[store] = life
        known = self._known.get(store)
        if known is None or known.nonce != life.nonce:
            self._known[store] = life
            self._floor[store] = life.commit
            self._keeping.pop(store, None)
            self.counts.pop(store, None)

    def question(self, store: str) -> bytes:
        """The nonce to PING a store with; b"" where nothing is remembered."""
        known = self._known.get(store)
        return b"" if known is None else known.nonce

    # events -----------------------------------------------------------------------------------------------

    def told(self, told: Told, now: float) -> Effect | None:
        """A PONG came."""
        known = self._known.get(told.store)
        if known is None or not known.nonce:
            return self._accept(told)
        refusal = self.refused.get(told.store)
        if refusal is not None and refusal.nonce == told.nonce:
            self.refused[told.store] = refusal._replace(heard=now)
            return None
        if told.nonce == known.nonce:
            if told.commit >= self._floor.get(told.store, 0):
                return self._accept(told)
            if told.remembered != known.nonce:
                return Ask(told.store, known.nonce)
            return self._refuse(told, f"that start is at commit {told.commit} now", now)
        if not told.nonce:
            return self._refuse(told, "it tells no start any more, as a store of an older version", now)
        if told.remembered != known.nonce:
            return Ask(told.store, known.nonce)
        if told.remembered_commit < 0:
            return self._refuse(told, "what answers now never had that start", now)
        if told.remembered_commit < known.commit:
            reason = f"that start has {told.remembered_commit} commits in what answers now"
            return self._refuse(told, reason, now)
        return self._accept(told)

    def stranger(self, store: str, nonce: bytes) -> Ask | None:
        """Something came from a start that does not count (yet): ask who it is, once a round."""
        refusal = self.refused.get(store)
        if (
            (store, nonce) in self._asked
            or len(self._asked) >= MAX_STORES
            or self._keeping.get(store) == nonce
            or (refusal is not None and refusal.nonce == nonce)
        ):
            return None
        self._asked.add((store, nonce))
        return Ask(store, self.question(store))

    def round(self) -> None:
        """Whoever was asked and did not answer may be asked again."""
        self._asked.clear()

    def count(self, store: str, nonce: bytes) -> bool:
        """This start counts from now on, if it is still the one that was to be remembered. True if it is."""
        if self._keeping.get(store) != nonce:
            return False
        del self._keeping[store]
        self.counts[store] = nonce
        return True

    def kept(self, store: str, life: StoreLife) -> None:
        """This is durably remembered of a store now."""
        self._kept[store] = life

    def unkept(self) -> dict[str, StoreLife]:
        """What was seen of stores and is not durably remembered."""
        kept = self._kept
        return {store: life for store, life in self._known.items() if life.nonce and life != kept.get(store)}

    # decisions --------------------------------------------------------------------------------------------

    def _accept(self, told: Told) -> Keep | None:
        store, life = told.store, StoreLife(told.nonce, told.commit)
        known = self._known.get(store)
        if known is None:
            self._make_room()
        elif known.nonce == life.nonce:
            life = max(known, life, key=lambda one: one.commit)
        else:
            self._floor.pop(store, None)
        self._known[store] = life
        if self.counts.get(store) == told.nonce or self._keeping.get(store) == told.nonce:
            return None
        self.counts.pop(store, None)
        kept = self._kept.get(store)
        if not told.nonce or (kept is not None and kept.nonce == told.nonce):
            self.counts[store] = told.nonce
            return None
        self._keeping[store] = told.nonce
        return Keep(store, life)

    def _refuse(self, told: Told, reason: str, now: float) -> Refuse | None:
        store, known = told.store, self._known[told.store]
        seen = f"what was seen last of it was commit {known.commit} of its start {known.nonce.hex()}"
        reason = f"{seen}, and {reason}"
        self.refused[store] = Refusal(told.nonce, reason, now)
        last, said = self._said.get(store, (-SAID_SECONDS, ()))
        if told.nonce in said or now - last < SAID_SECONDS:
            return None
        self._said[store] = now, (*said, told.nonce)[-MAX_SAID:]
        return Refuse(store, reason)

    def _make_room(self) -> None:
        """Strangers cannot fill the memory."""
        if len(self._known) >= MAX_STORES:
            oldest = next((store for store in self._known if store not in self._kept), "")
            for table in (self._known, self.counts, self._keeping, self.refused, self._said):
                table.pop(oldest, None)
