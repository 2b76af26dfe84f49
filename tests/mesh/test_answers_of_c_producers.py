"""A C producer that has not heard the stores' ACKs answers FETCHes with other records' contents: nobody takes
those, neither in place of a store's answer nor before it.
"""

from __future__ import annotations

from pathlib import Path

from mesh.node import Node
from mesh.protocol.native_resends import FAITHFUL_RECORDS
from mesh.store.ranges import read_records
from mesh.store.store import Store
from tests.mesh.native_mesh import NativeMesh, contents, receive, run, until
from wireproto.dafka import ids
from wireproto.dafka.messages import DirectRecord, Fetch, Record

ADDRESS = "0123456789ABCDEF" * 2
RECORDS = contents(2000)


class DeafProducer:
    """Publishes under an address as C's are, hears no ACK, and answers each FETCH at once as C's producer
    does then: of each of its chunks with the contents of the first one.
    """

    def __init__(self, mesh: NativeMesh) -> None:
        self.node = Node(mesh.context)
        self.wrong = 0
        self.node.subscribe(ids.FETCH + ADDRESS.encode())
        self.node.route({Fetch: self._answer})

    async def join(self, mesh: NativeMesh) -> None:
        await mesh.nursery.start(self.node.run)
        mesh.join(self.node)

    def publish(self) -> None:
        for sequence, content in enumerate(RECORDS):
            self.node.send(Record(ADDRESS, "t", sequence, content))

    def _answer(self, fetch: Fetch) -> None:
        for sequence in range(fetch.sequence, min(fetch.sequence + fetch.count, len(RECORDS))):
            content = RECORDS[sequence % FAITHFUL_RECORDS]
            self.wrong += content != RECORDS[sequence]
            self.node.send(DirectRecord(fetch.requester, "", ADDRESS, "t", sequence, content))


async def heard(mesh: NativeMesh) -> DeafProducer:
    """All that it publishes is in a store."""
    store = await mesh.store("one")
    producer = DeafProducer(mesh)
    await producer.join(mesh)
    await until(lambda: producer.node.publisher.subscribed(ids.RECORD))
    producer.publish()
    await until(lambda: has_all(store))
    return producer


def has_all(store: Store) -> bool:
    return store.ingest.heads() == {ADDRESS: len(RECORDS) - 1}


def test_a_consumer_has_the_records_of_the_store(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        producer = await heard(mesh)
        consumer = await mesh.consumer()
        assert await receive(consumer, len(RECORDS)) == {ADDRESS: RECORDS}
        assert producer.wrong
        assert consumer.resends.disbelieved

    run(tmp_path, test)


def test_so_has_a_store_that_comes_late(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        producer = await heard(mesh)
        late = await mesh.store("two")
        await until(lambda: producer.node.publisher.subscribed(ids.RECORD))
        producer.node.send(Record(ADDRESS, "t", len(RECORDS) - 1, RECORDS[-1]))
        await until(lambda: has_all(late))
        assert read_records(late.database, ADDRESS, 0, len(RECORDS) - 1, 1 << 30) == RECORDS
        assert producer.wrong
        assert late.native.resends.disbelieved

    run(tmp_path, test)
