"""What each client uses of its quotas, and for how long it is not listened to where that is too much.

A request has its `Charges`: whoever knows what it uses says so there, and what comes of it is one time, the
longest. Nothing is refused but changes of topics (KIP-599) and the records of a Fetch: both are asked for
before they are given, and count only then. Everything else is counted when it is done.

Differs from Kafka: a Fetch whose first batch is larger than a whole window of its quota is answered where no
more was used before than the quota allows, and its client waits then; in Kafka it is never answered. (Where
nothing was used would not do: others of the same quota use some all the time.) The answer to a Fetch without
records is not charged here; it counts as work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.quotas.entities import FETCHED, MUTATIONS, PRODUCED, REQUESTS, Entity
from gateway.quotas.meters import Meters
from gateway.quotas.rate import KAFKAS_WINDOWS, Rate, Windows
from gateway.quotas.table import Bucket, Limit, Table
from gateway.quotas.token_bucket import TokenBucket

KEYS: Final = (PRODUCED, FETCHED, REQUESTS, MUTATIONS)

PERCENT_PER_NANOSECOND: Final = 100 / 1e9
"""A thread that works for a client the whole second has used a hundred percent of it."""

MAX_REMEMBERED: Final = 4_096
"""Clients whose limits are remembered: until there are more, or the quotas are others."""

MAX_REMEMBERED_NAMES: Final = 256
"""Characters of a user and a client id together of which this is so."""

UNLIMITED: Final = 2**63 - 1


class Throttled:
    """How often somebody was throttled, and for how many milliseconds together."""

    __slots__ = ("milliseconds", "times")

    def __init__(self) -> None:
        self.times = 0
        self.milliseconds = 0


class ClientQuotas:
    """Of one gateway. `now_ms` is a clock that does not go back."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        windows: Windows = KAFKAS_WINDOWS,
        mutation_windows: Windows = KAFKAS_WINDOWS,
    ) -> None:
        self.now_ms = now_ms
        self.windows = windows
        self.is_on = False
        """Whether there are any: nothing is counted before."""
        self.throttled = {key: Throttled() for key in KEYS}
        self._rates = Meters(lambda: Rate(windows))
        self._buckets = Meters(lambda: TokenBucket(mutation_windows))
        self._table = Table()
        self._limits: dict[tuple[str, str], Mapping[str, Limit]] = {}

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """An entity has these quotas from now on, and no others. What was used before counts."""
        self._table.put(entity, values)
        self._limits = {}
        self.is_on = any(key in self._table.keys for key in KEYS)

    @property
    def measured(self) -> int:
        """Buckets whose use is kept."""
        return len(self._rates) + len(self._buckets)

    def charges(self, user: str, client_id: str) -> Charges:
        """What is to be charged for a request of this client."""
        limits = self._limits.get((user, client_id))
        if limits is None:
            limits = self._find(user, client_id)
        return Charges(self, limits)

    def _find(self, user: str, client_id: str) -> Mapping[str, Limit]:
        found = {key: self._table.limit(key, user, client_id) for key in KEYS}
        limits = {key: limit for key, limit in found.items() if limit is not None}
        if len(user) + len(client_id) <= MAX_REMEMBERED_NAMES:
            if len(self._limits) >= MAX_REMEMBERED:
                self._limits = {}
            self._limits[user, client_id] = limits
        return limits

    def rate(self, bucket: Bucket, now_ms: int) -> Rate:
        """What was used of a bucket, asked for now."""
        return self._rates.of(bucket, now_ms)

    def tokens(self, bucket: Bucket, now_ms: int) -> TokenBucket:
        """What may be changed yet, asked for now."""
        return self._buckets.of(bucket, now_ms)


