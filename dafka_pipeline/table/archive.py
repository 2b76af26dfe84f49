"""An archive that is there: what it holds, how far it has come. All jobs open it by this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.table import layout
from dafka_pipeline.table.delta import Newest, NumberedTable
from dafka_pipeline.table.kept import kept_state
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.state import State, parse_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION: Final = "dafka-archive"


class Archive:
    """The tables of an archive directory."""

    def __init__(self, spark: SparkSession, location: Location) -> None:
        self.spark = spark
        self.location = location
        self.files = Files(spark, location)
        self.records = NumberedTable(spark, location, APPLICATION)
        self.gaps = NumberedTable(spark, location / layout.GAPS, f"{APPLICATION}-gaps")
        self.dead_letters = NumberedTable(
            spark, location / layout.DEAD_LETTERS, f"{APPLICATION}-dead-letters"
        )

    def decoded(self) -> list[NumberedTable]:
        """The tables that `--decode` made, one for each topic."""
        folder = self.location / layout.DECODED
        return [
            NumberedTable(self.spark, folder / name, f"{APPLICATION}-decoded")
            for name in self.files.names(layout.DECODED)
        ]

    def nothing(self) -> DataFrame:
        """No records, in the columns of `layout.SCHEMA`: for commits that only say something."""
        return self.spark.createDataFrame([], layout.SCHEMA)

    def newest(self) -> Newest[State] | None:
        """The archiver's newest commit in force and what it says; None for a table without rows that begins.

        Raises Refused for a table that no archiver has written to, or that does not say how far it is.
        """
        found = self.records.newest(parse_state)
        return found if found is not None else kept_state(self)

    def read(self, version: int | None = None) -> DataFrame:
        """The records, in the columns of `layout.SCHEMA`, now or as of a version."""
        return self.records.read(version)


def open_archive(spark: SparkSession, location: Location) -> Archive:
    """An archive that exists. Raises Refused where there is none, or what is there is no archive."""
    archive = Archive(spark, location)
    if not archive.records.exists():
        raise Refused(
            f"There is no archive at {location}: it has no _delta_log. "
            f"'dafka-pipeline archive --to {location}' makes one."
        )
    if archive.newest() is None:
        raise Refused(
            f"The archive at {location} has nothing in it yet: let 'dafka-pipeline archive' run first."
        )
    return archive
