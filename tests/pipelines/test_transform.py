"""A user's function between topics, at least once and exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clients.sample import records as sample_records
from tests.clients.stored import committed_records, put
from tests.pipelines.transforming import (
    PER_BATCH,
    exactly_once,
    keyed_records,
    killed_at,
    numbers_in,
    numbers_of,
    transform,
    without_position,
)

pytestmark = pytest.mark.slow
FUNCTION = "numbers_per_key"
NewTopic = Callable[..., str]
FAIL_POINTS = (
    "transform-before-outbox",
    "transform-after-outbox",
    "publish-leased",
    "publish-sent",
    "transform-after-publish",
)


def test_at_least_once(spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path) -> None:
    source, target = new_topic(2, "-source"), new_topic(1, "-target")
    records = keyed_records(50)
    put(bootstrap, source, records[:20], partition=1)
    transform(spark, bootstrap, "shouts", source, target, tmp_path, parameters={"mark": "?"})
    put(bootstrap, source, records[20:], partition=0)
    transform(spark, bootstrap, "shouts", source, target, tmp_path, parameters={"mark": "?"})
    found = [(one.key, one.value) for _, one in committed_records(bootstrap, target)]
    assert found == [(one.key, (one.value or b"").upper() + b"?") for one in records]


def test_exactly_once_keeps_every_oddity_of_a_record(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, sample_records())
    # What a death in the outbox's first commit leaves.
    (tmp_path / "outbox" / "_delta_log").mkdir(parents=True)
    counts = exactly_once(spark, bootstrap, "passes", source, target, tmp_path)
    assert without_position(committed_records(bootstrap, target)) == sample_records()
    assert counts.rows == len(sample_records())


@pytest.mark.matrix
def test_state_is_exact_over_kills(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Each run dies at another place; what comes out is as if none had."""
    source, target = new_topic(1, "-source"), new_topic(2, "-target")
    records = keyed_records(100)
    put(bootstrap, source, records)
    for place in FAIL_POINTS:
        with killed_at(place):
            exactly_once(spark, bootstrap, FUNCTION, source, target, tmp_path, max_offsets=PER_BATCH)
    exactly_once(spark, bootstrap, FUNCTION, source, target, tmp_path, max_offsets=PER_BATCH)
    assert numbers_in(bootstrap, target, 2) == numbers_of(records)
