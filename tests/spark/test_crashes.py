"""SIGKILL to the driver, and SIGKILL to the server, in mid-stream: each record exactly once in the sink."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.clients.sample import small_records
from tests.clients.stored import check_records, create_topic, put, stored_records
from tests.differential.servers import our_server
from tests.spark.frames import as_records, numbered, read_stream, topic_stream
from tests.spark.program import Program
from tests.spark.test_streams import finish, sink, to_parquet
from tests.spark.writer import Writer, is_at

pytestmark = pytest.mark.slow
DRIVER = [sys.executable, "-m", "tests.spark.driver"]


def unfinished_batch(checkpoint: Path) -> int | None:
    """The number of a batch that was planned and not committed."""

    def numbers(name: str) -> set[int]:
        folder = checkpoint / name
        return {int(f.name) for f in folder.iterdir() if f.name.isdigit()} if folder.exists() else set()

    return min(numbers("offsets") - numbers("commits"), default=None)


def test_driver_killed(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    wanted = small_records(1200)
    put(bootstrap, topic, wanted, codec="zstd", per_batch=20)
    command = [*DRIVER, bootstrap, topic, str(tmp_path), "150"]
    checkpoint = tmp_path / "checkpoint"
    with Program(command, tmp_path / "first.log") as program:
        program.wait_until(lambda: (unfinished_batch(checkpoint) or 0) >= 2)
    unfinished = unfinished_batch(checkpoint)
    assert unfinished is not None
    assert unfinished < 7, "it had time to finish"
    # The driver that starts again is this session's: all it has of the first is the checkpoint.
    finish(to_parquet(topic_stream(spark, bootstrap, topic, per_batch="150"), tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == {(topic, 0): numbered(wanted)}


def wait_for_rows(query: Any, rows: int) -> None:
    deadline = time.monotonic() + 60
    while sum(progress["numInputRows"] for progress in query.recentProgress) < rows:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.02)


def test_server_killed(spark: SparkSession, tmp_path: Path) -> None:
    """Twice in mid-stream, restarted on the same data and port: the query goes on."""
    with our_server() as server:
        topic = create_topic(server.bootstrap, "stream", 2)
        frame = read_stream(spark, server.bootstrap, subscribe=topic, startingOffsets="earliest")
        query = to_parquet(frame, tmp_path, processingTime="50 milliseconds")
        writer = Writer(server.bootstrap, topic, 2)
        try:
            for kill in (1, 2):
                wait_for_rows(query, 300 * kill)
                server.kill9()
                server.start()
            wait_for_rows(query, 900)
        finally:
            writer.stop()
        query.processAllAvailable()
        assert query.exception() is None
        query.stop()
        found = as_records(sink(spark, tmp_path))
        for partition in (0, 1):
            stored = stored_records(server.bootstrap, topic, partition)
            check_records(found[topic, partition], [record for _, record in stored])
        places = {r.value: (p, offset) for (_, p), pairs in found.items() for offset, r in pairs}
        assert len(places) == sum(map(len, found.values())), "a record is there twice"
        assert [value for value, place in writer.acked.items() if not is_at(places.get(value), place)] == []
