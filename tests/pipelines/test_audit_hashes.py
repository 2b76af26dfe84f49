"""The sums, made again in Python with another XXH64 and SHA-256, of what plain Fetch and deltalake read."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections import defaultdict
from collections.abc import Callable
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import pytest
import xxhash
from pyspark.sql import SparkSession

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.sums import Range, Sum, sums_of
from dafka_pipeline.kafka.frames import read_spans
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.location import Location
from tests.clients.sample import records
from tests.clients.stored import put
from tests.differential.batches import Record
from tests.pipelines.dumps import topic_rows
from tests.pipelines.tables import Rows, table_rows, write_archive

SEED = 42
SIZE = 7
"""Offsets of a range: no power of two, and no divisor of anything."""


class Chain:
    """XXH64 over several columns: the hash of one is the seed of the next. A null is passed over."""

    def __init__(self) -> None:
        self.state = SEED

    def take(self, *values: int | str | bytes | None, bits: int = 64) -> int:
        for value in values:
            if value is None:
                continue
            if isinstance(value, int):
                data = struct.pack("<q" if bits == 64 else "<i", value)
            else:
                data = value.encode() if isinstance(value, str) else value
            self.state = xxhash.xxh64_intdigest(data, self.state)
        return self.state


def signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def as_json(headers: list[dict[str, Any]]) -> str:
    def value(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    pairs = [{"key": one["key"], "value": value(one["value"])} for one in headers]
    return json.dumps(pairs, separators=(",", ":"), ensure_ascii=False)


def headers_hash(row: dict[str, Any]) -> int:
    if not row["headers"]:
        return 0
    chain = Chain()
    chain.take(len(row["headers"]), bits=32)
    chain.take(*[one["key"] for one in row["headers"]], as_json(row["headers"]))
    return signed(chain.state)


def record_hash(row: dict[str, Any]) -> int:
    chain = Chain()
    chain.take(row["offset"], row["timestamp"])
    chain.take(row["timestamp_type"], length(row["key"]), bits=32)
    chain.take(row["key"] or b"")
    chain.take(length(row["value"]), bits=32)
    chain.take(row["value"] or b"", headers_hash(row))
    return chain.state


def record_digest(row: dict[str, Any]) -> str:
    pairs = row["headers"] or []
    text = as_json(pairs) + "".join(one["key"] for one in pairs)
    headers = hashlib.sha256(text.encode()).hexdigest() if pairs else ""
    numbers = [
        row["offset"],
        row["timestamp"],
        row["timestamp_type"],
        length(row["key"]),
        length(row["value"]),
        headers,
    ]
    start = ",".join(map(str, numbers)) + ";"
    return hashlib.sha256(start.encode() + (row["key"] or b"") + (row["value"] or b"")).hexdigest()


def sums(rows: Rows, make: Callable[[Rows], dict[str, Any]]) -> dict[Range, Sum]:
    ranges: dict[Range, Rows] = defaultdict(list)
    for row in rows:
        ranges[Range(row["topic"], row["partition"], row["offset"] // SIZE)].append(row)
    return {
        one: Sum(
            len(those),
            min(row["offset"] for row in those),
            max(row["offset"] for row in those),
            **make(those),
        )
        for one, those in ranges.items()
    }


def weak(rows: Rows) -> dict[str, Any]:
    hashes = [record_hash(row) for row in rows]
    return {
        "low": sum(one & 0xFFFFFFFF for one in hashes),
        "high": sum(one >> 32 for one in hashes),
        "either": signed(reduce(xor, hashes)),
    }


def strong(rows: Rows) -> dict[str, Any]:
    digests = [record_digest(row) for row in sorted(rows, key=lambda row: row["offset"])]
    return {"digest": hashlib.sha256("".join(digests).encode()).hexdigest()}


def as_rows(bootstrap: str, topic: str) -> Rows:
    """What a topic holds, over plain Fetch, in an archive's columns."""
    return [
        {
            "topic": topic,
            "partition": one.partition,
            "offset": one.offset,
            "timestamp": one.record.timestamp * 1000,
            "timestamp_type": 0,
            "key": one.record.key,
            "value": one.record.value,
            "headers": [{"key": key, "value": value} for key, value in one.record.headers] or None,
        }
        for one in topic_rows(bootstrap, topic)
    ]


@pytest.mark.parametrize("way", [weak, strong], ids=["xxhash64", "sha256"])
def test_sums_are_what_another_implementation_makes_of_the_same_records(
    spark: SparkSession,
    kafka: KafkaOptions,
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    way: Callable[[Rows], dict[str, Any]],
) -> None:
    topic = new_topic(message_timestamp_after_max_ms=str(2**63 - 1))
    put(
        bootstrap,
        topic,
        [*records(), Record(b"before 1970", None, -1), Record(b"far", b"", 32_503_680_000_000)],
    )
    stored = as_rows(bootstrap, topic)
    end = len(stored)
    archive = write_archive(spark, tmp_path / "archive", stored, {topic: [end]})
    assert table_rows(archive) == [{"topic_id": None, "archived_on": 20_000, **row} for row in stored]
    span = Span(topic, 0, 0, end)
    side = archive_side(spark, Location(str(archive)))
    left, right = sums_of(
        side.read(spark, [span]),
        read_spans(spark, kafka, [span]),
        SIZE,
        strong=way is strong,
        ignore_type=False,
    )
    expected = sums(stored, way)
    assert left == expected
    assert right == expected
