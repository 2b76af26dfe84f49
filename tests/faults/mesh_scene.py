"""What every fault test of a mesh of processes does: a load before, during and after, and at the end
everything read through the gateway and compared on each store's disk alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from kafka.protocol.producer import ProduceRequest

from dafka.operators.socket import ask
from tests.clients.stored import create_replicated_topic
from tests.differential.batches import batch_of
from tests.differential.wire import Connection
from tests.faults.checker import members_differ
from tests.faults.history import Event, History
from tests.faults.report import Phase, report
from tests.faults.workloads import Load, WatermarkWatch, make_value, read_all
from tests.peers.mesh import MeshCluster, StoreProcess

PARTITIONS = 4
TOPIC = "faults"
OPERATIONS = 150
"""Acknowledged at least before and after each fault, and during those that let anything be acknowledged."""

BEGUN = 100
"""Operations that begin at least during each fault, whatever becomes of them."""

WAIT_SECONDS = 120.0
"""How long these may take on a busy machine."""

SLACK_SECONDS = 3.0
"""How much later than at its timeout a request may be answered on a busy machine."""


class Scene:
    """A mesh, a topic on all stores, a load on it and a watch.

    Args:
        load: handed to `Load`, e.g. `pause`.
    """

    def __init__(self, mesh: MeshCluster, history: History, **load: Any) -> None:
        self.mesh, self.history = mesh, history
        create_replicated_topic(mesh.bootstrap, TOPIC, PARTITIONS, len(mesh.stores))
        self.load = Load(mesh.bootstrap, TOPIC, history, partitions=PARTITIONS, **load)
        self.watch = WatermarkWatch(mesh.bootstrap, TOPIC, history, PARTITIONS)
        self._phases: list[Phase] = []
        self._acked_before = 0
        self.go_on("before", healed=True)

    def go_on(self, when: str, operations: int = OPERATIONS, *, healed: bool = False) -> None:
        """Everything sent before has its result, and so many operations that begin now succeed.

        Args:
            healed: there is no fault now.
        """
        with self.counted(when, healed=healed):
            self.load.wait_for_new_acks(operations, WAIT_SECONDS)

    @contextmanager
    def counted(self, what: str, *, healed: bool = False) -> Iterator[None]:
        """A fault that lasts until `BEGUN` operations at least began; the report says what became of them."""
        load, began = self.load, time.monotonic()
        self.history.add(Event(f"{what}: begins"))
        first, before = load.sent, load.acked
        yield
        load.wait_for_sent(first + BEGUN)
        seconds = round(time.monotonic() - began, 1)
        phase = Phase(what, healed, load.name, first, load.sent, load.acked - before, seconds)
        self._phases.append(phase)
        self.history.add(Event(f"{what}: ends, {phase.begun} begun"))

    def finish(self) -> None:
        """Stops the load, reads everything through the gateway (the history is judged by its fixture), and
        compares what the stores have.
        """
        self.go_on("healed", healed=True)
        self.read()
        # The next life closes what is open, and has every store copy what it lacks.
        self.mesh.gateway.kill9()
        self.mesh.gateway.start()
        self.mesh.wait_until_all_have_all()
        self.mesh.stop()
        assert_same_contents(self.mesh.stores)

    def read(self) -> None:
        """Stops the load, and reads everything through the gateway."""
        self.stop_load()
        self.watch.stop()
        count = read_all(self.mesh.bootstrap, TOPIC, self.history, PARTITIONS)
        assert count >= self._acked > 0
        report("read through the gateway", records=count, acknowledged=self._acked)

    def stop_load(self) -> None:
        """Every operation has its result now."""
        self.load.stop()
        for phase in self._phases:
            if phase.load == self.load.name:
                report(phase.what, **phase.counts(self.load.outcomes))

    def new_load(self, name: str, **load: Any) -> None:
        """Another producer goes on where the one before was stopped."""
        self._acked_before += self.load.acked
        self.load = Load(self.mesh.bootstrap, TOPIC, self.history, name=name, partitions=PARTITIONS, **load)

    @property
    def _acked(self) -> int:
        return self._acked_before + self.load.acked


def assert_same_contents(stores: Sequence[StoreProcess]) -> None:
    """Every one of these stopped stores has the same records under the same addresses."""
    contents = {store.name: store.contents() for store in stores}
    assert members_differ(contents) == []
    report("read from each store alone", **{name: sum(map(len, c.values())) for name, c in contents.items()})


def await_other_store(mesh: MeshCluster, name: str) -> str:
    """The incarnation of a store that is there under a name, and not admitted, once the gateway knows it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        stores = ask(mesh.gateway.data, "stores.list")
        for entry in stores:
            if entry["name"] == name and entry["state"] != "admitted" and entry["live"]:
                return str(entry["incarnation"])
        assert time.monotonic() < deadline, stores
        time.sleep(0.05)


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
