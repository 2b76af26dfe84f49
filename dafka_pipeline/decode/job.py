"""Decoding: what the archive has and a decoded table has not, read from the archive, in one commit for each
topic.

A decoded table decides for itself, as the archive does: each commit says up to which offset it is. It is read
from the archive and not from Kafka, so it may be made again with another schema (delete `_decoded/TOPIC`),
and a record that cannot be decoded is never a reason to stop archiving. Such records go to the table of dead
letters, with the reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dafka_pipeline.decode.formats import Format, decoded
from dafka_pipeline.failures import Refused
from dafka_pipeline.ranges import Span
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.spark.observed import rows_of
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.numbered import NumberedTable
from dafka_pipeline.table.state import State, TopicEnds, batch_of, parse_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE: Final = ("topic", "topic_id", "partition", "offset")


class Decoder:
    """The decoded tables of an archive, kept up with it."""

    def __init__(self, archive: Archive, how: Format) -> None:
        self._archive = archive
        self._how = how
        self._states: dict[str, State] = {}
        self._tables: dict[str, NumberedTable] = {}

    def catch_up(self, state: State) -> int:
        """Decode what `state` says is archived and is not decoded yet; how many records could not be."""
        return sum(self._topic(name, topic, state.archive) for name, topic in sorted(state.topics.items()))

    def _topic(self, name: str, topic: TopicEnds, archive: str) -> int:
        table = self._tables.setdefault(name, self._archive.decoded_table(name))
        state = self._states.get(name)
        bad = 0
        if state is None:
            state = _newest(table, archive)
            # The last run may have ended between the decoded records and the dead letters of the same
            # offsets.
            bad += self._bury(name, state.topics.get(name), state.spans)
        spans = _missing(name, topic, state.topics.get(name))
        if spans:
            rows = decoded(self._rows(name, topic, spans), self._how)
            good = rows.where("reason IS NULL").select(
                *PLACE, "timestamp", "key", rows["decoded"].alias("value")
            )
            before = {name: TopicEnds(topic.topic_id, _starts(topic, spans))}
            state = State(archive, 1, state.run, state.batch, before).after(spans)
            table.create(good.schema, statistics=("partition", "offset", "timestamp"))
            _refuse_another_schema(table, good)
            # Should this fail, the table itself says next time how far it is.
            self._states.pop(name, None)
            rows, count = rows_of(good)
            table.append(rows, state.number, state.to_json(), counted=count.rows)
            fail_point("decode-after-commit")
            bad += self._bury(name, topic, spans)
        self._states[name] = state
        return bad

    def _bury(self, name: str, topic: TopicEnds | None, spans: Collection[Span]) -> int:
        """Add the records of these offsets that cannot be decoded to the dead letters; told again, they stay
        one row.
        """
        from pyspark.sql import functions as sql

        if topic is None or not spans:
            return 0
        rows = decoded(self._rows(name, topic, spans), self._how).where("reason IS NOT NULL")
        table = self._archive.dead_letters
        if table.exists():
            there = table.read().where(sql.col("topic") == name).select(*PLACE).alias("there")
            same = [rows[column].eqNullSafe(there[column]) for column in PLACE]
            rows = rows.join(there, same, "left_anti")
        rows = rows.drop("timestamp_type", "decoded").cache()
        try:
            count = int(rows.count())
            if count:
                table.create(layout.DEAD_LETTERS_SCHEMA, statistics=("partition", "offset"))
                table.add(rows)
        finally:
            rows.unpersist()
        return count

    def _rows(self, name: str, topic: TopicEnds, spans: Collection[Span]) -> DataFrame:
        from pyspark.sql import functions as sql

        wanted = self._archive.spark.createDataFrame(
            [(span.partition, span.start, span.end) for span in spans],
            "wanted_partition INT, first_offset BIGINT, end_offset BIGINT",
        )
        same_id = sql.col("topic_id").eqNullSafe(sql.lit(topic.topic_id))
        # The least and the greatest of all let files be passed over; the join says it exactly.
        lowest, highest = min(span.start for span in spans), max(span.end for span in spans)
        rows = self._archive.read().where(
            (sql.col("topic") == name)
            & same_id
            & (sql.col("offset") >= lowest)
            & (sql.col("offset") < highest)
        )
        inside = (
            (sql.col("partition") == sql.col("wanted_partition"))
            & (sql.col("offset") >= sql.col("first_offset"))
            & (sql.col("offset") < sql.col("end_offset"))
        )
        return rows.join(sql.broadcast(wanted), inside, "left_semi")


def _refuse_another_schema(table: NumberedTable, rows: DataFrame) -> None:
    # Parquet does not keep which fields are never null.
    there = table.read().schema["value"].dataType.simpleString()
    if there != rows.schema["value"].dataType.simpleString():
        raise Refused(
            f"{table.location} was decoded with another schema. To decode everything again, delete that "
            "directory; the archive itself is not touched."
        )


def _newest(table: NumberedTable, archive: str) -> State:
    found = table.newest(parse_state) if table.exists() else None
    if found is not None:
        # After a RESTORE the newest state in force has a lower number than the table will take.
        return replace(found.said, batch=max(found.said.batch, batch_of(table.last_number())))
    return State(archive, 1, uuid.uuid4().hex)


def _missing(name: str, topic: TopicEnds, there: TopicEnds | None) -> list[Span]:
    """What is archived of the topic and not decoded. Another topic of that name is decoded from its
    beginning.
    """
    known = there.ends if there is not None and there.topic_id == topic.topic_id else ()
    starts = (*known, *(0 for _ in topic.ends[len(known) :]))
    return [
        Span(name, partition, start, end)
        for partition, (start, end) in enumerate(zip(starts, topic.ends, strict=True))
        if end > start
    ]


def _starts(topic: TopicEnds, spans: Collection[Span]) -> tuple[int, ...]:
    starts: Mapping[int, int] = {span.partition: span.start for span in spans}
    return tuple(starts.get(partition, end) for partition, end in enumerate(topic.ends))
