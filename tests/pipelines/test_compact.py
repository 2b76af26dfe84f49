"""Few large files with the same rows; erased records gone from everywhere, and never read again."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from dafka_pipeline.compact import job as compacting
from dafka_pipeline.compact.job import compact
from dafka_pipeline.decode.formats import Format
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from tests.clients.stored import put
from tests.differential.batches import Record
from tests.pipelines.archiving import archive_once
from tests.pipelines.dumps import archive_rows, delta_dicts, topic_rows

pytestmark = [pytest.mark.slow, pytest.mark.matrix]
WEEK = 7 * 86400.0


def run(spark: SparkSession, where: Path, *, erase: str = "", retain: float = WEEK) -> compacting.Compacted:
    archive = Archive(spark, Location.of(str(where)))
    return compact(archive, retain, erase, Report("compact", out=io.StringIO()), Stop())


def files_on_disk(where: Path) -> list[Path]:
    """The table's own: not its log's, nor those of the tables beside it."""
    paths = (path.relative_to(where) for path in where.rglob("*.parquet"))
    return sorted(path for path in paths if not path.parts[0].startswith("_"))


def test_closed_days_and_old_files(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Today's files stay as they are; tomorrow they are compacted; a reader of an older version reads on."""
    archive = tmp_path / "a"
    for n in range(3):
        put(bootstrap, topic, [Record(b"%d %d" % (n, i)) for i in range(20)])
        archive_once(spark, bootstrap, archive, topic)
    assert run(spark, archive).days == []
    reader = DeltaTable(archive)
    monkeypatch.setattr(compacting, "today", lambda: datetime.now(UTC).date() + timedelta(days=1))
    assert [(day.topic, day.files) for day in run(spark, archive).days] == [(topic, 3)]
    assert len(DeltaTable(archive).file_uris()) == 1
    assert reader.to_pyarrow_table().num_rows == 60
    assert len(files_on_disk(archive)) == 4, "three that older versions need, and one"
    assert archive_rows(archive) == topic_rows(bootstrap, topic)
    run(spark, archive, retain=0.0)
    assert len(files_on_disk(archive)) == 1
    put(bootstrap, topic, [Record(b"more")])
    archive_once(spark, bootstrap, archive, topic, compact_after_days=0.0)
    assert archive_rows(archive) == topic_rows(bootstrap, topic)


def test_erase(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """One person's records, the log's last ones among them: from all tables, and from the disk."""
    archive = tmp_path / "a"
    secret = [(n % 5 in {1, 2}) or n >= 17 for n in range(20)]
    put(
        bootstrap,
        topic,
        [
            Record(
                b'{"id": %d}' % n if n % 2 else b"SECRET" if secret[n] else b"bad",
                b"anna" if secret[n] else b"bob",
            )
            for n in range(20)
        ],
    )
    how = Format("json", "id BIGINT")
    archive_once(spark, bootstrap, archive, topic, decode=how)
    condition = "CAST(key AS STRING) = 'anna'"
    with pytest.raises(UsageFailure, match=r"--erase no such column.*The columns are"):
        run(spark, archive, erase="no such column")
    assert run(spark, archive, erase=condition).erased == sum(secret)
    kept = [row for row in topic_rows(bootstrap, topic) if not secret[row.offset]]
    for _ in range(2):
        assert archive_rows(archive) == kept
        decoded = delta_dicts(archive / "_decoded" / topic)
        dead = delta_dicts(archive / "_dead_letters")
        assert sorted(row["offset"] for row in decoded) == [row.offset for row in kept if row.offset % 2]
        assert sorted(row["offset"] for row in dead) == [row.offset for row in kept if not row.offset % 2]
        runs = [(row["first_offset"], row["end_offset"]) for row in delta_dicts(archive / "_gaps")]
        assert sorted(n for run_ in runs for n in range(*run_)) == [n for n in range(20) if secret[n]]
        # A later run of the archive reads none of them again.
        archive_once(spark, bootstrap, archive, topic, decode=how)
    assert files_on_disk(archive)
    for file in archive.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            assert b"anna" not in file.read_bytes(), file
    assert run(spark, archive, erase=condition).erased == 0
