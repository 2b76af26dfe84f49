"""A long-lived archiver: memory over many records, requests while nothing comes, files of a day.

    python -m tests.bench_pipelines growth --records 100000000

`dafka-pipeline archive --every 2s` runs as a process while the topic grows in ten steps; after each step it
is waited for, and what the JVM and Python have resident is told. Then nothing comes for half a minute, and
the server's requests are counted. Then `compact`, and the files that are left are counted; what they hold is
counted by delta-rs.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dafka_pipeline.compact import job
from dafka_pipeline.compact.job import compact
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from tests.bench_pipelines.archive import PARTITIONS, TOPIC, put_numbered
from tests.bench_pipelines.frame import sizes, spark_in
from tests.clients.stored import create_topic
from tests.peers.maven import pipeline_jars
from tests.peers.ports import free_ports
from tests.peers.standalone import Standalone

STEPS = 10
IDLE_SECONDS = 30.0
COMPACTED_BYTES = 128 << 20
SPARK = ("--master", "local[2]", "--conf", "spark.driver.memory=2g")


def command(*arguments: str) -> list[str]:
    return [
        sys.executable, "-m", "dafka_pipeline", *arguments, *SPARK, "--jars", str(pipeline_jars())
    ]  # fmt: skip


def metric(address: str, name: str) -> float:
    """The sum over all labels of a metric."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in lines if line.partition("{")[0].split(" ")[0] == name
    )


def resident_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS:"))


def children(pid: int) -> list[int]:
    """The processes that a process started, all the way down."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *children(int(child))]
    return found


@contextmanager
def archiving(bootstrap: str, to: Path, address: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job, told to stop at the end."""
    line = command(
        "archive", "--bootstrap", bootstrap, "--topics", TOPIC, "--to", str(to), "--every", "2s",
        "--metrics", address,
    )  # fmt: skip
    with log.open("wb") as out, subprocess.Popen(line, stdout=out, stderr=out) as job:
        try:
            yield job
        finally:
            job.terminate()
            job.wait()


def await_archived(address: str, records: int, job: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        try:
            if metric(address, "dafka_pipeline_records_total") >= records:
                return
        except OSError:
            pass  # it starts
        assert job.poll() is None, log.read_text()[-4000:]
        time.sleep(0.5)


def grow(server: Standalone, pages: str, folder: Path, records: int) -> None:
    log, to, address = folder / "archive.log", folder / "archive", f"127.0.0.1:{free_ports(1)[0]}"
    with archiving(server.bootstrap, to, address, log) as running:
        for step in range(1, STEPS + 1):
            began = time.monotonic()
            put_numbered(server.bootstrap, range(records * (step - 1) // STEPS, records * step // STEPS))
            await_archived(address, records * step // STEPS, running, log)
            print(
                f"{records * step // STEPS:,} records ({time.monotonic() - began:.0f} s for this step): "
                f"JVM and Python have {sum(map(resident_mib, [running.pid, *children(running.pid)])):,} MiB, "
                f"the server {resident_mib(server.pid):,} MiB",
                flush=True,
            )
        before = metric(pages, "dafka_requests_total")
        time.sleep(IDLE_SECONDS)
        asked = metric(pages, "dafka_requests_total") - before
        print(f"idle: {asked / IDLE_SECONDS:.1f} requests a second", flush=True)
    files = DeltaTable(to).file_uris()
    print(f"{len(files)} files of {size_of(files) >> 20:,} MiB before compaction")


def compacted(to: Path, records: int, folder: Path) -> None:
    """As `dafka-pipeline compact` does tomorrow, when the day is closed."""
    with spark_in(folder) as spark, pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "today", lambda: datetime.now(UTC).date() + timedelta(days=1))
        archive = Archive(spark, Location.of(str(to)))
        compact(archive, 0.0, "", Report("compact", out=io.StringIO()), Stop(), alone=True)
    table = DeltaTable(to)
    files = table.file_uris()
    allowed = -(-size_of(files) // COMPACTED_BYTES) + 1
    print(f"{len(files)} files of {size_of(files) >> 20:,} MiB after it; {allowed} are allowed")
    counted = table.to_pyarrow_dataset().count_rows()
    assert counted == records, f"{counted} rows, {records} records"
    print(f"{counted:,} rows")


def size_of(files: Sequence[str]) -> int:
    return sum(Path(name.removeprefix("file://")).stat().st_size for name in files)


def main(arguments: list[str] | None = None) -> None:
    given = sizes(__doc__).parse_args(arguments)
    pages = f"127.0.0.1:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as name:
        folder = Path(name)
        with Standalone(folder / "data", "--metrics", pages, directory=folder / "server") as server:
            create_topic(server.bootstrap, TOPIC, PARTITIONS)
            grow(server, pages, folder, given.records)
        compacted(folder / "archive", given.records, folder)


if __name__ == "__main__":
    main()
