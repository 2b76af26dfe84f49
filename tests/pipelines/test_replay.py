"""A table becomes topics again: every record once, whole, in order, with its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.producing.plan import AUTO, NO
from tests.clients.sample import records as sample_records
from tests.clients.sample import small_records
from tests.clients.stored import put
from tests.differential.batches import Record
from tests.pipelines.archiving import archive_once
from tests.pipelines.replaying import FOREVER, assert_replayed, replay

pytestmark = pytest.mark.slow
YEAR_30000 = 884_541_600_000_000


@pytest.mark.parametrize("transactions", [AUTO, NO])
def test_every_kind_of_record(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path, transactions: str
) -> None:
    """Into a topic that is there, in rounds of a few records."""
    source = new_topic(3, message_timestamp_after_max_ms=FOREVER)
    target = new_topic(3, "-again", message_timestamp_after_max_ms=FOREVER)
    put(bootstrap, source, sample_records(), per_batch=1)
    put(bootstrap, source, [Record(b"no time", None, -1), Record(b"late", None, YEAR_30000)], per_batch=1)
    put(bootstrap, source, small_records(100), partition=2)
    archive_once(spark, bootstrap, tmp_path / "a", source)
    settings = {"stream": "odd", "round_offsets": 30, "transactions": transactions}
    outcome = replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    assert outcome.records == len(sample_records()) + 102
    assert_replayed(bootstrap, "odd", source, target, 3)
