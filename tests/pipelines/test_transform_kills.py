"""SIGKILL to a transform with its JVM and its workers: the real thing, where test_transform.py raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clients.stored import put
from tests.pipelines import transform_kills
from tests.pipelines.transform_kills import FUNCTION, command, wait_for_end
from tests.pipelines.transforming import PER_BATCH, exactly_once, keyed_records, numbers_in, numbers_of
from tests.spark.program import Program

NewTopic = Callable[..., str]
SECONDS = 240.0


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(
    "places",
    [
        ["transform-after-outbox"],
        pytest.param(
            ["transform-before-outbox", "publish-leased:2", "publish-sent", "transform-after-publish:2"],
            marks=pytest.mark.long,
        ),
    ],
)
def test_killed_at(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, places: list[str]
) -> None:
    source, target = new_topic(1, "-source"), new_topic(2, "-target")
    records = keyed_records(100)
    put(bootstrap, source, records)
    checkpoint = tmp_path / "checkpoint"
    start = command(bootstrap, source, target, checkpoint)
    for n, place in enumerate(places):
        with Program(["env", f"DAFKA_PIPELINE_FAIL_AT={place}", *start], tmp_path / f"{n}.log") as program:
            assert wait_for_end(program, SECONDS) == -9, program.text[-3000:]
    # The one that starts again is this session's: all it has of the others is the checkpoint.
    exactly_once(spark, bootstrap, FUNCTION, source, target, checkpoint, max_offsets=PER_BATCH)
    assert numbers_in(bootstrap, target, 2) == numbers_of(records)


@pytest.mark.long
def test_killed_at_random(bootstrap: str, tmp_path: Path) -> None:
    assert not transform_kills.run(bootstrap, tmp_path, count=4, seed=1)
