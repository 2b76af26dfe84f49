"""A numbered table as a Delta table: a commit says what it says in `userMetadata`, and its number in `txn`.

Rows are written as plain Parquet files into a folder of their own; then one file in the log names them
(`log.py`). Compaction, erasure and checkpoints are Delta's. A table whose owner has switched features on that
`log.py` does not know is written to by Delta, which takes longer.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table.data_files import DataFile, write_files
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import FOLDER, WRITER_VERSION, Commit, DeltaLog, appending, creating
from dafka_pipeline.table.numbered import NOTHING, Constant, NumberedTable, Superseded

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


@dataclass
class _Seen:
    """What of the table is known without asking Spark: up to a version, the highest number of ours, and what
    it takes to write.
    """

    version: int
    number: int | None
    partitioned_by: Sequence[str]
    statistics: Sequence[str]
    writer: int = WRITER_VERSION

    def take(self, commit: Commit, application: str) -> None:
        """Go on by the commit that follows."""
        self.version = commit.version
        self.writer = self.writer if commit.writer is None else commit.writer
        if application in commit.numbers:
            self.number = commit.numbers[application]


class DeltaTable(NumberedTable):
    """A Delta table. Its numbers are Delta's `txnVersion` under the application as `txnAppId`."""

    def __init__(self, spark: SparkSession, location: Location, application: str) -> None:
        super().__init__(location, application)
        self._spark = spark
        self._files = Files(spark, location)
        self._log = DeltaLog(self._files)
        self._known: _Seen | None = None

    @property
    def sql(self) -> str:
        """Its name in a statement."""
        return f"delta.`{self.location.text.replace('`', '``')}`"

    def exists(self) -> bool:
        """Whether there is a Delta table at the location: a death in the first commit leaves an empty log."""
        names = self._files.names(FOLDER)
        return any(not name.startswith(".") and name.endswith((".json", ".parquet")) for name in names)

    def create(self, schema: Any, partitioned_by: Sequence[str] = (), statistics: Sequence[str] = ()) -> None:
        """As `NumberedTable.create`. Its protocol is reader 1, writer 2: everything that knows Delta reads
        it.
        """
        if self.exists():
            return
        columns = self._spark.createDataFrame([], schema).schema.jsonValue()
        properties = {STATISTICS: ",".join(statistics)} if statistics else {}
        if self._log.add(0, creating(columns, partitioned_by, properties)):
            self._known = _Seen(0, None, partitioned_by, statistics)

    def read(self, version: int | None = None) -> DataFrame:
        """Its rows, now or as of a version."""
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.location.text)

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

    def append(self, frame: DataFrame | None, number: int, said: str, constant: Constant = NOTHING) -> Commit:
        """As `NumberedTable.append`."""
        self._refuse_late(number)
        if self._seen().writer > WRITER_VERSION:
            return self._append_by_delta(frame, number, said)
        files = [] if frame is None else self._written(frame, constant)
        fail_point("table-before-commit")
        return self._commit(files, said, number)

    def add(self, frame: DataFrame) -> None:
        """As `NumberedTable.add`."""
        if self._seen().writer > WRITER_VERSION:
            frame.write.format("delta").mode("append").save(self.location.text)
        else:
            self._commit(self._written(frame, {}), None, None)

    def _refuse_late(self, number: int) -> None:
        last = self._seen().number
        if last is not None and last >= number:
            raise Superseded(f"Somebody else writes to {self.location}: a later start has taken over.")

    def _written(self, frame: DataFrame, constant: Constant) -> list[DataFile]:
        seen = self._seen()
        return write_files(
            frame,
            self._files,
            f"batch-{uuid.uuid4().hex}",
            partitioned_by=seen.partitioned_by,
            constant=constant,
            measured=seen.statistics,
        )

    def _commit(self, files: Sequence[DataFile], said: str | None, number: int | None) -> Commit:
        """Name the files in the log, as the version after the newest.

        Nothing of what others commit meanwhile matters to rows that are added, but for numbers of ours.
        """
        for _ in range(ATTEMPTS):
            if number is not None:
                self._refuse_late(number)
            before = self._seen().version
            numbered = None if number is None else (self._application, number)
            if self._log.add(before + 1, appending(files, before, said, numbered)):
                self._checkpoint_if_due(before + 1)
                return Commit(before + 1, said, sum(one.rows for one in files))
        raise Superseded(f"{self.location} was written to by others {ATTEMPTS} times at the same moment.")

    def _seen(self) -> _Seen:
        """What is known, up to the newest version."""
        if self._known is None or not self._log.has(self._known.version):
            self._known = self._looked_at()
        for commit in self._log.after(self._known.version):
            self._known.take(commit, self._application)
        return self._known

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
        )

    def _snapshot(self) -> Any:
        """The JVM's own view of the newest version: what SQL does not show."""
        log = self._delta_log()
        # Reading the table has it look at its log again.
        self.read().schema  # noqa: B018
        return log.unsafeVolatileSnapshot()

    def _delta_log(self) -> Any:
        delta_log = self._spark._jvm.org.apache.spark.sql.delta.DeltaLog
        return delta_log.forTable(self._spark._jsparkSession, self.location.text)

    def _checkpoint_if_due(self, version: int) -> None:
        if version % CHECKPOINT_EVERY == 0:
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
            writer.option("userMetadata", said).save(self.location.text)
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
        raise Superseded(f"Somebody else writes to {self.location}: a later start has taken over.")


def as_delta(table: NumberedTable) -> DeltaTable:
    """The same table, for what only Delta does. Raises Refused for one of plain Parquet."""
    if not isinstance(table, DeltaTable):
        raise Refused(
            f"{table.location} is kept as plain Parquet, whose files are never rewritten: only an archive in "
            "Delta can be compacted or have records erased. Archive its topics with --format delta to "
            "another directory."
        )
    return table
