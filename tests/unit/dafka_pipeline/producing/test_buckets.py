"""Numbers that Spark places where they shall be."""

from __future__ import annotations

import pytest

from dafka_pipeline.producing.buckets import numbers_for, spark_hash


def test_the_hash_is_sparks() -> None:
    """`SELECT hash(1), hash(0), hash(-5), hash(1000000)` of Spark 4.0."""
    assert [spark_hash(n) for n in (1, 0)] == [-559580957, 933211791]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 200])
def test_each_task_has_its_number(tasks: int) -> None:
    assert [spark_hash(number) % tasks for number in numbers_for(tasks)] == list(range(tasks))
