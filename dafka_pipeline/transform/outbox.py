"""Exactly once into Kafka: a batch's rows are committed to a table once, and published from there.

Spark's state and offsets are exact by its checkpoint; its Kafka sink is not, because a batch that is run
again sends again. So a batch writes its rows into a Delta table under its number, which the table takes once,
and `producing` publishes them: it reads from the target's end what is there already. Whatever dies when, the
next start publishes what the outbox has and the target lacks, and lets Spark go on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.replay.murmur import partition_sql
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.spark.observed import rows_of
from dafka_pipeline.table.delta import DeltaTable
from dafka_pipeline.table.location import Location
from dafka_pipeline.transform.binding import Binding
from dafka_pipeline.transform.checkpoint import SparkCheckpoint
from dafka_pipeline.transform.outbox_state import ANEW, SparkSide, Written, check_outbox, parse_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REST: Final = {
    "timestamp": "TIMESTAMP",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
SCHEMA: Final = "batch BIGINT, n BIGINT, target STRING, target_partition INT, " + ", ".join(
    f"{name} {kind}" for name, kind in REST.items()
)
"""n: position in the batch, unique, ascending within what one task made. A row's whole position is (batch,
n)."""
TRIM_BATCHES: Final = 20
"""Published batches that stay in the table before they are deleted together: a deletion is a commit."""
VACUUM_SECONDS: Final = 3600.0
"""Between two removals of deleted files; they are kept so long, too."""
RETENTION: Final = "interval 1 hour"


class Outbox:
    """The table of one checkpoint."""

    def __init__(
        self, spark: SparkSession, location: Location, binding: Binding, checkpoint: SparkCheckpoint
    ) -> None:
        self.location = location
        self._spark = spark
        self._binding = binding
        self._checkpoint = checkpoint
        self._tables: dict[str, DeltaTable] = {}
        """By the query whose numbers they count; each remembers what it has seen of the log."""
        self._newest: Written | None = None
        self._trimmed_at = 0
        self._vacuumed_at: float | None = None

    def check(self) -> None:
        """See whether it belongs to the checkpoint; nothing is written. Raises Refused."""
        table = self._table("")
        if table.exists():
            found = table.newest(parse_written)
            self._newest = None if found is None else found.said
        self._refuse_strangers()

    def open(self) -> None:
        """As `check`, and make the table where there is none."""
        self.check()
        table = self._table("")
        if not table.exists():
            table.create(SCHEMA, ("batch",), properties={"delta.deletedFileRetentionDuration": RETENTION})

    def write(self, frame: DataFrame, batch: int) -> None:
        """A batch's rows, once; `frame` has the columns that `outgoing` gives.

        A batch that is run again is computed for its state and watermark, and not written again.
        Raises Refused where the table has the batch with other offsets.
        """
        written = Written(
            self._binding.id, self._checkpoint.query(), batch, self._checkpoint.planned(batch).said
        )
        if self._newest is not None and self._newest.batch >= batch:
            if self._newest != written:
                raise Refused(
                    f"Batch {batch} is run again with other offsets than before: the checkpoint "
                    f"{self._checkpoint.place} was changed meanwhile. {ANEW}"
                )
            frame.write.format("noop").mode("overwrite").save()
            return
        fail_point("transform-before-outbox")
        rows, count = rows_of(self._rows(frame, batch))
        self._table(written.query).append(rows, batch, written.to_json(), {"batch": str(batch)}, count.rows)
        self._newest = written
        fail_point("transform-after-outbox")

    def rows(self, first_batch: int = 0) -> DataFrame:
        """What is to be published, from a batch on, as `producing` takes it; pinned to the table's
        version.
        """
        table = self._table("")
        rows = table.read(table.version()).where(f"batch >= {first_batch}")
        return rows.selectExpr("target", "target_partition", *REST, "array(batch, n) AS position")

    @property
    def newest_batch(self) -> int | None:
        """The highest number in it; None before the first."""
        return None if self._newest is None else self._newest.batch

    def trim(self, batch: int, *, now: bool = False) -> None:
        """Delete what was published, up to a batch, every TRIM_BATCHES batches or now."""
        if not now and batch - self._trimmed_at < TRIM_BATCHES:
            return
        table = self._table("")
        statement = f"DELETE FROM {table.sql} WHERE batch <= {batch:d}"  # noqa: S608  # a name of ours, a number
        self._spark.sql(statement)
        self._trimmed_at = batch
        fail_point("transform-after-trim")
        if self._vacuumed_at is None or time.monotonic() - self._vacuumed_at > VACUUM_SECONDS:
            self._spark.sql(f"VACUUM {table.sql}")
            self._vacuumed_at = time.monotonic()

    def _table(self, query: str) -> DeltaTable:
        # Numbers are the query's: under a fixed name those of a new query would be too low.
        if query not in self._tables:
            self._tables[query] = DeltaTable(self._spark, self.location, f"dafka-outbox-{query}")
        return self._tables[query]

    def _refuse_strangers(self) -> None:
        checkpoint = self._checkpoint
        side = SparkSide(
            checkpoint.query(),
            checkpoint.newest_planned(),
            checkpoint.newest_committed(),
            lambda batch: checkpoint.planned(batch).said,
        )
        check_outbox(self._newest, self._binding.id, side, str(self.location))

    def _rows(self, frame: DataFrame, batch: int) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        # A number that stands in the table is the same whenever it is read.
        numbered = frame.withColumn("n", F.monotonically_increasing_id())
        targets = self._binding.targets
        columns = placed_columns(frame.columns, sorted(targets), self._binding.partitions)
        return numbered.selectExpr(f"CAST({batch:d} AS BIGINT) AS batch", "n", *columns)


def placed_columns(
    columns: Collection[str], targets: Sequence[str], partitions: Mapping[str, int]
) -> list[str]:
    """A row's target and partition, and the rest of it, as SQL over a frame with these columns and `n`.

    The partition is the one that the row says, else its key's as Java's producers choose it, else one after
    the other. A row that says one that its target has not fails its batch.
    """
    target = "topic" if "topic" in columns else _text(targets[0])
    counts = " ".join(f"WHEN {_text(name)} THEN {partitions[name]}" for name in targets)
    count = str(partitions[targets[0]]) if len(targets) == 1 else f"(CASE topic {counts} END)"
    key = "key" if "key" in columns else "CAST(NULL AS BINARY)"
    chosen = partition_sql(key, count, "n")
    if "partition" in columns:
        wrong = f"concat('the function names partition ', partition, ', and the target has ', {count})"
        named = f"IF(partition >= 0 AND partition < {count}, partition, CAST(raise_error({wrong}) AS INT))"
        chosen = f"IF(partition IS NULL, {chosen}, {named})"
    rest = [name if name in columns else f"CAST(NULL AS {kind}) AS {name}" for name, kind in REST.items()]
    return [f"{target} AS target", f"{chosen} AS target_partition", *rest]


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
