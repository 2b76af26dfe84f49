"""What may happen to topics under an archive: made again, cut, grown, gone, with holes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka.protocol.admin import CreatePartitionsRequest, DeleteRecordsRequest, DeleteTopicsRequest
from pyspark.sql import SparkSession

from dafka_pipeline.archive import batch, job, looking
from dafka_pipeline.archive.plan import RECREATED, RETENTION, Look
from dafka_pipeline.failures import Refused, UsageFailure
from tests.clients.sample import small_records
from tests.clients.stored import create_topic, put
from tests.differential.wire import ask
from tests.pipelines.archiving import all_rows, archive_once, archiver
from tests.pipelines.dumps import Row, archive_rows, delta_dicts, topic_rows

pytestmark = pytest.mark.slow


def delete_topic(bootstrap: str, topic: str) -> None:
    answer = ask(bootstrap, DeleteTopicsRequest(version=1, topic_names=[topic], timeout_ms=10_000))
    assert answer.responses[0].error_code == 0, answer


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    of = DeleteRecordsRequest.DeleteRecordsTopic
    part = of.DeleteRecordsPartition(partition_index=0, offset=before)
    answer = ask(
        bootstrap,
        DeleteRecordsRequest(version=1, topics=[of(name=topic, partitions=[part])], timeout_ms=10_000),
    )
    assert answer.topics[0].partitions[0].error_code == 0, answer


def add_partition(bootstrap: str, topic: str, count: int) -> None:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    answer = ask(bootstrap, CreatePartitionsRequest(version=3, topics=[wanted], timeout_ms=10_000))
    assert answer.results[0].error_code == 0, answer


def gaps(archive: Path) -> list[tuple[int, int, int, str]]:
    rows = delta_dicts(archive / "_gaps")
    return sorted((r["partition"], r["first_offset"], r["end_offset"], r["reason"]) for r in rows)


@pytest.mark.parametrize("later", [10, 70], ids=["shorter", "longer"])
def test_made_again(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, later: int) -> None:
    """Spark would not notice the longer one: its offsets go on where the archive ends."""
    archive = tmp_path / "a"
    put(bootstrap, topic, small_records(30, "first"))
    archive_once(spark, bootstrap, archive, topic)
    first = topic_rows(bootstrap, topic)
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic)
    put(bootstrap, topic, small_records(later, "second"))
    with pytest.raises(Refused, match="was deleted and made again"):
        archive_once(spark, bootstrap, archive, topic)
    assert archive_rows(archive) == first
    for _ in range(2):
        archive_once(spark, bootstrap, archive, topic, on_loss="record")
    both = [*first, *topic_rows(bootstrap, topic)]
    assert sorted(archive_rows(archive), key=repr) == sorted(both, key=repr)
    ids = {row["topic_id"] for row in delta_dicts(archive)}
    assert len(ids) == 2
    assert gaps(archive) == [(0, 30, 30, RECREATED)]


def test_records_went_before_they_were_archived(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    archive = tmp_path / "a"
    put(bootstrap, topic, small_records(30))
    archive_once(spark, bootstrap, archive, topic)
    put(bootstrap, topic, small_records(30, "more"))
    all_of_them = topic_rows(bootstrap, topic)
    delete_records(bootstrap, topic, 40)
    with pytest.raises(Refused, match=r"offsets 30 to 39 went before.*--on-loss record"):
        archive_once(spark, bootstrap, archive, topic)
    totals = archive_once(spark, bootstrap, archive, topic, on_loss="record")
    assert (totals.rows, totals.lost) == (20, 10)
    assert archive_rows(archive) == [*all_of_them[:30], *all_of_them[40:]]
    archive_once(spark, bootstrap, archive, topic)
    assert gaps(archive) == [(0, 30, 40, RETENTION)]


def test_records_go_while_they_are_read(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned and then cut: Spark's reader leaves them out without a word, and the archive says which."""
    archive = tmp_path / "a"
    put(bootstrap, topic, small_records(30), per_batch=1)
    all_of_them = topic_rows(bootstrap, topic)
    run_batch = batch.run_batch

    def cut_first(*arguments: object, **options: object) -> object:
        delete_records(bootstrap, topic, 12)
        return run_batch(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "run_batch", cut_first)
    totals = archive_once(spark, bootstrap, archive, topic, on_loss="record")
    assert archive_rows(archive) == all_of_them[12:]
    assert (totals.rows, totals.lost) == (18, 12)
    assert gaps(archive) == [(0, 0, 12, RETENTION)]


