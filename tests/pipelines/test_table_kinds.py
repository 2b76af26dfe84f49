"""An archive is the same whether it is kept as Delta or as plain Parquet, on a disk or in a file system that
only Hadoop knows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from dafka_pipeline.archive import job
from dafka_pipeline.compact.job import compact
from dafka_pipeline.failures import PipelineError, Refused
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.archive import DELTA, PARQUET, open_archive
from dafka_pipeline.table.delta import DeltaTable as DeltaTableOfOurs
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import FOLDER, DeltaLog, appending
from dafka_pipeline.table.numbered import Superseded
from tests.clients.sample import records, small_records
from tests.clients.stored import put
from tests.pipelines.archiving import all_rows, archive_once, archiver, killed_at
from tests.pipelines.dumps import Row, archive_rows, plain_rows, topic_rows

pytestmark = pytest.mark.slow
BY_HADOOP = pytest.param(True, id="by Hadoop")
ON_DISK = pytest.param(False, id="on disk")


def location(folder: Path, *, by_hadoop: bool) -> Location:
    """A location of no path is reached by Hadoop's file systems alone, as HDFS is."""
    return Location(f"file:{folder}" if by_hadoop else str(folder))


def rows_in(folder: Path, kept_as: str) -> list[Row]:
    return archive_rows(folder) if kept_as == DELTA else plain_rows(folder)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("kept_as", "by_hadoop"),
    [
        pytest.param(DELTA, False, id="Delta on a disk"),
        pytest.param(DELTA, True, id="Delta by Hadoop", marks=pytest.mark.long),
        pytest.param(PARQUET, False, id="Parquet on a disk"),
        pytest.param(PARQUET, True, id="Parquet by Hadoop"),
    ],
)
def test_run_after_run_and_over_deaths(
    spark: SparkSession,
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    kept_as: str,
    *,
    by_hadoop: bool,
) -> None:
    """Small batches of two topics; a death between a batch's files and its commit each time."""
    topics = {new_topic(partitions=2): 2, new_topic(): 1}
    to = location(tmp_path / "a", by_hadoop=by_hadoop)
    how = {"kept_as": kept_as, "max_batch_bytes": 4000}
    for round_ in range(3):
        for topic, partitions in topics.items():
            for partition in range(partitions):
                more = small_records(30, f"{topic}/{partition}/{round_}")
                put(bootstrap, topic, more, partition=partition, per_batch=7)
        if not round_:
            put(bootstrap, topic, records(), per_batch=1)
        with killed_at("table-before-commit", round_ + 1):
            archive_once(spark, bootstrap, to, *topics, **how)
        archive_once(spark, bootstrap, to, *topics, **how)
        assert rows_in(tmp_path / "a", kept_as) == all_rows(bootstrap, **topics)
    assert list((tmp_path / "a").glob("_pipeline/staging/*")) == []
    # It says itself how it is kept.
    assert archive_once(spark, bootstrap, to, *topics).rows == 0
    archive = open_archive(spark, to)
    assert archive.read().count() == len(all_rows(bootstrap, **topics))
    early = archive.records.version() // 2
    assert 0 < archive.read(early).count() < archive.read().count()
    for _ in range(10):
        archive.records.add(archive.read().limit(0))
    assert archive.read().count() == len(all_rows(bootstrap, **topics))


@pytest.mark.parametrize("by_hadoop", [ON_DISK, BY_HADOOP])
@pytest.mark.parametrize("kept_as", [DELTA, PARQUET])
def test_one_that_was_thought_dead(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept_as: str,
    *,
    by_hadoop: bool,
) -> None:
    """Its batch is written when another run takes over: of two commits with one version one is made."""
    monkeypatch.setattr(job, "held", lambda *_, **__: nullcontext())
    to = location(tmp_path / "a", by_hadoop=by_hadoop)
    put(bootstrap, topic, small_records(80))
    late = archiver(spark, bootstrap, to, topic, kept_as=kept_as)
    late._begin()
    module = f"dafka_pipeline.table.{kept_as}"

    def meanwhile(place: str) -> None:
        if place == "table-before-commit":
            monkeypatch.setattr(f"{module}.fail_point", lambda _: None)
            archive_once(spark, bootstrap, to, topic)

    monkeypatch.setattr(f"{module}.fail_point", meanwhile)
    with pytest.raises(Refused, match="Another archiver has taken"):
        late._step()
    assert rows_in(tmp_path / "a", kept_as) == topic_rows(bootstrap, topic)


