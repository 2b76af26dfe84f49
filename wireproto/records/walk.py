"""All records of a batch that a producer sent, looked through before it enters a log: what passes here is
read whole by `iter_records` and by every client. (With one exception that Kafka makes as well: a negative
length other than -1 is null to most of them, and librdkafka stops there.)

Of each record: its length and the lengths within it, and that they fill it exactly; its place (offset deltas
are 0, 1, 2, ...); that its time fits 64 bits; that its headers have names in UTF-8. And that the records end
where the bytes do.

Many records that are alike in form are looked through column by column (`columns`), without an object for any
of them. Through the others goes a compiled parser (`compiled`), where there is one, and Python only compares
what comes out. The parser takes numbers written with more bytes than Kafka reads, and so one record for
another. So what it found is measured, too: if the records, written as short as can be, take exactly the bytes
that are there, then they are what every reader finds. Whatever neither lets pass is looked through by our own
code, and that decides: the outcome is the same with them and without, only slower.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from wireproto.records.columns import FEW, Columns
from wireproto.records.errors import invalid
from wireproto.records.header import BatchHeader, Buffer
from wireproto.records.iteration import expect_end, past_field, record_bounds
from wireproto.records.varint import MORE, read_varint, read_varlong

RECORDS_AT_ONCE: Final = 2000
"""Records between two pauses where the compiled parser reads them, a millisecond, or columns do."""

ELEMENTS_AT_ONCE: Final = 1000
"""Records and headers between two pauses where Python reads them: two milliseconds."""

WINDOW_BYTES: Final = 128 * 1024
"""Bytes that the compiled parser is given at a time, without a pause if they have few records. A record may
have a header in every two bytes: 10 ms at the worst. Larger records are looked through by Python."""

FEW_RECORDS: Final = 3
"""Up to so many, Python is done before the parser has begun."""

MIN_HEADER_BYTES: Final = 2
"""Bytes of the smallest header: the lengths of its key and its value."""

MAX_KEYLESS: Final = 10_000
"""Records without a key whose places are noted; all are counted."""

_PLAIN_DELTA: Final = 1 << 62
"""Below this, either way, a timestamp's delta takes nine bytes. The tenth has bits that the parser drops."""

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


