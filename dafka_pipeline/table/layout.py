"""What an archive consists of: its columns, and the names in its directory.

::

    ARCHIVE/                        a Delta table, partitioned by topic, its id and the day of archiving
      _delta_log/                   its commits; each one of the archiver's says how far the archive has come
      batch-.../archived_on=DAY/topic=NAME/topic_id=ID/  a batch's Parquet files
      _gaps/                        a Delta table: offsets that the archive does not have, and why
      _dead_letters/                a Delta table: records that --decode could not read, and why
      _decoded/NAME/                a Delta table a topic: what --decode made of its records
      _pipeline/                    what the jobs keep: state.json (a copy of the newest commit's state),
                                    topics.json, groups.json, locks, replays

Names that begin with `_` are left alone by VACUUM and by readers of the directory.
"""

from typing import Final

SCHEMA: Final = (
    "topic STRING, topic_id STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestamp_type INT, "
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, archived_on DATE"
)
"""A null key is not an empty one, and headers are null where there are none. timestamp: with milliseconds, in
UTC. timestamp_type: 0 CreateTime, 1 LogAppendTime. topic_id: which topic of that name; null where the server
has no ids."""

PARTITIONED_BY: Final = ("topic", "topic_id", "archived_on")
"""By the day of archiving, never of the record: no file per odd timestamp, and closed days compact safely. By
the id, since a column of one value costs a fifth of a batch's time."""

WITH_STATISTICS: Final = ("partition", "offset", "timestamp")
"""Columns whose least and greatest value each file tells, so that ranges are read without the rest."""

GAPS_SCHEMA: Final = (
    "topic STRING, topic_id STRING, partition INT, first_offset BIGINT, end_offset BIGINT, reason STRING, "
    "found_at TIMESTAMP"
)
DEAD_LETTERS_SCHEMA: Final = (
    "topic STRING, topic_id STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, "
    "value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, reason STRING, archived_on DATE"
)


GAPS: Final = "_gaps"
DEAD_LETTERS: Final = "_dead_letters"
DECODED: Final = "_decoded"
PIPELINE: Final = "_pipeline"
TOPICS_FILE: Final = f"{PIPELINE}/topics.json"
GROUPS_FILE: Final = f"{PIPELINE}/groups.json"
STATE_FILE: Final = f"{PIPELINE}/state.json"
ARCHIVER_LOCK: Final = f"{PIPELINE}/archiver.lock"
COMMIT_LOCK: Final = f"{PIPELINE}/commit.lock"