def test_somebody_else_commits_to_the_table_at_the_same_moment(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is none of ours takes the version: ours is the next one."""
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    put(bootstrap, topic, small_records(20, "more"))
    late = archiver(spark, bootstrap, tmp_path / "a", topic)
    late._begin()
    add = DeltaLog.add
    taken: list[int] = []

    def after_another(log: DeltaLog, version: int, actions: object) -> bool:
        if not taken:
            taken.append(version)
            assert add(log, version, appending([], version - 1, None, ("somebody else's", 7)))
        return add(log, version, actions)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaLog, "add", after_another)
    late._step()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)
    said = [commit.said for commit in open_archive(spark, late._settings.to).records.commits(2)]
    assert [one is not None for one in said] == [True, False]


@pytest.mark.matrix
def test_features_that_only_delta_knows(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Whoever switches one on makes the table Delta's to write to; numbers still count."""
    place = tmp_path / "a"
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, place, topic)
    late = archiver(spark, bootstrap, place, topic)
    late._begin()
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    put(bootstrap, topic, small_records(20, "more"))
    while late._step():
        pass
    put(bootstrap, topic, small_records(20, "most"))
    archive_once(spark, bootstrap, place, topic)
    assert archive_rows(place) == topic_rows(bootstrap, topic)
    with pytest.raises(Superseded):
        late._archive.records.append(None, late._state.number, "late")


@pytest.mark.matrix
def test_what_a_reader_of_the_log_is_told(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Rows and bounds of each file are those of its rows; a checkpoint says the same as the commits."""
    topic = new_topic(partitions=3)
    for round_ in range(12):
        put(bootstrap, topic, small_records(9, str(round_)), partition=round_ % 3)
        archive_once(spark, bootstrap, tmp_path / "a", topic)
    table = DeltaTable(tmp_path / "a")
    told = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert len(told) == 12
    for file in told:
        frame = spark.read.parquet(str(tmp_path / "a" / unquote(file["path"])))
        lows_and_highs = frame.selectExpr(
            *(f"{pick}({name})" for name in ("partition", "offset", "timestamp") for pick in ("min", "max"))
        ).first()
        assert lows_and_highs is not None
        partition, offset, time = (
            (file[f"min.{n}"], file[f"max.{n}"]) for n in ("partition", "offset", "timestamp")
        )
        assert tuple(lows_and_highs)[:4] == (*partition, *offset)
        assert [one.replace(tzinfo=None) for one in lows_and_highs[4:]] == [
            one.replace(tzinfo=None) for one in time
        ]
        assert file["num_records"] == frame.count() == 9
    names = {path.name for path in (tmp_path / "a" / FOLDER).iterdir()}
    assert [name for name in names if name.endswith("10.checkpoint.parquet")], names
    for path in (tmp_path / "a" / FOLDER).glob("*000[0-9].json"):
        path.unlink()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic, 3)


def test_plain_parquet_is_not_rewritten(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, tmp_path / "a", topic, kept_as=PARQUET)
    with pytest.raises(Refused, match="kept as parquet: leave --format out"):
        archive_once(spark, bootstrap, tmp_path / "a", topic, kept_as=DELTA)
    for erasing in ("", "offset = 3"):
        with pytest.raises(Refused, match="only an archive in Delta can be compacted"):
            compact(
                open_archive(spark, Location(str(tmp_path / "a"))), 0.0, erasing, Report("compact"), Stop()
            )
    assert not (tmp_path / "a" / "_gaps").exists(), "nothing is remembered as erased"
    with pytest.raises(Refused, match="no such step"):
        archive_once(spark, bootstrap, Location("s3a://nowhere/a"), topic, kept_as=PARQUET)


def test_a_batch_of_plain_parquet_that_is_gone(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, tmp_path / "a", topic, kept_as=PARQUET)
    batches = sorted((tmp_path / "a").glob("batch=*"))
    kept = batches[1].rename(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="lacks batch=000000000001, and has later ones"):
        archive_once(spark, bootstrap, tmp_path / "a", topic)
    kept.rename(batches[1])
    assert archive_once(spark, bootstrap, tmp_path / "a", topic).rows == 0


@pytest.mark.parametrize("kept_as", [DELTA, PARQUET])
def test_files_that_are_not_seen_from_here(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept_as: str,
) -> None:
    """As where each worker writes to a disk of its own: nothing is committed, nothing is skipped."""
    put(bootstrap, topic, small_records(20))
    below = Files.below
    monkeypatch.setattr(Files, "below", lambda *_: [])
    with pytest.raises(PipelineError, match=r"20 rows to .*, and 0 of them are seen from here"):
        archive_once(spark, bootstrap, tmp_path / "a", topic, kept_as=kept_as)
    monkeypatch.setattr(Files, "below", below)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    assert rows_in(tmp_path / "a", kept_as) == topic_rows(bootstrap, topic)


def test_a_fence_between_a_late_ones_two_looks(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The late one has looked whether its number counts; then another run begins; then it commits."""
    monkeypatch.setattr(job, "held", lambda *_, **__: nullcontext())
    put(bootstrap, topic, small_records(80))
    late = archiver(spark, bootstrap, tmp_path / "a", topic)
    late._begin()
    add = DeltaLog.add

    def meanwhile(log: DeltaLog, version: int, actions: object) -> bool:
        monkeypatch.setattr(DeltaLog, "add", add)
        archive_once(spark, bootstrap, tmp_path / "a", topic)
        return add(log, version, actions)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaLog, "add", meanwhile)
    with pytest.raises(Refused, match="Another archiver has taken"):
        late._step()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)


