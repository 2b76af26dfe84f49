"""What is asked of whom about the ends of logs, and what is believed of the answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.log.partition import Partition
from gateway.peers import rounds
from gateway.peers.heard import UNKNOWN, HeardEnds
from gateway.peers.rounds import EARLIEST, LATEST, STARTS_EVERY, Asked, Plan
from tests.unit.gateway.peers.answers import ends_answer
from wireproto.kafka.requests import decode_request


def partition(name: str, index: int) -> Partition:
    return cast("Partition", SimpleNamespace(topic=SimpleNamespace(name=name), index=index))


def heard_of(*places: tuple[str, int]) -> dict[tuple[str, int], HeardEnds]:
    return {place: HeardEnds(0.0) for place in places}


def planned(
    heard: dict[tuple[str, int], HeardEnds],
    leaders: dict[tuple[str, int], int],
    before: dict[int, list[Asked]] | None = None,
) -> dict[int, list[Asked]]:
    made = Plan(before or {})
    for (name, index), one in heard.items():
        made.add(leaders[name, index], partition(name, index), one)
    return made.finish()


def test_each_leader_is_asked_about_its_own_in_requests_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "PARTITIONS_A_REQUEST", 2)
    heard = heard_of(("b", 1), ("a", 0), ("b", 0), ("a", 1), ("c", 5))
    leaders = {("b", 1): 2, ("a", 0): 3, ("b", 0): 2, ("a", 1): 2, ("c", 5): 2}
    made = planned(heard, leaders)
    assert {leader: [one.places for one in every] for leader, every in made.items()} == {
        2: [(("b", 0), ("b", 1)), (("a", 1), ("c", 5))],
        3: [(("a", 0),)],
    }
    assert all(
        one.heard[place] is heard[place] for every in made.values() for one in every for place in one.places
    )


def test_what_was_asked_before_goes_on_while_it_is_about_the_same() -> None:
    heard = heard_of(("a", 0), ("a", 1), ("b", 0))
    leaders = {("a", 0): 2, ("a", 1): 2, ("b", 0): 3}
    first = planned(heard, leaders)
    again = planned(heard, leaders, first)
    assert again[2][0] is first[2][0]
    assert again[3][0] is first[3][0]
    moved = planned(heard, {**leaders, ("b", 0): 2}, again)
    assert moved.keys() == {2}
    assert moved[2][0] is not first[2][0]
    anew = planned({**heard, ("a", 0): HeardEnds(0.0)}, leaders, first)
    assert anew[2][0] is not first[2][0], "another topic of the same name"
    assert anew[3][0] is first[3][0]


def asked_in(question: Any) -> dict[str, list[tuple[int, int]]]:
    """The index and the timestamp of each partition, by topic; as it is on the wire."""
    body = question.body(11)
    request = decode_request(2, 11, memoryview(body), 0)
    assert (request.replica_id, request.isolation_level) == (-1, 0)
    return {
        topic.name: [(one.partition_index, one.timestamp) for one in topic.partitions]
        for topic in request.topics
    }


def test_ends_are_asked_for_in_each_round_and_starts_now_and_then_before_them() -> None:
    asked = Asked(heard_of(("a", 0), ("a", 7), ("b", 2)))
    every = [list(asked.questions()) for _ in range(2 * STARTS_EVERY)]
    assert [len(one) for one in every] == [2, *[1] * (STARTS_EVERY - 1)] * 2
    starts, ends = every[0]
    assert asked_in(starts) == {"a": [(0, EARLIEST), (7, EARLIEST)], "b": [(2, EARLIEST)]}
    assert asked_in(ends) == {"a": [(0, LATEST), (7, LATEST)], "b": [(2, LATEST)]}
    assert {id(one) for some in every for one in some} == {id(starts), id(ends)}, "encoded once"


def test_what_a_leader_says_is_heard_and_what_it_was_not_asked_is_passed_over() -> None:
    heard = heard_of(("a", 0), ("a", 1), ("a", 2), ("a", 3))
    asked = Asked(heard)
    starts, ends = asked.questions()
    asked.take(starts, ends_answer(a={0: 5, 1: 6}), 1.0)
    assert [one.start for one in heard.values()] == [5, 6, UNKNOWN, UNKNOWN]
    assert [one.end for one in heard.values()] == [UNKNOWN] * 4
    answer = ends_answer({2: 6}, a={0: 50, 2: 70, 3: -1, 9: 90}, other={0: 1})
    asked.take(ends, answer, 2.0)
    assert [one.end for one in heard.values()] == [50, UNKNOWN, UNKNOWN, UNKNOWN]
    assert heard["a", 0].heard_at == 2.0
    assert heard["a", 1].heard_at < 0


def test_lag_is_never_negative() -> None:
    heard = HeardEnds(0.0)
    heard.hear_end(50, 1.0)
    heard.start = 10
    assert [heard.lag(committed) for committed in (5, 10, 49, 50, 60)] == [40, 40, 1, 0, 0]
    assert [heard.lost(committed) for committed in (5, 10, 60)] == [5, 0, 0]
    heard.start = 60
    assert heard.lag(5) == 0, "the end that was heard is older"
