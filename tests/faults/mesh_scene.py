"""What every fault test of a mesh of processes does: a load before, during and after, and at the end
everything read through the gateway and compared on each store's disk alone.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka.protocol.producer import ProduceRequest

from tests.clients.stored import create_replicated_topic
from tests.differential.batches import batch_of
from tests.differential.wire import Connection
from tests.faults.history import Event, History
from tests.faults.workloads import Load, WatermarkWatch, make_value, read_all
from tests.peers.mesh import MeshCluster, StoreProcess

PARTITIONS = 4
TOPIC = "faults"
OPERATIONS = 150
"""Acknowledged at least before, during and after each fault."""

WAIT_SECONDS = 120.0
"""How long these may take on a busy machine."""

SLACK_SECONDS = 3.0
"""How much later than at its timeout a request may be answered on a busy machine."""

REPORT = "FAULTS_REPORT"
"""Environment variable: a file that gets one JSON line for each fault, with what became of the operations."""


class Scene:
    """A mesh, a topic on all stores, a load on it and a watch.

    Args:
        load: handed to `Load`, e.g. `linger.ms`.
    """

    def __init__(self, mesh: MeshCluster, history: History, **load: Any) -> None:
        self.mesh, self.history = mesh, history
        create_replicated_topic(mesh.bootstrap, TOPIC, PARTITIONS, len(mesh.stores))
        self.load = Load(mesh.bootstrap, TOPIC, history, partitions=PARTITIONS, **load)
        self.watch = WatermarkWatch(mesh.bootstrap, TOPIC, history, PARTITIONS)
        self.go_on("before")

    def go_on(self, when: str, operations: int = OPERATIONS) -> None:
        """Everything sent before has its result, and so many operations that begin now succeed."""
        with self.counted(when):
            self.load.wait_for_new_acks(operations, WAIT_SECONDS)

    @contextmanager
    def counted(self, what: str) -> Iterator[None]:
        """Counts what becomes of the operations meanwhile, for the history and the report."""
        load, began = self.load, time.monotonic()
        self.history.add(Event(f"{what}: begins"))
        before = (load.sent, load.acked, load.failed, load.unknown)
        yield
        after = (load.sent, load.acked, load.failed, load.unknown)
        names = ("sent", "ok", "failed", "unknown")
        counts = {name: b - a for name, a, b in zip(names, before, after, strict=True)}
        report(what, seconds=round(time.monotonic() - began, 1), **counts)
        self.history.add(Event(f"{what}: ends, {counts}"))

    def finish(self) -> None:
        """Stops the load, reads everything through the gateway (the history is judged by its fixture), and
        compares what the stores have.
        """
        self.go_on("healed")
        self.read()
        # The next life closes what is open, and has every store copy what it lacks.
        self.mesh.gateway.kill9()
        self.mesh.gateway.start()
        self.mesh.wait_until_all_have_all()
        self.mesh.stop()
        assert_same_contents(self.mesh.stores)

    def read(self) -> None:
        """Stops the load, and reads everything through the gateway."""
        self.load.stop()
        self.watch.stop()
        count = read_all(self.mesh.bootstrap, TOPIC, self.history, PARTITIONS)
        assert count >= self.load.acked > 0


def report(what: str, **facts: object) -> None:
    """One line of the report, if one is wanted."""
    path = os.environ.get(REPORT)
    if path:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        with Path(path).open("a") as file:
            file.write(json.dumps({"test": test, "what": what, **facts}) + "\n")


def assert_same_contents(stores: Sequence[StoreProcess]) -> None:
    """Every store has the same records under the same addresses."""
    assert list(differences(stores)) == []


def differences(stores: Sequence[StoreProcess]) -> Iterator[str]:
    """Where stopped stores do not have the same records under the same addresses."""
    first, *others = ({a: c for a, c in store.contents().items() if c} for store in stores)
    if not first:
        yield f"store {stores[0].name} has nothing"
    for store, other in zip(stores[1:], others, strict=True):
        for address in first.keys() | other.keys():
            one, two = first.get(address, []), other.get(address, [])
            if one != two:
                yield (
                    f"address {address}: {len(one)} records in {stores[0].name}, {len(two)} in {store.name}"
                    + (", and not the same" if len(one) == len(two) else "")
                )


def try_produce(bootstrap: str, topic: str, count: int, *, timeout_ms: int) -> Counter[int]:
    """So many requests of one record each, all at once on connections of their own: how often each error code
    was the answer. Raises TimeoutError when one is not answered within its timeout and `SLACK_SECONDS`.

    Not for a topic that a history judges.
    """
    of = ProduceRequest.TopicProduceData

    def one(number: int) -> int:
        part = of.PartitionProduceData(index=0, records=batch_of(make_value("try", number, 200)))
        data = [of(name=topic, partition_data=[part])]
        with Connection(bootstrap, timeout=timeout_ms / 1000 + SLACK_SECONDS) as connection:
            answer = connection.ask(
                ProduceRequest(version=9, acks=-1, timeout_ms=timeout_ms, topic_data=data)
            )
        return int(answer.responses[0].partition_responses[0].error_code)

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(one, range(count)))
