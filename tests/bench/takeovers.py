"""How long partitions are away when a gateway or the leader of etcd dies, until each acknowledges again.

Three gateways and three stores, all on this machine: of `dafka standalone`, or over an etcd of three members,
each process on a host (network namespace) of its own, which takes root. One record goes to each partition
right after the fault, through one idempotent librdkafka producer that asks again quickly. In the end, the
memory of each kind of process, and how long a start of everything takes until each partition acknowledged.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.takeover_clusters import CLUSTERS, FAULTS, Cluster

TOPIC = "taken-over"
SECONDS = 120.0
EVEN_SECONDS = 600.0
PARTITIONS_AT_ONCE = 1000

IMPATIENT = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.timeout.ms": 2000,
    "request.timeout.ms": 1500,
    "queue.buffering.max.messages": 200_000,
}
"""Of the producer: by default it waits longer than the gateways take, for one that is silent a minute."""


class Scene:
    """A cluster, topics with so many partitions in all, and a producer."""

    def __init__(self, cluster: Cluster, partitions: int) -> None:
        self._cluster = cluster
        servers = {"bootstrap.servers": cluster.bootstrap}
        self._admin = AdminClient(servers)
        counts = [min(PARTITIONS_AT_ONCE, partitions - n) for n in range(0, partitions, PARTITIONS_AT_ONCE)]
        self._topics = {f"{TOPIC}-{number}": count for number, count in enumerate(counts)}
        for name, count in self._topics.items():
            for made in self._admin.create_topics([NewTopic(name, count, 3)]).values():
                made.result(SECONDS)
        self._producer = Producer(servers | IMPATIENT | {"enable.idempotence": True, "linger.ms": 0})
        self._at: dict[tuple[str, int], float] = {}
        self._wait_until_even()
        self._send()

    def _leaders(self) -> dict[tuple[str, int], int]:
        told = self._admin.list_topics(timeout=SECONDS).topics
        return {(name, n): one.leader for name in self._topics for n, one in told[name].partitions.items()}

    def _wait_until_even(self) -> float:
        """Seconds from now on that it took."""
        begun = time.monotonic()
        while True:
            assert time.monotonic() < begun + EVEN_SECONDS, "shares do not become even"
            leaders = list(self._leaders().values())
            counts = [leaders.count(number) for number in (1, 2, 3)]
            if max(counts) - min(counts) <= len(self._topics):
                return time.monotonic() - begun
            time.sleep(0.2)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        topic, partition = message.topic(), message.partition()
        assert topic is not None
        assert partition is not None
        self._at[topic, partition] = time.monotonic()

    def _send(self) -> None:
        """One record to each partition."""
        self._at.clear()
        for name, count in self._topics.items():
            for index in range(count):
                self._producer.produce(name, b"x", partition=index, on_delivery=self._delivered)
        assert self._producer.flush(SECONDS) == 0

    def measure(self, fault: str, number: int) -> tuple[list[float], float]:
        """Seconds until the partitions that gateway `number` led acknowledged (if the fault is not a
        gateway's, all), in order; and until shares were even.
        """
        leaders = self._leaders()
        hit = [one for one, leader in leaders.items() if "gateway" not in fault or leader == number]
        begun = self._cluster.begin(fault, number)
        self._send()
        took = sorted(self._at[one] - begun for one in hit)
        self._cluster.end(fault, number)
        return took, self._wait_until_even()

    def start_all(self) -> float:
        """Seconds that a start of everything takes, until each partition has acknowledged."""
        self._cluster.stop()
        begun = time.monotonic()
        self._cluster.start()
        self._send()
        return time.monotonic() - begun


@contextmanager
def scene(kind: str, partitions: int) -> Iterator[tuple[Cluster, Scene]]:
    """One cluster with so many partitions."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(CLUSTERS[kind](directory))
        begun = time.monotonic()
        cluster.start()
        print(f"three gateways and three stores were ready after {time.monotonic() - begun:.1f} s")
        yield cluster, Scene(cluster, partitions)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.takeovers", description=__doc__)
    parser.add_argument("--cluster", nargs="+", choices=CLUSTERS, default=["standalone"])
    parser.add_argument("--partitions", type=int, nargs="+", default=[60, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    options = parser.parse_args(arguments)
    for kind in options.cluster:
        for partitions in options.partitions:
            _print(kind, partitions, options.rounds, options.faults)


def _print(kind: str, partitions: int, rounds: int, faults: Sequence[str]) -> None:
    with scene(kind, partitions) as (cluster, one):
        print(f"| {kind}: partitions | fault | away | first | median | last | even again |")
        print("|---|---|---|---|---|---|---|")
        for fault in (one for one in cluster.faults if one in faults):
            for done in range(rounds):
                took, even = one.measure(fault, done % 3 + 1)
                figures = (took[0], statistics.median(took), took[-1], even)
                row = [partitions, fault, len(took), *(f"{figure:.2f}" for figure in figures)]
                print("|", " | ".join(map(str, row)), "|", flush=True)
        print(_of_memory(cluster.memory()))
        print(f"a start of everything until all had acknowledged: {one.start_all():.1f} s", flush=True)


def _of_memory(bytes_by_process: Mapping[str, int]) -> str:
    kinds = defaultdict(list)
    for name, size in bytes_by_process.items():
        kinds[name.partition("-")[0]].append(size // 1_000_000)
    return "memory in MB: " + ", ".join(f"{kind} {sizes}" for kind, sizes in sorted(kinds.items()))


if __name__ == "__main__":
    main()
