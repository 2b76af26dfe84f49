"""A start: a new generation that shuts out whoever is still at work on the archive, then how far it is."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from dafka_pipeline.failures import Refused
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.delta import Newest
from dafka_pipeline.table.state import Fence, State, TopicEnds, generation_of, parse_run, parse_state


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
    found = archive.records.newest(parse_state)
    return found if found is not None else _from_copy(archive)


def take_over(archive: Archive) -> State:
    """Begin a generation, and find how far the table is: the next batch's commit says both.

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
    return before.started_by(fence)


def is_ours(archive: Archive, run: str) -> bool:
    """Whether nobody has begun a later generation than this run."""
    newest = archive.records.newest(parse_run)
    return newest is not None and newest.said == run


def _from_copy(archive: Archive) -> Newest[State] | None:
    """The state out of its copy beside the table, where the table's log no longer goes back to one.

    Delta cleans its log of what is older than 30 days when somebody commits. The copy is never ahead of the
    table, and what it does not have yet is seen by the table's rows.
    """
    newest = next(archive.records.commits(1))
    kept = parse_state(archive.files.read(layout.STATE_FILE))
    if kept is not None:
        return Newest(newest, _at_least(kept, _last_offsets(archive)))
    if archive.records.last_number() or newest.version == 0:
        return None  # a first start that was killed before its first state
    raise Refused(
        f"{archive.location} is a Delta table, but none of its commits is an archiver's. Give another "
        "directory."
    )


def _last_offsets(archive: Archive) -> Mapping[tuple[str, str | None, int], int]:
    rows = archive.read().groupBy("topic", "topic_id", "partition").agg({"offset": "max"}).collect()
    return {(row["topic"], row["topic_id"], row["partition"]): row["max(offset)"] for row in rows}


def _at_least(kept: State, there: Mapping[tuple[str, str | None, int], int]) -> State:
    def moved(name: str, topic: TopicEnds) -> TopicEnds:
        ends = [
            max(end, there.get((name, topic.topic_id, partition), -1) + 1)
            for partition, end in enumerate(topic.ends)
        ]
        return replace(topic, ends=tuple(ends))

    return replace(kept, topics={name: moved(name, topic) for name, topic in kept.topics.items()})
