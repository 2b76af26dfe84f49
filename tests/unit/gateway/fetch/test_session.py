"""One fetch session: its partitions, their order, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.fetch.session import FetchSession, SessionPartition, place_of
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartition


def asking(index: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(index, -1, offset, -1, -1, 100)


def in_order(session: FetchSession) -> list[tuple[Any, int]]:
    return [(one.topic.key, one.ask.index) for one in sorted(session, key=place_of)]


def test_partitions_keep_the_order_in_which_they_came_until_they_give_records() -> None:
    session = FetchSession(1, 0, by_id=False)
    a0, _, a1 = (session.name(key, asking(index)) for key, index in [("a", 0), ("b", 0), ("a", 1)])
    assert in_order(session) == [("a", 0), ("b", 0), ("a", 1)]
    assert session.name("a", asking(0, 7)) is a0
    assert a0.ask.fetch_offset == 7
    assert in_order(session) == [("a", 0), ("b", 0), ("a", 1)]
    session.gave_records(a0)
    assert in_order(session) == [("b", 0), ("a", 1), ("a", 0)]
    assert session.forget("a", 1) is a1
    session.name("a", asking(1))
    assert in_order(session) == [("b", 0), ("a", 0), ("a", 1)]


def test_size_and_bytes_go_back_to_nothing() -> None:
    session = FetchSession(1, 0, by_id=False)
    sizes = [session.bytes]
    for key, index in [("a", 0), ("a", 1), ("b", 0), ("a", 0)]:
        session.name(key, asking(index))
        sizes.append(session.bytes)
    assert sizes == sorted(sizes)
    assert sizes[3] == sizes[4]
    assert session.size == 3
    for key, index in [("a", 0), ("a", 1), ("a", 1), ("b", 0), ("c", 0)]:
        session.forget(key, index)
    assert (session.size, session.bytes, session.topics, session.active) == (0, 0, {}, set())


HIGH_WATERMARK, LOG_START = 10, 2


@pytest.mark.parametrize(
    ("told", "tells"),
    [
        ((HIGH_WATERMARK, LOG_START, 0, 0), False),
        ((HIGH_WATERMARK, LOG_START, 1, 0), True),
        ((HIGH_WATERMARK + 1, LOG_START, 0, 0), True),
        ((HIGH_WATERMARK, LOG_START + 1, 0, 0), True),
        ((-1, -1, 0, int(ErrorCode.OFFSET_OUT_OF_RANGE)), True),
    ],
)
def test_only_what_is_new_is_told(told: tuple[int, int, int, int], tells: bool) -> None:
    one = FetchSession(1, 0, by_id=False).name("a", asking(0))
    assert one.tell(HIGH_WATERMARK, LOG_START, 0, 0)  # nothing was told before
    assert one.tell(*told) is tells
    assert one.tell(*told) is bool(told[2] or told[3])


def test_what_follows_an_error_is_told() -> None:
    one = FetchSession(1, 0, by_id=False).name("a", asking(0))
    one.tell(HIGH_WATERMARK, LOG_START, 0, 0)
    # Kafka's errors have no high watermark and no log start; one that has them hides nothing all the same.
    one.tell(HIGH_WATERMARK, LOG_START, 0, int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert one.tell(HIGH_WATERMARK, LOG_START, 0, 0)


class Reader:
    def __init__(self) -> None:
        self.calls: list[SessionPartition] = []
        self.hurries = 0

    def called(self, partition: SessionPartition, /) -> None:
        self.calls.append(partition)

    def hurry(self) -> None:
        self.hurries += 1


def test_a_partition_that_calls_is_active_and_its_reader_hears_of_it() -> None:
    session = FetchSession(1, 0, by_id=False)
    one = session.name("a", asking(0))
    session.active.clear()
    one.armed = True
    one.advanced()
    assert session.active == {one}
    assert not one.armed
    session.active.clear()
    reader = session.reader = Reader()
    one.advanced()
    assert session.active == {one}
    assert reader.calls == [one]


def test_a_session_that_has_ended_hurries_its_reader_and_hears_no_calls() -> None:
    session = FetchSession(1, 0, by_id=False)
    one = session.name("a", asking(0))
    reader = session.reader = Reader()
    session.close()
    one.advanced()
    assert session.active == set()
    assert (reader.calls, reader.hurries) == ([], 1)
