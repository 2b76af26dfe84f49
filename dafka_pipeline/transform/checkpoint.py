"""Spark's part of a checkpoint, as far as a transform reads it: whose it is, and which batches it has
planned.

The files are Spark's, of Structured Streaming's log format v1: `metadata` (the query's id), `offsets/N` (what
batch N reads, written before it is read, with the settings that its state depends on), `commits/N` (batch N
is done).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.location import Files

VERSION: Final = "v1"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Planned(NamedTuple):
    """A batch as Spark has planned it.

    ends: for each source in order, topic -> partition -> the offset behind the last one; None for a source
    without.
    settings: of the session, frozen when the query first ran.
    """

    ends: tuple[Mapping[str, Mapping[str, int]] | None, ...]
    settings: Mapping[str, str]

    @property
    def said(self) -> str:
        """The offsets as one line that is equal for equal offsets."""
        return json.dumps(self.ends, sort_keys=True, separators=(",", ":"))


class SparkCheckpoint:
    """The directory that Spark keeps a query's progress in."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.place = str(files.location)

    def query(self) -> str:
        """The query's id, which stays the same over restarts; empty before the first start."""
        text = self._files.read("metadata")
        if text is None:
            return ""
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            raise Refused(
                f"{self.place}/metadata is no Spark query's: the checkpoint is damaged. {RESTORE}"
            ) from None

    def newest_planned(self) -> int | None:
        """The highest number of a batch with offsets."""
        return self._newest("offsets")

    def newest_committed(self) -> int | None:
        """The highest number of a batch that Spark holds for done."""
        return self._newest("commits")

    def planned(self, batch: int) -> Planned:
        """What batch `batch` reads. Raises Refused where that cannot be read."""
        text = self._files.read(f"offsets/{batch}")
        if text is None:
            raise Refused(f"{self.place}/offsets/{batch} is missing: the checkpoint is damaged. {RESTORE}")
        try:
            return parse_planned(text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(
                f"{self.place}/offsets/{batch} cannot be read ({error}): the checkpoint is damaged. {RESTORE}"
            ) from error

    def _newest(self, folder: str) -> int | None:
        return max((int(name) for name in self._files.names(folder) if name.isdigit()), default=None)


RESTORE: Final = "Restore the whole directory from a copy, or begin with a new --checkpoint."


def parse_planned(text: str) -> Planned:
    """A file of Spark's offset log: a version, the batch's settings, then one line a source."""
    version, settings, *sources = text.splitlines()
    if version != VERSION:
        raise ValueError(f"it is of version {version}, not {VERSION}")
    found: Any = json.loads(settings)
    ends = tuple(None if line == "-" else json.loads(line) for line in sources)
    return Planned(ends, found.get("conf", {}))
