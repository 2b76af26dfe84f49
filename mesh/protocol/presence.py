"""Which stores are there: heard of within the last seconds, or not.

Rule: presence never decides who counts. It chooses who is asked first, and which error a producer gets that
would otherwise wait for nobody.

Theory of operation: the shell sends a PING to everybody at each `round`, and one by name to each store that
has gone silent; whatever a store says is told with `heard`. A store is live from then on for `LIVE_SECONDS`.
Time that the process itself lost (stopped, or busy) is nobody's silence: `round` notices that it comes late,
and lets everybody have heard of it that much later.
"""

from dataclasses import dataclass, replace

ROUND_SECONDS = 1.0
"""How often stores are asked whether they are there."""

LIVE_SECONDS = 3.0
"""A store that says nothing for so long is not live: three rounds, so that one lost PONG changes nothing."""

MAX_SEEN_STORES = 1000
"""Stores remembered; beyond it the one that has been silent for longest makes room, or the new one is not
taken. Far above any cluster, so that strangers cannot fill the memory."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a store said of itself. `cluster_id` is "" before its first OPEN, and like the name before its
    first PONG; `last_heard` is monotonic.
    """

    name: str
    cluster_id: str
    free_bytes: int | None
    """Free space on its disk; None when it did not say."""
    last_heard: float
    disk_bytes: int | None = None
    """The size of its disk; None when it did not say."""


class Presence:
    """The stores that were heard of since the gateway's start."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        """By incarnation."""
        self.live: set[str] = set()
        """The incarnations that are there, as of the last `round` or what was heard since."""
        self._last_round: float | None = None

    def introduced(
        self,
        incarnation: str,
        name: str,
        cluster_id: str,
        free_bytes: int | None,
        now: float,
        disk_bytes: int | None = None,
        *,
        counts: bool = True,
    ) -> bool:
        """A store's PONG. True if it was not live before, and is; one that does not count is not."""
        if incarnation not in self.seen and not self._make_room():
            return False
        self.seen[incarnation] = Seen(name, cluster_id, free_bytes, now, disk_bytes)
        if not counts:
            self.live.discard(incarnation)
        return counts and self._is_live(incarnation)

    def heard(self, incarnation: str, now: float) -> bool:
        """Anything else of a store that was asked. True if it was not live before."""
        known = self.seen.get(incarnation)
        if known is None:
            # Its name and the rest come with its first PONG.
            return self.introduced(incarnation, "", "", None, now)
        self.seen[incarnation] = replace(known, last_heard=now)
        return self._is_live(incarnation)

    def _is_live(self, incarnation: str) -> bool:
        if incarnation in self.live:
            return False
        self.live.add(incarnation)
        return True

    def round(self, now: float) -> list[str]:
        """Another round begins: the stores that are live no longer."""
        late = 0.0 if self._last_round is None else now - self._last_round - ROUND_SECONDS
        self._last_round = now
        if late > ROUND_SECONDS:
            for incarnation, known in self.seen.items():
                self.seen[incarnation] = replace(known, last_heard=known.last_heard + late)
        gone = [name for name in self.live if now - self.seen[name].last_heard > LIVE_SECONDS]
        self.live.difference_update(gone)
        return gone

    def due(self) -> list[str]:
        """Whom to PING by name in this round: those who are known and not live."""
        return [incarnation for incarnation in self.seen if incarnation not in self.live]

    def free_bytes(self, incarnation: str) -> int | None:
        """The room on a store's disk, as it said last."""
        known = self.seen.get(incarnation)
        return None if known is None else known.free_bytes

    def _make_room(self) -> bool:
        if len(self.seen) < MAX_SEEN_STORES:
            return True
        silent = self.due()
        if silent:
            del self.seen[min(silent, key=lambda name: self.seen[name].last_heard)]
        return bool(silent)
