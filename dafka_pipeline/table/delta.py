"""A numbered table as a Delta table: a commit says what it says in `userMetadata`, and its number in `txn`.

Rows are written as plain Parquet files into a folder of their own; then one file in the log names them
(`log.py`). Compaction, erasure and checkpoints are Delta's. A table whose owner has switched features on that
`log.py` does not know is written to by Delta, which takes longer.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table.data_files import DataFile, is_data, write_files
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import FOLDER, WRITER_VERSION, Commit, DeltaLog, appending, creating
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

_CONFLICT: Final = re.compile(r"DELTA_CONCURRENT_|io\.delta\.exceptions\.\w*Concurrent\w*Exception")
"""Delta's ways to say that two wrote at once; any stack trace of Java has a `java.util.concurrent` in it."""

LOOK_BACK: Final = 20
"""How many of the newest commits are looked at for the one just made: compactions may lie above it."""
ATTEMPTS: Final = 20
"""Commits of others, one after the other at the same moment, that a commit of ours gives way to."""
CHECKPOINT_EVERY: Final = 10
"""Commits, as Delta does it: a checkpoint saves readers the files of the log before it."""
STATISTICS: Final = "delta.dataSkippingStatsColumns"
BATCH: Final = "batch-"
"""What folders of files begin with."""
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})
PLAIN: Final = re.compile(
    r"string|binary|boolean|byte|short|integer|long|float|double|date|timestamp|decimal\(.*"
)
"""Types that tables of the oldest protocol have."""
ODD_NAME: Final = re.compile(r"[ ,;{}()\n\t=]")


@dataclass(frozen=True)
class _Seen:
    """What of the table is known without asking Spark: up to a version, the highest number of ours, and what
    it takes to write.

    reshaped, restored: the last versions known to have changed its columns or properties, or to have brought
    older rows back.
    """

    version: int
    number: int | None
    partitioned_by: Sequence[str]
    statistics: Sequence[str]
    writer: int = WRITER_VERSION
    reshaped: int = 0
    restored: int = -1

    def after(self, commit: Commit, application: str) -> _Seen:
        """What is known with the commit that follows."""
        return replace(
            self,
            version=commit.version,
            number=commit.numbers.get(application, self.number),
            writer=self.writer if commit.writer is None else commit.writer,
            reshaped=commit.version if commit.reshaped else self.reshaped,
            restored=self.restored if commit.restored is None else commit.version,
        )


