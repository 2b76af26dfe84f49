"""What a task gets from Spark, and Arrow batches of it as lists that a producer's loop goes through.

Columns are flat: Spark sizes a batch after each row, and of lists it looks at all rows again for that, which
costs ten times the sending. So positions and headers come as texts. They are lists by column in Python, since
a call for each cell costs more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from dafka_pipeline.producing.positions import Position, parse_position

if TYPE_CHECKING:
    import pyarrow as pa

NAMES: Final = ("slot", "position", "timestamp", "key", "value", "headers")

Headers = list[tuple[str, bytes | str | None]]


def sent_columns(slot: str, stream: str) -> list[str]:
    """SQL for a task's columns out of those of `plan.COLUMNS`.

    slot: an expression for the number of a row's target partition. The position is the header's whole value;
    headers are NAME:VALUE in hexadecimal digits with commas, `-` for a null value, and null where there is
    none.
    """
    several = "array_join(cast(position AS ARRAY<STRING>), '.')"
    one = "concat(coalesce(hex(h.key), ''), ':', coalesce(hex(h.value), '-'))"
    return [
        f"{slot} AS slot",
        f"concat('{stream}|', IF(size(position) = 1, string(position[0]), {several})) AS position",
        "unix_millis(timestamp) AS timestamp",
        "key",
        "value",
        f"IF(size(headers) > 0, array_join(transform(headers, h -> {one}), ','), NULL) AS headers",
    ]


@dataclass(frozen=True)
class Rows:
    """Rows of one target partition in their order, as columns.

    positions: the values of the position headers. headers: as `sent_columns` writes them; None where no row
        has any.
    timestamps: in milliseconds; 0 is the time of sending.
    size_bytes: of keys and values. zero: whether a row's own time is 0.
    """

    slot: int
    positions: list[str]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[str | None] | None = None
    size_bytes: int = 0
    zero: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def position(self, n: int) -> Position:
        """Raises ValueError for a text that is none."""
        value = self.positions[n].encode()
        found = parse_position(value[: value.index(b"|") + 1], value)
        if found is None:
            raise ValueError(f"{value!r} is no position: it has a null, or no number")
        return found

    def behind(self, position: Position | None) -> int:
        """How many rows at the front are not above this position; the rows ascend."""
        if position is None or not len(self) or self.position(0) > position:
            return 0
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.position(middle) > position:
                high = middle
            else:
                low = middle + 1
        return low

    def all_headers(self, name: str, start: int, end: int) -> list[Headers]:
        """Headers as producers take them, the position's last."""
        positions = self.positions[start:end]
        if self.headers is None:
            return [[(name, position)] for position in positions]
        own = (parse_headers(text) for text in self.headers[start:end])
        return [[*those, (name, position)] for those, position in zip(own, positions, strict=True)]


def parse_headers(text: str | None) -> Headers:
    """One row's headers, from how `sent_columns` writes them."""
    if text is None:
        return []
    found: Headers = []
    for one in text.split(","):
        name, _, value = one.partition(":")
        found.append((bytes.fromhex(name).decode(), None if value == "-" else bytes.fromhex(value)))
    return found


def rows_of(batch: pa.RecordBatch) -> Iterator[Rows]:
    """The batch's rows, each run of the same target partition by itself."""
    slots = batch.column(0)
    count = batch.num_rows
    if count == 0:
        return
    if slots[0].equals(slots[count - 1]):
        yield _rows(batch)
        return
    numbers = slots.to_pylist()
    starts = [0, *(n for n in range(1, count) if numbers[n] != numbers[n - 1]), count]
    for start, end in pairwise(starts):
        yield _rows(batch.slice(start, end - start))


def _rows(batch: pa.RecordBatch) -> Rows:
    import pyarrow.compute as pc

    slot, positions, timestamps, keys, values, headers = batch.columns
    return Rows(
        slot[0].as_py(),
        positions.to_pylist(),
        timestamps.fill_null(0).to_pylist(),
        keys.to_pylist(),
        values.to_pylist(),
        None if headers.null_count == len(headers) else headers.to_pylist(),
        _size(keys) + _size(values),
        bool(pc.any(pc.equal(timestamps, 0)).as_py()),
    )


def _size(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(column)).as_py() or 0)
