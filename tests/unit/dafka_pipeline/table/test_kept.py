"""How far an archive is by its copy and its rows, where its log does not say it."""

from __future__ import annotations

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.kept import at_least
from dafka_pipeline.table.state import State, TopicEnds

KEPT = State("a", 1, "r", 5, {"t": TopicEnds("id", (5, 7)), "u": TopicEnds(None, (2,))})


def test_rows_move_it_on_and_never_back() -> None:
    moved = at_least(KEPT, {("t", "id", 0): 9, ("t", "id", 1): 3})
    assert moved.topics == {"t": TopicEnds("id", (10, 7)), "u": TopicEnds(None, (2,))}


def test_rows_of_an_earlier_topic_of_the_name_are_fine() -> None:
    assert at_least(KEPT, {("t", "another", 0): 100}).topics == KEPT.topics


@pytest.mark.parametrize("place", [("t", "id", 2), ("new", "id", 0)], ids=["partition", "topic"])
def test_rows_that_it_does_not_know_are_refused(place: tuple[str, str, int]) -> None:
    """Their topic would be taken for new, and its records be added again."""
    with pytest.raises(Refused, match="does not know"):
        at_least(KEPT, {place: 3})