def test_restored_while_it_runs(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    place = tmp_path / "a"
    put(bootstrap, topic, small_records(20))
    running = archiver(spark, bootstrap, place, topic)
    running._begin()
    while running._step():
        pass
    spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF 2").collect()
    put(bootstrap, topic, small_records(20, "more"))
    running._goal = None
    with pytest.raises(Refused, match="was restored to an older version, or put back from a copy, while"):
        running._step()
    archive_once(spark, bootstrap, place, topic)
    assert archive_rows(place) == topic_rows(bootstrap, topic)


def test_put_back_from_a_copy_while_it_runs(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """The copy ends before what the job has archived since: going on from there would skip records."""
    place = tmp_path / "a"
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, place, topic)
    shutil.copytree(place, tmp_path / "copy")
    running = archiver(spark, bootstrap, place, topic)
    running._begin()
    put(bootstrap, topic, small_records(20, "more"))
    running._goal = None
    running._step()
    shutil.rmtree(place)
    (tmp_path / "copy").rename(place)
    put(bootstrap, topic, small_records(20, "most"))
    with pytest.raises(Refused, match="put back from a copy, while this job ran"):
        running._step()
    archive_once(spark, bootstrap, place, topic)
    assert archive_rows(place) == topic_rows(bootstrap, topic)


def test_what_a_killed_task_left_goes_with_a_compaction(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """VACUUM passes over hidden names: somebody's records would stay on the disk after their erasure."""
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    left = tmp_path / "a" / "batch-0/archived_on=2026-01-01/_temporary/0/task_1/part-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"records")
    compact(open_archive(spark, Location(str(tmp_path / "a"))), 0.0, "", Report("compact"), Stop())
    assert not (tmp_path / "a" / "batch-0").exists()
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)


@pytest.mark.parametrize("kept_as", [DELTA, PARQUET])
def test_a_directory_of_an_odd_name(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, kept_as: str
) -> None:
    place = tmp_path / "a[1] {b}* `"
    put(bootstrap, topic, small_records(20))
    archive_once(spark, bootstrap, place, topic, kept_as=kept_as)
    assert rows_in(place, kept_as) == topic_rows(bootstrap, topic)
    assert open_archive(spark, Location(str(place))).read().count() == 20


def test_columns_that_the_oldest_protocol_has_not(spark: SparkSession, tmp_path: Path) -> None:
    """Delta makes such a table, and writes to it."""
    table = DeltaTableOfOurs(spark, Location(str(tmp_path / "t")), "app")
    frame = spark.sql("SELECT struct(TIMESTAMP_NTZ '2026-01-01 00:00:00' AS at) AS value")
    table.create(frame.schema)
    table.append(frame, 1, "said")
    with pytest.raises(Superseded):
        table.append(frame, 1, "said again")
    assert table.read().count() == 1
    assert table.last_number() == 1
