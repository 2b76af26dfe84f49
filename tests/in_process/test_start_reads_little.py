"""A start, and look-ups by offset and time, read next to nothing of a log however long it is.

By default a log of 40,000 batches in 50 segments. `DAFKA_TEST_BIG_LOG=BATCHES:BATCH_BYTES` makes another one:
1000000:1000 is 1 GB, 1000000:10000 is 10 GB; the bound is the same.
"""

import os
import random
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.in_process.big_log import TOPIC, first_at_or_after, make_big_log, timestamp_of
from tests.peers.standalone import Standalone

SEGMENTS = 50
BATCHES, BATCH_BYTES = map(int, os.environ.get("DAFKA_TEST_BIG_LOG", "40000:1000").split(":"))
MOST_BYTES_READ = 32 * 1024 * 1024


def bytes_read(pid: int) -> int:
    """What the process has read by system calls since its start, its own program included."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


@pytest.fixture(scope="module")
def big_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("big") / "data"
    make_big_log(path, segments=SEGMENTS, batches=BATCHES, batch_bytes=BATCH_BYTES)
    return path


def consumer(server: Standalone) -> Consumer:
    settings = {
        "bootstrap.servers": server.bootstrap,
        "group.id": "none",
        "fetch.message.max.bytes": 1_000_000,
        "queued.min.messages": 1,  # no further Fetch while one is measured
    }
    return Consumer(settings)


def read_one(reader: Consumer, offset: int) -> int:
    """The number that the record at `offset` carries."""
    reader.assign([TopicPartition(TOPIC, 0, offset)])
    message = reader.poll(20)
    assert message is not None
    assert message.error() is None
    assert message.offset() == offset
    value = message.value()
    assert value is not None
    return int(value.split()[0])


def test_from_start_to_the_first_answer(big_log: Path) -> None:
    with Standalone(big_log, "--tail-cache-bytes", str(8 * 1024 * 1024)) as server:
        reader = consumer(server)
        middle = BATCHES // 2 + 7
        assert read_one(reader, middle) == middle
        assert bytes_read(server.pid) < MOST_BYTES_READ
        reader.close()


def test_look_ups_are_exact_and_read_little(big_log: Path) -> None:
    chosen = random.Random(1)
    with Standalone(big_log, "--tail-cache-bytes", str(8 * 1024 * 1024)) as server:
        reader = consumer(server)
        assert reader.get_watermark_offsets(TopicPartition(TOPIC, 0)) == (0, BATCHES)
        before = bytes_read(server.pid)
        for _ in range(20):
            offset = chosen.randrange(BATCHES)
            target = timestamp_of(offset) + chosen.choice((-5, 0, 5))
            (found,) = reader.offsets_for_times([TopicPartition(TOPIC, 0, target)])
            assert found.offset == first_at_or_after(target, BATCHES)
        assert bytes_read(server.pid) - before < MOST_BYTES_READ
        for _ in range(10):
            offset = chosen.randrange(BATCHES)
            assert read_one(reader, offset) == offset
        reader.close()
