"""What fails while a transform runs: workers, servers, the user's function. And what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.failures import PipelineError, UsageFailure
from dafka_pipeline.transform.binding import EXACTLY_ONCE
from tests.clients.stored import committed_records, create_topic, put
from tests.differential.batches import Record
from tests.differential.servers import our_server
from tests.pipelines.transforming import (
    Running,
    exactly_once,
    keyed_records,
    numbers_in,
    numbers_of,
    run_of,
    transform,
    without_position,
)

pytestmark = [pytest.mark.slow, pytest.mark.long]
PANDAS = int(pd.__version__.partition(".")[0])
NewTopic = Callable[..., str]


def test_a_python_worker_is_killed(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """In local mode that fails the batch; the query is started again, and the batch is run again."""
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, keyed_records(10))
    marker = tmp_path / "died"
    run = run_of(bootstrap)
    parameters = {"marker": str(marker)}
    exactly_once(
        spark, bootstrap, "dies_once", source, target, tmp_path / "checkpoint", parameters=parameters, run=run
    )
    assert marker.exists()
    assert without_position(committed_records(bootstrap, target)) == keyed_records(10)


def test_the_server_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """In mid-stream, and started again on the same data and port."""
    records = keyed_records(60)
    with our_server() as server:
        source, target = create_topic(server.bootstrap, "source"), create_topic(server.bootstrap, "target", 2)
        put(server.bootstrap, source, records[:20])
        more = {"delivery": EXACTLY_ONCE, "max_offsets": 10}
        arguments = ("numbers_per_key", source, target, tmp_path)
        with Running(spark, server.bootstrap, *arguments, **more) as running:
            running.wait_until(lambda: bool(numbers_in(server.bootstrap, target, 2)))
            server.kill9()
            server.start()
            put(server.bootstrap, source, records[20:])
            wanted = numbers_of(records)
            running.wait_until(lambda: numbers_in(server.bootstrap, target, 2) == wanted)
        assert running.failure is None
        assert numbers_in(server.bootstrap, target, 2) == wanted


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("not_streaming", "not streaming"),
        ("forgets_to_return", "gives back NoneType"),
        ("selects_what_is_not_there", "no_such_column"),
        ("without_watermark", "--output-mode"),
        pytest.param(
            "by_the_older_interface", "pandas 3", marks=pytest.mark.skipif(PANDAS < 3, reason="it runs")
        ),
    ],
)
def test_a_function_that_cannot_be_a_stream(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, function: str, said: str
) -> None:
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    with pytest.raises(UsageFailure, match=said):
        transform(spark, bootstrap, function, source, target, tmp_path)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_function_that_raises_ends_the_job_at_once(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, delivery: str
) -> None:
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, [Record(b"the first")])
    with pytest.raises(PipelineError, match=r"ZeroDivisionError: no way with .*'the first'") as failure:
        transform(spark, bootstrap, "raises", source, target, tmp_path, delivery=delivery)
    assert not failure.value.retriable
    assert committed_records(bootstrap, target) == []


def test_topics_that_are_missing(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    there = new_topic()
    with pytest.raises(UsageFailure, match=r"no-such.*--from"):
        transform(spark, bootstrap, "passes", "no-such", there, tmp_path)
    with pytest.raises(UsageFailure, match=r"no-such.*--create-to"):
        transform(spark, bootstrap, "passes", there, "no-such", tmp_path)
    put(bootstrap, there, keyed_records(5))
    target = f"{there}-made"
    transform(spark, bootstrap, "shouts", there, target, tmp_path, create_partitions=3)
    assert sum(len(committed_records(bootstrap, target, partition)) for partition in range(3)) == 5


def test_each_record_names_its_topic(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, one, two = (new_topic(1, suffix) for suffix in ("-source", "-one", "-two"))
    put(bootstrap, source, [Record(name.encode()) for name in (one, two, two)])
    for n, run in enumerate((transform, exactly_once), 1):
        run(spark, bootstrap, "by_value", source, f"{one},{two}", tmp_path / str(n))
        assert len(committed_records(bootstrap, one)) == n
        assert len(committed_records(bootstrap, two)) == 2 * n
    put(bootstrap, source, [Record(source.encode())])
    with pytest.raises(PipelineError, match="a row's topic is not one of --to"):
        transform(spark, bootstrap, "by_value", source, f"{one},{two}", tmp_path / "1")


def test_exactly_once_places_keys_as_sparks_sink_does(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Java's partitioner is the oracle."""
    source, oracle, ours = new_topic(1, "-source"), new_topic(5, "-oracle"), new_topic(5, "-ours")
    keys = [b"", b"\0\xff", *(b"key %d" % n for n in range(50))]
    put(bootstrap, source, [Record(b"value", key) for key in keys])
    transform(spark, bootstrap, "shouts", source, oracle, tmp_path / "1")
    exactly_once(spark, bootstrap, "shouts", source, ours, tmp_path / "2")
    for partition in range(5):
        placed = [record.key for _, record in committed_records(bootstrap, oracle, partition)]
        assert [record.key for _, record in committed_records(bootstrap, ours, partition)] == placed


def test_a_partition_that_the_function_names(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1, "-source"), new_topic(2, "-target")
    put(bootstrap, source, [Record(b"a", b"1"), Record(b"b", b"0"), Record(b"c", b"1")])
    exactly_once(spark, bootstrap, "into_partitions", source, target, tmp_path)
    found = [[record.value for _, record in committed_records(bootstrap, target, n)] for n in (0, 1)]
    assert found == [[b"b"], [b"a", b"c"]]
    put(bootstrap, source, [Record(b"d", b"2")])
    with pytest.raises(PipelineError, match="names partition 2, and the target has 2"):
        exactly_once(spark, bootstrap, "into_partitions", source, target, tmp_path)
