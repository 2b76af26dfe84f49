"""An archive that is there: what it holds, how far it has come. All jobs open it by this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.table import layout
from dafka_pipeline.table.delta import DeltaTable
from dafka_pipeline.table.kept import kept_state
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import FOLDER
from dafka_pipeline.table.numbered import Newest, NumberedTable
from dafka_pipeline.table.parquet import COLUMNS, ParquetTable
from dafka_pipeline.table.state import State, parse_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION: Final = "dafka-archive"
DELTA, PARQUET = "delta", "parquet"
"""How the tables of an archive are kept."""


class Archive:
    """The tables of an archive directory.

    kept_as: DELTA or PARQUET for one that begins; an archive that is there says it itself.
    """

    def __init__(self, spark: SparkSession, location: Location, kept_as: str = DELTA) -> None:
        self.spark = spark
        self.location = location
        self.files = Files(spark, location)
        self.kept_as = self._found() or kept_as
        self.records = self._table(location, APPLICATION)
        self.gaps = self._table(location / layout.GAPS, f"{APPLICATION}-gaps")
        self.dead_letters = self._table(location / layout.DEAD_LETTERS, f"{APPLICATION}-dead-letters")

    def decoded(self) -> list[NumberedTable]:
        """The tables that `--decode` made, one for each topic."""
        return [self.decoded_table(name) for name in self.files.names(layout.DECODED)]

    def decoded_table(self, topic: str) -> NumberedTable:
        """The decoded table of a topic, which may not be there yet."""
        return self._table(self.location / layout.DECODED / topic, f"{APPLICATION}-decoded")

    def newest(self) -> Newest[State] | None:
        """The archiver's newest commit in force and what it says; None for a table without rows that begins.

        Raises Refused for a table that no archiver has written to, or that does not say how far it is.
        """
        found = self.records.newest(parse_state)
        if found is not None or isinstance(self.records, DeltaTable):
            return found if found is not None else kept_state(self)
        if self.files.exists(layout.STATE_FILE):
            raise Refused(
                f"{self.location} has {layout.STATE_FILE}, but none of its batches is there any more. "
                "Restore the whole directory from a copy, or archive to another one."
            )
        return None

    def tidy(self) -> None:
        """Remove what commits that were never made have left; after the fence, which has their number."""
        self.records.tidy()

    def _found(self) -> str | None:
        """How the archive that is there is kept; None where there is none."""
        if self.files.exists(COLUMNS):
            return PARQUET
        return DELTA if self.files.exists(FOLDER) else None

    def _table(self, location: Location, application: str) -> NumberedTable:
        kind = DeltaTable if self.kept_as == DELTA else ParquetTable
        return kind(self.spark, location, application)

    def read(self, version: int | None = None) -> DataFrame:
        """The records, in the columns of `layout.SCHEMA`, now or as of a version."""
        return self.records.read(version)


def open_archive(spark: SparkSession, location: Location) -> Archive:
    """An archive that exists. Raises Refused where there is none, or what is there is no archive."""
    archive = Archive(spark, location)
    if not archive.records.exists():
        raise Refused(
            f"There is no archive at {location}. 'dafka-pipeline archive --to {location}' makes one."
        )
    if archive.newest() is None:
        raise Refused(
            f"The archive at {location} has nothing in it yet: let 'dafka-pipeline archive' run first."
        )
    return archive
