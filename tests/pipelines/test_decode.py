"""Values become columns; what cannot be decoded is kept with the reason, and stops nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.decode.formats import parse_format
from dafka_pipeline.decode.job import Decoder
from dafka_pipeline.failures import Refused, UsageFailure
from tests.clients.stored import put
from tests.differential.batches import Record
from tests.pipelines.archiving import archive_once
from tests.pipelines.dumps import archive_rows, delta_dicts, topic_rows
from tests.pipelines.dying import Killed

pytestmark = pytest.mark.slow
DDL = "id BIGINT, name STRING, tags ARRAY<STRING>"
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
    }
)


def values(archive: Path, topic: str) -> list[tuple[int, object]]:
    return sorted((row["offset"], row["value"]) for row in delta_dicts(archive / "_decoded" / topic))


def dead(archive: Path) -> list[tuple[int, bytes, str]]:
    rows = delta_dicts(archive / "_dead_letters")
    return sorted((row["offset"], row["value"], row["reason"]) for row in rows)


@pytest.mark.matrix
def test_json(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """Good and bad ones, a tombstone; a run that dies before the dead letters; a second schema."""
    schema = tmp_path / "schema.ddl"
    schema.write_text(DDL)
    how = parse_format(f"json:{schema}")
    archive = tmp_path / "a"
    sent = [
        b'{"id": 1, "name": "a", "tags": ["x"]}',
        None,
        b"no json",
        b'{"id": "one"}',
        b'{"id": \xff}',
        b"{}",
    ]
    put(bootstrap, topic, [Record(value) for value in sent])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "_bury", _die)
        with pytest.raises(Killed):
            archive_once(spark, bootstrap, archive, topic, decode=how)
    put(bootstrap, topic, [Record(b'{"id": 2, "more": true}'), Record(b"[]")])
    for _ in range(2):
        archive_once(spark, bootstrap, archive, topic, decode=how)
    none = {"id": None, "name": None, "tags": None}
    assert values(archive, topic) == [
        (0, {"id": 1, "name": "a", "tags": ["x"]}),
        (1, None),
        (5, none),
        (6, none | {"id": 2}),
    ]
    assert [(offset, value) for offset, value, _ in dead(archive)] == [
        (2, sent[2]),
        (3, sent[3]),
        (4, sent[4]),
        (7, b"[]"),
    ]
    assert archive_rows(archive) == topic_rows(bootstrap, topic), "the archive has them all, as they are"
    schema.write_text("id STRING")
    put(bootstrap, topic, [Record(b'{"id": 3}')])
    with pytest.raises(Refused, match="decoded with another schema"):
        archive_once(spark, bootstrap, archive, topic, decode=parse_format(f"json:{schema}"))


def _die(_: Decoder, __: str, topic: object, ___: object) -> int:
    if topic is None:
        return 0
    raise Killed


def avro(number: int, name: str | None) -> bytes:
    """Avro's binary encoding of an Order, by hand: zigzag longs, a union's branch, a string's length."""
    out = io.BytesIO()
    out.write(_long(number))
    if name is None:
        out.write(_long(0))
    else:
        out.write(_long(1) + _long(len(name.encode())) + name.encode())
    return out.getvalue()


def _long(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


@pytest.mark.parametrize(("kind", "header"), [("avro", b""), ("confluent-avro", b"\0\0\0\0\x07")])
def test_avro(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, kind: str, header: bytes
) -> None:
    schema = tmp_path / "schema.avsc"
    schema.write_text(AVRO)
    sent = [header + avro(300, "a"), header + avro(-1, None), None, b"\x05"]
    put(bootstrap, topic, [Record(value) for value in sent])
    archive_once(spark, bootstrap, tmp_path / "a", topic, decode=parse_format(f"{kind}:{schema}"))
    assert values(tmp_path / "a", topic) == [
        (0, {"id": 300, "name": "a"}),
        (1, {"id": -1, "name": None}),
        (2, None),
    ]
    assert [(offset, value) for offset, value, _ in dead(tmp_path / "a")] == [(3, b"\x05")]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("json", "give one of"),
        ("xml:f", "give one of"),
        ("json:/no/such", "cannot be read"),
        ("avro:BAD", "is no JSON"),
    ],
)
def test_what_cannot_be_a_format(tmp_path: Path, given: str, says: str) -> None:
    (tmp_path / "bad").write_text("{")
    with pytest.raises(UsageFailure, match=says):
        parse_format(given.replace("BAD", str(tmp_path / "bad")))
