"""The fetch sessions of one gateway, and which one goes when there is no room for another. Pure.

The rules are Kafka's (KIP-227, `FetchSessionCacheShard.tryEvict`). A new session takes the place of another

* if the other was not used for EVICTION_MS;
* or if the new one is worth more than the cheapest session that has been here for EVICTION_MS.

A follower's session (*privileged*) is worth more than any consumer's, and takes the place of a consumer's at
any age; else the one with more partitions is. Who finds no place is answered with session id 0, and goes on
naming all of its partitions.

Ours besides: where Kafka has no place, those of the client that has most give way to a client that has fewer
(`gateway.common.clients`), the one used longest ago first. So nobody keeps all others from having any.

Beyond Kafka's number of sessions their memory is bounded too: 1,000 sessions of 100,000 partitions would be
75 GB. It is Kafka's cache of one shard; its eight of an eighth each are there for the sake of its locks.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from gateway.common.clients import NOBODY
from gateway.common.settings import LogSettings
from gateway.fetch.session import FetchSession
from wireproto.kafka.errors import ErrorCode

EVICTION_MS: Final = 120_000
"""Milliseconds for which a session keeps its place against other consumers: Kafka's
`KafkaBroker.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`."""

MAX_SESSION_BYTES: Final = 64 * 1024 * 1024
"""Memory of all sessions: some 87,000 partitions, those of 87 consumers of a thousand each, or of a thousand
consumers of 87."""

NO_SESSION: Final = 0
"""The session id of a Fetch without a session."""

_Key = tuple[bool, int, int]
"""What a session is worth: privileged, partitions, id (Kafka's `EvictableKey`)."""


def random_id() -> int:
    """A positive number of 31 bits that nobody can guess: who knows it can use the session."""
    return secrets.randbelow(2**31 - 1) + 1


class FetchSessionCache:
    """Sessions by id. `evictions` counts those that had to go for another one.

    Time is any clock's that never goes back, in milliseconds. Sessions that leave are `closed`, and returned:
    the caller says so to the log's partitions that would call them.
    """

    def __init__(
        self,
        slots: int = LogSettings.fetch_session_slots,
        max_bytes: int = MAX_SESSION_BYTES,
        new_id: Callable[[], int] = random_id,
    ) -> None:
        self.slots = slots
        self.max_bytes = max_bytes
        self.bytes = 0
        self.partitions = 0
        self.evictions = 0
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The one that was used last is the last."""
        self._for_all: list[_Key] = []
        """Sessions that are older than EVICTION_MS, the cheapest first."""
        self._for_privileged: list[_Key] = []
        """These, and all that are not privileged."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def find(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession | ErrorCode:
        """The session that a Fetch goes on with, or why it cannot (`FetchManager.newContext`)."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id is not by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def create(
        self,
        now_ms: float,
        size: int,
        memory: int,
        *,
        by_id: bool,
        privileged: bool = False,
        client: str = NOBODY,
    ) -> tuple[FetchSession | None, list[FetchSession]]:
        """A client's session for `size` partitions that take `memory` bytes, and the ones that went for it.

        It has none of the partitions yet. None if there is no place for it.
        """
        evicted = self._to_evict((privileged, size, NO_SESSION), memory, now_ms)
        if evicted is None:
            evicted = self._of_the_greedy(client, memory)
        if evicted is None:
            return None, []
        for old in evicted:
            self._remove(old)
        self.evictions += len(evicted)
        session = FetchSession(self._unused_id(), now_ms, by_id=by_id, privileged=privileged, client=client)
        self._sessions[session.id] = session
        self._count(session, size, memory)
        self._list(session, now_ms)
        return session, evicted

    def remove(self, session_id: int) -> FetchSession | None:
        """Close a session; None if it is not there."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._remove(session)
        return session

    def touch(self, session: FetchSession, now_ms: float) -> None:
        """A session is used, and has as many partitions as it has now (`FetchSessionCacheShard.touch`)."""
        if session.closed:
            return
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)
        self._unlist(session)
        self._count(session, session.size, session.bytes)
        self._list(session, now_ms)

    def has_room(self, session: FetchSession) -> bool:
        """Whether there is room for all that a session has become since it was counted."""
        return self.bytes - session.counted_bytes + session.bytes <= self.max_bytes

    # inside ------------------------------------------------------------------------------------------------

    def _to_evict(self, new: _Key, memory: int, now_ms: float) -> list[FetchSession] | None:
        """Who has to go for a new session; None if it has to do without."""
        slots = len(self._sessions) + 1 - self.slots
        missing = self.bytes + memory - self.max_bytes
        chosen: dict[FetchSession, None] = {}
        for session in self._cheaper_than(new, now_ms):
            if slots <= 0 and missing <= 0:
                break
            if session not in chosen:
                chosen[session] = None
                slots -= 1
                missing -= session.counted_bytes
        return list(chosen) if slots <= 0 and missing <= 0 else None

    def _of_the_greedy(self, client: str, memory: int) -> list[FetchSession] | None:
        """Sessions of the client that has most, of places or of bytes, whatever there is too little of; None
        if this one would have as much as that has now.
        """
        slots = len(self._sessions) + 1 - self.slots
        missing = self.bytes + memory - self.max_bytes
        by_bytes = missing > 0
        held: Counter[str] = Counter()
        for session in self._sessions.values():
            held[session.client] += session.counted_bytes if by_bytes else 1
        if client == NOBODY or not held:
            return None
        greedy, most = held.most_common(1)[0]
        if held[client] + (memory if by_bytes else 1) >= most:
            return None
        chosen = []
        for session in self._sessions.values():
            if session.client == greedy and (slots > 0 or missing > 0):
                chosen.append(session)
                slots -= 1
                missing -= session.counted_bytes
        return chosen if slots <= 0 and missing <= 0 else None

    def _cheaper_than(self, new: _Key, now_ms: float) -> Iterator[FetchSession]:
        """The sessions that may go for a new one, in the order in which they go; some of them twice."""
        for session in self._sessions.values():
            if now_ms - session.last_used_ms <= EVICTION_MS:
                break
            yield session
        privileged = new[0]
        for key in self._for_privileged if privileged else self._for_all:
            if new < key:
                return
            yield self._sessions[key[2]]

    def _unused_id(self) -> int:
        while (session_id := self._new_id()) in self._sessions or session_id == NO_SESSION:
            pass
        return session_id

    def _remove(self, session: FetchSession) -> None:
        session.close()
        del self._sessions[session.id]
        self._unlist(session)
        self._count(session, 0, 0)

    def _count(self, session: FetchSession, size: int, memory: int) -> None:
        self.partitions += size - session.counted_size
        self.bytes += memory - session.counted_bytes
        session.counted_size, session.counted_bytes = size, memory

    def _unlist(self, session: FetchSession) -> None:
        key = _key(session)
        for keys in (self._for_all, self._for_privileged):
            index = bisect_left(keys, key)
            if index < len(keys) and keys[index] == key:
                del keys[index]

    def _list(self, session: FetchSession, now_ms: float) -> None:
        old = now_ms - session.created_ms > EVICTION_MS
        key = _key(session)
        if old:
            insort(self._for_all, key)
        if old or not session.privileged:
            insort(self._for_privileged, key)


def _key(session: FetchSession) -> _Key:
    return session.privileged, session.counted_size, session.id
