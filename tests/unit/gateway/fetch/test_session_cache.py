"""The cache of fetch sessions: Kafka's rules of eviction in tables, and beside a plain model of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.fetch.session import PARTITION_BYTES, TOPIC_BYTES, FetchSession
from gateway.fetch.session_cache import EVICTION_MS, FetchSessionCache, random_id
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartition

PLENTY = 1 << 40


def cache(slots: int = 2, max_bytes: int = PLENTY) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(slots, max_bytes, lambda: next(ids))


def add(
    into: FetchSessionCache, now_ms: float, size: int, *, privileged: bool = False
) -> tuple[int | None, list[int]]:
    """The id of a new session with so many partitions, and of those that went for it."""
    memory = TOPIC_BYTES + len("orders") + size * PARTITION_BYTES
    session, evicted = into.create(now_ms, size, memory, by_id=False, privileged=privileged)
    if session is not None:
        for index in range(size):
            session.name("orders", FetchPartition(index, -1, 0, -1, -1, 1))
        assert session.bytes == memory or not size
    assert all(old.closed for old in evicted)
    return None if session is None else session.id, [old.id for old in evicted]


def used(in_it: FetchSessionCache, session_id: int, now_ms: float) -> None:
    session = in_it.get(session_id)
    assert session is not None
    in_it.touch(session, now_ms)


# tables ---------------------------------------------------------------------------------------------------


def test_a_session_that_is_in_use_keeps_its_place_for_two_minutes() -> None:
    kept = cache()
    assert add(kept, 0, 1) == (1, [])
    assert add(kept, 0, 1) == (2, [])
    used(kept, 1, EVICTION_MS)
    used(kept, 2, EVICTION_MS)
    assert add(kept, EVICTION_MS, 1000) == (None, [])
    assert len(kept) == 2
    assert kept.evictions == 0


@pytest.mark.parametrize("size", [1, 1000])
def test_one_that_nobody_used_for_longer_goes_for_whoever_comes(size: int) -> None:
    kept = cache()
    add(kept, 0, 500)
    add(kept, 1, 500)
    used(kept, 1, 2)
    assert add(kept, EVICTION_MS + 1, size) == (None, [])
    assert add(kept, EVICTION_MS + 2, size) == (3, [2])  # the one that was used last, last
    assert kept.evictions == 1
    assert kept.partitions == 500 + size


def test_the_smallest_of_the_old_ones_goes_for_a_larger_one() -> None:
    kept = cache(3)
    for size in (30, 10, 20):
        add(kept, 0, size)
    for session_id in (1, 2, 3):
        used(kept, session_id, EVICTION_MS + 1)
    now_ms = EVICTION_MS + 2
    assert add(kept, now_ms, 10) == (None, [])  # no more than the smallest
    assert add(kept, now_ms, 11) == (4, [2])
    assert add(kept, now_ms, 20) == (None, [])  # 4 is too young to go
    assert add(kept, now_ms, 21) == (5, [3])


def test_a_session_that_shrinks_is_worth_less() -> None:
    kept = cache()
    add(kept, 0, 30)
    add(kept, 0, 20)
    session = kept.get(1)
    assert session is not None
    for index in range(25):
        assert session.forget("orders", index) is not None
    assert session.forget("orders", 0) is None
    used(kept, 1, EVICTION_MS + 1)
    used(kept, 2, EVICTION_MS + 1)
    assert kept.partitions == 25
    assert add(kept, EVICTION_MS + 1, 6) == (3, [1])


def test_a_follower_takes_a_consumers_place_at_once_and_keeps_its_own() -> None:
    kept = cache()
    assert add(kept, 0, 100) == (1, [])
    assert add(kept, 0, 10) == (2, [])
    assert add(kept, 1, 1, privileged=True) == (3, [2])
    assert add(kept, 1, 1, privileged=True) == (4, [1])
    for session_id in (3, 4):
        used(kept, session_id, EVICTION_MS + 2)
    assert add(kept, EVICTION_MS + 2, 1000) == (None, [])
    assert add(kept, EVICTION_MS + 2, 2, privileged=True) == (5, [3])


def test_without_places_there_are_no_sessions() -> None:
    assert add(cache(0), 0, 1) == (None, [])


def test_memory_is_bounded_as_the_number_is() -> None:
    one = TOPIC_BYTES + len("orders")
    kept = cache(100, 3 * one + 20 * PARTITION_BYTES)
    assert add(kept, 0, 23) == (None, [])
    assert add(kept, 0, 3) == (1, [])
    assert add(kept, 0, 4) == (2, [])
    assert add(kept, 0, 10) == (3, [])
    assert add(kept, 1, 5) == (None, [])
    for session_id in (1, 2, 3):
        used(kept, session_id, EVICTION_MS + 1)
    now_ms = EVICTION_MS + 1
    # All would have to go, and 3 is worth more.
    assert kept.create(now_ms, 9, 18 * PARTITION_BYTES, by_id=False) == (None, [])
    assert len(kept) == 3
    assert add(kept, now_ms, 9) == (4, [1, 2])
    assert kept.evictions == 2
    assert kept.bytes == 2 * one + 19 * PARTITION_BYTES
    session = kept.get(4)
    assert session is not None
    session.name("orders", FetchPartition(9, -1, 0, -1, -1, 1))
    assert kept.has_room(session)
    session.name("orders", FetchPartition(10, -1, 0, -1, -1, 1))
    session.name("others", FetchPartition(0, -1, 0, -1, -1, 1))
    assert not kept.has_room(session)


def of_client(kept: FetchSessionCache, client: str, size: int = 1) -> tuple[bool, list[int]]:
    """Whether a client got a session at time 0, and which went for it."""
    session, evicted = kept.create(0, size, size * PARTITION_BYTES, by_id=False, client=client)
    return session is not None, [old.id for old in evicted]


def test_who_has_most_places_gives_way_to_who_has_fewer() -> None:
    kept = cache(4)
    assert [of_client(kept, "greedy") for _ in range(5)] == [(True, [])] * 4 + [(False, [])]
    used(kept, 1, 1)
    assert of_client(kept, "a") == (True, [2])
    assert of_client(kept, "b") == (True, [3])
    assert of_client(kept, "a") == (False, [])  # it would have more than the greedy
    assert of_client(kept, "greedy") == (False, [])
    assert of_client(kept, "c") == (True, [4])
    assert of_client(kept, "d") == (False, [])  # everybody has one
    assert (len(kept), kept.evictions) == (4, 3)


def test_who_has_most_memory_gives_way_to_who_has_less() -> None:
    kept = cache(100, 100 * PARTITION_BYTES)
    assert of_client(kept, "many small") == (True, [])
    assert of_client(kept, "many small") == (True, [])
    assert of_client(kept, "large", 60) == (True, [])
    assert of_client(kept, "large", 38) == (True, [])
    assert of_client(kept, "large") == (False, [])
    assert of_client(kept, "victim", 98) == (False, [])  # it would have as much
    assert of_client(kept, "victim", 30) == (True, [3])
    assert kept.bytes == 70 * PARTITION_BYTES


def test_only_the_right_epoch_of_the_right_kind_goes_on() -> None:
    kept = cache()
    session, _ = kept.create(0, 1, PARTITION_BYTES, by_id=True)
    assert session is not None
    assert kept.find(session.id, 1, by_id=True) is session
    assert kept.find(session.id, 2, by_id=True) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert kept.find(session.id, 1, by_id=False) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert kept.find(session.id, 2, by_id=False) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert kept.find(session.id + 1, 1, by_id=True) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert kept.find(0, 1, by_id=True) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session.epoch = 2**31 - 1
    session.used()
    assert session.epoch == 1
    assert kept.remove(session.id) is session
    assert session.closed
    assert kept.remove(session.id) is None
    assert kept.find(session.id, 1, by_id=True) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(kept), kept.partitions, kept.bytes) == (0, 0, 0)


def test_ids_are_positive_and_never_given_twice_at_a_time() -> None:
    wanted = iter([7, 7, 0, 7, 8])
    kept = FetchSessionCache(2, PLENTY, lambda: next(wanted))
    assert [add(kept, 0, 1)[0], add(kept, 0, 1)[0]] == [7, 8]
    assert all(0 < random_id() < 2**31 for _ in range(100))


# beside a model -------------------------------------------------------------------------------------------


@dataclass
class Plain:
    """A session as the model has it; `listed_...`: who may evict it."""

    id: int
    privileged: bool
    size: int
    created: float
    used: float
    listed_all: bool = False
    listed_privileged: bool = False

    @property
    def worth(self) -> tuple[bool, int, int]:
        return self.privileged, self.size, self.id


class Model:
    """`FetchSessionCacheShard`, looking at all sessions each time."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.sessions: dict[int, Plain] = {}
        self.evictions = 0

    def create(self, session_id: int, now: float, privileged: bool, size: int) -> list[int] | None:
        gone: list[int] = []
        if len(self.sessions) >= self.slots:
            victim = self._victim(now, (privileged, size, 0))
            if victim is None:
                return None
            del self.sessions[victim.id]
            self.evictions += 1
            gone.append(victim.id)
        self.sessions[session_id] = Plain(session_id, privileged, size, now, now)
        self.touch(session_id, now, size)
        return gone

    def _victim(self, now: float, worth: tuple[bool, int, int]) -> Plain | None:
        oldest = min(self.sessions.values(), key=lambda one: one.used, default=None)
        if oldest is None:
            return None
        if now - oldest.used > EVICTION_MS:
            return oldest
        listed = [
            one for one in self.sessions.values() if (one.listed_privileged if worth[0] else one.listed_all)
        ]
        cheapest = min(listed, key=lambda one: one.worth, default=None)
        return None if cheapest is None or worth < cheapest.worth else cheapest

    def touch(self, session_id: int, now: float, size: int) -> None:
        session = self.sessions[session_id]
        session.used, session.size = now, size
        old = now - session.created > EVICTION_MS
        session.listed_all = old
        session.listed_privileged = old or not session.privileged


