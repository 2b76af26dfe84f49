"""Whether an outbox and a checkpoint belong together: each way in which copies go wrong."""

from __future__ import annotations

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.transform.outbox_state import SparkSide, Written, check_outbox, parse_written

NEWEST = Written("t", "q", 7, "offsets of 7")


def side(query: str = "q", planned: int | None = 7, committed: int | None = 6) -> SparkSide:
    return SparkSide(query, planned, committed, lambda batch: f"offsets of {batch}")


def test_it_is_read_as_it_was_written() -> None:
    assert parse_written(NEWEST.to_json()) == NEWEST
    assert parse_written(None) is None
    assert parse_written("DELETE") is None
    assert parse_written('{"dafka_archive": 1}') is None
    with pytest.raises(Refused, match="format 9"):
        parse_written('{"dafka_outbox": 9}')


@pytest.mark.parametrize(
    "spark",
    [
        side(planned=7, committed=6),  # died between the outbox and Spark's own commit
        side(planned=7, committed=7),  # died, or was stopped, after it
        side(planned=8, committed=7),  # died before batch 8 was written
    ],
)
def test_what_a_death_leaves_fits(spark: SparkSide) -> None:
    check_outbox(NEWEST, "t", spark, "DIR")


def test_a_first_start_fits() -> None:
    check_outbox(None, "t", side("", None, None), "DIR")
    check_outbox(None, "t", side("q", 0, None), "DIR")


@pytest.mark.parametrize(
    ("newest", "transform", "spark", "said"),
    [
        (NEWEST, "t", side("", None, None), "another checkpoint"),
        (NEWEST, "t", side("other"), "another checkpoint"),
        (NEWEST, "other", side(), "another checkpoint"),
        (NEWEST, "t", side(planned=6, committed=5), "older than its outbox"),
        (NEWEST, "t", side(planned=None, committed=None), "older than its outbox"),
        (NEWEST, "t", side(planned=9, committed=8), "older than its checkpoint"),
        (None, "t", side(planned=1, committed=0), "has none: it is gone"),
        (Written("t", "q", 7, "others"), "t", side(), "other offsets"),
    ],
)
def test_what_copies_leave_is_refused(
    newest: Written | None, transform: str, spark: SparkSide, said: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_outbox(newest, transform, spark, "DIR")
    assert said in str(refused.value)
    assert "--outbox" in str(refused.value)
