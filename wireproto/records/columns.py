"""Records that are alike in form, looked through column by column: no object is made of any of them.

Many producers write the records of a batch all in the same form: no headers, no attributes, each number in
as many bytes as the one before it, no key in any or keys of one size in all. What stands in front of a value
then takes the same number of bytes in each of them. So these bytes are laid one record below the other, and a
column of them - all attributes, say - is one object of bytes, which Python's own methods look through at
about a byte a nanosecond.

Rule: what is taken here is what `iter_records` reads, with the same timestamps and with keys where it has
them. Whatever is not shown to be so is not taken, and `walk` looks through it by other means. Shown is of
each record

- the bytes of its numbers: as many as in the first one, which a column tells by its highest bits,
- its attributes, 0, and its offset delta, by columns that are compared with what they have to be,
- the lengths of its key and its value, and that no header follows: they have to add up to its own length,
  which is compared for all at once, in one large integer with 32 bits for each record.

Where a record begins is known only from the lengths of those before it: that is the one loop, a tenth of a
microsecond for each. Records that have all the same size are found without it.

A producer may write records of which few at a time are alike, and each look would be at many for the sake of
few. So after `MAX_CHANGES` changes of form nothing more of the batch is looked at here.
"""

import sys
from bisect import bisect_right
from typing import Final, NamedTuple

from wireproto.records.header import Buffer
from wireproto.records.varint import MORE, WRITTEN_NULL

FEW: Final = 256
"""For fewer records it does not pay."""

AT_ONCE: Final = 2000
"""Records that are looked through together, at the most: a third of a millisecond."""

MAX_CHANGES: Final = 3
"""How often the form may change within a batch. Two are common: a time that grows takes one more byte 64 ms
and eight seconds after the first."""

WINDOW_BYTES: Final = 128 * 1024
"""Bytes that are copied at a time."""

_MAX_KEY_BYTES: Final = 63
"""So that its length takes one byte."""

_MAX_FRONT_BYTES: Final = 96
"""Bytes in front of a value, at the most: 13 of numbers, and a key."""

_PLACES: Final = 1 << 13
_OFFSET_STEPS: Final = (1 << 6, _PLACES, 1 << 20)
"""Below these an offset delta takes one, two and three bytes."""