class Charges:
    """Of one request. `throttle_ms`: for how long its connection is not read any more, so far."""

    __slots__ = ("_because", "_counts_work", "_limits", "_quotas", "fetched", "throttle_ms")

    def __init__(self, quotas: ClientQuotas, limits: Mapping[str, Limit]) -> None:
        self._quotas = quotas
        self._limits = limits
        self._because = ""
        self._counts_work = True
        self.throttle_ms = 0
        self.fetched = 0
        """Bytes of records that it was given."""

    def produced(self, size: int, *, is_answered: bool = True) -> None:
        """A Produce of so many bytes has come. For one that wants no answer only these count."""
        self._use(PRODUCED, size)
        self._counts_work = is_answered

    def worked(self, nanoseconds: float) -> None:
        """The gateway was busy with it for so long."""
        if self._counts_work:
            self._use(REQUESTS, nanoseconds * PERCENT_PER_NANOSECOND, self._quotas.windows.each_ms)

    @property
    def most_to_fetch(self) -> int:
        """Bytes that one Fetch may have: more would be too much whatever was used before (KAFKA-9677)."""
        limit = self._limits.get(FETCHED)
        if limit is None:
            return UNLIMITED
        return max(1, int(limit.bound * self._quotas.windows.burst_seconds))

    def may_fetch(self, size: int) -> bool:
        """Whether a Fetch may be answered with records of so many bytes: then they are charged."""
        limit = self._limits.get(FETCHED)
        if limit is None or not size:
            return True
        now_ms = self._quotas.now_ms()
        rate = self._quotas.rate(limit.bucket, now_ms)
        is_within = not rate.excess_ms(limit.bound, now_ms)
        rate.record(size, now_ms)
        excess_ms = rate.excess_ms(limit.bound, now_ms)
        self._throttle(FETCHED, excess_ms)
        if excess_ms and not (is_within and size > self.most_to_fetch):
            rate.record(-size, now_ms)
            return False
        self.fetched = size
        return True

    def answered_fetch(self, size: int) -> None:
        """The answer to a Fetch has so many bytes: what is in it beside the records is charged, if there are
        some: clients that ask again and again would use up what records are to have.
        """
        limit = self._limits.get(FETCHED)
        if limit is not None and self.fetched:
            now_ms = self._quotas.now_ms()
            self._quotas.rate(limit.bucket, now_ms).record(max(0, size - self.fetched), now_ms)

    def may_change(self, partitions: int, *, strictly: bool, waits: bool = True) -> bool:
        """Whether so many partitions may be made or deleted: then they are charged. To who asks in an old
        version, which cannot be told so, everything is allowed. He waits, and so does who is refused, unless
        it is a request for something else that changes topics (`waits`).
        """
        limit = self._limits.get(MUTATIONS)
        if limit is None:
            return True
        now_ms = self._quotas.now_ms()
        bucket = self._quotas.tokens(limit.bucket, now_ms)
        is_allowed = not (strictly and bucket.is_in_debt(limit.bound, now_ms))
        if is_allowed:
            bucket.spend(partitions, limit.bound, now_ms)
        if waits and not (strictly and is_allowed):
            self._throttle(MUTATIONS, bucket.debt_ms(limit.bound, now_ms))
        return is_allowed

    def count(self) -> None:
        """Count that this was throttled, if it was: once, when all is charged."""
        if self.throttle_ms:
            throttled = self._quotas.throttled[self._because]
            throttled.times += 1
            throttled.milliseconds += self.throttle_ms

    def _use(self, key: str, value: float, most_ms: int = UNLIMITED) -> None:
        limit = self._limits.get(key)
        if limit is not None:
            now_ms = self._quotas.now_ms()
            rate = self._quotas.rate(limit.bucket, now_ms)
            rate.record(value, now_ms)
            self._throttle(key, min(rate.excess_ms(limit.bound, now_ms), most_ms))

    def _throttle(self, key: str, milliseconds: int) -> None:
        if milliseconds > self.throttle_ms:
            self.throttle_ms = milliseconds
            self._because = key
