"""What a commit says of a Parquet file, against the rows in it."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dafka_pipeline.table import data_files
from dafka_pipeline.table.data_files import NULL, data_file, is_data
from dafka_pipeline.table.location import Files, Location

MEASURED = ("partition", "offset", "timestamp")


def measured(
    folder: Path,
    name: str,
    columns: dict[str, Any],
    constant: dict[str, str | None] | None = None,
    **how: Any,
) -> Any:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path, **how)
    nobody: Any = None
    files = Files(nobody, Location(str(folder)))
    (found,) = files.below(name.split("/", maxsplit=1)[0])
    return data_file(files, found, MEASURED, constant or {})


def times(*given: int) -> Any:
    """Microseconds since 1970."""
    return pa.array(given, pa.timestamp("us", "UTC"))


def test_rows_bounds_and_place(tmp_path: Path) -> None:
    offsets = random.Random(1).sample(range(10**12), 500)
    at = [1_700_000_000_000_000 + 1000 * n for n in offsets]
    found = measured(
        tmp_path,
        "batch-1/archived_on=2026-01-02/topic=a%2Fb/part.parquet",
        {
            "partition": pa.array([n % 7 for n in offsets], pa.int32()),
            "offset": pa.array([*offsets[:-1], None], pa.int64()),
            "timestamp": times(*at),
            "value": pa.array([b"x"] * 500),
        },
        row_group_size=100,
    )

    def iso(micros: int) -> str:
        time = datetime.fromtimestamp(micros / 1e6, UTC)
        return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{micros // 1000 % 1000:03}Z"

    assert found.statistics == {
        "numRecords": 500,
        "minValues": {"partition": 0, "offset": min(offsets[:-1]), "timestamp": iso(min(at))},
        "maxValues": {"partition": 6, "offset": max(offsets[:-1]), "timestamp": iso(max(at))},
        "nullCount": {"partition": 0, "offset": 1, "timestamp": 0},
    }
    assert found.values == {"archived_on": "2026-01-02", "topic": "a/b"}
    assert found.path == "batch-1/archived_on=2026-01-02/topic=a%252Fb/part.parquet"
    assert found.size == (tmp_path / "batch-1/archived_on=2026-01-02/topic=a%2Fb/part.parquet").stat().st_size
    assert found.rows == 500


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (-1000, "1969-12-31T23:59:59.999Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799_999_000, "9999-12-31T23:59:59.999Z"),
        (884_541_340_800_000_000, None),
    ],
)
def test_odd_times(tmp_path: Path, time: int, said: str | None) -> None:
    """Year 30,000 has no bound that readers parse: its file is never passed over."""
    found = measured(tmp_path, "b/x.parquet", {"timestamp": times(time)})
    assert found.statistics["minValues"].get("timestamp") == said
    assert found.statistics["maxValues"].get("timestamp") == said


def test_columns_without_a_value_have_no_bounds(tmp_path: Path) -> None:
    found = measured(tmp_path, "b/x.parquet", {"offset": pa.array([None, None], pa.int64())})
    assert found.statistics == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {}}


def test_a_long_footer_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "FOOTER_BYTES", 16)
    found = measured(tmp_path, "b/x.parquet", {f"c{n}": pa.array([n]) for n in range(200)})
    assert found.rows == 1


def test_times_in_another_unit_have_no_bounds(tmp_path: Path) -> None:
    found = measured(tmp_path, "b/x.parquet", {"timestamp": pa.array([5], pa.timestamp("ms", "UTC"))})
    assert found.statistics["minValues"] == {}


@pytest.mark.parametrize("name", ["orders", "a/b", NULL])
def test_what_all_rows_have_is_not_read_from_a_path(tmp_path: Path, name: str) -> None:
    place = f"b/topic={name.replace('/', '%2F')}/x.parquet"
    assert measured(tmp_path, place, {"n": [1]}, constant={"topic": name}).values == {"topic": name}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("b/topic=a/part-1.zstd.parquet", True),
        ("b/_topic=a/part-1.parquet", True),
        ("b/topic=a/_temporary/0/task_1/part-1.parquet", False),
        ("b/topic=a/_temporary/0/task_1/topic=b/part-1.parquet", False),
        ("b/topic=a/.part-1.parquet.crc", False),
        ("b/topic=a/.part-1.parquet", False),
        ("b/_SUCCESS", False),
    ],
)
def test_what_late_and_killed_tasks_leave_does_not_count(name: str, *, counts: bool) -> None:
    assert is_data(name) is counts
