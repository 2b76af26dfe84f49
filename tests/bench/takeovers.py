"""How long a partition is away when its gateway is killed: from the kill to the first acknowledgement.

`dafka standalone` runs three gateways and three stores, all on this machine. One record goes to each
partition right after a gateway was killed, through one idempotent librdkafka producer that asks again
quickly.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peers.supervised import Supervised

TOPIC = "taken-over"
SECONDS = 90.0
EVEN_SECONDS = 300.0

IMPATIENT = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""Of the producer: by default it waits longer than the gateways take."""


class Scene:
    """Three gateways, a topic, and a producer."""

    def __init__(self, cluster: Supervised, partitions: int) -> None:
        self._cluster = cluster
        self._partitions = partitions
        servers = {"bootstrap.servers": cluster.bootstrap}
        self._admin = AdminClient(servers)
        for made in self._admin.create_topics([NewTopic(TOPIC, partitions, 3)]).values():
            made.result(SECONDS)
        self._producer = Producer(servers | IMPATIENT | {"enable.idempotence": True, "linger.ms": 0})
        self._at: dict[int, float] = {}
        self._wait_until_even()
        self._send()

    def _leaders(self) -> dict[int, int]:
        told = self._admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions
        return {index: one.leader for index, one in told.items()}

    def _wait_until_even(self) -> float:
        """Seconds that it took."""
        begun = time.monotonic()
        while time.monotonic() < begun + EVEN_SECONDS:
            leaders = list(self._leaders().values())
            counts = [leaders.count(number) for number in (1, 2, 3)]
            if max(counts) - min(counts) <= 1:
                break
            time.sleep(0.2)
        return time.monotonic() - begun

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        partition = message.partition()
        assert partition is not None
        self._at[partition] = time.monotonic()

    def _send(self) -> None:
        """One record to each partition."""
        self._at.clear()
        for index in range(self._partitions):
            self._producer.produce(TOPIC, b"x", partition=index, on_delivery=self._delivered)
        assert self._producer.flush(SECONDS) == 0

    def kill(self, number: int) -> tuple[list[float], float]:
        """Seconds until the partitions of this gateway acknowledged, in order; and until shares were even."""
        name, leaders = f"gateway-{number}", self._leaders()
        starts = self._cluster.log.count(f"{name} serves again")
        killed = time.monotonic()
        self._cluster.kill(name)
        self._send()
        took = sorted(self._at[index] - killed for index, leader in leaders.items() if leader == number)
        self._cluster.wait_until_it_serves_again(name, starts + 1)
        return took, self._wait_until_even()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each kill."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.takeovers", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[60, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print("| partitions | killed | of it | first | median | last | even again |")
    print("|---|---|---|---|---|---|---|")
    for partitions in options.partitions:
        with tempfile.TemporaryDirectory() as directory:
            cluster = Supervised(Path(directory), 3, 3)
            begun = time.monotonic()
            try:
                cluster.start()
                started = time.monotonic() - begun
                scene = Scene(cluster, partitions)
                for done in range(options.rounds):
                    number = done % 3 + 1
                    took, even = scene.kill(number)
                    row = [partitions, f"gateway {number}", len(took)]
                    figures = (took[0], statistics.median(took), took[-1], even)
                    print(
                        "|", *[f"{one} |" for one in (*row, *(f"{one:.2f}" for one in figures))], flush=True
                    )
                print(f"three gateways and three stores were ready after {started:.1f} s", flush=True)
            finally:
                cluster.kill9()
                cluster.wait_until_all_are_gone()


if __name__ == "__main__":
    main()
