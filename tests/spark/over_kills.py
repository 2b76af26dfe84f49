"""What Spark does with a cluster while its gateways die: it writes and reads batches, and two streams go on,
one into a topic and one into files.

An idempotent producer writes the topic that both streams read. At the end every topic and the files hold what
was sent, each record once and in its partition's order: neither Spark nor the stores were killed, so that
nothing was tried again by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.clients.leaders import read_at_leader
from tests.clients.stored import create_replicated_topic, stored_records
from tests.differential.batches import Record
from tests.peers.gateways import Gateways
from tests.spark.frames import as_records, read, read_stream
from tests.spark.writer import Place, Writer, is_at

PARTITIONS: Final = 6
COPIES: Final = 3
ROWS: Final = 400
"""Of a batch that is written."""
TRIGGER: Final = "500 milliseconds"
DONE_SECONDS: Final = 120.0
"""For what the streams have left to do at the end, and for a topic's leaders to be there."""

Places = dict[int, list[tuple[int, Record]]]
"""By partition, offsets and records."""


class OverKills:
    """Streams and batches of one cluster. Raises AssertionError that says what is not as it should be."""

    def __init__(self, spark: SparkSession, cluster: Gateways, folder: Path) -> None:
        self._spark, self._cluster, self._folder = spark, cluster, folder
        self.rounds = 0
        self.sent = 0
        for topic in ("source", "target", "batches"):
            create_replicated_topic(cluster.addresses[0], topic, PARTITIONS, COPIES)

    def run(self, enough: Callable[[], bool]) -> None:
        """Batches one after the other and both streams, until it is `enough`; then everything is compared."""
        streams = [self._to_files(), self._to_topic()]
        writer = Writer(self._cluster.bootstrap, "source", PARTITIONS)
        try:
            while not enough():
                self._batch()
                for stream in streams:
                    assert stream.exception() is None, stream.exception()
        finally:
            writer.stop()
        for stream in streams:
            _finish(stream)
        self._compare(writer)

    def _batch(self) -> None:
        """Write some more, and read all that was written so far."""
        self.rounds += 1
        first = self.rounds * ROWS
        rows = [(f"key {n % 50}", f"row {n}") for n in range(first, first + ROWS)]
        frame = self._spark.createDataFrame(rows, "key string, value string").repartition(2)
        target = frame.write.format("kafka").option("kafka.bootstrap.servers", self._cluster.bootstrap)
        target.option("topic", "batches").save()
        found = read(self._spark, self._cluster.bootstrap, subscribe="batches")
        values = [row.value for row in found.selectExpr("cast(value as string) as value").collect()]
        _same_values(values, [f"row {n}" for n in range(ROWS, first + ROWS)], f"batches after {self.rounds}")

    def _stream(self) -> Any:
        options = {"subscribe": "source", "startingOffsets": "earliest"}
        return read_stream(self._spark, self._cluster.bootstrap, **options)

    def _to_files(self) -> StreamingQuery:
        writer = self._stream().writeStream.format("parquet").option("path", str(self._folder / "files"))
        return self._started(writer, "files")

    def _to_topic(self) -> StreamingQuery:
        frame = self._stream().selectExpr("key", "upper(cast(value as string)) as value", "partition")
        writer = frame.writeStream.format("kafka").option("topic", "target")
        return self._started(writer.option("kafka.bootstrap.servers", self._cluster.bootstrap), "topic")

    def _started(self, writer: Any, name: str) -> StreamingQuery:
        checkpoint = str(self._folder / f"checkpoint-{name}")
        started: StreamingQuery = (
            writer.option("checkpointLocation", checkpoint).trigger(processingTime=TRIGGER).start()
        )
        return started

    def _compare(self, writer: Writer) -> None:
        source = self._stored("source")
        places = {
            record.value: (partition, offset)
            for partition, pairs in source.items()
            for offset, record in pairs
        }
        self.sent = sum(map(len, source.values()))
        assert len(places) == self.sent, "a record was stored twice"
        _same_places(places, writer.acked)
        _in_order(source)
        files = as_records(self._spark.read.parquet(str(self._folder / "files")))
        assert {partition: pairs for (_, partition), pairs in files.items()} == source, "the files differ"
        wanted = {n: [(record.value or b"").upper() for _, record in pairs] for n, pairs in source.items()}
        target = {n: [record.value for _, record in pairs] for n, pairs in self._stored("target").items()}
        assert target == wanted, "the target differs"

    def _stored(self, topic: str) -> Places:
        return {partition: self._stored_in(topic, partition) for partition in range(PARTITIONS)}

    def _stored_in(self, topic: str, partition: int) -> list[tuple[int, Record]]:
        """Read without Spark."""
        return read_at_leader(stored_records, self._cluster.bootstrap, topic, partition, DONE_SECONDS)


def _finish(stream: StreamingQuery) -> None:
    """All that is there is done, and it ends."""
    stream.processAllAvailable()
    assert stream.exception() is None, stream.exception()
    stream.stop()


def _same_values(found: Sequence[str], wanted: Sequence[str], what: str) -> None:
    """In any order."""
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    assert not missing, f"{what}: {len(missing)} are missing, {next(iter(missing))!r} among them"
    assert not more, f"{what}: {len(more)} are there twice or were not sent, {next(iter(more))!r} among them"


def _same_places(stored: Mapping[bytes | None, Place], acked: Mapping[bytes, Place]) -> None:
    missing = {value: place for value, place in acked.items() if not is_at(stored.get(value), place)}
    more = {value: place for value, place in stored.items() if value not in acked}
    assert not missing, f"{len(missing)} were acknowledged and are not there: {_some(missing, stored)}"
    assert not more, f"{len(more)} are there and were not acknowledged: {_some(more, acked)}"


def _some(differ: Mapping[Any, Place], other: Mapping[Any, Place]) -> str:
    """Where they are, and where on the other side."""
    return ", ".join(f"{value!r} {place} {other.get(value)}" for value, place in islice(differ.items(), 10))


def _in_order(source: Places) -> None:
    """Of each partition, numbers as they were sent."""
    for partition, pairs in source.items():
        numbers = [int((record.value or b"").split()[-1]) for _, record in pairs]
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
