"""An archive as a side: one version of its table, and how far that version says that it goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from dafka_pipeline.audit.coverage import Kept
from dafka_pipeline.audit.lives import Beginnings, Life, beginnings, ends_of, strays
from dafka_pipeline.audit.sides import ARCHIVE, COLUMNS, Side, either, within
from dafka_pipeline.failures import Refused, UsageFailure
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.numbered import newest_in
from dafka_pipeline.table.state import State, parse_state

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LOOK_BACK: Final = 1024
"""Commits that are looked at for the state and for where partitions begin, before all are."""


def archive_side(
    spark: SparkSession,
    location: Location,
    topics: Collection[str] = (),
    *,
    version: int | None = None,
    names: Mapping[str, str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
) -> Side:
    """A version of an archive, the newest by default; of any other Delta table with its columns, too.

    topics: which; all by default.
    names: what a topic is called here, by the name that both sides are compared by, where they differ.
    topic_ids: which life of a topic, by its own name here; the newest by default.
    Raises Refused where there is no table, UsageFailure where it has no such version or life.
    """
    archive = Archive(spark, location)
    if not archive.records.exists():
        raise Refused(f"There is no archive at {location}.")
    commits = _commits(archive, version)
    at = commits[0].version
    state = _state(archive, commits)
    began = beginnings(commits)
    frame = _frame(archive, at, with_ids=state is not None)
    # What the commits say needs no look at the rows, except for those that they do not account for.
    accounted = state is not None and began.complete and not topic_ids
    lives = _lives(frame.where(_outside(state)) if accounted and state is not None else frame)
    ids = {life.topic: life.topic_id for life in lives} if state is None else {}
    ids |= {name: one.topic_id for name, one in state.topics.items()} if state is not None else {}
    ids |= _there(topic_ids or {}, lives)
    own = {topic: (names or {}).get(topic, topic) for topic in topics or sorted(ids)}
    own = {topic: name for topic, name in own.items() if name in ids}
    kept = {
        TopicPartition(topic, number): span
        for topic, name in own.items()
        for number, span in _kept(name, ids[name], state, lives, began).items()
    }
    return Side(
        name=f"{location}@{at}",
        kind=ARCHIVE,
        topics=own,
        kept=kept,
        records=partial(_records, frame, own, ids),
        pin={"archive": str(location), "version": at, "topics": _pin(own, ids, kept)},
        lags=state is not None,
        gaps=_gaps(archive, own, ids),
        strays={} if state is None else _strays(frame, own, ids, state, lives),
        notes=tuple(_notes(location, own, ids, state, lives, began)),
    )


def _commits(archive: Archive, version: int | None) -> list[Commit]:
    """Those up to the version, newest first."""
    newest = archive.records.version()
    if version is None:
        version = newest
    if version > newest or version < 0:
        raise UsageFailure(f"{archive.location} has no version {version}: its newest is {newest}.")
    commits: list[Commit] = []
    for limit in (newest - version + LOOK_BACK, None):
        commits = [commit for commit in archive.records.commits(limit) if commit.version <= version]
        if _has_state(commits) or (commits and commits[-1].version == 0):
            return commits
    if not commits:
        raise UsageFailure(f"The log of {archive.location} does not go back to version {version} any more.")
    return commits


def _has_state(commits: Collection[Commit]) -> bool:
    return newest_in(commits, parse_state) is not None


def _state(archive: Archive, commits: Sequence[Commit]) -> State | None:
    """What the version says; where its log no longer goes back so far, what is kept beside the newest one.

    Raises Refused when an older version no longer says how far it went.
    """
    found = newest_in(commits, parse_state)
    if found is not None:
        return found.said
    kept = parse_state(archive.files.read(layout.STATE_FILE))
    if kept is not None and commits[0].version != archive.records.version():
        raise Refused(
            f"The log of {archive.location} does not go back far enough to say how far version "
            f"{commits[0].version} went: audit a newer one."
        )
    return kept


def _frame(archive: Archive, version: int, *, with_ids: bool) -> DataFrame:
    """The rows with their `topic_id`, which is null where the table has none or is no archive."""
    frame = archive.read(version)
    lacking = sorted({*COLUMNS} - {*frame.columns})
    if lacking:
        raise Refused(f"{archive.location} is no archive: it has no column {', '.join(lacking)}.")
    if with_ids and "topic_id" in frame.columns:
        return frame.select(*COLUMNS, "topic_id")
    return frame.selectExpr(*COLUMNS, "cast(NULL AS STRING) AS topic_id")


def _outside(state: State) -> Column:
    """Whether the state does not tell of a row: it is of an older life of a topic, or behind its end."""
    from pyspark.sql import functions as sql

    topic_id, partition, offset = sql.col("topic_id"), sql.col("partition"), sql.col("offset")
    topics = []
    for name, one in sorted(state.topics.items()):
        other = ~topic_id.eqNullSafe(sql.lit(one.topic_id))
        behind = [(partition == number) & (offset >= end) for number, end in enumerate(one.ends)]
        topics.append((sql.col("topic") == name) & (other | (partition >= len(one.ends)) | either(behind)))
    return either(topics)


def _lives(frame: DataFrame) -> list[Life]:
    """What there is of each life of a topic: one pass over four columns."""
    from pyspark.sql import functions as sql

    found = frame.groupBy("topic", "topic_id", "partition").agg(
        sql.count(sql.lit(1)), sql.min("offset"), sql.max("offset")
    )
    return sorted((Life(*row) for row in found.collect()), key=lambda life: (life.topic, life.topic_id or ""))


def _there(topic_ids: Mapping[str, str], lives: Iterable[Life]) -> Mapping[str, str]:
    """The same; raises UsageFailure for a life that has no row."""
    for name, asked in topic_ids.items():
        there = sorted({life.topic_id or "none" for life in lives if life.topic == name})
        if asked not in there:
            raise UsageFailure(
                f"--topic-id {name}={asked}: the archive has no record of that topic. Of {name} it has "
                f"{', '.join(there) or 'nothing'}."
            )
    return topic_ids


def _kept(
    name: str, topic_id: str | None, state: State | None, lives: Collection[Life], began: Beginnings
) -> dict[int, Kept]:
    """What the version has of one topic's partitions. A table that is no archive has all that there is."""
    those = [life for life in lives if life.topic == name and life.topic_id == topic_id]
    ends = ends_of(those, None if state is None else state.topics.get(name), topic_id)
    if state is None:
        return {number: Kept(0, end) for number, end in ends.items()}
    firsts = {life.partition: life.first for life in those}
    starts = {n: began.of(name, topic_id, n, firsts.get(n, end)) for n, end in ends.items()}
    return {number: Kept(min(starts[number], end), end, True) for number, end in ends.items()}