class DeltaTable(NumberedTable):
    """A Delta table. Its numbers are Delta's `txnVersion` under the application as `txnAppId`."""

    def __init__(self, spark: SparkSession, location: Location, application: str) -> None:
        super().__init__(location, application)
        self._spark = spark
        self._files = Files(spark, location)
        self._log = DeltaLog(self._files)
        self._known: _Seen | None = None
        self._last: int | None = None
        self._restored: int | None = None
        """The number of the last commit that this object has made, and the last RESTORE before it."""

    @property
    def sql(self) -> str:
        """Its name in a statement."""
        return f"delta.`{self.location.for_spark.replace('`', '``')}`"

    def exists(self) -> bool:
        """Whether there is a Delta table at the location: a death in the first commit leaves an empty log."""
        names = self._files.names(FOLDER)
        return any(not name.startswith(".") and name.endswith((".json", ".parquet")) for name in names)

    def create(
        self,
        schema: Any,
        partitioned_by: Sequence[str] = (),
        statistics: Sequence[str] = (),
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        """As `NumberedTable.create`. properties: the table's, as Delta knows them."""
        if self.exists():
            return
        nothing = self._spark.createDataFrame([], schema)
        given = {**properties, **({STATISTICS: ",".join(statistics)} if statistics else {})}
        if not is_plain(nothing.schema):
            # Delta knows which features such columns need. CREATE TABLE IF NOT EXISTS is not for this: it
            # takes any directory with files in it for a table.
            writer = nothing.write.format("delta").mode("append").options(**given)
            writer.partitionBy(*partitioned_by).save(self.location.for_spark)
        elif self._log.add(0, creating(nothing.schema.jsonValue(), partitioned_by, given)):
            self._known = _Seen(0, None, partitioned_by, statistics)

    def read(self, version: int | None = None) -> DataFrame:
        """Its rows, now or as of a version."""
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.location.for_spark)

    def files(self) -> DataFrame:
        """Its data files: `path`, `partitionValues`, `size` in bytes, and more as Delta's log has them."""
        from pyspark.sql import DataFrame

        return DataFrame(self._snapshot().allFiles().toDF(), self._spark)

    def version(self) -> int:
        """The version of its newest commit, whoever made it."""
        return self._log.newest_version()

    def commits(self, newest: int | None = None) -> Iterator[Commit]:
        """Its commits, newest first; as far back as its log still goes (30 days are kept)."""
        return islice(self._log.commits(), newest)

    def last_number(self) -> int:
        """The highest number of a commit, as the table keeps it; 0 where there is none."""
        return self._seen().number or 0

    def append(
        self,
        frame: DataFrame | None,
        number: int,
        said: str,
        constant: Constant = NOTHING,
        counted: Counted | None = None,
    ) -> Commit:
        """As `NumberedTable.append`."""
        seen = self._seen()
        self._refuse_late(seen, number)
        if seen.writer > WRITER_VERSION:
            commit = self._append_by_delta(frame, number, said)
            self._last, self._restored = number, seen.restored
            return commit
        files = [] if frame is None else self._written(seen, frame, constant, counted)
        fail_point("table-before-commit")
        return self._commit(files, said, number, seen.reshaped)

    def add(self, frame: DataFrame) -> None:
        """As `NumberedTable.add`."""
        seen = self._seen()
        if seen.writer > WRITER_VERSION:
            frame.write.format("delta").mode("append").save(self.location.for_spark)
        else:
            self._commit(self._written(seen, frame, NOTHING, None), None, None, seen.reshaped)

    def remove_unfinished(self, seconds: float) -> None:
        """Remove folders of batches without a file of rows, unless something in them is younger than that.

        What tasks wrote that were killed has hidden names, which VACUUM passes over.
        """
        youngest = (time.time() - seconds) * 1000
        for name in self._files.names(""):
            if name.startswith(BATCH):
                try:
                    found = self._files.below(name)
                except Exception as error:  # Hadoop's and Python's
                    if "FileNotFound" not in f"{type(error).__name__} {error}":
                        raise
                    continue  # a batch in work has just moved its files
                left = any(is_data(one.name.removeprefix(name)) for one in found)
                old = all(one.modified < youngest for one in found) and (found or not seconds)
                if old and not left:
                    self._files.remove(name)

    def _refuse_late(self, seen: _Seen, number: int) -> None:
        if seen.number is not None and seen.number >= number:
            raise taken_over(self.location)
        if self._last is not None and (seen.restored, seen.number) != (self._restored, self._last):
            raise Refused(
                f"{self.location} was restored to an older version, or put back from a copy, while this job "
                "ran: rows that the job has added are gone from it. Start the job again: it sees what the "
                "table has now."
            )

    def _written(
        self, seen: _Seen, frame: DataFrame, constant: Constant, counted: Counted | None
    ) -> list[DataFile]:
        found = write_files(
            frame,
            self._files,
            f"{BATCH}{uuid.uuid4().hex}",
            partitioned_by=seen.partitioned_by,
            constant=constant,
            measured=seen.statistics,
        )
        check_count(found, counted, self.location)
        return found

    def _commit(self, files: Sequence[DataFile], said: str | None, number: int | None, shape: int) -> Commit:
        """Name the files in the log, as the version after the newest.

        What others commit meanwhile does not matter to rows that are added, but for numbers of ours and for
        what the files have to look like. Both are judged by the same look that the version comes from.
        """
        numbered = None if number is None else (self._application, number)
        for _ in range(ATTEMPTS):
            seen = self._seen()
            if number is not None:
                self._refuse_late(seen, number)
            if seen.writer > WRITER_VERSION or seen.reshaped != shape:
                raise Superseded(
                    f"The columns or properties of {self.location} were changed meanwhile. Start the job "
                    "again."
                )
            version = seen.version + 1
            if self._log.add(version, appending(files, seen.version, said, numbered)):
                if number is not None:
                    self._last, self._restored = number, seen.restored
                self._checkpoint_if_due(version)
                return Commit(version, said, sum(one.rows for one in files))
            if not self._log.has(version):
                # Taken, and not there: a look of Delta's mends what a writer of some log stores leaves.
                self._snapshot()
        raise Superseded(f"{self.location} was written to by others {ATTEMPTS} times at the same moment.")

    def _seen(self) -> _Seen:
        """What is known, up to the newest version."""
        before = self._known
        if before is None:
            before = self._looked_at()
        elif not self._log.has(before.version):
            before = replace(self._looked_at(), restored=before.restored)
        known = before
        for commit in self._log.after(known.version):
            known = known.after(commit, self._application)
        if known.reshaped != before.reshaped:
            looked = self._looked_at()
            since = [one.version for one in self._log.after(known.version) if one.restored is not None]
            known = replace(looked, restored=max([known.restored, *since]))
        self._known = known
        return known

    def _looked_at(self) -> _Seen:
        """What Delta itself says: some jobs of Spark, once."""
        snapshot = self._snapshot()
        number = snapshot.transactions().get(self._application)
        metadata = snapshot.metadata()
        names = [metadata.partitionColumns().apply(n) for n in range(metadata.partitionColumns().size())]
        statistics = metadata.configuration().get(STATISTICS)
        return _Seen(
            version=int(snapshot.version()),
            number=int(number.get()) if number.isDefined() else None,
            partitioned_by=names,
            statistics=str(statistics.get()).split(",") if statistics.isDefined() else (),
            writer=int(snapshot.protocol().minWriterVersion()),
            reshaped=int(snapshot.version()),
        )

    def _snapshot(self) -> Any:
        """The JVM's own view of the newest version: what SQL does not show."""
        log = self._delta_log()
        # Reading the table has it look at its log again.
        self.read().schema  # noqa: B018
        return log.unsafeVolatileSnapshot()

    def _delta_log(self) -> Any:
        delta_log = self._spark._jvm.org.apache.spark.sql.delta.DeltaLog
        return delta_log.forTable(self._spark._jsparkSession, self.location.for_spark)

    def _checkpoint_if_due(self, version: int) -> None:
        """A checkpoint that fails is no matter of the commit, which is made: the next one has all of it."""
        if version % CHECKPOINT_EVERY:
            return
        with suppress(Exception):  # Spark's and Py4J's errors have no common ancestor
            self._snapshot()
            self._delta_log().checkpoint()

    def _append_by_delta(self, frame: DataFrame | None, number: int, said: str) -> Commit:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if frame is None:
            frame = self._spark.createDataFrame([], self.read().schema)
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", self._application).option("txnVersion", str(number))
        try:
            writer.option("userMetadata", said).save(self.location.for_spark)
        except (PySparkException, Py4JJavaError) as error:
            if _CONFLICT.search(str(error)):
                raise Superseded(
                    f"{self.location} was written to by somebody else at the same time."
                ) from error
            raise
        # Delta drops a commit whose number is not new without a word: the log says whether ours is there.
        for commit in self.commits(LOOK_BACK):
            if commit.said == said:
                return commit
        raise taken_over(self.location)


def is_plain(schema: Any) -> bool:
    """Whether a table of the oldest protocol may have these columns; `schema` is one of Spark's types."""
    found = schema.jsonValue() if hasattr(schema, "jsonValue") else schema
    if isinstance(found, str):
        return PLAIN.fullmatch(found) is not None
    if found["type"] == "struct":
        names = [field["name"].lower() for field in found["fields"]]
        odd = len(set(names)) < len(names) or any(ODD_NAME.search(name) for name in names)
        return not odd and all(is_plain(field["type"]) for field in found["fields"])
    parts = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(found["type"])
    return parts is not None and all(is_plain(found[part]) for part in parts)


def as_delta(table: NumberedTable) -> DeltaTable:
    """The same table, for what only Delta does. Raises Refused for one of plain Parquet."""
    if not isinstance(table, DeltaTable):
        raise Refused(
            f"{table.location} is kept as plain Parquet, whose files are never rewritten: only an archive in "
            "Delta can be compacted or have records erased. Archive its topics with --format delta to "
            "another directory."
        )
    return table
