"""A Delta table whose commits are numbered, and say something in the same atomic step.

The table is everything: rows and what is said about them are one commit. See `state.py` for the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from dafka_pipeline.failures import PipelineError
from dafka_pipeline.table.location import Files, Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_BACK: Final = (1, 20, 1000)
"""How many of the newest commits are looked at for one of ours, step by step: a compaction may lie above."""

T = TypeVar("T")


class Superseded(PipelineError):
    """A commit came too late: somebody has committed a higher number. The table has nothing of it."""


class Commit(NamedTuple):
    """A commit as the table's log has it.

    said: what was said with it. rows: how many it added.
    """

    version: int
    said: str | None
    rows: int


class NumberedTable:
    """A Delta table at a location.

    application: names the series of numbers in the table's log (Delta's `txnAppId`); a table has one.
    """

    def __init__(self, spark: SparkSession, location: Location, application: str) -> None:
        self.location = location
        self._spark = spark
        self._application = application

    @property
    def sql(self) -> str:
        """Its name in a statement."""
        return f"delta.`{self.location.text.replace('`', '``')}`"

    def exists(self) -> bool:
        """Whether there is a Delta table at the location."""
        return Files(self._spark, self.location).exists("_delta_log")

    def create(self, schema: str, partitioned_by: Sequence[str] = (), statistics: Sequence[str] = ()) -> None:
        """Make it, empty, where there is none.

        Its protocol stays reader 1, writer 2: everything that knows Delta reads it.
        """
        partitioned = f"PARTITIONED BY ({', '.join(partitioned_by)})" if partitioned_by else ""
        properties = (
            f"TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '{','.join(statistics)}')"
            if statistics
            else ""
        )
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.sql} ({schema}) USING delta {partitioned} {properties}"
        )

    def read(self, version: int | None = None) -> DataFrame:
        """Its rows, now or as of a version."""
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.location.text)

    def version(self) -> int:
        """Of its newest commit, whoever made it."""
        return next(self.commits(1)).version

    def commits(self, newest: int | None = None) -> Iterator[Commit]:
        """Its commits, newest first; as far back as its log still goes (30 days are kept)."""
        limit = "" if newest is None else f" LIMIT {newest}"
        for row in self._spark.sql(f"DESCRIBE HISTORY {self.sql}{limit}").collect():
            metrics = row["operationMetrics"] or {}
            yield Commit(row["version"], row["userMetadata"], int(metrics.get("numOutputRows", 0)))

    def newest(self, parse: Callable[[str | None], T | None]) -> tuple[Commit, T] | None:
        """The newest commit that `parse` makes something of, and what; None where no commit is one."""
        seen = 0
        for limit in (*LOOK_BACK, None):
            commits = list(self.commits(limit))
            for commit in commits[seen:]:
                made = parse(commit.said)
                if made is not None:
                    return commit, made
            if limit is None or len(commits) < limit:
                return None
            seen = len(commits)
        return None

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
            if "CONCURRENT" in str(error).upper():
                raise Superseded(
                    f"{self.location} was written to by somebody else at the same time."
                ) from error
            raise
        # Delta drops a commit whose number is not new without a word: the log says whether ours is there.
        for commit in self.commits(LOOK_BACK[1]):
            if commit.said == said:
                return commit
        raise Superseded(f"Somebody else writes to {self.location}: a later start has taken over.")
