"""A start: a new generation that shuts out whoever is still at work on the archive, then how far it is."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from dafka_pipeline.archive.settings import ArchiveSettings
from dafka_pipeline.failures import Refused
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import DELTA, PARQUET, Archive
from dafka_pipeline.table.numbered import Newest
from dafka_pipeline.table.state import Fence, State, generation_of, parse_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive_to(spark: SparkSession, settings: ArchiveSettings) -> Archive:
    """The archive that a job writes to, there or not.

    Raises Refused for one that is kept otherwise than asked for, or cannot be kept so where it is.
    """
    if settings.kept_as == PARQUET and not settings.to.renames_at_once:
        raise Refused(
            f"{settings.to} cannot be kept as plain Parquet: a batch comes to its place by renaming a "
            "directory in one step, and this file system has no such step. Leave --format out."
        )
    archive = Archive(spark, settings.to, settings.kept_as or DELTA)
    if settings.kept_as not in {None, archive.kept_as}:
        raise Refused(
            f"{settings.to} is kept as {archive.kept_as}: leave --format out, or give another directory."
        )
    return archive


def newest_state(archive: Archive) -> Newest[State] | None:
    """What the archive's newest commit in force says; None where there is none yet.

    Raises Refused for a Delta table that is no archive, and for a directory whose table is gone.
    """
    if not archive.records.exists():
        if archive.files.exists(layout.STATE_FILE):
            raise Refused(
                f"{archive.location} has {layout.PIPELINE}/, but its table is gone. Restore the "
                "whole directory from a copy, or archive to another one."
            )
        return None
    return archive.newest()


def take_over(archive: Archive) -> State:
    """Begin a generation, and say in its first commit how far the table is.

    Raises Superseded when somebody else begins one at the same moment.
    """
    run = uuid.uuid4().hex
    found = newest_state(archive)
    if found is None:
        archive.records.create(layout.SCHEMA, layout.PARTITIONED_BY, layout.WITH_STATISTICS)
    identity = uuid.uuid4().hex if found is None else found.said.archive
    fence = Fence(identity, generation_of(archive.records.last_number()) + 1, run)
    archive.records.append(None, fence.number, fence.to_json())
    fail_point("archive-after-fence")
    archive.tidy()
    # Only now is it certain that nobody adds a batch behind our back.
    found = newest_state(archive)
    before = State(identity, fence.generation, run) if found is None else found.said
    state = before.started_by(fence)
    archive.records.append(None, state.number, state.to_json())
    return state


def is_ours(archive: Archive, run: str) -> bool:
    """Whether nobody has begun a later generation than this run."""
    newest = archive.records.newest(parse_run)
    return newest is not None and newest.said == run
