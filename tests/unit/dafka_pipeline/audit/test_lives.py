from __future__ import annotations

from dafka_pipeline.audit.lives import Life, beginnings, ends_of, strays
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.state import State, TopicEnds


def commit(version: int, topic_id: str, *spans: tuple[int, int, int]) -> Commit:
    state = State(
        archive="0" * 32,
        generation=1,
        run="r",
        batch=version,
        topics={"t": TopicEnds(topic_id, (0, 0))},
        spans=tuple(Span("t", *one) for one in spans),
    )
    return Commit(version, state.to_json(), 0)


def test_a_partition_begins_where_its_first_batch_did() -> None:
    commits = [
        commit(4, "new", (0, 0, 3)),
        commit(3, "old", (0, 20, 30), (1, 5, 9)),
        Commit(2, None, 0),
        commit(1, "old", (0, 10, 20)),
        Commit(0, None, 0),
    ]
    began = beginnings(commits)
    assert began.complete
    assert [began.of("t", "old", number, 99) for number in (0, 1, 2)] == [10, 5, 99]
    assert began.of("t", "new", 0, 2) == 0


def test_what_is_left_of_a_log_tells_no_beginning() -> None:
    began = beginnings([commit(3, "old", (0, 20, 30))])
    assert not began.complete
    assert began.of("t", "old", 0, 12) == 12


def test_ends_and_what_lies_behind_them() -> None:
    lives = [Life("t", "new", 0, 5, 0, 4), Life("t", "new", 1, 1, 7, 7), Life("t", "new", 3, 1, 0, 0)]
    ends = ends_of(lives, TopicEnds("new", (5, 7, 2)), "new")
    assert ends == {0: 5, 1: 7, 2: 2}
    assert strays(lives, ends) == {1: 7, 3: 0}


def test_of_an_older_life_nothing_is_known_but_its_rows() -> None:
    lives = [Life("t", "old", 0, 5, 0, 4)]
    assert ends_of(lives, TopicEnds("new", (99,)), "old") == {0: 5}
    assert strays(lives, {0: 5}) == {}
