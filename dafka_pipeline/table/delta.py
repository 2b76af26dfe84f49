"""A Delta table whose commits are numbered, and say something in the same atomic step.

The table is everything: rows and what is said about them are one commit. See `state.py` for the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from dafka_pipeline.failures import PipelineError
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import FOLDER, Commit, DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONFLICT: Final = re.compile(r"DELTA_CONCURRENT_|io\.delta\.exceptions\.\w*Concurrent\w*Exception")
"""Delta's ways to say that two wrote at once; any stack trace of Java has a `java.util.concurrent` in it."""

T = TypeVar("T")

LOOK_BACK: Final = 20
"""How many of the newest commits are looked at for the one just made: compactions may lie above it."""


class Superseded(PipelineError):
    """A commit came too late: somebody has committed a higher number. The table has nothing of it."""

    retriable = True


class Newest(NamedTuple, Generic[T]):
    """The newest commit in force that says something, and what it says."""

    commit: Commit
    said: T


class NumberedTable:
    """A Delta table at a location.

    application: names the series of numbers in the table's log (Delta's `txnAppId`); a table has one.
    """

    def __init__(self, spark: SparkSession, location: Location, application: str) -> None:
        self.location = location
        self._spark = spark
        self._application = application
        self._log = DeltaLog(Files(spark, location))

    @property
    def sql(self) -> str:
        """Its name in a statement."""
        return f"delta.`{self.location.text.replace('`', '``')}`"

    def exists(self) -> bool:
        """Whether there is a Delta table at the location: a death in the first commit leaves an empty log."""
        names = Files(self._spark, self.location).names(FOLDER)
        return any(name.endswith((".json", ".parquet")) for name in names)

    def create(self, schema: Any, partitioned_by: Sequence[str] = (), statistics: Sequence[str] = ()) -> None:
        """Make it, empty, where there is none.

        Its protocol stays reader 1, writer 2: everything that knows Delta reads it.
        """
        if self.exists():
            return
        # CREATE TABLE IF NOT EXISTS takes any directory with files in it for a table.
        nothing = self._spark.createDataFrame([], schema).write.format("delta").mode("append")
        if statistics:
            nothing = nothing.option("delta.dataSkippingStatsColumns", ",".join(statistics))
        nothing.partitionBy(*partitioned_by).save(self.location.text)

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

    def newest(self, parse: Callable[[str | None], T | None]) -> Newest[T] | None:
        """The newest commit that `parse` makes something of; None where no commit is one.

        What a RESTORE undid does not count: its rows are gone.
        """
        return newest_in(self.commits(), parse)

    def last_number(self) -> int:
        """The highest number of a commit, as the table keeps it; 0 where there is none."""
        found = self._snapshot().transactions().get(self._application)
        return int(found.get()) if found.isDefined() else 0

    def _snapshot(self) -> Any:
        """The JVM's own view of the newest version: what SQL does not show."""
        delta_log = self._spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log = delta_log.forTable(self._spark._jsparkSession, self.location.text)
        # Reading the table has it look at its log again.
        self.read().schema  # noqa: B018
        return log.unsafeVolatileSnapshot()

    def append(self, frame: DataFrame, number: int, said: str) -> Commit:
        """Add rows, and say something, in one commit with that number.

        Raises Superseded when the table has a commit with this number or a higher one, or when somebody else
        commits at the same time: nothing was added.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

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


def newest_in(commits: Iterable[Commit], parse: Callable[[str | None], T | None]) -> Newest[T] | None:
    """As `NumberedTable.newest`, among these commits, newest first."""
    in_force: int | None = None
    for commit in commits:
        if in_force is not None and commit.version > in_force:
            continue
        if commit.restored is not None:
            in_force = commit.restored
            continue
        made = parse(commit.said)
        if made is not None:
            return Newest(commit, made)
    return None
