"""What was counted on the way through a query, waited for within a limit.

Spark tells it over its bus of events after the query's end. An event that the bus drops would be waited for
without an end, and no signal wakes a thread that waits in Java.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.failures import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SECONDS: Final = 60.0
"""How long after a query's end its counts are waited for; usually some milliseconds."""


class NotTold(PipelineError):
    """Spark has not said what was counted: the same work again may go well."""

    retriable = True


class Observed:
    """Counts of one query's rows."""

    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()
        self._found: dict[str, Any] | None = None

    def over(self, frame: DataFrame, *columns: Column) -> DataFrame:
        """The same rows, counted when they are written."""
        return frame.observe(self._observation, *columns)

    def get(self) -> dict[str, Any]:
        """What was counted, once the query has ended. Raises NotTold."""
        if self._found is None:
            waiting = threading.Thread(target=self._ask, daemon=True)
            waiting.start()
            waiting.join(SECONDS)
        if self._found is None:
            raise NotTold("Spark has not told how many rows it wrote.")
        return self._found

    def rows(self) -> int:
        """What was counted as `rows`. Raises NotTold."""
        return int(self.get()["rows"])

    def _ask(self) -> None:
        self._found = self._observation.get


def rows_of(frame: DataFrame) -> tuple[DataFrame, Observed]:
    """A frame whose rows are counted, and the count, under `rows`."""
    from pyspark.sql import functions as sql

    observed = Observed()
    return observed.over(frame, sql.count(sql.lit(1)).alias("rows")), observed
