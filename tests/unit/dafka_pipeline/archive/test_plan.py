"""What a look at Kafka means for an archive, case by case."""

from __future__ import annotations

import pytest

from dafka_pipeline.archive.plan import RECREATED, RETENTION, Gap, Look, plan
from dafka_pipeline.kafka.cluster import Topic, TopicPartition
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.state import State, TopicEnds

ID, OTHER_ID = "A" * 22, "B" * 22


def state(*ends: int, topic_id: str | None = ID) -> State:
    return State("archive", 1, "run", topics={"t": TopicEnds(topic_id, ends)} if ends else {})


def look(*logs: tuple[int, int], topic_id: str | None = ID) -> Look:
    """A topic `t` whose logs begin and end so."""
    places = [TopicPartition("t", number) for number in range(len(logs))]
    return Look(
        {"t": Topic("t", topic_id, len(logs))},
        {place: log[0] for place, log in zip(places, logs, strict=True)},
        {place: log[1] for place, log in zip(places, logs, strict=True)},
    )


CASES = {
    "nothing new": (state(10), look((0, 10)), (10,), [], []),
    "new records": (state(10), look((0, 12)), (10,), [Span("t", 0, 10, 12)], []),
    "a new topic": (state(), look((0, 3), (0, 0)), (0, 0), [Span("t", 0, 0, 3)], []),
    "a new topic begins where its log begins": (state(), look((5, 9)), (5,), [Span("t", 0, 5, 9)], []),
    "a new partition": (state(4), look((0, 4), (0, 2)), (4, 0), [Span("t", 1, 0, 2)], []),
    "a new partition that has lost records": (
        state(4),
        look((0, 4), (1, 2)),
        (4, 1),
        [Span("t", 1, 1, 2)],
        [Gap(Span("t", 1, 0, 1), ID, RETENTION)],
    ),
    "retention up to what is archived": (state(10), look((10, 12)), (10,), [Span("t", 0, 10, 12)], []),
    "retention beyond what is archived": (
        state(10),
        look((11, 12)),
        (11,),
        [Span("t", 0, 11, 12)],
        [Gap(Span("t", 0, 10, 11), ID, RETENTION)],
    ),
    "retention took all that waited": (
        state(10),
        look((12, 12)),
        (12,),
        [],
        [Gap(Span("t", 0, 10, 12), ID, RETENTION)],
    ),
    "made again, shorter": (
        state(10),
        look((0, 3), topic_id=OTHER_ID),
        (0,),
        [Span("t", 0, 0, 3)],
        [Gap(Span("t", 0, 10, 10), ID, RECREATED)],
    ),
    "made again, longer": (
        state(10),
        look((0, 30), topic_id=OTHER_ID),
        (0,),
        [Span("t", 0, 0, 30)],
        [Gap(Span("t", 0, 10, 10), ID, RECREATED)],
    ),
    "made again, and already cut": (
        state(10),
        look((2, 30), topic_id=OTHER_ID),
        (2,),
        [Span("t", 0, 2, 30)],
        [Gap(Span("t", 0, 10, 10), ID, RECREATED), Gap(Span("t", 0, 0, 2), OTHER_ID, RETENTION)],
    ),
    "made again with fewer partitions": (
        state(10, 20),
        look((0, 1), topic_id=OTHER_ID),
        (0,),
        [Span("t", 0, 0, 1)],
        [Gap(Span("t", 0, 10, 10), ID, RECREATED), Gap(Span("t", 1, 20, 20), ID, RECREATED)],
    ),
    "a server without topic ids": (
        state(10, topic_id=None),
        look((0, 12), topic_id=None),
        (10,),
        [Span("t", 0, 10, 12)],
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_plan(case: str) -> None:
    before, seen, ends, waiting, gaps = CASES[case]
    made = plan(before, seen, {})
    assert made.topics == {"t": TopicEnds(seen.topics["t"].topic_id, ends)}
    assert made.waiting == waiting
    assert made.gaps == gaps
    assert bool(made.losses) == bool(gaps)
    assert not made.went_back


@pytest.mark.parametrize(
    "seen", [look((0, 9)), look((0, 0)), look((0, 9), topic_id=None)], ids=["shorter", "empty", "no ids"]
)
def test_a_log_that_ends_before_what_is_archived(seen: Look) -> None:
    made = plan(state(10), seen, {})
    assert made.went_back == [f"t/0 ends at {seen.end[TopicPartition('t', 0)]} and was archived up to 10"]
    assert not made.waiting
    assert made.topics["t"].ends == (10,)


@pytest.mark.parametrize(("before", "now"), [(ID, None), (None, ID)], ids=["forgotten", "learned"])
def test_a_server_that_tells_ids_at_times_has_no_other_topic(before: str | None, now: str | None) -> None:
    """An upgrade, or an old broker that answers: the rows stay those of one topic."""
    made = plan(state(10, topic_id=before), look((0, 12), topic_id=now), {})
    assert made.topics == {"t": TopicEnds(before, (10,))}
    assert made.waiting == [Span("t", 0, 10, 12)]
    assert not made.losses


def test_fewer_partitions_under_the_same_id() -> None:
    assert plan(state(1, 2), look((0, 1)), {}).went_back


def test_a_topic_that_is_gone_keeps_its_ends() -> None:
    made = plan(state(7), Look({}, {}, {}), {})
    assert made.topics == {"t": TopicEnds(ID, (7,))}
    assert not made.waiting


def test_where_new_topics_begin() -> None:
    starts = {TopicPartition("t", 0): 7, TopicPartition("t", 1): 1}
    made = plan(state(), look((0, 9), (3, 9)), starts)
    assert made.waiting == [Span("t", 0, 7, 9), Span("t", 1, 3, 9)]
    assert not made.gaps
