"""How far an archive is when its log no longer says it: out of the copy beside the table, and the table's
rows.

Delta cleans its log of what is older than 30 days when somebody commits. An archive whose archiver rested so
long while others compacted it has no commit left that says anything. The copy (`_pipeline/state.json`) is
never ahead of the table, unless rows were taken out by a RESTORE; what it does not have yet is seen by the
rows. Whatever cannot be told from these is refused: going on from a guess would lose or double records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dafka_pipeline.failures import Refused
from dafka_pipeline.table import layout
from dafka_pipeline.table.numbered import Newest
from dafka_pipeline.table.state import State, TopicEnds, parse_state

if TYPE_CHECKING:
    from dafka_pipeline.table.archive import Archive

Place = tuple[str, str | None, int]
PLACE = ("topic", "topic_id", "partition", "offset")


def kept_state(archive: Archive) -> Newest[State] | None:
    """The state of a table without a commit in force that says it; None for one that has no rows, and begins.

    Raises Refused where it cannot be told.
    """
    commits = list(archive.records.commits())
    if commits[-1].version == 0 and not any(commit.files for commit in commits):
        return None
    if not set(PLACE) <= set(archive.read().columns):
        raise _of_somebody_else(archive)
    there = _last_offsets(archive)
    kept = parse_state(archive.files.read(layout.STATE_FILE))
    restored = any(commit.restored is not None for commit in commits)
    if kept is None or restored:
        if not there:
            return None
        if archive.records.last_number() <= 0:
            raise _of_somebody_else(archive)
        raise Refused(
            f"{archive.location} has rows, and its log does not say any more how far it is. Archive to "
            "another directory, and keep this one."
        )
    return Newest(commits[0], at_least(kept, there))


def _of_somebody_else(archive: Archive) -> Refused:
    return Refused(
        f"{archive.location} is a Delta table, but none of its commits is an archiver's. Give another "
        "directory."
    )


def at_least(kept: State, there: Mapping[Place, int]) -> State:
    """`kept`, moved on to the rows that are there: the last offset of each partition.

    Raises Refused for rows of a topic or partition that it does not know.
    """
    known = {
        (name, topic.topic_id, partition)
        for name, topic in kept.topics.items()
        for partition in range(len(topic.ends))
    }
    lives = {(name, topic.topic_id) for name, topic in kept.topics.items()}
    unknown = sorted(
        f"{topic}/{partition}"
        for topic, topic_id, partition in there
        # Earlier topics of a name are not read any more, and need no ends.
        if (topic, topic_id, partition) not in known and (topic, topic_id) in lives | _new(kept, there)
    )
    if unknown:
        raise Refused(
            f"The copy of the archive's state ({layout.STATE_FILE}) does not know {', '.join(unknown[:10])}, "
            "of which there are rows, and the table's log does not say any more how far they are. Archive to "
            "another directory, and keep this one."
        )

    def moved(name: str, topic: TopicEnds) -> TopicEnds:
        ends = [
            max(end, there.get((name, topic.topic_id, partition), -1) + 1)
            for partition, end in enumerate(topic.ends)
        ]
        return replace(topic, ends=tuple(ends))

    return replace(kept, topics={name: moved(name, topic) for name, topic in kept.topics.items()})


def _new(kept: State, there: Mapping[Place, int]) -> set[tuple[str, str | None]]:
    """Topics whose name the copy does not know at all."""
    return {(topic, topic_id) for topic, topic_id, _ in there if topic not in kept.topics}


def _last_offsets(archive: Archive) -> Mapping[Place, int]:
    rows = archive.read().groupBy("topic", "topic_id", "partition").agg({"offset": "max"}).collect()
    return {(row["topic"], row["topic_id"], row["partition"]): row["max(offset)"] for row in rows}
