"""What a query's progress adds up to."""

from __future__ import annotations

from typing import Any

import pytest

from dafka_pipeline.transform.query import Counts, lag_of


def batch(number: int, rows: int, end: Any = None, latest: Any = None, **durations: int) -> dict[str, Any]:
    return {
        "batchId": number,
        "numInputRows": rows,
        "durationMs": {"addBatch": 1500, **durations},
        "sources": [{"endOffset": end, "latestOffset": latest}],
    }


def test_each_batch_is_counted_once() -> None:
    counts = Counts()
    first = counts.take([batch(4, 10), batch(5, 20)])
    assert first is not None
    assert (first.done, first.phases) == (30, {"addBatch": 1.5})
    assert counts.take([batch(5, 20)]) is None
    second = counts.take([batch(5, 20), batch(6, 5)])
    assert second is not None
    assert second.done == 35
    assert (counts.rows, counts.batches) == (35, 3)


def test_a_look_that_found_nothing_is_no_batch() -> None:
    idle = batch(6, 0)
    idle["durationMs"] = {"latestOffset": 3}
    assert Counts().take([idle]) is None


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ('{"a":{"0":5,"1":7}}', '{"a":{"0":6,"1":10}}', 4),
        ({"a": {"0": 5}}, {"a": {"0": 5, "1": 2}, "b": {"0": 1}}, 3),
        ('{"a":{"0":5}}', '{"a":{"0":4}}', 0),
        ('{"a":{"0":5}}', "", 0),
        (None, None, 0),
        ("null", "null", 0),
    ],
)
def test_lag(end: Any, latest: Any, lag: int) -> None:
    assert lag_of(batch(0, 1, end, latest)) == lag
