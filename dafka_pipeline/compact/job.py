"""The compact job: closed days, erasures, old files, under the archive's lock for commits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dafka_pipeline.compact.erase import Committing, erase
from dafka_pipeline.compact.files import Day, compact_days, vacuum
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.lock import held


@dataclass(frozen=True)
class Compacted:
    """What was done: days of topics that have fewer files now, and records that were erased."""

    days: list[Day]
    erased: int


def today() -> date:
    """The day that archivers write to now; it is not closed."""
    return datetime.now(UTC).date()


def compact(archive: Archive, retain_seconds: float, erasing: str, report: Report, stop: Stop) -> Compacted:
    """Compact every closed day, erase what is asked for, remove files that are older than `retain_seconds`.

    It may run beside an archiver: each commit waits for the archiver's batch, and the other way round.
    Raises UsageFailure for a condition that is none.
    """

    @contextmanager
    def committing() -> Iterator[None]:
        with held(archive.location / layout.COMMIT_LOCK, "A compaction", wait=True):
            yield

    erased = erase(archive, erasing, committing) if erasing else 0
    if erasing:
        report.say(f"Erased {erased:,} records.", erased=erased)
    began = time.monotonic()
    days = compact_days(archive.spark, archive.records, today(), committing, stop)
    for day in days:
        report.say(f"Compacted {day.files} files of {day.topic}, {day.archived_on}.")
    if not stop.asked:
        vacuum(archive.spark, archive.records, retain_seconds, committing)
    report.say(f"{len(days)} days of topics in {time.monotonic() - began:.0f} s.")
    return Compacted(days, erased)


def compact_older_than(
    archive: Archive, days: float, committing: Committing, report: Report, stop: Stop
) -> None:
    """What an archiver does between batches: closed days that are so old."""
    before = today() - timedelta(days=days) + timedelta(days=1)
    for day in compact_days(archive.spark, archive.records, min(before, today()), committing, stop):
        report.say(f"Compacted {day.files} files of {day.topic}, {day.archived_on}.")
