"""Exactly once, whatever ends a run, whoever else is at work, whatever became of the directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from dafka_pipeline.archive import job, opening
from dafka_pipeline.archive.looking import look_at
from dafka_pipeline.archive.opening import take_over
from dafka_pipeline.archive.plan import plan
from dafka_pipeline.failures import Refused
from dafka_pipeline.ranges import Span
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.lock import held
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.numbered import Newest, Superseded
from dafka_pipeline.table.state import State, parse_state
from tests.clients.sample import small_records
from tests.clients.stored import put
from tests.pipelines.archiving import all_rows, archive_once, archiver, killed_at
from tests.pipelines.dumps import archive_rows, topic_rows

pytestmark = pytest.mark.slow
SMALL_BATCHES = 10_000


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("archive-after-fence", marks=pytest.mark.long),
        pytest.param("archive-after-start", marks=pytest.mark.long),
        "archive-before-commit",
        pytest.param("archive-after-commit", marks=pytest.mark.matrix),
        pytest.param("archive-before-copy", marks=pytest.mark.long),
    ],
)
def test_dies_there(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path, place: str
) -> None:
    """In its first run, then in a later one, then once more at the same place; the run after goes on."""
    topic = new_topic(partitions=2)
    for round_ in range(2):
        for partition in (0, 1):
            put(bootstrap, topic, small_records(150, f"{round_}{partition}"), partition=partition)
        for time in (1, 1):
            with killed_at(place, time):
                archive_once(spark, bootstrap, tmp_path / "a", topic, max_batch_bytes=SMALL_BATCHES)
        archive_once(spark, bootstrap, tmp_path / "a", topic, max_batch_bytes=SMALL_BATCHES)
        assert archive_rows(tmp_path / "a") == all_rows(bootstrap, **{topic: 2})


def test_one_that_was_thought_dead_adds_nothing(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has planned a batch when another run takes the archive over, as if no lock had kept them apart."""
    monkeypatch.setattr(job, "held", lambda *_, **__: nullcontext())
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    put(bootstrap, topic, small_records(80, "more"))
    late = archiver(spark, bootstrap, tmp_path / "a", topic)
    late._begin()
    planned = [Span(topic, 0, 20, 60)]
    look = look_at(late._cluster, late._settings)
    late._state = replace(late._state, topics=plan(late._state, look, {}).topics)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    with pytest.raises(Superseded):
        late._commit(planned)
    with pytest.raises(Refused, match="Another archiver has taken"):
        late._reload()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)


