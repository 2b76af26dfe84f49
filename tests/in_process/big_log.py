"""Makes a large log quickly: the store's and the catalog's own code, without a gateway in between.

Every batch has one record, whose timestamp is its offset x 10 ms but for each hundredth, which lies a minute
ahead: so timestamps are not in order, and a look-up's answer is known.
"""

import json
import uuid
from pathlib import Path

import trio

from gateway.catalog import keys
from gateway.catalog.sqlite import SqliteCatalog
from gateway.log.segment import Segment
from mesh.data_directory import DataDirectory, Kind
from mesh.protocol.ingest import Ingest
from mesh.store.db import Database, WriteStalled
from wireproto.dafka.additions import Announcement, OpenEntry, Request
from wireproto.dafka.messages import Record
from wireproto.records.builder import build_batch

CLUSTER = "big-log-cluster"
TOPIC = "big"
BASE_TIMESTAMP = 1_700_000_000_000
BATCHES_A_COMMIT = 500


def timestamp_of(offset: int) -> int:
    return BASE_TIMESTAMP + offset * 10 + (60_000 if offset % 100 == 99 else 0)


def first_at_or_after(target: int, batches: int) -> int:
    """The answer to ListOffsets, by looking at every record."""
    return next(offset for offset in range(batches) if timestamp_of(offset) >= target)


def make_big_log(path: Path, *, segments: int, batches: int, batch_bytes: int) -> None:
    """A data directory of `dafka standalone` with one topic: `segments` closed ones with `batches` in all."""
    gateway = DataDirectory(path / "gateway", Kind.GATEWAY)
    store = DataDirectory(path / "store", Kind.STORE)
    topic_id = uuid.uuid4().bytes
    chain = _fill_store(path / "store" / "db", store.incarnation, topic_id, segments, batches, batch_bytes)
    trio.run(_fill_catalog, path, store.incarnation, topic_id, chain)
    gateway.close()
    store.close()


def _fill_store(
    path: Path, incarnation: str, topic_id: bytes, segments: int, batches: int, batch_bytes: int
) -> list[Segment]:
    database = Database(path)
    ingest = Ingest(incarnation, database)
    each = batches // segments
    chain = []
    for number in range(segments):
        start = number * each
        segment = Segment(f"{number:032X}", 0, start, (incarnation,), 1, 0)
        details = {
            "topic_id": topic_id.hex(), "partition": 0, "partitions": 1, "replication_factor": 1,
            "configs": {}, "epochs": [[0, 0]], "log_start": 0, "opened_ms": 0, "producer_id_floor": 0,
            "producers": "",
        }  # fmt: skip
        announcement = Announcement(
            segment.address, TOPIC, CLUSTER, f"{topic_id.hex()}/0", 0, start, (incarnation,), 1,
            json.dumps(details).encode(),
        )  # fmt: skip
        ingest.on_request(Request(b"O", incarnation, "R", (OpenEntry(announcement).pack(),)))
        for sequence in range(each):
            offset = start + sequence
            value = b"%d " % offset * (max(1, batch_bytes - 80) // (len(str(offset)) + 1))
            content = build_batch(
                [(None, value, [], timestamp_of(offset))], base_offset=offset, leader_epoch=0
            )
            ingest.on_record(Record(segment.address, TOPIC, sequence, content), 0.0)
            if sequence % BATCHES_A_COMMIT == BATCHES_A_COMMIT - 1 or sequence == each - 1:
                _commit(ingest, database)
        highest = max(timestamp_of(offset) for offset in range(start, start + each))
        chain.append(segment.closed(start + each, each - 1, highest))
    _let_compactions_end(database)
    database.close()
    return chain


def _let_compactions_end(database: Database) -> None:
    """What was left to do would be done at the next start, and count as read by it."""
    db = database._db
    db.flush(True)
    while any(
        db.property_int_value(f"rocksdb.{name}")
        for name in ("compaction-pending", "num-running-compactions", "num-running-flushes")
    ):
        trio.run(trio.sleep, 0.01)


def _commit(ingest: Ingest, database: Database) -> None:
    while (commit := ingest.take_commit()) is not None:
        while True:
            try:
                database.write(commit)
                break
            except WriteStalled:
                trio.run(trio.sleep, 0.005)
        ingest.committed(commit)


async def _fill_catalog(path: Path, incarnation: str, topic_id: bytes, chain: list[Segment]) -> None:
    catalog = SqliteCatalog(path / "gateway" / "catalog.sqlite")
    puts = {
        keys.CLUSTER: keys.pack({"id": CLUSTER, "format": keys.FORMAT}),
        f"{keys.STORES}1000": keys.pack({"incarnation": incarnation, "name": "standalone"}),
        keys.topic_key(TOPIC): keys.pack(
            {"id": topic_id.hex(), "partitions": 1, "replication_factor": 1, "configs": {}}
        ),
        keys.partition_key(topic_id, 0): keys.pack({"next_epoch": 1, "epochs": [[0, 0]], "log_start": 0}),
    }
    for segment in chain:
        puts[keys.segment_key(topic_id, 0, segment.start_offset, segment.address)] = segment.pack()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(catalog.run)
        await catalog.transact([], puts)
        nursery.cancel_scope.cancel()
    await catalog.aclose()
