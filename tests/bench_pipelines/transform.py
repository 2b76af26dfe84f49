"""The transform job beside the plain query: `python -m tests.bench_pipelines transform [--records N]
[--rounds N] [--server kafka]`.

A topic of 100-byte values in four partitions goes through one function of built-in expressions into another
topic. Each round runs, in turns and in one session, `transform --once` with its default delivery, and the
query that somebody would write by hand: the same reader, function, sink and checkpoint.
"""

from __future__ import annotations

import io
import statistics
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dafka_pipeline.commands.options import Run
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.frames import COLUMNS, READER
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import Timing
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.spark.session import SparkOptions
from dafka_pipeline.table.location import Location
from dafka_pipeline.transform.frames import SETTINGS
from dafka_pipeline.transform.function import load_function
from dafka_pipeline.transform.job import Transform
from dafka_pipeline.transform.settings import TransformSettings
from tests.bench_pipelines.archive import PARTITIONS, TOPIC, on_a_topic
from tests.bench_pipelines.replay import end, timed
from tests.clients.stored import create_topic
from tests.peers.process import ServerProcess


def shouts(records: DataFrame) -> DataFrame:
    """The function: upper case, by code that Spark compiles."""
    return records.selectExpr("key", "upper(CAST(value AS STRING)) AS value")


def transform(spark: SparkSession, bootstrap: str, target: str, checkpoint: Path) -> None:
    """The job, at least once."""
    settings = TransformSettings(
        sources=(TOPIC,),
        targets=(target,),
        checkpoint=Location.of(str(checkpoint)),
        function=f"{__name__}:shouts",
        every_seconds=None,
    )
    report = Report("transform", out=io.StringIO())
    run = Run("transform", KafkaOptions(bootstrap), SparkOptions(), report, Stop(), 30.0)
    Transform(run, settings, load_function(settings.function), spark, Timing()).run()


def plain(spark: SparkSession, bootstrap: str, target: str, checkpoint: Path) -> None:
    """The query by hand."""
    reader = spark.readStream.format("kafka").options(**READER).option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    rows = shouts(reader.option("includeHeaders", "true").load().selectExpr(*COLUMNS))
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def bench(spark: SparkSession, server: ServerProcess, bootstrap: str, records: int, rounds: int) -> None:
    """Prints each round, and the medians of the job in times of the plain query."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    clocks: list[float] = []
    work: list[float] = []
    for number in range(rounds + 1):
        costs = []
        for name, send in (("transform", transform), ("plain", plain)):
            target = create_topic(bootstrap, f"{name}-{number}", PARTITIONS)
            with tempfile.TemporaryDirectory(prefix="bench-transform-") as folder:
                costs.append(
                    timed(lambda: send(spark, bootstrap, target, Path(folder) / "c"), server, jvm)  # noqa: B023
                )
            assert end(bootstrap, target) == records
            Cluster(KafkaOptions(bootstrap)).admin.delete_topics([target])[target].result()
        ours, other = costs
        print(
            f"{f'round {number}' if number else 'warm-up'}: transform {records / ours.clock / 1000:.0f}, "
            f"plain {records / other.clock / 1000:.0f} thousand records a second; processor seconds of Spark "
            f"{ours.spark:.1f}, {other.spark:.1f}; of the server {ours.server:.1f}, {other.server:.1f}",
            flush=True,
        )
        if number:
            clocks.append(ours.clock / other.clock)
            work.append(ours.spark / other.spark)
    print(
        f"transform takes {statistics.median(clocks):.2f} x the plain query's time, and "
        f"{statistics.median(work):.2f} x its processor seconds"
    )


def main(arguments: list[str] | None = None) -> None:
    on_a_topic(__doc__, bench, arguments)


if __name__ == "__main__":
    main()