def test_more_partitions(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    put(bootstrap, topic, small_records(10))
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    add_partition(bootstrap, topic, 3)
    put(bootstrap, topic, small_records(5, "new"), partition=2)
    archive_once(spark, bootstrap, tmp_path / "a", topic, start="latest")
    assert archive_rows(tmp_path / "a") == all_rows(bootstrap, **{topic: 3})


def test_a_log_that_went_back(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment: it is looked at again. For good: refused, and nothing is touched."""
    archive = tmp_path / "a"
    put(bootstrap, topic, small_records(10))
    archive_once(spark, bootstrap, archive, topic)
    before = archive_rows(archive)
    monkeypatch.setattr(job, "LOOK_AGAIN_SECONDS", 0.0)
    look_at = looking.look_at
    looks = 0

    def short(*arguments: object) -> Look:
        nonlocal looks
        looks += 1
        look = look_at(*arguments)  # type: ignore[arg-type]
        return look if looks in {1, 4} else replace(look, end=dict.fromkeys(look.end, 4))

    monkeypatch.setattr(job, "look_at", short)
    archive_once(spark, bootstrap, archive, topic)
    assert looks == 4
    monkeypatch.setattr(job, "SETTLE_SECONDS", 0.0)
    looks = 0
    with pytest.raises(Refused, match="ends at 4 and was archived up to 10"):
        archive_once(spark, bootstrap, archive, topic)
    assert archive_rows(archive) == before


def test_a_topic_that_is_gone_stays_archived(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        put(bootstrap, topic, small_records(10, topic))
    archive_once(spark, bootstrap, tmp_path / "a", *topics)
    expected: list[Row] = archive_rows(tmp_path / "a")
    delete_topic(bootstrap, topics[0])
    archive_once(spark, bootstrap, tmp_path / "a", *topics)
    assert archive_rows(tmp_path / "a") == expected
    with pytest.raises(UsageFailure, match=r"There is no topic no-such\. Create it first"):
        archive_once(spark, bootstrap, tmp_path / "b", "no-such")
    assert not (tmp_path / "b" / "_delta_log").exists()


def test_what_groups_had_committed_outlives_a_topic(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """It is what `replay --groups` is for: the topic is gone, the archive goes on with others."""
    name = new_topic()
    other = create_topic(bootstrap, f"{name}-other")
    put(bootstrap, name, small_records(10))
    place = ConfluentPartition(name, 0, 7)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-of-{name}"})
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    pattern = f"{name}(-other)?"
    archive_once(spark, bootstrap, tmp_path / "a", pattern=pattern)
    delete_topic(bootstrap, name)
    put(bootstrap, other, small_records(3))
    archive_once(spark, bootstrap, tmp_path / "a", pattern=pattern)
    kept = json.loads((tmp_path / "a" / "_pipeline" / "groups.json").read_text())["groups"]
    assert kept[f"group-of-{name}"] == {name: {"0": {"offset": 7, "metadata": ""}}}


def test_latest_is_kept_though_nothing_came(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """What comes between two runs belongs to the archive: `latest` is where the first one looked."""
    put(bootstrap, topic, small_records(10))
    archive_once(spark, bootstrap, tmp_path / "a", topic, start="latest")
    put(bootstrap, topic, small_records(5, "between"))
    archiver(spark, bootstrap, tmp_path / "a", topic, start="latest").run()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)[10:]
