"""What copies cost: the same mesh of processes with one store and with three, in turn, on this machine.

`python -m tests.bench.mesh` prints a table of medians and ratios: produce throughput with acks=all and an
fsync on w stores (1 of 1, 2 of 3), the pause of producers when a store is killed, the time from a gateway's
start to its first answer and its first acknowledgement, and the longest stretch (processor time) in which the
gateway's loop looked at no socket.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer

from tests.bench import clients
from tests.bench.facts import machine, say
from tests.bench.scrape import Metrics
from tests.clients.stored import create_replicated_topic
from tests.peers.mesh import MeshCluster
from tests.peers.probe import broker_count

RECORDS = {100: 1_000_000, 1024: 200_000}
WARM_UP = {100: 200_000, 1024: 40_000}
PARTITIONS = 4
LOAD_SECONDS = 2.0

Values = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mesh", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the records")
    parser.add_argument("--partitions", type=int, default=1000, help="of the gateway that is killed")
    arguments = parser.parse_args()
    rates: dict[int, Values] = {1: defaultdict(list), 3: defaultdict(list)}
    others: Values = defaultdict(list)
    for number in range(arguments.rounds):
        for stores in (1, 3) if number % 2 == 0 else (3, 1):
            measure_produce(stores, arguments.scale, rates[stores])
        measure_kills(arguments.partitions, others)
    print(f"\n{machine()}; medians of {arguments.rounds} rounds, scale {arguments.scale:g}\n")
    print("| produce, acks=all, 4 partitions | 1 store | 3 stores, w = 2 | ratio |\n|---|---|---|---|")
    for name, values in rates[1].items():
        one, three = statistics.median(values), statistics.median(rates[3][name])
        print(f"| {name} | {one:.0f} | {three:.0f} | {three / one:.2f} |")
    print("\n| 3 stores | seconds |\n|---|---|")
    for name, values in others.items():
        print(f"| {name} | {statistics.median(values):.3f} (worst {max(values):.3f}) |")


def measure_produce(stores: int, scale: float, into: Values) -> None:
    with tempfile.TemporaryDirectory() as directory, MeshCluster(Path(directory), stores) as mesh:
        for size, records in RECORDS.items():
            topic = f"produce-{size}"
            create_replicated_topic(mesh.bootstrap, topic, PARTITIONS, stores)
            counts = {"records": int(records * scale), "warm_up": int(WARM_UP[size] * scale)}
            rate = clients.produce_tuned(mesh.bootstrap, topic, record_bytes=size, **counts)
            say(f"{stores} stores, {size} B: {rate:.0f} records/s")
            into[f"{size} B, records/s"].append(rate)


LONGEST = "longest stretch of the gateway's loop"


def measure_kills(partitions: int, into: Values) -> None:
    """On three stores: one is killed while a producer sends, then the gateway."""
    with tempfile.TemporaryDirectory() as directory, MeshCluster(Path(directory), 3) as mesh:
        metrics = Metrics(mesh.gateway)
        mesh.gateway.kill9()
        mesh.gateway.start()
        create_replicated_topic(mesh.bootstrap, "load", PARTITIONS, 3)
        load = SteadyLoad(mesh.bootstrap, "load")
        time.sleep(LOAD_SECONDS)
        mesh.stores[1].kill9()
        time.sleep(LOAD_SECONDS)
        pause = load.stop()
        say(f"a store killed: longest pause {pause:.3f} s")
        into["longest pause of a producer when a store is killed"].append(pause)
        create_replicated_topic(mesh.bootstrap, "many", partitions, 3)
        producer = Producer({"bootstrap.servers": mesh.bootstrap, "acks": "all", "log_level": 0})
        for number in range(partitions):
            producer.produce("many", b"value", partition=number)
        assert producer.flush(60) == 0
        note_stretch(f"{LONGEST}: load, a store killed, {partitions} segments opened", metrics, into)
        mesh.gateway.kill9()
        began = time.monotonic()
        mesh.gateway.launch()
        while not broker_count(mesh.gateway.host, mesh.gateway.port):
            time.sleep(0.005)
        first = time.monotonic() - began
        into[f"from a gateway's start to its first answer, {partitions} partitions"].append(first)
        again = Producer({"bootstrap.servers": mesh.bootstrap, "acks": "all", "log_level": 0})
        again.produce("many", b"value", partition=partitions - 1)
        assert again.flush(60) == 0
        took = time.monotonic() - began
        say(f"the gateway killed: {took:.2f} s to the next acknowledgement")
        into[f"from a gateway's start to an acknowledgement, {partitions} partitions"].append(took)
        note_stretch(f"{LONGEST}: its start with {partitions} partitions", metrics, into)


def note_stretch(name: str, metrics: Metrics, into: Values) -> None:
    into[name].append(metrics.values()["dafka_loop_longest_stretch_seconds"])
    say(f"{name}: {into[name][-1]:.3f} s")


class SteadyLoad:
    """A producer that sends one record after the other, and notes the longest time between two answers."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        )
        self._topic = topic
        self._longest = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        answered = time.monotonic()
        number = 0
        while not self._stopped.is_set():
            self._producer.produce(self._topic, b"value", partition=number % PARTITIONS)
            assert self._producer.flush(30) == 0
            now = time.monotonic()
            if number > PARTITIONS:  # the first ones open segments
                self._longest = max(self._longest, now - answered)
            answered = now
            number += 1

    def stop(self) -> float:
        """Seconds of the longest pause."""
        self._stopped.set()
        self._thread.join()
        return self._longest


if __name__ == "__main__":
    main()
