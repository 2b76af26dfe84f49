"""Spark's files in a checkpoint, as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.transform.checkpoint import SparkCheckpoint, parse_planned

PLANNED = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
    '{"a":{"1":7,"0":5}}\n-'
)


def checkpoint(folder: Path) -> SparkCheckpoint:
    return SparkCheckpoint(Files(cast(Any, None), Location.of(str(folder))))


def test_a_planned_batch() -> None:
    planned = parse_planned(PLANNED)
    assert planned.ends == ({"a": {"0": 5, "1": 7}}, None)
    assert planned.settings == {"spark.sql.shuffle.partitions": "2"}
    assert planned.said == '[{"a":{"0":5,"1":7}},null]'


def test_nothing_is_there(tmp_path: Path) -> None:
    empty = checkpoint(tmp_path / "none")
    assert (empty.query(), empty.newest_planned(), empty.newest_committed()) == ("", None, None)


def test_the_newest_by_number(tmp_path: Path) -> None:
    for name in ("9", "10", ".10.crc", "11.tmp"):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / name).write_text(PLANNED)
    (tmp_path / "metadata").write_text('{"id":"q"}')
    found = checkpoint(tmp_path)
    assert (found.query(), found.newest_planned(), found.newest_committed()) == ("q", 10, None)
    assert found.planned(10) == parse_planned(PLANNED)


@pytest.mark.parametrize("text", ["", "v2\n{}\n-", "v1\n{\n-", "v1", "v1\n[]\n-"])
def test_damage_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(Refused, match=r"offsets/0.*damaged"):
        checkpoint(tmp_path).planned(0)
    with pytest.raises(Refused, match=r"offsets/1 is missing"):
        checkpoint(tmp_path).planned(1)
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(Refused, match="metadata"):
        checkpoint(tmp_path).query()
