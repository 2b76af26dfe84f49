"""A start: a new generation that shuts out whoever is still at work on the archive, then how far it is."""

from __future__ import annotations

import uuid

from dafka_pipeline.failures import Refused
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.delta import Newest
from dafka_pipeline.table.state import Fence, State, generation_of, parse_run


def newest_state(archive: Archive) -> Newest[State] | None:
    """What the archive's newest commit in force says; None where there is none yet.

    Raises Refused for a Delta table that is no archive, and for a directory whose table is gone.
    """
    if not archive.records.exists():
        if archive.files.exists(layout.STATE_FILE):
            raise Refused(
                f"{archive.location} has {layout.PIPELINE}/, but its table (_delta_log) is gone. Restore the "
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
    archive.records.append(archive.nothing(), fence.number, fence.to_json())
    fail_point("archive-after-fence")
    # Only now is it certain that nobody adds a batch behind our back.
    found = newest_state(archive)
    before = State(identity, fence.generation, run) if found is None else found.said
    state = before.started_by(fence)
    archive.records.append(archive.nothing(), state.number, state.to_json())
    return state


def is_ours(archive: Archive, run: str) -> bool:
    """Whether nobody has begun a later generation than this run."""
    newest = archive.records.newest(parse_run)
    return newest is not None and newest.said == run
