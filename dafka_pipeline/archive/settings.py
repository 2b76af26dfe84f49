"""What an archive job is asked to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dafka_pipeline.decode.formats import Format
from dafka_pipeline.table.location import Location

STOP, RECORD = "stop", "record"
"""`on_loss`: end the job, with the words that say how to go on; or write the loss into `_gaps`, and go on."""

MAX_BATCH_BYTES: Final = 512 << 20
"""Bytes of keys and values in one batch: some ten seconds of work on two processors, and one commit."""
FILE_BYTES: Final = 64 << 20
"""A batch with less than this is written by one task, so that a trickle does not become thousands of
files."""


@dataclass(frozen=True)
class ArchiveSettings:
    """topics or pattern: what to archive; a pattern must match a whole name.

    start: where to begin in topics that the archive has never seen: "earliest", "latest" or milliseconds
    since 1970.
    every_seconds: between two looks when all is read; None ends the job when what was there at its start is
    read.
    compact_after_days: compact closed days that are older, between batches; None leaves it to `compact`.
    decode: how values become columns, in tables beside the archive; None leaves them alone.
    kept_as: DELTA or PARQUET; None keeps an archive as it is, and begins one in Delta.
    """

    to: Location
    topics: tuple[str, ...] = ()
    pattern: str = ""
    start: str | int = "earliest"
    every_seconds: float | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES
    on_loss: str = STOP
    compact_after_days: float | None = None
    decode: Format | None = None
    kept_as: str | None = None

    def chosen(self, names: list[str]) -> list[str]:
        """Those of all topics' names that are asked for by the pattern, or the names themselves."""
        if not self.pattern:
            return sorted(self.topics)
        matches = re.compile(self.pattern)
        return [name for name in names if matches.fullmatch(name)]
