"""How fast a store that was away catches up, and what producers keep meanwhile, on this machine.

`python -m tests.bench.catch_up` produces to one store (its rate is the measure), then to three of which one
is down, and starts that one while producers go on. All with acks=all and fsync always.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from tests.bench import clients
from tests.bench.facts import machine, say
from tests.bench.scrape import Metrics
from tests.clients.stored import create_replicated_topic
from tests.peers.mesh import MeshCluster, StoreProcess

RECORD_BYTES = 1024
WARM_UP = 40_000
PARTITIONS = 4
LOOK_SECONDS = 0.05
NOTHING_NEW_SECONDS = 1.0
"""A store that fetches nothing for so long has caught up."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.catch_up", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=400_000, help="of each measurement")
    parser.add_argument("--missed", type=int, default=1_500_000, help="records that the store has to fetch")
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in ("one", "alone", "beside", "quiet", "busy")}
    for _ in range(arguments.rounds):
        measure_one(arguments.records, found)
        measure_three(arguments.records, arguments.missed, found)
    one, alone, beside, quiet, busy = (statistics.median(values) for values in found.values())
    print(f"\n{machine()}; medians of {arguments.rounds} rounds; MB/s of records of {RECORD_BYTES} bytes\n")
    print("| | MB/s | ratio |\n|---|---|---|")
    print(f"| produce, one store | {one:.1f} | |")
    print(f"| produce, two of three stores there | {alone:.1f} | |")
    print(f"| produce, while the third one catches up | {beside:.1f} | {beside / alone:.2f} of that |")
    print(f"| catch-up meanwhile | {busy:.1f} | {busy / one:.2f} of one store's produce |")
    print(f"| catch-up without producers | {quiet:.1f} | {quiet / one:.2f} of one store's produce |")


def measure_one(records: int, found: dict[str, list[float]]) -> None:
    with tempfile.TemporaryDirectory() as directory, MeshCluster(Path(directory), 1) as mesh:
        create_replicated_topic(mesh.bootstrap, "load", PARTITIONS, 1)
        found["one"].append(produce(mesh, records))
        say(f"one store: {found['one'][-1]:.1f} MB/s")


def measure_three(records: int, missed: int, found: dict[str, list[float]]) -> None:
    with tempfile.TemporaryDirectory() as directory, MeshCluster(Path(directory), 3) as mesh:
        create_replicated_topic(mesh.bootstrap, "load", PARTITIONS, 3)
        late = Late(mesh.stores[2])
        produce(mesh, missed)
        found["quiet"].append(late.catch_up(1))
        say(f"catch-up without producers: {found['quiet'][-1]:.1f} MB/s")
        late.stop()
        produce(mesh, missed)
        found["alone"].append(produce(mesh, records))
        say(f"two stores of three: {found['alone'][-1]:.1f} MB/s")
        rates: list[float] = []
        done = threading.Event()

        def go_on() -> None:
            while not done.is_set():
                rates.append(produce(mesh, records))

        producer = threading.Thread(target=go_on)
        producer.start()
        found["busy"].append(late.catch_up(records * RECORD_BYTES))
        done.set()
        producer.join()
        found["beside"].append(rates[0])
        say(f"catch-up {found['busy'][-1]:.1f} MB/s beside producers at {rates[0]:.1f} MB/s")


def produce(mesh: MeshCluster, records: int) -> float:
    """Megabytes a second."""
    counts = {"record_bytes": RECORD_BYTES, "records": records, "warm_up": WARM_UP}
    return clients.produce_tuned(mesh.bootstrap, "load", **counts) * RECORD_BYTES / 1e6


class Late:
    """A store that is down until `catch_up`."""

    def __init__(self, store: StoreProcess) -> None:
        self._metrics = Metrics(store)
        self._store = store
        self.stop()

    def stop(self) -> None:
        self._store.kill9()

    def catch_up(self, least_bytes: int) -> float:
        """Start it. Megabytes a second that it fetched, from the first of them to the last."""
        self._store.start()
        began = latest = 0.0
        first = last = 0.0
        while not latest or (time.monotonic() < latest + NOTHING_NEW_SECONDS):
            copied, lacking = self._copied()
            now = time.monotonic()
            if copied and not began:
                began, first = now, copied
            if copied > last:
                last, latest = copied, now
            if not lacking and last - first >= least_bytes:
                break
            time.sleep(LOOK_SECONDS)
        return (last - first) / max(latest - began, LOOK_SECONDS) / 1e6

    def _copied(self) -> tuple[float, float]:
        """Bytes fetched so far, and how many addresses lack some."""
        values = self._metrics.values()
        return values["dafka_store_copied_bytes_total"], values["dafka_store_lacking_addresses"]


if __name__ == "__main__":
    main()
