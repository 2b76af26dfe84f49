"""Arrow batches as lists that a producer's loop goes through: by column, since a call for each cell costs
more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

SENT_SCHEMA: Final = (
    "slot INT, position ARRAY<BIGINT>, timestamp BIGINT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""What a task gets: the number of a target partition, and milliseconds."""

Headers = list[tuple[str, bytes | str | None]]


@dataclass(frozen=True)
class Rows:
    """Rows of one target partition in their order, as columns.

    numbers: for each number of a position one list. headers: None where no row has any.
    timestamps: in milliseconds; 0 is the time of sending.
    size_bytes: of keys and values. zero: whether a row's own time is 0.
    """

    slot: int
    numbers: Sequence[list[int]]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None
    size_bytes: int
    zero: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def position(self, n: int) -> tuple[int, ...]:
        return tuple(numbers[n] for numbers in self.numbers)

    def header_values(self, prefix: str) -> list[str]:
        """The values of the position headers (see `positions.position_value`)."""
        if len(self.numbers) == 1:
            return [f"{prefix}{number}" for number in self.numbers[0]]
        return [prefix + ".".join(map(str, numbers)) for numbers in zip(*self.numbers, strict=True)]

    def behind(self, position: tuple[int, ...] | None) -> int:
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
    flat = positions.flatten().to_pylist()
    width = len(flat) // batch.num_rows
    return Rows(
        slot[0].as_py(),
        [flat] if width == 1 else [flat[n::width] for n in range(width)],
        timestamps.fill_null(0).to_pylist(),
        keys.to_pylist(),
        values.to_pylist(),
        _headers(headers),
        _size(keys) + _size(values),
        bool(pc.any(pc.equal(timestamps, 0)).as_py()),
    )


def _size(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _headers(column: pa.Array) -> list[Headers] | None:
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return None
    lengths: list[Any] = pc.list_value_length(column).fill_null(0).to_pylist()
    if not any(lengths):
        return None
    flat = column.flatten()
    names, values = (pc.struct_field(flat, [n]).to_pylist() for n in (0, 1))
    pairs = zip(names, values, strict=True)
    return [list(islice(pairs, length)) for length in lengths]
