"""A mesh with keys: who has none gets nothing, and who has one does what its role may do."""

from __future__ import annotations

from pathlib import Path

from mesh.keys.roles import Role
from tests.mesh.keyed_mesh import KeyedMesh, certificate, run


def test_native_records_go_from_a_producer_to_a_reader_that_came_later(tmp_path: Path) -> None:
    async def test(keyed: KeyedMesh) -> None:
        tower, store = certificate("tower-1", Role.TOWER), certificate("store-1", Role.STORE)
        producer = certificate("sensors", Role.PRODUCER, "heat")
        reader = certificate("screen", Role.READER)
        keyed.issue(tower, store, producer, reader)
        await keyed.tower(tower)
        await keyed.store(store)
        writing = await keyed.producer(producer, "heat")
        records = [b"record %d" % number for number in range(300)]
        for record in records:
            await writing.native.produce(record)
        await writing.native.drained()
        await writing.stop()
        reading = await keyed.reader(reader, "heat")
        assert [(await reading.native.receive()).content for _ in records] == records

    run(tmp_path, test)