def test_a_batch_between_the_look_and_the_fence(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is taken over adds its last batch after the new one has looked, before its fence."""
    monkeypatch.setattr(job, "held", lambda *_, **__: nullcontext())
    put(bootstrap, topic, small_records(100))
    first = archiver(spark, bootstrap, tmp_path / "a", topic, max_batch_bytes=SMALL_BATCHES)
    first._begin()
    first._look_and_read()
    second = archiver(spark, bootstrap, tmp_path / "a", topic)
    look = opening.newest_state

    def and_meanwhile(archive: Archive) -> Newest[State] | None:
        seen = look(archive)
        monkeypatch.setattr(opening, "newest_state", look)
        first._look_and_read()
        return seen

    monkeypatch.setattr(opening, "newest_state", and_meanwhile)
    second.run()
    assert first._totals.batches == 2
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)


def begins_no_generation(archive: Archive) -> State:
    """A planted bug: a start that goes on with the numbers of the run before."""
    found = opening.newest_state(archive)
    return take_over(archive) if found is None else found.said


@pytest.mark.long
def test_planted_looking_before_the_fence_is_found(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: the ends are those that the start has seen before its fence."""
    seen: list[Newest[State] | None] = []

    def look(archive: Archive) -> Newest[State] | None:
        seen.append(opening.newest_state(archive))
        return seen[-1]

    def with_what_was_seen(archive: Archive) -> State:
        state = take_over(archive)
        return state if seen[-1] is None else replace(state, topics=seen[-1].said.topics)

    monkeypatch.setattr(job, "newest_state", look)
    monkeypatch.setattr(job, "take_over", with_what_was_seen)
    with pytest.raises(AssertionError):
        test_a_batch_between_the_look_and_the_fence(spark, bootstrap, topic, tmp_path, monkeypatch)


@pytest.mark.long
def test_planted_no_generation_is_found(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "take_over", begins_no_generation)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_one_that_was_thought_dead_adds_nothing(spark, bootstrap, topic, tmp_path, monkeypatch)


@pytest.mark.long
def test_planted_ends_out_of_the_copy_are_found(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A planted bug: what lies beside the table decides, and not the table."""

    def from_the_copy(archive: Archive) -> Newest[State] | None:
        kept = parse_state(archive.files.read(layout.STATE_FILE)) if archive.records.exists() else None
        return None if kept is None else Newest(Commit(0, None, 0), kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "newest_state", from_the_copy)
        patch.setattr(job, "newest_state", from_the_copy)
        with pytest.raises(AssertionError):
            test_dies_there(spark, bootstrap, new_topic, tmp_path, "archive-before-copy")


def test_a_second_one_is_refused(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    place = layout.ARCHIVER_LOCK
    put(bootstrap, topic, small_records(3))
    with (
        held(Location.of(str(tmp_path / "a")) / place, "An archive job"),
        pytest.raises(Refused, match="already running on this archive: process"),
    ):
        archive_once(spark, bootstrap, tmp_path / "a", topic)
    assert not (tmp_path / "a" / "_delta_log").exists()


@pytest.mark.long
def test_what_became_of_the_directory(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """It is put back from an older copy, moved, loses what lies beside it, is restored, is compacted."""
    archive, moved = tmp_path / "a", tmp_path / "moved"

    def more(seed: str) -> None:
        put(bootstrap, topic, small_records(50, seed))

    def same(where: Path) -> None:
        archive_once(spark, bootstrap, where, topic)
        assert archive_rows(where) == topic_rows(bootstrap, topic)

    more("1")
    same(archive)
    shutil.copytree(archive, tmp_path / "copy")
    more("2")
    same(archive)
    shutil.rmtree(archive)
    shutil.copytree(tmp_path / "copy", archive)
    same(archive)

    more("3")
    archive.rename(moved)
    same(moved)

    shutil.rmtree(moved / "_pipeline")
    more("4")
    same(moved)

    before = spark.sql(f"DESCRIBE HISTORY delta.`{moved}` LIMIT 1").first()
    more("5")
    same(moved)
    assert before is not None
    spark.sql(f"RESTORE TABLE delta.`{moved}` TO VERSION AS OF {before['version']}").collect()
    assert len(archive_rows(moved)) == 200
    more("6")
    same(moved)

    spark.sql(f"OPTIMIZE delta.`{moved}`").collect()
    more("7")
    same(moved)


@pytest.mark.long
def test_the_log_was_cleaned_of_all_that_was_said(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Delta forgets commits after 30 days when somebody else commits; then the copy beside the table
    counts."""
    archive = tmp_path / "a"
    put(bootstrap, topic, small_records(40))
    archive_once(spark, bootstrap, archive, topic)
    older = (archive / layout.STATE_FILE).read_text()
    put(bootstrap, topic, small_records(40, "more"))
    archive_once(spark, bootstrap, archive, topic)
    (archive / layout.STATE_FILE).write_text(older)
    for _ in range(2):
        spark.sql(f"ALTER TABLE delta.`{archive}` SET TBLPROPERTIES ('a' = 'b')").collect()
    DeltaTable(archive).create_checkpoint()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    commits = sorted((archive / "_delta_log").glob("*.json"))
    for commit in commits[:-1]:
        commit.unlink()
        commit.with_suffix(".crc").unlink(missing_ok=True)
    put(bootstrap, topic, small_records(40, "most"))
    archive_once(spark, bootstrap, archive, topic)
    assert archive_rows(archive) == topic_rows(bootstrap, topic)


@pytest.mark.long
def test_restored_to_nothing(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """The copy beside the table is ahead of it then, and does not count."""
    archive = tmp_path / "a"
    put(bootstrap, topic, small_records(40))
    archive_once(spark, bootstrap, archive, topic)
    spark.sql(f"RESTORE TABLE delta.`{archive}` TO VERSION AS OF 0").collect()
    assert archive_rows(archive) == []
    archive_once(spark, bootstrap, archive, topic)
    assert archive_rows(archive) == topic_rows(bootstrap, topic)


def test_a_table_that_is_no_archive(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    put(bootstrap, topic, small_records(3))
    for _ in range(2):
        spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "a"))
    with pytest.raises(Refused, match="none of its commits is an archiver's"):
        archive_once(spark, bootstrap, tmp_path / "a", topic)
    archive_once(spark, bootstrap, tmp_path / "b", topic)
    shutil.rmtree(tmp_path / "b" / "_delta_log")
    with pytest.raises(Refused, match="Restore the whole directory"):
        archive_once(spark, bootstrap, tmp_path / "b", topic)