def times() -> Iterator[float]:
    """A new moment at each question, so that none is used at the same time as another."""
    return (number / 1000 for number in count(1))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.booleans(), st.integers(0, 4)),
        st.tuples(st.just("touch"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, EVICTION_MS // 2, EVICTION_MS]), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(slots=st.integers(0, 4), steps=STEPS)
def test_it_does_what_kafkas_does(slots: int, steps: list[tuple[str, int, int]]) -> None:
    ids = count(1)
    kept, model = FetchSessionCache(slots, PLENTY, lambda: next(ids)), Model(slots)
    waited, moments = 0.0, times()
    asked_ids: Iterator[int] = count(1)
    for what, which, size in steps:
        now = waited + next(moments)
        if what == "wait":
            waited += which
        elif what == "create":
            before = len(model.sessions)
            gone = model.create(next(asked_ids), now, bool(which), size) if slots else None
            session, evicted = kept.create(now, size, 0, by_id=False, privileged=bool(which))
            if gone is None:
                assert session is None
                assert len(model.sessions) == before
                asked_ids = _back(asked_ids, slots)
            else:
                assert session is not None
                assert [old.id for old in evicted] == gone
        elif model.sessions:
            session_id = sorted(model.sessions)[which % len(model.sessions)]
            found = kept.get(session_id)
            assert found is not None
            if what == "remove":
                del model.sessions[session_id]
                assert kept.remove(session_id) is found
            else:
                resize(found, size)
                model.touch(session_id, now, size)
                kept.touch(found, now)
        assert len(kept) == len(model.sessions)
        assert all(kept.get(session_id) is not None for session_id in model.sessions)
        assert kept.partitions == sum(one.size for one in model.sessions.values())
        assert kept.evictions == model.evictions


def _back(ids: Iterator[int], slots: int) -> Iterator[int]:
    """The id that was not used is the next one; without slots none was taken."""
    return count(next(ids) - 1) if slots else ids


def resize(session: FetchSession, size: int) -> None:
    """Give a session so many partitions."""
    for index in range(4):
        if index < size:
            session.name("orders", FetchPartition(index, -1, 0, -1, -1, 1))
        else:
            session.forget("orders", index)
