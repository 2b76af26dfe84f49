"""What a commit says: written, read, moved on, and numbered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka_pipeline.failures import Refused
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.numbered import newest_in
from dafka_pipeline.table.state import Fence, State, TopicEnds, generation_of, parse_state

names = st.text(min_size=1, max_size=10)
topics = st.dictionaries(
    names, st.builds(TopicEnds, st.none() | names, st.lists(st.integers(0, 2**62), max_size=4).map(tuple))
)
states = st.builds(
    State,
    archive=names,
    generation=st.integers(1, 2**30),
    run=names,
    batch=st.integers(1, 2**32 - 2),
    topics=topics,
    spans=st.lists(st.builds(Span, names, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))).map(
        tuple
    ),
    weights=st.dictionaries(names, st.integers(0, 1000).map(float)),
)


@given(states)
def test_is_read_as_it_was_written(state: State) -> None:
    assert parse_state(state.to_json()) == state
    assert generation_of(state.number) == state.generation


@given(states, st.integers(1, 2**30))
def test_numbers_are_in_order(state: State, generation: int) -> None:
    fence = Fence("a", state.generation + generation, "r")
    assert state.number < state.after([]).number
    assert state.number < fence.number < state.started_by(fence).number
    assert fence.number < 2**63, "Delta's txn version is a signed 64-bit number"


def test_a_fence_says_nothing_of_ends() -> None:
    fence = Fence("a", 3, "r").to_json()
    assert parse_state(fence) is None


@pytest.mark.parametrize("text", [None, "", "a user's own words", "[1]", '{"archive": 1}'])
def test_somebody_elses_commit(text: str | None) -> None:
    assert parse_state(text) is None


def test_a_later_format_is_refused() -> None:
    text = json.dumps({"dafka_archive": 2, "everything": "else"})
    with pytest.raises(Refused, match="format 2"):
        parse_state(text)


def test_ends_move_by_what_was_added() -> None:
    before = State("a", 1, "r", 4, {"t": TopicEnds("id", (5, 7)), "u": TopicEnds(None, (0,))})
    after = before.after([Span("u", 0, 0, 3), Span("t", 1, 7, 9)])
    assert after.topics == {"t": TopicEnds("id", (5, 9)), "u": TopicEnds(None, (3,))}
    assert (after.batch, after.spans) == (5, (Span("t", 1, 7, 9), Span("u", 0, 0, 3)))


@pytest.mark.parametrize("start", [4, 6])
def test_a_span_that_would_skip_or_double_is_a_bug(start: int) -> None:
    state = State("a", 1, "r", 1, {"t": TopicEnds("id", (5,))})
    with pytest.raises(AssertionError):
        state.after([Span("t", 0, start, 9)])


def said(text: str | None) -> str | None:
    return text


COMMITS = [
    Commit(9, None, 0),
    Commit(8, None, 0, restored=5),
    Commit(7, "seven", 1),
    Commit(6, "six", 1),
    Commit(5, None, 0),
    Commit(4, "four", 1),
]


def test_the_newest_commit_in_force() -> None:
    found = newest_in(COMMITS[2:], said)
    assert found is not None
    assert found.said == "seven"


def test_what_a_restore_undid_does_not_count() -> None:
    found = newest_in(COMMITS, said)
    assert found is not None
    assert (found.commit.version, found.said) == (4, "four")


def test_no_commit_of_ours() -> None:
    assert newest_in([Commit(1, None, 3), Commit(0, None, 0)], said) is None