_ENDS: Final = bytes(range(MORE))
_GOES_ON: Final = bytes(range(MORE, 0x100))
"""Bytes that are the last one of a number, and those that are not."""
_EVEN: Final = bytes(range(0, 0x100, 2))
_OFFSETS: Final = (
    bytes(range(0, MORE, 2)) * (_PLACES // _OFFSET_STEPS[0]),
    b"".join(bytes((byte,)) * _OFFSET_STEPS[0] for byte in range(MORE)),
)
"""The low seven bits of each offset delta as it is written, twice itself, and the next seven."""
_LOW_BITS: Final = _ENDS * 2
_GOING_ON: Final = _GOES_ON * 2
"""Each byte without that bit, and with it."""

_MAX_NUMBER_BYTES: Final = 3
_LANE_BYTES: Final = 4

_STEPS: Final = (
    (tuple(1 + (byte >> 1) for byte in range(0x100)), (0,) * 0x100),
    (tuple(2 + ((byte & 0x7F) >> 1) for byte in range(0x100)), tuple(byte << 6 for byte in range(0x100))),
)
"""Bytes to the next record where its length takes one byte, and where it takes two: to be added, by the first
two bytes of it.
"""


class Taken(NamedTuple):
    """Records that were looked through and are right."""

    records: int
    size: int
    """Bytes of theirs."""
    smallest_delta: int
    """Of their timestamps, in milliseconds."""
    largest_delta: int
    keyed: bool
    """Whether they have keys: all of them, or none."""


class _Form(NamedTuple):
    """How many bytes the numbers of a record take, and the record."""

    length: int
    delta: int
    offset: int
    key: int
    """Of the key itself, 0 if there is none; its length is one byte."""
    keyed: bool
    value: int
    """Of the value's length."""
    size: int


class _Rows(NamedTuple):
    """The first bytes of some records and the byte in front of each, `stride` bytes from one to the next."""

    data: bytes
    first: int
    stride: int
    records: int
    size: int
    """Bytes of the whole records."""

    def column(self, place: int) -> bytes:
        begin = self.first + place
        return self.data[begin : begin + self.records * self.stride : self.stride]


class Columns:
    """Looks through the records of one batch, whose inflated records are `body`, some at a time."""

    __slots__ = ("_begin", "_body", "_changes_left", "_data", "_end", "_position", "looked_at")

    def __init__(self, body: Buffer) -> None:
        self._body = body
        self._begin = self._end = self._position = 0
        self._data = b""
        """A window of the body: the byte in front of it, which no one reads, and zeros for rows that go on
        behind its last record. `_begin` is where in the body it begins, `_position` a record's in it, and
        `_end` its size.
        """
        self._changes_left = MAX_CHANGES
        self.looked_at = 0
        """Records, those not taken among them."""

    def take(self, position: int, place: int, count: int) -> Taken | None:
        """Look through some of the next `count` records, of which the first begins at `position` and has the
        offset delta `place`. None: it cannot be told here.
        """
        form = self._next_form(position, place) if self._changes_left else None
        if form is None:
            return None
        most = min(count, AT_ONCE, _OFFSET_STEPS[form.offset - 1] - place, _PLACES - place % _PLACES)
        rows = self._rows(form, most)
        alike = _of_one_form(rows, form)
        self.looked_at += rows.records
        if alike < rows.records:
            self._changes_left -= 1
            rows = self._rows(form, alike)
            self.looked_at += rows.records
        deltas = _deltas(rows, form)
        end = self._position + rows.size
        if deltas is None or self._data[end] or not _are_right(rows, form, place):
            return None
        return Taken(rows.records, rows.size, *deltas, form.keyed)

    def _next_form(self, position: int, place: int) -> _Form | None:
        """That of the record there; None if it is not one to look for."""
        self._have(position, _MAX_FRONT_BYTES)
        form = self._form(place)
        if form is None:
            return None
        self._have(position, form.size)
        return form if self._position + form.size <= self._end else None

    def _have(self, position: int, size: int) -> None:
        """Go to `position`, with so many bytes from there on in the window, if the body has them."""
        behind = self._begin + self._end
        if position + size > behind and behind < len(self._body):
            window = self._body[position : position + WINDOW_BYTES]
            self._data = b"".join((b"\0", window, bytes(_MAX_FRONT_BYTES)))
            self._begin, self._end = position, len(window)
        self._position = position - self._begin

    def _form(self, place: int) -> _Form | None:
        """That of the record at `_position`, as far as it is in the window."""
        row = self._data[self._position : self._position + 1 + _MAX_FRONT_BYTES]
        length = _number_bytes(row, 1)
        if length > len(_STEPS):
            return None
        first, second = _STEPS[length - 1]
        size = first[row[1]] + second[row[2]]
        delta = _number_bytes(row, 2 + length)
        offset = 1 + bisect_right(_OFFSET_STEPS, place)
        at_key = 2 + length + delta + offset
        key = row[at_key]
        keyed = key != WRITTEN_NULL
        if keyed and (key & 1 or key > 2 * _MAX_KEY_BYTES):
            return None
        key = key >> 1 if keyed else 0
        value = _number_bytes(row, at_key + 1 + key)
        if max(delta, offset, value) > _MAX_NUMBER_BYTES:
            return None
        return _Form(length, delta, offset, key, keyed, value, size)

    def _rows(self, form: _Form, most: int) -> _Rows:
        return self._of_one_size(form, most) or self._one_by_one(form, most)

    def _of_one_size(self, form: _Form, most: int) -> _Rows | None:
        """The next records, if most of them have the size of the first."""
        data, position, size = self._data, self._position, form.size
        most = count = min(most, (self._end - position) // size)
        for begin in range(position + 1, position + 1 + form.length):
            count = _run(data[begin : begin + count * size : size], data[begin : begin + 1])
        return _Rows(data, position, size, count, count * size) if 2 * count >= most else None

    def _one_by_one(self, form: _Form, most: int) -> _Rows:
        """The next records, their first bytes laid one below the other."""
        data, position, end = self._data, self._position, self._end
        width = 2 + form.length + form.delta + form.offset + 1 + form.key + form.value
        first, second = _STEPS[form.length - 1]
        rows: list[bytes] = []
        note = rows.append
        for _ in range(most):
            row = data[position : position + width]
            behind = position + first[row[1]] + second[row[2]]
            if behind > end:
                break
            note(row)
            position = behind
        return _Rows(b"".join(rows), 0, width, len(rows), position - self._position)


def _number_bytes(data: bytes, position: int) -> int:
    """Bytes of the number there, or one more than the most that is looked for."""
    for size in range(_MAX_NUMBER_BYTES):
        if data[position + size] < MORE:
            return size + 1
    return _MAX_NUMBER_BYTES + 1


def _of_one_form(rows: _Rows, form: _Form) -> int:
    """How many of the first rows have times that take as many bytes."""
    count = rows.records
    for index in range(form.delta):
        column = rows.column(2 + form.length + index)
        count = _run(column[:count], _ENDS if index == form.delta - 1 else _GOES_ON)
    return count


def _deltas(rows: _Rows, form: _Form) -> tuple[int, int] | None:
    """The least and the greatest of the timestamp deltas; None if one of them is negative."""
    columns = [rows.column(2 + form.length + index) for index in range(form.delta)]
    if columns[0].translate(None, _EVEN):
        return None
    if form.delta == 1:
        return min(columns[0]) >> 1, max(columns[0]) >> 1
    numbers = _numbers(columns)
    assert numbers is not None
    with memoryview(numbers.to_bytes(_LANE_BYTES * rows.records, sys.byteorder)).cast("I") as lanes:
        return min(lanes) >> 1, max(lanes) >> 1


def _are_right(rows: _Rows, form: _Form, place: int) -> bool:
    """Whether in each row all is what it has to be, and what takes bytes takes as many as the record has."""
    at_offset = 2 + form.length + form.delta
    at_key = at_offset + form.offset
    count = rows.records
    keys = rows.column(at_key)
    if (
        rows.column(0)[1:] != bytes(count - 1)  # headers, of which there are none, end each
        or rows.column(1 + form.length) != bytes(count)  # attributes
        or keys != keys[:1] * count
        or any(
            rows.column(at_offset + index) != expected
            for index, expected in enumerate(_offsets(form.offset, place, count))
        )
    ):
        return False
    lengths = [rows.column(1 + index) for index in range(form.length)]
    records = _numbers(lengths)
    values = _numbers([rows.column(at_key + 1 + form.key + index) for index in range(form.value)])
    if records is None or values is None or lengths[0].translate(None, _EVEN):
        return False
    others = 1 + form.delta + form.offset + 1 + form.key + form.value + 1
    ones = int.from_bytes((1).to_bytes(_LANE_BYTES, "little") * count, "little")
    return records == values + 2 * others * ones  # numbers are written as twice what they are


def _offsets(size: int, place: int, count: int) -> list[bytes]:
    """The columns of so many offset deltas from `place` on, which take `size` bytes each."""
    begin = place % _PLACES
    columns = [offsets[begin : begin + count] for offsets in _OFFSETS[:size]]
    if size > len(_OFFSETS):
        columns.append(bytes((place // _PLACES,)) * count)
    return [column.translate(_GOING_ON) for column in columns[:-1]] + columns[-1:]


def _numbers(columns: list[bytes]) -> int | None:
    """The numbers whose bytes are in the columns, as they are written (twice what they say), one in each 32
    bits; None unless each takes exactly so many bytes.
    """
    total = 0
    for index, column in enumerate(columns):
        if column.translate(None, _ENDS if index == len(columns) - 1 else _GOES_ON):
            return None
        lanes = bytearray(_LANE_BYTES * len(column))
        lanes[::_LANE_BYTES] = column.translate(_LOW_BITS)
        total += int.from_bytes(lanes, "little") << 7 * index
    return total


def _run(column: bytes, kinds: bytes) -> int:
    """How many of its first bytes are of these kinds."""
    if not column.translate(None, kinds):
        return len(column)
    return len(column) - len(column.lstrip(kinds))