class RecordWalk:
    """The walk over the records of one batch, whose inflated records are `body`.

    `steps` is the work. What it found is here afterwards: the smallest and the largest timestamp delta, in
    milliseconds; and if `notes_keys`, how many records have no key and the places of the first of them.
    """

    __slots__ = (
        "_body",
        "_columns",
        "_header",
        "_notes_keys",
        "_place",
        "_position",
        "headers",
        "keyless",
        "keyless_count",
        "largest_delta",
        "smallest_delta",
    )

    def __init__(self, header: BatchHeader, body: Buffer, *, notes_keys: bool = False) -> None:
        self._header = header
        self._body = body
        self._columns: Columns | None = None
        self._notes_keys = notes_keys
        self._place = 0
        """Records that were looked through."""
        self._position = 0
        """Bytes that they take."""
        self.smallest_delta = _INT64_MAX
        self.largest_delta = _INT64_MIN
        self.headers = 0
        """Headers that were looked through, or as many as there may have been."""
        self.keyless: list[int] = []
        self.keyless_count = 0

    def finish(self) -> None:
        """All steps at once. Raises :class:`InvalidBatch`."""
        deque(self.steps(), maxlen=0)

    def steps(self) -> Iterator[None]:
        """The work, with a pause about every millisecond.

        Raises :class:`InvalidBatch`: INVALID_RECORD; a record cannot be read or is not where it should be, or
        there are not as many as the header counts.
        """
        count, size = self._header.count, len(self._body)
        while self._place < count:
            if self._place:
                yield
            if count - self._place >= FEW:
                yield from self._by_columns()
            if count - self._place > FEW_RECORDS and (yield from self._by_parser()):
                continue
            yield from self._one_by_one(min(self._position + WINDOW_BYTES, size))
        expect_end(self._body, self._position)
        base = self._header.base_timestamp
        if base + self.largest_delta > _INT64_MAX or base + self.smallest_delta < _INT64_MIN:
            raise invalid("a record's timestamp does not fit 64 bits")

    # ------------------------------------------------------------------------------------- by columns

    def _by_columns(self) -> Iterator[None]:
        """Look through the next records, as far as they are alike."""
        if self._columns is None:
            self._columns = Columns(self._body)
        columns = self._columns
        paused = columns.looked_at
        while (left := self._header.count - self._place) and (
            taken := columns.take(self._position, self._place, left)
        ):
            first, behind = self._place, self._place + taken.records
            keyless = range(first, behind) if self._notes_keys and not taken.keyed else ()
            self._take(taken.records, taken.size, taken.smallest_delta, taken.largest_delta, keyless)
            if columns.looked_at - paused >= RECORDS_AT_ONCE:
                paused = columns.looked_at
                yield

    # ------------------------------------------------------------------------------------- by the parser

    def _by_parser(self) -> Generator[None, None, bool]:
        """Look through the next records. False: our own code has to, and nothing was taken."""
        from wireproto.records import compiled  # who opens no batch does without its memory

        if not compiled.AVAILABLE:
            return False
        here, first, left = self._position, self._place, self._header.count - self._place
        window = compiled.Window(self._body[here : here + WINDOW_BYTES])
        before = self.headers
        self.headers = before + window.size // MIN_HEADER_BYTES  # if nothing comes of it
        # Without `chain` each slice would begin anew.
        records: Iterator[Any] = chain(window.records(left, window.size))
        count = size = held = 0
        smallest, largest = _INT64_MAX, _INT64_MIN
        keyless: list[int] = []
        refused = False
        while count < left and not refused:
            if count:
                yield
            some: list[Any] = []
            try:
                some.extend(islice(records, RECORDS_AT_ONCE))
            except compiled.REFUSALS:
                refused = True  # the window ends, or one cannot be read; those before it are there
            if not some:
                break
            place = first + count
            places = list(map(compiled.offset_delta_of, some))
            if places != list(range(place, place + len(some))):
                return False
            deltas = list(map(compiled.timestamp_delta_of, some))
            keys = list(map(compiled.key_of, some))
            headers = list(map(compiled.headers_of, some))
            if any(headers):
                held += sum(map(len, headers))
            size += sum(
                map(
                    compiled.shortest_size_of,
                    places,
                    deltas,
                    keys,
                    map(compiled.value_of, some),
                    headers,
                )
            )
            smallest, largest = min(smallest, min(deltas)), max(largest, max(deltas))  # noqa: PLW3301
            if self._notes_keys and None in keys:
                keyless += [place + index for index, key in enumerate(keys) if key is None]
            count += len(some)
        if not count or size > window.size or smallest <= -_PLAIN_DELTA or largest >= _PLAIN_DELTA:
            return False
        try:
            if refused or size < window.size:
                records = window.records(count, size)  # they must end where they seem to
            deque(records, maxlen=0)
        except compiled.REFUSALS:
            return False
        self.headers = before + held
        self._take(count, size, smallest, largest, keyless)
        return True

    def _take(self, count: int, size: int, smallest: int, largest: int, keyless: Sequence[int]) -> None:
        """So many records, of so many bytes, passed: the range of their timestamp deltas, and the places of
        those without a key.
        """
        self._place += count
        self._position += size
        self.smallest_delta = min(self.smallest_delta, smallest)
        self.largest_delta = max(self.largest_delta, largest)
        self.keyless_count += len(keyless)
        self.keyless += keyless[: MAX_KEYLESS - len(self.keyless)]

    # ------------------------------------------------------------------------------------- by our own code

    def _one_by_one(self, stop: int) -> Iterator[None]:
        """Look through the records that begin before `stop`. Raises :class:`InvalidBatch`."""
        body, count = self._body, self._header.count
        left = ELEMENTS_AT_ONCE
        while self._place < count and self._position < stop:
            start, end = record_bounds(body, self._position)
            if body[start] >= MORE:
                # It has no meaning yet, and Kafka takes any. Python's clients read this one as two bytes.
                raise invalid(f"a record with the attributes {body[start]}")
            delta, place = read_varlong(body, start + 1, end)
            offset_delta, place = read_varint(body, place, end)
            if offset_delta != self._place:
                raise invalid(
                    f"a record with the offset delta {offset_delta} where {self._place} is expected"
                )
            key_bytes, place = past_field(body, place, end)
            _, place = past_field(body, place, end)
            headers, place = read_varint(body, place, end)
            if not 0 <= headers <= (end - place) // MIN_HEADER_BYTES:
                raise invalid(f"{headers} record headers in {end - place} bytes")
            self.headers += headers
            for _ in range(headers):
                place = _past_header(body, place, end)
                left -= 1
                if not left:
                    yield
                    left = ELEMENTS_AT_ONCE
            if place != end:
                raise invalid(f"{end - place} bytes left over in a record")
            keyless = [self._place] if self._notes_keys and key_bytes < 0 else []
            self._take(1, end - self._position, delta, delta, keyless)
            left -= 1
            if left <= 0:
                yield
                left = ELEMENTS_AT_ONCE
        if self._place < count and self._position == len(body):
            raise invalid(f"{self._place} records where the header counts {count}")


def _past_header(body: Buffer, position: int, end: int) -> int:
    key_bytes, position = past_field(body, position, end)
    if key_bytes < 0:
        raise invalid("a record header without a key")
    try:
        str(body[position - key_bytes : position], "utf-8")
    except UnicodeDecodeError as error:
        raise invalid("a record header's key is not UTF-8") from error
    return past_field(body, position, end)[1]
