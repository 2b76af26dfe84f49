"""Replay beside Spark's own Kafka sink: `python -m tests.bench_pipelines replay [--records N] [--rounds N]
[--server kafka]`.

An archive of 100-byte values in four partitions. Each round sends all of it, in turns and in one session,
once by the replay job (without its audit, which has a bench of its own) and once by
`write.format("kafka")`, which keeps no times. Processor seconds are those of the driver's JVM and its
Python workers, and of the server.
"""

from __future__ import annotations

import io
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.replay.job import Replay, ReplaySettings
from dafka_pipeline.replay.selection import Selection
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.location import Location
from tests.bench_pipelines.audit import PARTITIONS, TOPIC, write_table
from tests.bench_pipelines.frame import server_and_folder, sizes_and_server, spark_in
from tests.clients.stored import create_topic
from tests.peers.process import ServerProcess

TICKS = 100


class Cost(NamedTuple):
    """Seconds by the clock, and processor seconds of Spark with its workers and of the server."""

    clock: float
    spark: float
    server: float


def replay(spark: SparkSession, bootstrap: str, archive: Path, target: str, transactions: str) -> None:
    settings = ReplaySettings(
        location=Location(str(archive)),
        version=None,
        selection=Selection({TOPIC: target}),
        stream=target,
        audit=False,
        transactions=transactions,
    )
    report = Report("replay", out=io.StringIO())
    Replay(spark, KafkaOptions(bootstrap), settings, report, Stop()).run()


def plain(spark: SparkSession, bootstrap: str, archive: Path, target: str) -> None:
    """What somebody would write by hand."""
    frame = spark.read.format("delta").load(str(archive))
    rows = frame.selectExpr(f"'{target}' AS topic", "partition", "key", "value", "headers")
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("includeHeaders", "true").option("kafka.compression.type", "lz4").save()


def timed(work: Callable[[], None], server: ServerProcess, jvm: int) -> Cost:
    began, ours, theirs = time.monotonic(), tree_seconds(jvm), server.cpu_seconds
    work()
    return Cost(time.monotonic() - began, tree_seconds(jvm) - ours, server.cpu_seconds - theirs)


def tree_seconds(root: int) -> float:
    """Processor time of a process and all below it, of those that have ended there, too."""
    fields = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue
            fields[int(folder.name)] = text.rsplit(")", 1)[1].split()
    tree, size = {root}, 0
    while len(tree) > size:
        size = len(tree)
        tree |= {pid for pid, those in fields.items() if int(those[1]) in tree}
    return sum(int(number) for pid in tree if pid in fields for number in fields[pid][11:15]) / TICKS


def end(bootstrap: str, topic: str) -> int:
    places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    return sum(Cluster(KafkaOptions(bootstrap)).end_offsets(places).values())


def bench(
    spark: SparkSession, server: ServerProcess, bootstrap: str, records: int, rounds: int, transactions: str
) -> None:
    """Prints each round, and the medians of replay in times of the sink."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    folder = Path(tempfile.mkdtemp(prefix="bench-replay-"))
    rates: list[float] = []
    work: list[float] = []
    try:
        write_table(spark, folder / "a", records)
        for number in range(rounds + 1):
            costs = []
            for name, send in (("replay", replay), ("sink", plain)):
                topic = create_topic(bootstrap, f"{name}-{number}", PARTITIONS)
                more = (transactions,) if name == "replay" else ()
                costs.append(
                    timed(lambda: send(spark, bootstrap, folder / "a", topic, *more), server, jvm)  # noqa: B023
                )
                assert transactions == "yes" or end(bootstrap, topic) == records
                Cluster(KafkaOptions(bootstrap)).admin.delete_topics([topic])[topic].result()
            ours, sink = costs
            print(
                f"{f'round {number}' if number else 'warm-up'}: replay {records / ours.clock / 1000:.0f}, "
                f"sink {records / sink.clock / 1000:.0f} thousand records a second; processor seconds of "
                f"Spark and its workers {ours.spark:.1f}, {sink.spark:.1f}; of the server {ours.server:.1f}, "
                f"{sink.server:.1f}",
                flush=True,
            )
            if number:
                rates.append(sink.clock / ours.clock)
                work.append((ours.spark + ours.server) / (sink.spark + sink.server))
    finally:
        shutil.rmtree(folder)
    print(
        f"replay / sink {statistics.median(rates):.2f} by the clock; {statistics.median(work):.2f} x its "
        "processor seconds, the server's among them"
    )


def main(arguments: list[str] | None = None) -> None:
    parser = sizes_and_server(__doc__)
    parser.add_argument("--transactions", choices=["auto", "yes", "no"], default="no")
    given = parser.parse_args(arguments)
    with server_and_folder(given.server) as (server, folder), spark_in(folder) as spark:
        bench(spark, server, server.bootstrap, given.records, given.rounds, given.transactions)


if __name__ == "__main__":
    main()
