"""What a store costs as it grows: write rate, memory and bytes written to the disk, gigabyte by gigabyte.

`python -m tests.bench.growth --gigabytes 20` fills one store of a mesh of processes with records of 1 KiB
that do not compress (acks=all, fsync always), then measures an empty store once more, so that the last
gigabytes are compared with what the same machine does at the same moment. Write amplification is what the
store's process sent to the disk, its write-ahead log included, for each byte of batches.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.bench import clients
from tests.bench.facts import machine, say
from tests.clients.stored import create_replicated_topic
from tests.peers.mesh import MeshCluster, StoreProcess

RECORD_BYTES = 1024
RECORDS = 1_000_000
"""In a gigabyte, as it is counted here."""
WARM_UP = 50_000
PARTITIONS = 4
COMPARED = 3
"""Gigabytes at either end whose median rate is compared."""


class Sample(NamedTuple):
    """After one more gigabyte."""

    rate: float
    """Records a second."""
    resident: int
    """Bytes of memory of the store's process, without what it maps from files."""
    peak: int
    """The most that it ever had, with what it maps."""
    written: int
    """Bytes that it sent to the disk in its life."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--gigabytes", type=int, default=20)
    arguments = parser.parse_args()
    samples = fill(arguments.gigabytes)
    empty = fill(COMPARED)
    print(f"\n{machine()}\n\n| gigabytes | records/s | resident MB | peak MB | written/bytes of batches |")
    print("|---|---|---|---|---|")
    for number, sample in enumerate(samples, 1):
        bytes_of_batches = number * (RECORDS + WARM_UP) * RECORD_BYTES
        memory = f"{sample.resident >> 20} | {sample.peak >> 20}"
        print(f"| {number} | {sample.rate:.0f} | {memory} | {sample.written / bytes_of_batches:.2f} |")
    last = statistics.median(sample.rate for sample in samples[-COMPARED:])
    for name, compared in (("its own first ones", samples[:COMPARED]), ("an empty store's now", empty)):
        first = statistics.median(sample.rate for sample in compared)
        print(f"the last {COMPARED} gigabytes, as a share of {name}: {last / first:.2f}")


def fill(gigabytes: int) -> list[Sample]:
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as directory, MeshCluster(Path(directory), 1) as mesh:
        create_replicated_topic(mesh.bootstrap, "growth", PARTITIONS, 1)
        for number in range(gigabytes):
            counts = {"record_bytes": RECORD_BYTES, "records": RECORDS, "warm_up": WARM_UP}
            rate = clients.produce_tuned(mesh.bootstrap, "growth", **counts)
            samples.append(sample(mesh.stores[0], rate))
            say(f"{number + 1} GB: {rate:.0f} records/s, {samples[-1].resident >> 20} MB")
    return samples


def sample(store: StoreProcess, rate: float) -> Sample:
    process = Path("/proc") / str(store.pid)
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    written = dict(line.split(": ", 1) for line in (process / "io").read_text().splitlines())["write_bytes"]
    return Sample(rate, _kilobytes(status["RssAnon"]), _kilobytes(status["VmHWM"]), int(written))


def _kilobytes(field: str) -> int:
    return int(field.split(maxsplit=1)[0]) * 1024


if __name__ == "__main__":
    main()
