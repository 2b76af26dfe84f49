"""Records into other partitions by their keys, as Java's producers place them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.producing import POSITION_HEADER
from dafka_pipeline.replay.murmur import murmur2_sql, partition_sql
from dafka_pipeline.replay.selection import BY_KEY
from tests.clients.sample import T0
from tests.clients.stored import committed_records, put
from tests.differential.batches import Record
from tests.pipelines.archiving import archive_once
from tests.pipelines.replaying import assert_holds, killed_at, replay

pytestmark = pytest.mark.slow

OF_KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the tests of Kafka's own clients."""


def murmur2(data: bytes) -> int:
    """Kafka's hash, written from its definition; without sign."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_the_partitioner_is_javas(spark: SparkSession) -> None:
    chance = random.Random(11)
    keys = [*OF_KAFKA, b"", *(chance.randbytes(n % 37) for n in range(500))]
    for key, signed in OF_KAFKA.items():
        assert murmur2(key) == signed & 0xFFFFFFFF
    frame = spark.createDataFrame([(key, n) for n, key in enumerate([*keys, None])], "key BINARY, n BIGINT")
    found = frame.selectExpr("n", f"{murmur2_sql('key')} AS hash", f"{partition_sql('key', '7', 'n')} AS at")
    rows = sorted(found.collect())
    assert [row.hash for row in rows[:-1]] == [murmur2(key) for key in keys]
    expected = [(murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert [row.at for row in rows] == [*expected, len(keys) % 7]


def merged(
    stream: str, partitions: dict[int, list[tuple[int, Record]]], count: int
) -> dict[int, list[Record]]:
    """What must be in each target partition, in order."""
    places = []
    for partition, records in partitions.items():
        newest = -(1 << 63)
        for offset, one in records:
            newest = max(newest, one.timestamp)
            places.append(((newest, partition, offset), one))
    found: dict[int, list[Record]] = {n: [] for n in range(count)}
    for place, one in sorted(places, key=lambda pair: pair[0]):
        spread = (place[2] + place[1]) % count
        at = spread if one.key is None else (murmur2(one.key) & 0x7FFFFFFF) % count
        header = (POSITION_HEADER, f"{stream}|{'.'.join(map(str, place))}".encode())
        found[at].append(Record(one.value, one.key, one.timestamp, (*one.headers, header)))
    return found


@pytest.mark.matrix
def test_three_partitions_into_five(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """In many rounds, with times that go back and one far ahead, and a driver that dies between two
    rounds."""
    chance = random.Random(5)
    source, target = new_topic(3), new_topic(5, "-again")
    for partition in range(3):
        times = [T0 + n * 10 + chance.randrange(-40, 40) for n in range(120)]
        times[30] += 3_000_000 if partition == 1 else 0
        records = [
            Record(b"%d" % n, chance.choice([None, b"", b"k%d" % chance.randrange(20)]), time)
            for n, time in enumerate(times)
        ]
        put(bootstrap, source, records, partition=partition)
    archive_once(spark, bootstrap, tmp_path / "a", source)
    settings = {"stream": "k", "round_offsets": 128, "selected": {"partitions": BY_KEY}}
    for place, time in (("publish-sent", 1), ("replay-after-round", 1)):
        with killed_at(place, time):
            replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    stored = {n: committed_records(bootstrap, source, n) for n in range(3)}
    for at, expected in merged("k", stored, 5).items():
        assert_holds(bootstrap, target, expected, at)
