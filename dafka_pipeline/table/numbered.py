"""A table whose commits are numbered, and say something in the same atomic step.

The table is everything: rows and what is said about them are one commit. See `state.py` for the rule, and
`delta.py` and `parquet.py` for the two ways to keep it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from dafka_pipeline.failures import PipelineError, Refused
from dafka_pipeline.table.data_files import DataFile
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.log import SOME_VERSION, Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")
Constant = Mapping[str, str | None]
"""Values of partition columns."""
Counted = Callable[[], int]
"""How many rows a frame had, after they were written."""
NOTHING: Final[Constant] = MappingProxyType({})


class Superseded(PipelineError):
    """A commit came too late: somebody has committed a higher number. The table has nothing of it."""

    retriable = True


def taken_over(location: Location) -> Superseded:
    """What a commit raises whose number is not above the table's."""
    return Superseded(f"Somebody else writes to {location}: another process has taken over.")


class Newest(NamedTuple, Generic[T]):
    """The newest commit in force that says something, and what it says."""

    commit: Commit
    said: T


class NumberedTable(ABC):
    """A table at a location.

    application: names the series of numbers in the table; a table has one.
    """

    def __init__(self, location: Location, application: str) -> None:
        self.location = location
        self._application = application

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is such a table at the location."""

    @abstractmethod
    def create(self, schema: Any, partitioned_by: Sequence[str] = (), statistics: Sequence[str] = ()) -> None:
        """Make it, empty, where there is none.

        statistics: columns whose least and greatest value each file tells.
        """

    @abstractmethod
    def read(self, version: int | None = None) -> DataFrame:
        """Its rows, now or as of a version."""

    @abstractmethod
    def version(self) -> int:
        """The version of its newest commit, whoever made it."""

    @abstractmethod
    def commits(self, newest: int | None = None) -> Iterator[Commit]:
        """Its commits, newest first: so many, or as far back as the table still knows them."""

    @abstractmethod
    def last_number(self) -> int:
        """The highest number of a commit, as the table keeps it; 0 where there is none."""

    @abstractmethod
    def append(
        self,
        frame: DataFrame | None,
        number: int,
        said: str,
        constant: Constant = NOTHING,
        counted: Counted | None = None,
    ) -> Commit:
        """Add rows (None: no rows), and say something, in one commit with that number.

        constant: values of partition columns that are the same in all rows; saying so saves work for each
        row.

        counted: asked, once the rows are written, how many there were.

        Raises Superseded when the table has a commit with this number or a higher one, or when somebody else
        commits at the same time; PipelineError where rows were written that are not to be seen. Nothing was
        added then.
        """

    @abstractmethod
    def add(self, frame: DataFrame) -> None:
        """Add rows in a commit that says nothing and has no number."""

    def tidy(self) -> None:  # noqa: B027  # most have nothing to tidy
        """Remove what commits that were never made have left."""

    def newest(self, parse: Callable[[str | None], T | None]) -> Newest[T] | None:
        """The newest commit that `parse` makes something of; None where no commit is one.

        What a RESTORE undid does not count: its rows are gone.
        """
        return newest_in(self.commits(), parse)


def check_count(files: Collection[DataFile], counted: Counted | None, location: Location) -> None:
    """Raises PipelineError where the files that are seen here do not have all the rows that tasks wrote."""
    if counted is None:
        return
    there, written = sum(one.rows for one in files), counted()
    if there > written:
        raise Superseded(f"A task that failed has left rows in the files of a batch in {location}.")
    if there < written:
        raise PipelineError(
            f"Tasks wrote {written:,} rows to {location}, and {there:,} of them are seen from here: nothing "
            "was committed. All machines of a cluster must see the same directory: give a shared one, "
            "hdfs:// or s3a://."
        )


def newest_in(commits: Iterable[Commit], parse: Callable[[str | None], T | None]) -> Newest[T] | None:
    """As `NumberedTable.newest`, among these commits, newest first."""
    in_force: int | None = None
    for commit in commits:
        if in_force is not None and commit.version > in_force:
            continue
        if commit.restored == SOME_VERSION:
            raise Refused(
                "The table was restored to a time, and its log does not say which version that was. Restore "
                "it to a version (RESTORE TABLE ... TO VERSION AS OF N)."
            )
        if commit.restored is not None:
            in_force = commit.restored
            continue
        made = parse(commit.said)
        if made is not None:
            return Newest(commit, made)
    return None
