"""The archive job beside plain Spark: `python -m tests.bench_pipelines archive [--records N] [--rounds N]
[--server kafka]`.

One topic of four partitions with 100-byte values. Each round runs, in turns and in one session: the archive
job into a new directory; a plain batch read of Spark's into Parquet with the same codec and the same settings
of its reader; the same read to Spark's `noop` sink. Processor seconds are the driver's JVM, which runs the
tasks, and the server's.
"""

from __future__ import annotations

import io
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from dafka_pipeline.archive.job import Archiver
from dafka_pipeline.archive.settings import ArchiveSettings
from dafka_pipeline.kafka.frames import COLUMNS, READER
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.location import Location
from tests.bench_pipelines.frame import server_and_folder, sizes_and_server, spark_in
from tests.clients.stored import create_topic
from tests.peers.process import ServerProcess

PARTITIONS = 4
VALUE_BYTES = 100
TOPIC = "bench"


def fill(bootstrap: str, records: int) -> None:
    """So many records of 100 bytes, evenly over the partitions."""
    create_topic(bootstrap, TOPIC, PARTITIONS)
    put_numbered(bootstrap, range(records))


def put_numbered(bootstrap: str, numbers: range) -> None:
    """Records of 100 bytes with these numbers, as fast as librdkafka sends them."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 512 << 10,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": "lz4",
        }
    )
    value = bytes(range(VALUE_BYTES - 10))
    for number in numbers:
        data = b"%010d" % number + value
        while True:
            try:
                producer.produce(TOPIC, data, b"%d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(300) == 0


def archive(spark: SparkSession, bootstrap: str, to: Path) -> None:
    settings = ArchiveSettings(to=Location(str(to)), topics=(TOPIC,))
    report = Report("archive", out=io.StringIO())
    Archiver(spark, KafkaOptions(bootstrap), settings, report, Stop()).run()


def plain(spark: SparkSession, bootstrap: str, to: Path | None) -> None:
    """What somebody would write by hand; None reads and writes nothing."""
    reader = spark.read.format("kafka").options(**READER).option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", TOPIC).option("includeHeaders", "true").load().selectExpr(*COLUMNS)
    if to is None:
        frame.write.format("noop").mode("overwrite").save()
    else:
        frame.write.option("compression", "zstd").parquet(str(to))


def timed(work: Callable[[], None], server: ServerProcess, jvm: int) -> tuple[float, float, float]:
    """Seconds; processor seconds of the JVM and of the server."""
    began, ours, theirs = time.monotonic(), cpu_seconds(jvm), server.cpu_seconds
    work()
    return time.monotonic() - began, cpu_seconds(jvm) - ours, server.cpu_seconds - theirs


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM:"))


def bench(spark: SparkSession, server: ServerProcess, bootstrap: str, records: int, rounds: int) -> None:
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    ratios: dict[str, list[float]] = {"Parquet": [], "noop": [], "processor": []}
    for number in range(rounds + 1):
        folder = Path(tempfile.mkdtemp(prefix="bench-archive-"))
        try:
            ours = timed(lambda to=folder / "a": archive(spark, bootstrap, to), server, jvm)  # type: ignore[misc]
            parquet = timed(lambda to=folder / "p": plain(spark, bootstrap, to), server, jvm)  # type: ignore[misc]
            noop = timed(lambda: plain(spark, bootstrap, None), server, jvm)
        finally:
            shutil.rmtree(folder)
        rates = [records / one[0] / 1000 for one in (ours, parquet, noop)]
        print(
            f"{'warm-up' if not number else f'round {number}'}: archive {rates[0]:.0f}, "
            f"plain Parquet {rates[1]:.0f}, noop {rates[2]:.0f} thousand records a second; "
            f"processor seconds of the JVM {ours[1]:.1f}, "
            f"{parquet[1]:.1f}, {noop[1]:.1f}; of the server {ours[2]:.1f}, {parquet[2]:.1f}, {noop[2]:.1f}",
            flush=True,
        )
        if number:
            ratios["Parquet"].append(rates[0] / rates[1])
            ratios["noop"].append(rates[0] / rates[2])
            ratios["processor"].append(ours[1] / parquet[1])
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    print(
        f"archive / plain Parquet {medians['Parquet']:.2f}, archive / noop {medians['noop']:.2f}, "
        f"processor seconds {medians['processor']:.2f} x plain Parquet's; "
        f"the JVM had {resident_mib(jvm)} MiB at most"
    )


def on_a_topic(
    description: str | None,
    bench: Callable[[SparkSession, ServerProcess, str, int, int], None],
    arguments: list[str] | None,
) -> None:
    """Run a bench beside a server whose topic is full."""
    given = sizes_and_server(description).parse_args(arguments)
    with server_and_folder(given.server) as (server, folder):
        fill(server.bootstrap, given.records)
        with spark_in(folder) as spark:
            bench(spark, server, server.bootstrap, given.records, given.rounds)


def main(arguments: list[str] | None = None) -> None:
    on_a_topic(__doc__, bench, arguments)


if __name__ == "__main__":
    main()
