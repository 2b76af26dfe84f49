"""The compact job: closed days, erasures, old files, under the archive's lock for commits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dafka_pipeline.compact.erase import Committing, erase
from dafka_pipeline.compact.files import SAFE_SECONDS, Day, compact_days, vacuum
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.delta import as_delta
from dafka_pipeline.table.lock import held


@dataclass(frozen=True)
class Compacted:
    """What was done: days of topics that have fewer files now, and records that were erased."""

    days: list[Day]
    erased: int


def today() -> date:
    """The day that archivers write to now; it is not closed."""
    return datetime.now(UTC).date()


def compact(
    archive: Archive, retain_seconds: float, erasing: str, report: Report, stop: Stop, *, alone: bool = False
) -> Compacted:
    """Compact every closed day, erase what is asked for, remove files that are older than `retain_seconds`.

    It may run beside an archiver: each commit waits for the archiver's batch, and the other way round.
    alone: the caller knows that no archive job runs; asked for where there is no lock that would tell.
    Raises Refused for an archive in plain Parquet;
    UsageFailure for a condition that is none, and where files of a running archiver could be removed.
    """
    as_delta(archive.records)
    if archive.location.path is None and not alone and (erasing or retain_seconds < SAFE_SECONDS):
        raise UsageFailure(
            f"{archive.location} has no lock that would keep an archive job away, and removing files "
            "younger than a day could remove those of a batch in progress. Stop the archive job, and give "
            "--alone."
        )

    @contextmanager
    def committing() -> Iterator[None]:
        with held(archive.location / layout.COMMIT_LOCK, "A compaction", stop=stop, say=report.say):
            yield

    # Where there is a lock, no batch is in work while it is held.
    sole = alone or archive.location.path is not None
    erased = erase(archive, erasing, committing) if erasing else 0
    if erasing:
        report.say(f"Erased {erased:,} records.", erased=erased)
    began = time.monotonic()
    days = compact_days(archive.spark, archive.records, today(), committing, stop)
    for day in days:
        report.say(f"Compacted {day.files} files of {day.topic}, {day.archived_on}.")
    if not stop.asked:
        vacuum(archive.spark, archive.records, retain_seconds, committing, alone=sole)
    report.say(f"{len(days)} days of topics in {time.monotonic() - began:.0f} s.")
    return Compacted(days, erased)


def compact_older_than(
    archive: Archive, days: float, committing: Committing, report: Report, stop: Stop
) -> None:
    """What an archiver does between batches: closed days that are so old."""
    before = today() - timedelta(days=days) + timedelta(days=1)
    for day in compact_days(archive.spark, archive.records, min(before, today()), committing, stop):
        report.say(f"Compacted {day.files} files of {day.topic}, {day.archived_on}.")
