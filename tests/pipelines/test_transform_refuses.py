"""Where a checkpoint, its outbox, the topics and what is asked do not belong together, nothing is lost in
silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.protocol.admin import DeleteTopicsRequest
from pyspark.sql import SparkSession

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.location import Location
from dafka_pipeline.transform.binding import EXACTLY_ONCE
from tests.clients.stored import committed_records, create_topic, put
from tests.differential.batches import Record
from tests.differential.wire import Connection
from tests.pipelines.transforming import Running, exactly_once, keyed_records, transform, without_position

pytestmark = pytest.mark.slow
NewTopic = Callable[..., str]


def delete_topic(bootstrap: str, topic: str) -> None:
    with Connection(bootstrap) as connection:
        answer = connection.ask(DeleteTopicsRequest(version=1, topic_names=[topic], timeout_ms=10_000))
    assert answer.responses[0].error_code == 0, answer


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for _, record in committed_records(bootstrap, topic)]


@pytest.mark.matrix
def test_a_new_checkpoint_over_an_old_outbox(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Its batches would begin at 0, which the outbox has: Delta would drop them without a word."""
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    outbox = Location.of(str(tmp_path / "outbox"))
    put(bootstrap, source, keyed_records(10))
    exactly_once(spark, bootstrap, "passes", source, target, tmp_path / "old", outbox=outbox)
    with pytest.raises(Refused, match="another checkpoint"):
        exactly_once(spark, bootstrap, "passes", source, target, tmp_path / "new", outbox=outbox)
    assert without_position(committed_records(bootstrap, target)) == keyed_records(10)
    # Anew altogether is what the message offers.
    other = Location.of(str(tmp_path / "other"))
    exactly_once(spark, bootstrap, "passes", source, target, tmp_path / "new", outbox=other)
    assert without_position(committed_records(bootstrap, target)) == keyed_records(10) * 2


@pytest.mark.matrix
@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_checkpoint_from_a_copy(
    spark: SparkSession,
    bootstrap: str,
    new_topic: NewTopic,
    tmp_path: Path,
    beside: bool,
) -> None:
    """Older than its outbox, or (with the outbox in it) older than the target."""
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    more = {"outbox": Location.of(str(tmp_path / "outbox"))} if beside else {}
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    records = keyed_records(40)
    put(bootstrap, source, records[:10])
    exactly_once(spark, bootstrap, "passes", source, target, checkpoint, **more)
    shutil.copytree(checkpoint, copy)
    put(bootstrap, source, records[10:20])
    exactly_once(spark, bootstrap, "passes", source, target, checkpoint, **more)
    put(bootstrap, source, records[20:])
    newest = checkpoint.rename(tmp_path / "newest")
    copy.rename(checkpoint)
    with pytest.raises(Refused, match="copy"):
        exactly_once(spark, bootstrap, "passes", source, target, checkpoint, **more)
    assert without_position(committed_records(bootstrap, target)) == records[:20]
    # The repair that the message names.
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    exactly_once(spark, bootstrap, "passes", source, target, checkpoint, **more)
    assert without_position(committed_records(bootstrap, target)) == records


def test_an_outbox_that_is_gone(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, keyed_records(10))
    exactly_once(spark, bootstrap, "passes", source, target, tmp_path)
    shutil.rmtree(tmp_path / "outbox")
    with pytest.raises(Refused, match="it is gone"):
        exactly_once(spark, bootstrap, "passes", source, target, tmp_path)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_source_that_was_made_again(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, delivery: str
) -> None:
    """With more records than before, so that Spark would see nothing: it would skip the first ten."""
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, keyed_records(10))
    transform(spark, bootstrap, "shouts", source, target, tmp_path, delivery=delivery)
    before = values(bootstrap, target)
    delete_topic(bootstrap, source)
    create_topic(bootstrap, source)
    put(bootstrap, source, keyed_records(20))
    for accept in (False, True):
        with pytest.raises(Refused, match="made again"):
            transform(
                spark, bootstrap, "shouts", source, target, tmp_path, delivery=delivery, accept_change=accept
            )
    assert values(bootstrap, target) == before


def test_a_source_that_is_made_again_meanwhile(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, keyed_records(10))
    running = Running(spark, bootstrap, "passes", source, target, tmp_path, delivery=EXACTLY_ONCE)
    with running:
        running.wait_until(lambda: len(values(bootstrap, target)) == 10)
        delete_topic(bootstrap, source)
        create_topic(bootstrap, source)
        put(bootstrap, source, [Record(b"new %d" % n) for n in range(20)])
        running.wait_for_end()
    assert isinstance(running.failure, Refused), running.failure
    assert "deleted" in str(running.failure)
    assert without_position(committed_records(bootstrap, target)) == keyed_records(10)


def test_a_checkpoint_of_something_else(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    put(bootstrap, source, keyed_records(10))
    transform(spark, bootstrap, "shouts", source, target, tmp_path)
    with pytest.raises(Refused, match=r"passes was asked.*--accept-change"):
        transform(spark, bootstrap, "passes", source, target, tmp_path)
    with pytest.raises(Refused, match="delivery is at-least-once"):
        exactly_once(spark, bootstrap, "shouts", source, target, tmp_path)
    (tmp_path / "dafka.json").rename(tmp_path / "away.json")
    with pytest.raises(Refused, match="that no transform has started"):
        transform(spark, bootstrap, "shouts", source, target, tmp_path)
    (tmp_path / "away.json").rename(tmp_path / "dafka.json")
    (tmp_path / "metadata").unlink()
    with pytest.raises(Refused, match="gone"):
        transform(spark, bootstrap, "shouts", source, target, tmp_path)
    assert len(values(bootstrap, target)) == 10
