"""A table of plain Parquet files whose commits are numbered, and say something in the same atomic step.

It keeps the rule of `state.py` without Delta: a commit is a directory, `batch=N`, that holds the rows' files
and `_said.json`. It is written under `_pipeline/staging` and comes to its place by one rename, which the file
system refuses when there is a `batch=N` already. So of two that commit N one wins, a batch is seen whole or
not at all, and the newest directory says how far the table is. What a kill leaves lies in the staging area,
where no reader looks; the next start removes it.

Directories are never changed: there is no compaction and no erasure, and no version is ever gone.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table import layout
from dafka_pipeline.table.data_files import write_files
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.numbered import (
    NOTHING,
    Constant,
    Counted,
    NumberedTable,
    Superseded,
    check_count,
    taken_over,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = "batch"
SAID: Final = "_said.json"
COLUMNS: Final = "_columns.json"
STAGING: Final = f"{layout.PIPELINE}/staging"
_NAME: Final = re.compile(rf"{BATCH}=(\d{{12}})")


class ParquetTable(NumberedTable):
    """A directory of Parquet files, a directory a commit.

    The location must be of a file system that renames a directory in one step: a disk of this machine, HDFS.
    """

    def __init__(self, spark: SparkSession, location: Location, application: str) -> None:
        super().__init__(location, application)
        self._spark = spark
        self._files = Files(spark, location)

    def exists(self) -> bool:
        """Whether the table was made: its columns are written before its first commit."""
        return self._files.exists(COLUMNS)

    def create(self, schema: Any, partitioned_by: Sequence[str] = (), statistics: Sequence[str] = ()) -> None:  # noqa: ARG002  # footers have them all
        """As `NumberedTable.create`."""
        if self.exists():
            return
        columns = self._spark.createDataFrame([], schema).schema
        said = {"partitioned_by": list(partitioned_by), "schema": columns.jsonValue()}
        self._files.create(COLUMNS, json.dumps(said))

    def read(self, version: int | None = None) -> DataFrame:
        """Its rows, now or as of a version: batches that come later are not in it."""
        from pyspark.sql import functions as sql
        from pyspark.sql.types import LongType, StructType

        schema = StructType.fromJson(self._columns()["schema"])
        newest = self.version() if version is None else version
        reader = self._spark.read.schema(StructType([*schema.fields]).add(BATCH, LongType()))
        rows = reader.parquet(_literal(self.location.for_spark)).where(sql.col(BATCH) <= newest)
        return rows.select(*schema.names)

    def version(self) -> int:
        """The number of its newest directory; -1 where there is none yet."""
        return max(self._versions(), default=-1)

    def commits(self, newest: int | None = None) -> Iterator[Commit]:
        """Its commits, newest first."""
        return islice(map(self._commit, reversed(self._versions())), newest)

    def last_number(self) -> int:
        """The highest number of a commit; 0 where there is none."""
        return self._number(self._versions())

    def append(
        self,
        frame: DataFrame | None,
        number: int,
        said: str,
        constant: Constant = NOTHING,
        counted: Counted | None = None,
    ) -> Commit:
        """As `NumberedTable.append`."""
        versions = self._versions()
        if versions and self._number(versions) >= number:
            raise taken_over(self.location)
        return self._add(frame, versions, {"number": number, "said": said}, constant, counted)

    def add(self, frame: DataFrame) -> None:
        """As `NumberedTable.add`."""
        versions = self._versions()
        self._add(frame, versions, {"number": self._number(versions), "said": None}, NOTHING, None)

    def tidy(self) -> None:
        """As `NumberedTable.tidy`. A late writer's batch may be among it: its number is taken by then."""
        self._files.remove(STAGING)

    def _add(
        self,
        frame: DataFrame | None,
        versions: Sequence[int],
        said: dict[str, Any],
        constant: Constant,
        counted: Counted | None,
    ) -> Commit:
        version = versions[-1] + 1 if versions else 0
        staged = f"{STAGING}/{name_of(version)}-{uuid.uuid4().hex}"
        rows = 0
        if frame is not None:
            by = self._columns()["partitioned_by"]
            written = write_files(frame, self._files, staged, partitioned_by=by, constant=constant)
            check_count(written, counted, self.location)
            rows = sum(one.rows for one in written)
        self._files.write(f"{staged}/{SAID}", json.dumps({**said, "rows": rows}))
        self._files.settle([f"{staged}/{SAID}"])
        fail_point("table-before-commit")
        if not self._files.rename(staged, name_of(version)):
            raise Superseded(f"{self.location} was written to by somebody else at the same time.")
        return Commit(version, said["said"], rows)

    def _versions(self) -> list[int]:
        """The numbers of its directories. Raises Refused where one is missing between others."""
        found = sorted(
            int(match[1]) for name in self._files.names("") if (match := _NAME.fullmatch(name)) is not None
        )
        if found != list(range(len(found))):
            missing = next(number for number in range(len(found)) if found[number] != number)
            raise Refused(
                f"{self.location} lacks {name_of(missing)}, and has later ones: its records are gone. Put "
                "that directory back from a copy, or archive to another directory."
            )
        return found

    def _number(self, versions: Sequence[int]) -> int:
        return int(self._said(versions[-1])["number"]) if versions else 0

    def _commit(self, version: int) -> Commit:
        found = self._said(version)
        return Commit(version, found["said"], int(found["rows"]))

    def _said(self, version: int) -> dict[str, Any]:
        text = self._files.read(f"{name_of(version)}/{SAID}")
        if text is None:
            raise Refused(
                f"{self.location}/{name_of(version)} has no {SAID}: put the directory back from a copy, or "
                "archive to another directory."
            )
        return dict(json.loads(text))

    def _columns(self) -> dict[str, Any]:
        return dict(json.loads(self._files.read(COLUMNS) or "{}"))


def _literal(path: str) -> str:
    """A path whose characters stand for themselves: Spark reads patterns."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def name_of(version: int) -> str:
    """The directory of a commit."""
    return f"{BATCH}={version:012d}"
