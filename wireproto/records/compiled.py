"""aiokafka's compiled parser of records, where it is there: the only file that knows it.

It is used within its bounds. It looks whether a field begins within what it was given and whether a string
ends there, but not whether a number does, so it reads up to 20 bytes further: `PADDING_BYTES` follow. It
copies what it reads, so nothing refers to the buffer afterwards. And it does not pause within a record.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias

from wireproto.put_off import put_off
from wireproto.records.header import HEADER, HEADER_BYTES, MAGIC, Buffer

put_off("aiokafka")
put_off("aiokafka.record")
try:
    from aiokafka.errors import CorruptRecordException
    from aiokafka.record._crecords import DefaultRecordBatch, DefaultRecordBatchBuilder
except ImportError:  # no wheel for this platform, or another version: our own code does it
    DefaultRecordBatch = DefaultRecordBatchBuilder = CorruptRecordException = None

PADDING_BYTES: Final = 32
"""Zeros after what the parser is given: a zero ends any number."""

REFUSALS: Final[tuple[type[Exception], ...]] = (
    *(() if CorruptRecordException is None else (CorruptRecordException,)),
    ArithmeticError,
    MemoryError,
    ValueError,
)
"""What it raises for bytes that are no records: a length near 2**63 passes its look and fails to be
allocated."""

offset_delta_of: Final = attrgetter("offset")
timestamp_delta_of: Final = attrgetter("timestamp")
key_of: Final = attrgetter("key")
value_of: Final = attrgetter("value")
headers_of: Final = attrgetter("headers")

_COUNT: Final = Struct(">i")
_COUNT_OFFSET: Final = 57
_HEADER_OF_ZEROS: Final = HEADER.pack(0, 0, 0, MAGIC, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""Base offset and base timestamp are 0, so that the records' own are their deltas; no codec."""


class Window:
    """Records, without a batch's header, that the parser may read."""

    __slots__ = ("_bytes", "size")

    def __init__(self, records: Buffer) -> None:
        self.size = len(records)
        self._bytes = bytearray().join((_HEADER_OF_ZEROS, records, bytes(PADDING_BYTES)))

    def records(self, count: int, size: int) -> Iterator[Any]:
        """So many records in the first `size` bytes, each as it is asked for; with one of `REFUSALS` at the
        first that cannot be read, and after the last one if they do not end where the bytes do.
        """
        _COUNT.pack_into(self._bytes, _COUNT_OFFSET, count)
        return iter(DefaultRecordBatch(memoryview(self._bytes)[: HEADER_BYTES + size]))


Measure: TypeAlias = Callable[[int, int, bytes | None, bytes | None, list[Any]], int]
"""Offset delta, timestamp delta, key, value, headers -> bytes that the record takes if each number in it is
written with as few as possible."""


def _measure() -> Measure:
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, 1 << 62)
    builder.append(0, 0, None, None, [])  # from here on timestamps count from 0
    measure: Measure = builder.size_in_bytes
    return measure


def _works() -> bool:
    """Whether it is there, and as it was when this was written: its names are not public."""
    if DefaultRecordBatch is None:
        return False
    record = b"\x10\0\x02\0\x02k\x02v\0"
    try:
        (found,) = Window(record).records(1, len(record))
        size = _measure()(0, 1, b"k", b"v", [])
    except REFUSALS + (TypeError, AttributeError):  # noqa: RUF005 - mypy follows a sum of tuples alone
        return False
    seen = found.offset, found.timestamp, found.key, found.value, found.headers, size
    return bool(seen == (0, 1, b"k", b"v", [], len(record)))


AVAILABLE: Final = _works()
"""Whether there is a parser; `Window` and `shortest_size_of` are of no use without."""

if AVAILABLE:
    shortest_size_of: Final = _measure()