def _strays(
    frame: DataFrame,
    own: Mapping[str, str],
    ids: Mapping[str, str | None],
    state: State,
    lives: Collection[Life],
) -> dict[TopicPartition, int]:
    """How many records lie behind the end of their partition. There are none where nobody else wrote."""
    found = {}
    for topic, name in own.items():
        those = [life for life in lives if life.topic == name and life.topic_id == ids[name]]
        for number, end in strays(those, ends_of(those, state.topics.get(name), ids[name])).items():
            rows = frame.where(_is_life(name, ids[name])).where(f"partition = {number} AND offset >= {end}")
            found[TopicPartition(topic, number)] = rows.count()
    return found


def _is_life(name: str, topic_id: str | None) -> Column:
    from pyspark.sql import functions as sql

    return (sql.col("topic") == name) & sql.col("topic_id").eqNullSafe(sql.lit(topic_id))


def _records(
    frame: DataFrame, own: Mapping[str, str], ids: Mapping[str, str | None], spans: Sequence[Span]
) -> DataFrame:
    """The records of spans, under the names by which they are compared."""
    from pyspark.sql import functions as sql

    topic = sql.col("topic")
    lives = [_is_life(name, ids[name]) for name in sorted({own[span.topic] for span in spans})]
    here = [span._replace(topic=own[span.topic]) for span in spans]
    found = frame.where(within(here)).where(either(lives)).select(*COLUMNS)
    renamed = {name: called for called, name in own.items() if called != name}
    if renamed:
        pairs = [sql.lit(text) for pair in renamed.items() for text in pair]
        found = found.withColumn("topic", sql.coalesce(sql.create_map(*pairs)[topic], topic))
    return found


def _gaps(archive: Archive, own: Mapping[str, str], ids: Mapping[str, str | None]) -> DataFrame | None:
    """What the archive is known not to have of these lives."""
    from pyspark.sql import functions as sql

    if not archive.gaps.exists():
        return None
    frame = archive.gaps.read(archive.gaps.version())
    lives = archive.spark.createDataFrame(
        [(topic, name, ids[name]) for topic, name in own.items()], "called STRING, name STRING, id STRING"
    )
    same = (frame["topic"] == lives["name"]) & frame["topic_id"].eqNullSafe(lives["id"])
    found = frame.join(sql.broadcast(lives), same).where("first_offset < end_offset")
    return found.selectExpr("called AS topic", "partition", "first_offset", "end_offset", "reason").distinct()


def _pin(
    own: Mapping[str, str], ids: Mapping[str, str | None], kept: Mapping[TopicPartition, Kept]
) -> dict[str, object]:
    return {
        topic: {
            "name": name,
            "id": ids[name],
            "offsets": {
                str(at.partition): list(one[:2]) for at, one in sorted(kept.items()) if at.topic == topic
            },
        }
        for topic, name in sorted(own.items())
    }


def _notes(
    location: Location,
    own: Mapping[str, str],
    ids: Mapping[str, str | None],
    state: State | None,
    lives: Collection[Life],
    began: Beginnings,
) -> list[str]:
    if state is None:
        return [f"{location} has no commit of an archive job: it is taken to hold all that there is."]
    said = []
    for name in sorted(set(own.values())):
        for other in sorted(
            {life.topic_id or "" for life in lives if life.topic == name} - {ids[name] or ""}
        ):
            rows = sum(life.rows for life in lives if (life.topic, life.topic_id or "") == (name, other))
            said.append(
                f"{name} was deleted and made again: {rows:,} records of the topic with the id "
                f"{other or '(none)'} are in {location} and are not compared (--topic-id {name}={other} "
                "compares them)."
            )
    if not began.complete:
        said.append(
            f"The log of {location} does not go back to its first commit: each partition is taken to begin "
            "at its first record."
        )
    return said
