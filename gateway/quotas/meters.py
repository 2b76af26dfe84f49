"""What was used of each bucket, for as long as that matters, and for no more buckets than there may be.

Clients choose their ids, so they choose how many buckets there are. Of one user there are `MAX_OF_ONE` at
most, of all `MAX_METERS`: then the one is forgotten that was asked for least lately, first of the same user.
What is forgotten begins anew, with nothing used; who has a new id for each request would have that anyway.
A long id is kept as its digest, so a meter takes two kilobytes at most.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gateway.quotas.table import Bucket

MAX_METERS: Final = 10_000
"""Of one kind, in one gateway: some twenty megabytes."""

MAX_OF_ONE: Final = 5_000
"""Of one user; those that are of a client id and no user count as one user's."""

IDLE_MS: Final = 3_600_000
"""A meter is forgotten when nobody has asked for it for so long (`InactiveSensorExpirationTimeSeconds`)."""

MAX_KEPT_NAME: Final = 64
"""Characters of a name that is kept as it is."""

_Meter = TypeVar("_Meter")


class _Used(Generic[_Meter]):
    __slots__ = ("last", "meter")

    def __init__(self, meter: _Meter) -> None:
        self.meter = meter
        self.last = 0


class Meters(Generic[_Meter]):
    """By bucket; `make` makes one."""

    def __init__(
        self, make: Callable[[], _Meter], most: int = MAX_METERS, most_of_one: int = MAX_OF_ONE
    ) -> None:
        self._make = make
        self._most = most
        self._most_of_one = most_of_one
        self._by_user: OrderedDict[str, OrderedDict[tuple[str, str], _Used[_Meter]]] = OrderedDict()
        """Those that were asked for least lately come first, users as well as each one's meters."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, bucket: Bucket, now_ms: int) -> _Meter:
        """That of a bucket, which is asked for now."""
        key, user, client_id = bucket
        user, name = _kept(user), (key, _kept(client_id))
        of_user = self._by_user.get(user)
        found = None if of_user is None else of_user.get(name)
        if of_user is None or found is None:
            of_user, found = self._add(user, name, now_ms)
        of_user.move_to_end(name)
        self._by_user.move_to_end(user)
        found.last = now_ms
        return found.meter

    def _add(
        self, user: str, name: tuple[str, str], now_ms: int
    ) -> tuple[OrderedDict[tuple[str, str], _Used[_Meter]], _Used[_Meter]]:
        own = self._by_user.get(user)
        if own is not None and len(own) >= self._most_of_one:
            self._forget_first(user)
        while self._count and (self._count >= self._most or self._is_idle(now_ms)):
            self._forget_first(next(iter(self._by_user)))
        of_user = self._by_user.setdefault(user, OrderedDict())
        found = of_user[name] = _Used(self._make())
        self._count += 1
        return of_user, found

    def _is_idle(self, now_ms: int) -> bool:
        """Whether nobody has asked lately for the first meter of the first user."""
        first = next(iter(self._by_user.values()))
        return now_ms - next(iter(first.values())).last >= IDLE_MS

    def _forget_first(self, user: str) -> None:
        of_user = self._by_user[user]
        of_user.popitem(last=False)
        self._count -= 1
        if not of_user:
            del self._by_user[user]


def _kept(name: str) -> str:
    """A name, or what stands for a long one; a space is in no digest and keeps it apart from short names."""
    if len(name) <= MAX_KEPT_NAME:
        return name
    return f"sha256 {hashlib.sha256(name.encode()).hexdigest()}"
