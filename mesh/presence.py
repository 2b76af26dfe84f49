"""Watches over the stores from a gateway: who is there, what it is called, how much room it has, and whether
it is who it says.

The machines are `mesh.protocol.presence` and `mesh.protocol.vouching`; this sends their PINGs, and tells them
of the PONGs and of every store that answered or acknowledged anything. A start that is not vouched for is not
live, and what it answers or acknowledges does not count.
"""

import logging
import math
from collections.abc import Callable, Mapping

import trio

from mesh.keys.roles import GATEWAY_NAME
from mesh.node import Node
from mesh.protocol.presence import LIVE_SECONDS, ROUND_SECONDS, Presence, Seen
from mesh.protocol.vouching import Ask, Effect, Keep, Refuse, StoreLife, Told, Vouching
from mesh.requests import Requests
from wireproto.dafka.additions import ANY_STORE, Ping, Pong

FIRST_ROUND_SECONDS = 0.1
"""The rounds of the first `LIVE_SECONDS` follow each other so quickly: links come up one by one then."""

MAX_ASKED = 10_000
"""PINGs whose answers are awaited, the latest: more than are sent while an answer may be on its way."""

ANY_GATEWAY = GATEWAY_NAME
"""Whom a PING is for that gateways answer, as they answer it. No store has such a name: theirs are 32 hex
characters.
"""

REFUSED_NEXT_STEP = (
    "It was set back to an older copy, or is a second process on a copy: stop it, and start the one that is "
    "newest. If that is gone, run 'dafka store restored --data DIR' on its directory, start it, and have it "
    "take the old one's place (dafka store admit, then dafka store replace)"
)

logger = logging.getLogger(__name__)


class StorePresence:
    """Made once per gateway life, before anything is connected; `run` asks for ever."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self._node = node
        self._requests = requests
        self._presence = Presence()
        self._changed = trio.Event()
        self._asked: dict[str, tuple[str, bytes]] = {}
        """Requester id of a PING -> whom it was for, and with which nonce."""
        self.vouching = Vouching()
        self.keep: Callable[[Keep], None] = lambda keep: self.counts_now(*keep)
        """Has a start remembered, then calls `counts_now`. Whoever remembers none has it count at once."""
        requests.introduced = self._on_pong
        requests.vouched = self.vouching.counts
        requests.stranger = self._on_stranger

    @property
    def seen(self) -> Mapping[str, Seen]:
        """Every store that ever answered, by incarnation."""
        return self._presence.seen

    @property
    def live_stores(self) -> set[str]:
        """The incarnations that are there. Changes while somebody waits: look at it, keep nothing."""
        return self._presence.live

    def live(self, incarnation: str) -> bool:
        """Whether a store was heard of within the last seconds."""
        if incarnation in self._presence.live:
            return True
        if incarnation in self._requests.heard:
            self._take_heard(trio.current_time())
        return incarnation in self._presence.live

    def free_bytes(self, incarnation: str) -> int | None:
        """The room on a store's disk, as it said last; None if it did not."""
        return self._presence.free_bytes(incarnation)

    def disk_bytes(self, incarnation: str) -> int | None:
        """The size of a store's disk, as it said last; None if it did not."""
        known = self._presence.seen.get(incarnation)
        return None if known is None else known.disk_bytes

    def silence(self, incarnation: str) -> float:
        """Seconds since a store was heard of, none while it is live; infinite if it never was."""
        if incarnation in self._presence.live:
            return 0.0
        known = self._presence.seen.get(incarnation)
        return math.inf if known is None else trio.current_time() - known.last_heard

    def name(self, incarnation: str) -> str:
        """What people call a store: its own name for itself, and its incarnation if it never told one."""
        known = self._presence.seen.get(incarnation)
        return known.name if known is not None and known.name else incarnation

    async def wait_for(self, predicate: Callable[["StorePresence"], bool]) -> None:
        """Return once `predicate(self)` holds; it is looked at whenever something has changed."""
        while not predicate(self):
            await self._changed.wait()

    async def run(self) -> None:
        """Ask for ever."""
        started = trio.current_time()
        while True:
            now = trio.current_time()
            self._take_heard(now)
            self.vouching.round()
            for incarnation in self._presence.round(now):
                logger.warning(
                    "store %s (%s) has not been heard of for %g s",
                    self.name(incarnation),
                    incarnation,
                    LIVE_SECONDS,
                )
                self._change()
            self._ping(ANY_STORE, b"")
            for incarnation in self._presence.due():
                self._ping(incarnation, self.vouching.question(incarnation))
            quick = now < started + LIVE_SECONDS
            await trio.sleep(FIRST_ROUND_SECONDS if quick else ROUND_SECONDS)

    def _take_heard(self, now: float) -> None:
        heard, self._requests.heard = self._requests.heard, set()
        for incarnation in sorted(heard):
            if self._presence.heard(incarnation, now):
                self._arrived(incarnation)

    def _ping(self, incarnation: str, remembered: bytes) -> None:
        requester = self._requests.new_id()
        self._asked[requester] = incarnation, remembered
        if len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        self._node.send(Ping(incarnation, requester, remembered))

    def _is_asked(self, pong: Pong) -> bool:
        """Whether it answers a PING that was sent: from here, or as a request that waits."""
        asked = self._asked.get(pong.requester)
        if asked is None:
            return self._requests.is_awaited(pong.requester) and not pong.remembered
        store, remembered = asked
        return store in (ANY_STORE, pong.store) and pong.remembered in (b"", remembered)

    def _on_pong(self, pong: Pong) -> None:
        if pong.store == ANY_GATEWAY or not self._is_asked(pong):
            return
        now = trio.current_time()
        told = Told(pong.store, pong.nonce, pong.commit, pong.remembered, pong.remembered_commit)
        self._do(self.vouching.told(told, now))
        counting = self.vouching.counts.get(pong.store)
        if counting is not None and counting != pong.nonce:
            return  # another process under the name of one that counts
        arrived = self._presence.introduced(
            pong.store,
            pong.name,
            pong.cluster_id,
            pong.free_bytes or None,
            now,
            pong.disk_bytes or None,
            counts=counting is not None,
        )
        if arrived:
            self._arrived(pong.store)
        self._change()

    def _on_stranger(self, incarnation: str, nonce: bytes) -> None:
        """Something came of a start that does not count, and was dropped."""
        self._do(self.vouching.stranger(incarnation, nonce))

    def _do(self, effect: Effect | None) -> None:
        match effect:
            case Ask(store, remembered):
                self._ping(store, remembered)
            case Keep():
                self.keep(effect)
            case Refuse(store, reason):
                logger.error(
                    "store %s (%s) does not count: %s. %s", self.name(store), store, reason, REFUSED_NEXT_STEP
                )

    def counts_now(self, incarnation: str, life: StoreLife) -> None:
        """What was to be remembered of a store is, or need not be: its answers count."""
        if self.vouching.count(incarnation, life.nonce) and incarnation in self._presence.seen:
            self._presence.heard(incarnation, trio.current_time())
            self._arrived(incarnation)

    def _arrived(self, incarnation: str) -> None:
        logger.info("store %s (%s) is there", self.name(incarnation), incarnation)
        self._requests.hurry(incarnation)
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
